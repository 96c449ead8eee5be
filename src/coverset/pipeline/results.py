"""What the verbs return: the records that they write to files, which can also be printed, shown and drawn.

A record is a dict, and several are a list, so that they go to JSON as they are:

    runs = coverset.generate("matrix", seeds=[0, 1])
    runs                     # a line for each seed; a table in a notebook
    runs[0]["covers"]        # as in summary.json
    runs[0].coverage         # "3 of 3"
    runs.plot()              # cross-play of every seed, as a matplotlib Figure
"""

import io
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from coverset.evaluation.seed_averages import cells_by_title, describe_spread, mean_self_and_cross_play
from coverset.runs.game_names import game_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coverset.adhoc.saved import Agent
    from coverset.policies.population import Population

MOST_RETURNS = 4
"""Partners whose returns a line lists."""


class Record(dict[str, Any]):
    """A record as its file holds it."""

    columns: tuple[str, ...] = ()
    """Headings of `cells`."""

    def __init__(self, content: dict[str, Any], path: Path | None = None) -> None:
        super().__init__(content)
        self.path = path
        """The directory whose file holds this record."""

    @property
    def seed(self) -> int:
        """Which seed it is of."""
        return self["seed"]

    def cells(self) -> tuple[str, ...]:
        """The most telling values, for a row of a table."""
        return ()

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {cell}" for name, cell in zip(self.columns, self.cells(), strict=True))
        return f"<{type(self).__name__}: {told}>"

    def _repr_html_(self) -> str:
        return html_table(self.columns, [self.cells()])


R = TypeVar("R", bound=Record)


class Records(list[R], Generic[R]):
    """Records in order."""

    def __init__(self, records: Iterable[R] = ()) -> None:
        super().__init__(records)

    def __repr__(self) -> str:
        return "[\n" + "".join(f"  {record!r},\n" for record in self) + "]" if self else "[]"

    def _repr_html_(self) -> str:
        return html_table(self[0].columns, [record.cells() for record in self]) if self else ""


class RunResult(Record):
    """One seed of generated teammates: `summary.json`."""

    columns = ("seed", "game", "method", "found", "self-play", "cross-play", "steps", "seconds")

    @property
    def cross_play(self) -> Float[np.ndarray, "R C"]:
        """Mean returns; rows are best responses, columns teammates."""
        return np.array(self["cross_play"])

    @property
    def coverage(self) -> str:
        """Members of the coverage set that were found, or kinds of teammates where it is unknown."""
        return describe_coverage(self)

    def cells(self) -> tuple[str, ...]:
        own, other = mean_self_and_cross_play(self.cross_play)
        names = (str(self.seed), str(self.get("game", self["env"])), self["method"], self.coverage)
        return (*names, f"{own:.3g}", f"{other:.3g}", f"{self['env_steps']:,}", f"{self['train_seconds']:.1f}")

    def population(self) -> "Population":
        """The policies, ready to play."""
        from coverset.policies.population import load_population

        return load_population(_require_path(self))[0]

    def plot(self) -> "Figure":
        """Cross-play returns as a heat map."""
        return Runs([self]).plot()


class Runs(Records[RunResult]):
    """Seeds of generated teammates."""

    def plot(self) -> "Figure":
        """Cross-play returns of every seed as heat maps side by side."""
        from coverset.reports.figures import cross_play_figure

        return showable(cross_play_figure([dict(run) for run in self]))


class AgentResult(Record):
    """One trained agent: its `summary.json`."""

    columns = ("seed", "game", "agent", "learner", "seat", "steps", "seconds")

    def cells(self) -> tuple[str, ...]:
        names = (str(self.get("game", self["env"])), str(self.get("name", self["learner"])), self["learner"])
        return (str(self.seed), *names, str(self["seat"]), f"{self['env_steps']:,}", f"{self['train_seconds']:.1f}")

    def agent(self) -> "Agent":
        """The agent, ready to play."""
        from coverset.adhoc.saved import load_agent

        return load_agent(_require_path(self))


class TrainedAgents(Records[AgentResult]):
    """The trained agents of all seeds."""


class EvaluationResult(Record):
    """One agent with all its partners: `evaluation.json`."""

    columns = ("seed", "game", "agent", "mean return", "of oracle", "partners")

    @property
    def mean_return(self) -> float:
        """Over partners, trials and episodes."""
        return self["mean_return"]

    def cells(self) -> tuple[str, ...]:
        fraction = self["oracle_fraction"]
        met = [f"{cell['title']} {cell['mean_return']:.3g}" for cell in self["partners"].values()]
        shown = ", ".join(met[:MOST_RETURNS]) + (f" and {len(met) - MOST_RETURNS} more" * (len(met) > MOST_RETURNS))
        share = "unknown" if fraction is None else f"{fraction:.2f}"
        return (str(self.seed), self["game"], self["agent"], f"{self.mean_return:.3g}", share, shown)

    def plot(self) -> "Figure":
        """Mean return by episode of a trial, which shows adaptation, with every partner."""
        return Evaluations([self]).plot()


