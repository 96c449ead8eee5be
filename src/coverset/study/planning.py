"""The units of a study, checked before the first is begun, and how long they may take."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from coverset.checks import check_one_of, check_type
from coverset.pipeline.generate import check_seeds, run_name
from coverset.pipeline.train import LEARNERS
from coverset.settings import GenerateSettings, TrainSettings
from coverset.study.units import Certification, Evaluation, Experiment, Generation, Training, Unit

ENVIRONMENTS = ("matrix", "reaching", "weighted-reaching", "foraging")
METHODS = ("lbrdiv", "brdiv", "lipo")


@dataclass(frozen=True)
class Estimate:
    """What is left of a unit."""

    name: str
    state: str
    """`done`, `resumes`, `to do` or `not possible`."""
    seconds: float | None
    """Time left; None where nothing comparable has been measured."""

    def to_json(self) -> dict[str, Any]:
        """As `coverset reproduce --dry-run --json` prints it."""
        return asdict(self)


def estimate(unit: Unit) -> Estimate:
    """Look at a unit's files: what is there, and how long the rest may take."""
    if unit.obstacle() is not None:
        return Estimate(unit.name, "not possible", 0.0)
    if unit.is_done():
        return Estimate(unit.name, "done", 0.0)
    left = unit.seconds_left()
    return Estimate(unit.name, "resumes" if unit.has_begun() else "to do", None if left is None else round(left, 1))


def plan_study(
    environments: Sequence[str],
    *,
    methods: Sequence[str],
    learners: Sequence[str],
    preset: str,
    seeds: Sequence[int],
    out: str | Path,
    generation: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> list[Unit]:
    """The units of a study, each behind those it needs; raises ValueError on the first bad choice.

    A place that holds a run of other settings is a bad choice too, so that nothing is begun that cannot be finished.
    """
    for name, given in (("environments", environments), ("methods", methods), ("learners", learners)):
        if not given:
            raise ValueError(f"{name} must name at least one, got none.")
    check_seeds(seeds)
    check_out(Path(out))
    for learner in learners:
        check_one_of("learner", learner, LEARNERS)
    overrides = {
        "generation": settings_overrides("generation", generation or {}, GenerateSettings),
        "training": settings_overrides("training", training or {}, TrainSettings),
    }
    units: list[Unit] = []
    for environment in dict.fromkeys(environments):
        for method in dict.fromkeys(methods):
            place = Path(out) / run_name(environment, method, preset)
            experiment = Experiment(environment, method, preset, tuple(seeds), place, **overrides)
            units += [Generation(experiment), Certification(experiment)]
            for learner in dict.fromkeys(learners):
                units += [Training(experiment, learner), Evaluation(experiment, learner)]
    for unit in units:
        unit.check()
    return units


def check_out(out: Path) -> None:
    """Raise if runs cannot go below `out`."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a directory, but {out} is a file.")


def settings_overrides(name: str, given: Mapping[str, Any], settings: type) -> dict[str, Any]:
    """Overrides of settings, checked by name and type; lists, as JSON gives them, become tuples."""
    known, types = [field.name for field in fields(settings)], get_type_hints(settings)
    for key, value in given.items():
        check_one_of(f"{name} setting", key, known)
        check_type(key, value, types[key])
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
