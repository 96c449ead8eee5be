"""Inspection of run directories: what kind of partner every teammate is; writes `inspection.json` into each seed.

The measures and words are those of `evaluation.inspection`: exact in finite games, else by simulation and trained
probes. A seed whose record was made from the same policies with the same effort is not measured again.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.certificates.blind import TRIALS
from coverset.certificates.inspection import measure_exactly
from coverset.checks import check_at_least
from coverset.evaluation.inspection import COMPETENT, HANDSHAKE, RATIONAL, SABOTAGE, Measurements, describe_measures
from coverset.partners import GenerationRun, read_run, seed_directories
from coverset.pipeline.certify import ORIGIN
from coverset.pipeline.results import Record, Records
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile, check_fields, read_record, write_json
from coverset.settings import GenerateSettings, build_checked
from coverset.teammates.inspection import estimate_measures

FORMAT = "coverset inspection 1"
EPISODES = 256
INSPECTION_STREAM = 3
"""Folded into the seed's key, so that inspection draws what nothing else draws."""


class InspectionResult(Record):
    """The teammates of one seed: `inspection.json`."""

    columns = ("seed", "game", "method", "measured", "teammates")

    @property
    def words(self) -> list[str]:
        """The word of every teammate."""
        return [teammate["word"] for teammate in self["teammates"]]

    def cells(self) -> tuple[str, ...]:
        told = ", ".join(f"{number} {word}" for number, word in enumerate(self.words, start=1))
        return (str(self.seed), self["env"], self["method"], self["measured"], told)


class Inspections(Records[InspectionResult]):
    """Inspected teammates of several seeds."""


def inspect(
    directory: str | Path,
    *,
    seeds: Sequence[int] | None = None,
    estimate: bool = False,
    steps: int | None = None,
    episodes: int = EPISODES,
    trials: int = TRIALS,
    starting: Callable[[Path], None] = lambda path: None,
) -> Inspections:
    """Say of every teammate whether it is a convention, a handshake, a saboteur or no competent partner.

    Args:
      directory: what `coverset generate` made: the directory of all seeds, or of one.
      seeds: which seeds; all if none are given.
      estimate: whether to simulate and train probes even where the game can be solved exactly.
      steps: environment steps of all probes of a seed together; as many as the run took if not given.
      episodes: simulated for every pair, prefix and switch.
      trials: effort to close the bounds of exact best responses.
      starting: called with the path of each run before the work on it.
    Returns:
      The content of `inspection.json` of every seed, as a list that can be shown.
    """
    check_at_least("episodes", episodes, 2)
    check_at_least("trials", trials, 0)
    if steps is not None:
        check_at_least("steps", steps, 1)
    runs = [_read(path) for path in seed_directories(Path(directory), seeds or None).values()]
    effort = {"estimate": estimate, "steps": steps, "episodes": episodes, "trials": trials}
    found = []
    for run in runs:
        content = _read_same(run, effort)
        if content is None:
            starting(run.path)
            content = _inspect_run(run, effort)
            write_json(RunDirectory(run.path).inspection_path, content)
        found.append(InspectionResult(content, path=run.path))
    return Inspections(found)


def _read(path: Path) -> GenerationRun:
    """Read one run, and refuse one that is unfinished, damaged, or of three or more players."""
    if RunDirectory(path).summary() is None:
        raise ValueError(f"{path} is not finished: go on with `generate(..., resume=True)` first.")
    run = read_run(path)
    if run.environment.num_seats > 2:
        raise ValueError(
            f"directory must hold teammates of a game of two players, but that of {path} has "
            f"{run.environment.num_seats}: openings and best responses of larger teams are not measured."
        )
    check_fields(RunDirectory(path).config_path, run.config, settings=dict)
    return run


def _fingerprint(run: GenerationRun) -> str:
    return hashlib.sha256(RunDirectory(run.path).policies_path.read_bytes()).hexdigest()


def _read_same(run: GenerationRun, effort: dict[str, Any]) -> dict[str, Any] | None:
    """The record of an earlier inspection of the same policies with the same effort, if there is one."""
    path = RunDirectory(run.path).inspection_path
    if not path.is_file():
        return None
    try:
        content = read_record(path)
    except DamagedFile:
        return None
    same = {"format": FORMAT, "policies": _fingerprint(run), "effort": effort}
    return content if all(content.get(name) == value for name, value in same.items()) else None


def _inspect_run(run: GenerationRun, effort: dict[str, Any]) -> dict[str, Any]:
    measured, how = _measure(run, effort)
    return {
        "format": FORMAT,
        **{name: run.config.get(name) for name in ORIGIN},
        "policies": _fingerprint(run),
        "effort": effort,
        **how,
        "thresholds": {"competent": COMPETENT, "handshake": HANDSHAKE, "sabotage": SABOTAGE, "rational": RATIONAL},
        **describe_measures(measured),
    }


def _measure(run: GenerationRun, effort: dict[str, Any]) -> tuple[Measurements, dict[str, Any]]:
    """Exactly where that is possible and not declined, else by probes; and which of the two it was."""
    reason = "estimates were asked for."
    if not effort["estimate"]:
        try:
            measured = measure_exactly(run.environment, run.population, trials=effort["trials"])
            return measured, {"measured": "exact", "reason": None, "episodes": None, "probe_steps": None}
        except ValueError as error:
            reason = str(error)
    settings = build_checked(GenerateSettings, run.config["settings"])
    key = jax.random.fold_in(jax.random.key(run.config["seed"]), INSPECTION_STREAM)
    chosen = {"steps": effort["steps"] or settings.total_steps, "episodes": effort["episodes"]}
    found = estimate_measures(key, run.environment, run.population, settings, **chosen)
    how = {"measured": "estimated", "reason": reason, "episodes": found.episodes, "probe_steps": found.steps}
    return found.measured, how
