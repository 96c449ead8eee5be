"""Records of runs and agents read from their files, each checked before use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from coverset.checks import check_type
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile

Content: TypeAlias = dict[str, Any]
Number = float | None
CONSTRAINTS = ("other_best_response", "other_teammate")
"""The two sets of constraints, as the metrics name them."""


@dataclass(frozen=True)
class AgentRecord:
    """One agent, from `seed-N/NAME`. Missing or damaged parts are None or empty; `problems` lists the damage."""

    path: str
    config: Content
    rows: tuple[Content, ...] = ()
    summary: Content | None = None
    evaluation: Content | None = None
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the agent, which is that of its directory."""
        return self.path.rpartition("/")[2]

    @property
    def learner(self) -> str:
        return self.config["learner"]

    @property
    def seed(self) -> int:
        return self.config["seed"]


@dataclass(frozen=True)
class RunRecord:
    """One seed of teammate generation, from `seed-N`, and the agents trained with its teammates."""

    path: str
    config: Content
    rows: tuple[Content, ...] = ()
    summary: Content | None = None
    certificate: Content | None = None
    agents: tuple[AgentRecord, ...] = ()
    problems: tuple[str, ...] = ()
    inspection: Content | None = None

    @property
    def directory(self) -> str:
        """The parent directory, which holds all seeds."""
        return self.path.rpartition("/")[0] or "."

    @property
    def method(self) -> str:
        return self.config["method"]

    @property
    def seed(self) -> int:
        return self.config["seed"]


@dataclass(frozen=True)
class UnreadableRun:
    """A run whose config.json cannot be read."""

    path: str
    problem: str


def describe_state(record: RunRecord | AgentRecord) -> str:
    """Describe a record: finished, unfinished with its progress, or damaged with the problems."""
    if record.problems:
        return "damaged: " + " ".join(record.problems)
    if record.summary is not None:
        return "finished"
    done = record.rows[-1]["env_steps"] if record.rows else 0
    return f"unfinished: {done:,} of {record.config['settings']['total_steps']:,} steps"


def check_run_config(content: Content) -> None:
    """Raise ValueError unless this is the config.json of a generation run."""
    _require(content, env=str, method=str, preset=str, seed=int)
    _require_mappings(content, "env_parameters", "settings", "versions")
    _require(content["settings"], total_steps=int, population_size=int)


def check_agent_config(content: Content) -> None:
    """Raise ValueError unless this is the config.json of an agent."""
    _require(content, learner=str, preset=str, seed=int, seat=int, partners=tuple[str, ...])
    _require_mappings(content, "settings", "versions")
    _require(content["settings"], total_steps=int)


def read_run_summary(directory: RunDirectory) -> Content:
    """Read and check the summary of a finished generation run."""
    content = directory.summary()
    if content is None:
        raise DamagedFile(f"{directory.summary_path} does not exist.")
    try:
        check_run_summary(content)
    except ValueError as error:
        remedy = "Delete it and use `resume=True` to write it again."
        raise DamagedFile(f"{directory.summary_path} is damaged: {error} {remedy}") from error
    return content


def check_run_summary(content: Content) -> None:
    """Raise ValueError unless this is the summary of a generation run."""
    _require(
        content,
        env=str,
        method=str,
        preset=str,
        seed=int,
        population_size=int,
        env_steps=int,
        train_seconds=float,
        cross_play=tuple[tuple[float, ...], ...],
        conventions=tuple[str, ...],
        best_response_conventions=tuple[str, ...],
        covers=tuple[str | None, ...],
        coverage_found=int | None,
        coverage_size=int | None,
        constraints_violated=int | None,
        margin=float,
    )
    check_type("advice", content.get("advice"), str | None)
    if content.get("probe") is not None:
        _check_probe(content["probe"])
    size = content["population_size"]
    rows = len(content["cross_play"])
    _check_matrix("cross_play", content["cross_play"], rows, size)
    _check_matrix("cross_play_standard_error", content.get("cross_play_standard_error"), rows, size)
    if content.get("seat_returns") is not None:
        _check_matrix("seat_returns", content["seat_returns"], rows, size, tuple[float, ...])
    for name in ("conventions", "best_response_conventions", "covers"):
        if len(content[name]) not in (0, size, rows):
            raise ValueError(f"{name} must have {size} items, one per pair, got {len(content[name])}.")


def _check_probe(content: Any) -> None:
    """Raise ValueError unless this is what probes have found."""
    _require(content, coverage_regret=float, standard_error=float, margin=float, probes=int, teammate=str | None)
    _require(content, exact=Any)
    _require(content["exact"], over_all=tuple[float, float] | None)


def check_run_row(content: Content, *, size: int) -> None:
    """Raise ValueError unless this is a metrics row of a generation run with `size` pairs."""
    _require(content, env_steps=int, self_play_return=Number, cross_play_return=Number, coverage_found=int | None)
    if content.get("gaps", 0) is not None:  # null if best responses and teammates differ in number
        _check_constraints(content.get("gaps"), size)
    if content.get("method") is not None:
        _require_mappings(content, "method")
    if (multipliers := read_multipliers(content)) is not None:
        _check_constraints(multipliers, size)


def check_numbered_row(content: Any, path: Path, number: int, check: Callable[[Content], None]) -> Content:
    """Return line `number` of a log if it passes `check`; raise DamagedFile, which names the line, otherwise."""
    try:
        return validate(content, check)
    except ValueError as error:
        raise DamagedFile(f"{path}, line {number}, is damaged: {error}") from error