class Evaluations(Records[EvaluationResult]):
    """Evaluated agents of several seeds and names."""

    def __repr__(self) -> str:
        return super().__repr__() + "".join(f"\n{line}" for line in self.compare())

    def compare(self) -> list[str]:
        """A line for each agent: its mean return over seeds, and how far they differ."""
        names = dict.fromkeys(record["agent"] for record in self)
        returns = {name: [record.mean_return for record in self if record["agent"] == name] for name in names}
        return [f"{name}: {np.mean(found):.3g} ({describe_spread(found)})" for name, found in returns.items()]

    def plot(self) -> "Figure":
        """Mean return by episode of a trial with every partner, averaged over the seeds of each agent."""
        from coverset.reports.drawing import make_panels

        names = list(dict.fromkeys(record["agent"] for record in self))
        figure, panels = make_panels(len(names), height=3.2)
        for ax, name in zip(panels, names, strict=False):
            _draw_adaptation(ax, [record for record in self if record["agent"] == name])
            ax.set_title(f"{self[0]['game']}: {name}")
        return showable(figure)


class CertificateResult(Record):
    """Exact values of one seed of teammates: `certificate.json`."""

    columns = ("seed", "game", "method", "constraints", "smallest gap", "largest regret")

    @property
    def game(self) -> str:
        """A short name of the environment."""
        return game_title(self["env"], self["env_parameters"])

    @property
    def cross_play(self) -> Float[np.ndarray, "K K"]:
        """Exact expected returns; rows are best responses, columns teammates."""
        return np.array(self["undiscounted"]["pair_returns"])

    @property
    def regrets(self) -> Float[np.ndarray, "K"]:
        """At most how much more than best response i a policy with its observations earns with teammate i."""
        return np.array([best["regret_blind"]["upper"] for best in self["discounted"]["best_responses"]])

    def cells(self) -> tuple[str, ...]:
        violated, count, gap = self["constraints_violated"], self["constraints"], self["smallest_gap"]
        held = "none" if count == 0 else f"all {count} hold" if violated == 0 else f"{violated} of {count} violated"
        numbers = ("-" if gap is None else f"{gap:.3g}", f"{self.regrets.max():.3g}")
        return (str(self.seed), self.game, self["method"], held, *numbers)

    def plot(self) -> "Figure":
        """Exact returns as a heat map."""
        return Certificates([self]).plot()


class Certificates(Records[CertificateResult]):
    """Certificates of several seeds."""

    def plot(self) -> "Figure":
        """Exact returns of every seed as heat maps side by side."""
        from coverset.reports.figures import cross_play_figure

        return showable(cross_play_figure([{**one, "game": one.game, "cross_play": one.cross_play} for one in self]))


class ProbeResult(Record):
    """What probes found against one seed's best responses: their `summary.json`."""

    columns = ("seed", "game", "method", "members", "probes", "regret", "margin", "exact", "worst teammate")

    @property
    def coverage_regret(self) -> float:
        """How much more a best response earns than the best member of the set, with the worst teammate found."""
        return self["coverage_regret"]

    def cells(self) -> tuple[str, ...]:
        regret = f"{self.coverage_regret:.3g} ± {2 * self['standard_error']:.1g}"
        names = (str(self.seed), self["game"], self["method"], str(self["members"]), str(self["probes"]))
        exact = self["exact"]["over_all"] or self["exact"]["with_teammate"]
        bounds = "-" if exact is None else " to ".join(dict.fromkeys(f"{bound:.3g}" for bound in exact))
        return (*names, regret, f"{self['margin']:.3g}", bounds, self["teammate"] or "-")

    def population(self) -> "Population":
        """The worst teammate and its best response, ready to play."""
        from coverset.policies.population import load_population

        return load_population(_require_path(self))[0]


class Probes(Records[ProbeResult]):
    """Probes against several seeds."""


def describe_coverage(summary: dict[str, Any]) -> str:
    """Members of the known coverage set, or the number of kinds of teammates if it is unknown."""
    found, size = summary["coverage_found"], summary["coverage_size"]
    if found is None:
        return "unknown"
    return f"{found} {'kind' if found == 1 else 'kinds'}" if size is None else f"{found} of {size}"


def _draw_adaptation(ax: Any, records: list[EvaluationResult]) -> None:
    """One line per partner."""
    curves = cells_by_title(records, "partners")
    for title, found in curves.items():
        mean = np.mean([cell["curve"] for cell in found], axis=0)
        ax.plot(np.arange(1, len(mean) + 1), mean, label=title)
    ax.set(xlabel="episode with a partner", ylabel="mean return")
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}  # a legend within would cover lines
    ax.legend(**beside, frameon=False, fontsize="small", ncols=1 + len(curves) // 16)


def _require_path(record: Record) -> Path:
    if record.path is None:
        raise ValueError("path must be the directory of the run, got a record that was made without one.")
    return record.path


def html_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table for a notebook."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def showable(figure: "Figure") -> "Figure":
    """Let a notebook show a figure that pyplot, which keeps global state, has not made."""

    def to_png() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()

    figure._repr_png_ = to_png  # pyright: ignore[reportAttributeAccessIssue]: notebooks look for it on the object
    return figure
