"""Any two groups of policies played with each other: populations, agents and heuristics, by path or by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from coverset.checks import check_at_least, check_between, check_one_of
from coverset.envs import registry
from coverset.evaluation.cross_play import cross_play, limit_episodes, limit_trials, mean_seat_returns
from coverset.evaluation.robustness import EPISODES
from coverset.evaluation.statistics import Interval, student_interval
from coverset.partners import ROLES, Group, PartnerGame, Saved, check_is_no_path, find_group, read_saved
from coverset.pipeline.generate import LARGEST_SEED
from coverset.pipeline.results import html_table, showable
from coverset.policies.stacked import count_members
from coverset.runs.game_names import game_title
from coverset.runs.storage import round_floats
from coverset.runs.trust import check_record, is_trusted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS = 128


@dataclass(frozen=True, repr=False)
class CrossPlay:
    """Mean returns of every policy of one side with every policy of the other."""

    environment: str
    first: Group
    second: Group
    returns: Float[np.ndarray, "P Q trials episodes"]
    """Of the first side."""
    seat_returns: list | None = None
    """Mean return of every seat, [P, Q, seats]; None where all share one reward."""
    num_seats: int = 2
    game: str = ""
    """A short name of the environment, for people."""

    @property
    def means(self) -> Float[np.ndarray, "P Q"]:
        """Over trials and episodes."""
        return self.returns.mean(axis=(2, 3))

    def interval(self, row: int, column: int) -> Interval:
        """95% interval of one mean. Episodes of a trial share memories, so trials are the unit."""
        return student_interval(self.returns[row, column].mean(axis=-1).tolist())

    def __repr__(self) -> str:
        lines = [f"{name}: {_list_returns(row)}" for name, row in zip(self.first.titles, self.means, strict=True)]
        return "\n".join([f"<CrossPlay of {self.game}: with {', '.join(self.second.titles)}", *lines]) + ">"

    def _repr_html_(self) -> str:
        rows = [(name, *_format_returns(row)) for name, row in zip(self.first.titles, self.means, strict=True)]
        return html_table(("", *self.second.titles), rows)

    def plot(self) -> "Figure":
        """A heat map of the mean returns."""
        from coverset.reports.figures import returns_figure

        # The last parts of a path identify it; the whole path would leave no room for the matrix.
        first, second = ("/".join(Path(side.source).parts[-3:]) for side in (self.first, self.second))
        others = "seat 1" if self.num_seats == 2 else f"seats 1 to {self.num_seats - 1}"
        labels = (f"seat 0: {first}", f"{others}: {second}")
        names = {"rows": self.first.titles, "columns": self.second.titles}
        return showable(returns_figure(self.means, **names, labels=labels, title=f"{self.game}: mean return"))

    def to_json(self) -> dict[str, Any]:
        """Rows are the policies of seat 0, columns those of all other seats; ends of intervals are null for a single
        trial, and so are the returns by seat where all seats share one reward.
        """
        shape = self.means.shape
        intervals = [[self.interval(i, j).to_json() for j in range(shape[1])] for i in range(shape[0])]
        return {
            "env": self.environment,
            "first": {"source": self.first.source, "policies": list(self.first.titles)},
            "second": {"source": self.second.source, "policies": list(self.second.titles)},
            "trials": self.returns.shape[2],
            "episodes": self.returns.shape[3],
            "mean_returns": round_floats(self.means),
            "low": [[cell["low"] for cell in row] for row in intervals],
            "high": [[cell["high"] for cell in row] for row in intervals],
            "seat_returns": self.seat_returns,
        }


def _format_returns(returns: Float[np.ndarray, "Q"]) -> list[str]:
    return [f"{value:.3g}" for value in returns]


def _list_returns(returns: Float[np.ndarray, "Q"]) -> str:
    return ", ".join(_format_returns(returns))


def crossplay(
    first: str | Path,
    second: str | Path,
    *,
    env: str | None = None,
    env_parameters: dict[str, Any] | None = None,
    roles: tuple[str, str] = ROLES,
    trials: int | None = None,
    episodes: int | None = None,
    seed: int = 0,
) -> CrossPlay:
    """Play every policy of `first`, in seat 0, with every policy of `second`, in seat 1 or in all other seats.

    Args:
      first: the directory of one seed of a generation run or its policies file; the directory or file of an agent, also
        of an exported one; `heuristics`; the name of a heuristic; or `module:function`; see `partners.find_group`.
      second: the same.
      env: the environment; needed only where neither side is a path.
      env_parameters: its parameters.
      roles: which half of a population sits on each side, `best-responses` or `teammates`.
      trials: independent trials of each pair; 128 if not given, and fewer where that would be too many steps.
      episodes: episodes of a trial, over which memories are kept; 20 if not given, and fewer where one is very long.
      seed: what chance draws from.
    """
    for name, value in (("trials", trials), ("episodes", episodes)):
        if value is not None:
            check_at_least(name, value, 1)
    check_between("seed", seed, 0, LARGEST_SEED)
    for role in roles:
        check_one_of("role", role, ROLES)
    names = (str(first), str(second))
    game = _find_game(env, env_parameters or {}, names)
    groups = [find_group(name, game, seat=seat, role=roles[seat]) for seat, name in enumerate(names)]
    policies = [group.policies for group in groups]
    if episodes is None:
        episodes = limit_episodes(EPISODES, game.environment.horizon)
    if trials is None:
        pairs = count_members(policies[0]) * count_members(policies[1])
        trials = limit_trials(TRIALS, episodes * game.environment.horizon, pairs=pairs)
    played = cross_play(jax.random.key(seed), game.environment, *policies, trials=trials, episodes=episodes)
    returns, by_seat = np.asarray(played.returns, np.float64), mean_seat_returns(game.environment, played)
    known = game.known_as
    title, seats = game_title(known["env"], known["env_parameters"]), game.environment.num_seats
    return CrossPlay(known["env"], groups[0], groups[1], returns, by_seat, seats, title)


def _read_path(name: str) -> Saved | None:
    """What a path holds; None for a name that looks like none."""
    if Path(name).exists():
        return read_saved(Path(name))
    check_is_no_path(name)
    return None


def _find_game(env: str | None, parameters: dict[str, Any], names: Sequence[str]) -> PartnerGame:
    """The environment that was asked for, or else the one that the paths were made for.

    One of the paths may say so with a signature that the other lacks, as an exported agent does.
    """
    if env is not None:
        return PartnerGame(registry.make(env, **parameters), {"env": env, "env_parameters": parameters})
    origins = [saved for name in names if (saved := _read_path(name)) is not None]
    if not origins:
        raise ValueError("env must be given where neither side is a path, such as `env='matrix'`.")
    for origin in origins:
        check_record(str(origin.file), origin.about)
    chosen = next((origin for origin in origins if is_trusted(origin.about)), origins[0])
    return PartnerGame(registry.make_from_record(str(chosen.file), chosen.about), chosen.about)