def read_multipliers(row: Content) -> Content | None:
    """Lagrange multipliers of both sets of constraints; None for methods without."""
    multipliers = (row.get("method") or {}).get("multipliers")
    return multipliers if isinstance(multipliers, dict) and set(multipliers) == set(CONSTRAINTS) else None


def check_agent_row(content: Content) -> None:
    """Raise ValueError unless this is a metrics row of an agent."""
    _require(content, env_steps=int, held_out_return=Number)


def check_agent_summary(content: Content) -> None:
    """Raise ValueError unless this is an agent's summary."""
    _require(content, env_steps=int, train_seconds=float)


def check_evaluation(content: Content) -> None:
    """Raise ValueError unless this is an evaluation with at least one partner."""
    _require(content, seat=int, trials=int, episodes=int, mean_return=float, oracle_fraction=Number)
    _require(content, curve=tuple[float, ...])
    partners = content.get("partners")
    if not isinstance(partners, Mapping) or not partners:
        raise ValueError("partners must contain at least one partner.")
    for partner in partners.values():
        _require(partner, mean_return=float, oracle=Number, full_information=Number, oracle_fraction=Number)
        _require(partner, oracle_exact=bool | None)
        check_type("reference", partner.get("reference"), Number)
    if not isinstance(mixed := content.get("mixed_teams", {}), Mapping):
        raise ValueError("mixed_teams must be a JSON object.")
    for team in mixed.values():
        _require(team, mean_return=float)
    for team in (*partners.values(), *mixed.values()):
        check_type("seat_returns", team.get("seat_returns"), tuple[float, ...] | None)
    if not content["curve"]:
        raise ValueError("curve must contain at least one episode.")
    _check_bounds(content)


def _check_bounds(content: Content) -> None:
    """Raise ValueError unless bounds, where an evaluation has them, are complete."""
    check_type("covering_fraction", content.get("covering_fraction"), Number)
    if (bounds := content.get("bounds")) is None:
        return
    if not isinstance(bounds, Mapping):
        raise ValueError("bounds must be a JSON object.")
    _require(bounds, chance=float, oracle=Number)
    for name in ("covering", "bayes"):
        if not isinstance(bound := bounds.get(name), Mapping | None):
            raise ValueError(f"{name} must be a JSON object.")
        if bound is not None:
            _require(bound, at_least=float, at_most=Number, exact=bool)


def check_certificate(content: Content) -> None:
    """Raise ValueError unless this is a certificate."""
    _require(content, constraints=int, constraints_violated=int, smallest_gap=float, margin=float)
    _require(content, states=int, horizon=int, conventions=tuple[str, ...])
    _require_mappings(content, "discounted")
    reading = content["discounted"]
    _require(reading, discount=float)
    if not isinstance(reading.get("best_responses"), list) or not reading["best_responses"]:
        raise ValueError("best_responses must contain a best response to every teammate.")
    for best in reading["best_responses"]:
        _require(best, own=float, observed=float)
        _require_mappings(best, "blind", "regret_blind")
        for bounds in (best["blind"], best["regret_blind"]):
            _require(bounds, lower=float, upper=float)


def check_inspection(content: Content) -> None:
    """Raise ValueError unless this is an inspection of at least one teammate."""
    _require(content, measured=str, lowest_return=float, highest_return=float)
    if not isinstance(content.get("teammates"), list) or not content["teammates"]:
        raise ValueError("teammates must contain at least one teammate.")
    for mate in content["teammates"]:
        _require(mate, teammate=int, word=str, competence=Any, rationality=Any, handshake=Any, sabotage=Any)
        _require(mate["competence"], value=float)
        for name, part in (("rationality", "regret"), ("handshake", "gain"), ("sabotage", "loss")):
            if mate[name] is not None:
                _require(mate[name], **{part: Any})
                if mate[name][part] is not None:
                    _require(mate[name][part], value=float)


def validate(content: Any, check: Callable[[Content], None]) -> Content:
    """Return `content` if it is a JSON object that passes `check`; raise ValueError otherwise."""
    if not isinstance(content, dict):
        raise ValueError(f"it must contain a JSON object, not {type(content).__name__}.")
    check(content)
    return content


def _require(content: Any, **fields: Any) -> None:
    if not isinstance(content, Mapping):
        raise ValueError(f"expected a JSON object, got {type(content).__name__}.")
    for name, annotation in fields.items():
        if name not in content:
            raise ValueError(f"{name} is missing.")
        check_type(name, content[name], annotation)


def _require_mappings(content: Content, *names: str) -> None:
    for name in names:
        if not isinstance(content.get(name), Mapping):
            raise ValueError(f"{name} must be a JSON object.")


def _check_matrix(name: str, matrix: Any, rows: int, columns: int, entries: Any = float) -> None:
    check_type(name, matrix, tuple[tuple[entries, ...], ...])
    if min(rows, columns) < 1 or len(matrix) != rows or any(len(row) != columns for row in matrix):
        raise ValueError(f"{name} must have {rows} rows of {columns} columns.")


def _check_constraints(content: Any, size: int) -> None:
    """Raise ValueError unless this holds a K x K matrix for both sets of constraints; entries may be null."""
    _require(content, other_best_response=Any, other_teammate=Any)
    for kind in CONSTRAINTS:
        _check_matrix(kind, content[kind], size, size, Number)
