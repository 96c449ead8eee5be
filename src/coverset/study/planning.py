"""Plan a study: build its units, check them before any of them starts, and estimate how long they take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

from coverset.adhoc.registry import learner_class
from coverset.checks import check_one_of, check_type
from coverset.pipeline.generate import check_seeds, run_name
from coverset.presets import select_fields
from coverset.settings import GenerateSettings, TrainSettings
from coverset.study.units import Certification, Evaluation, Experiment, Generation, Training, Unit
from coverset.teammates.registry import method_class

ENVIRONMENTS = ("matrix", "reaching", "weighted-reaching", "foraging")
METHODS = ("lbrdiv", "brdiv", "lipo")


@dataclass(frozen=True)
class Estimate:
    """Remaining work of a unit."""

    name: str
    state: str
    """`done`, `resumes`, `to do` or `not possible`."""
    seconds: float | None
    """Estimated time left; None if no comparable run has been measured."""

    def to_json(self) -> dict[str, Any]:
        """The record that `coverset reproduce --dry-run --json` prints."""
        return asdict(self)


def estimate(unit: Unit) -> Estimate:
    """Estimate the remaining work of a unit from its files."""
    if unit.find_obstacle() is not None:
        return Estimate(unit.name, "not possible", 0.0)
    if unit.is_done():
        return Estimate(unit.name, "done", 0.0)
    left = unit.seconds_left()
    return Estimate(unit.name, "resumes" if unit.has_begun() else "to do", None if left is None else round(left, 1))


def total_seconds(plan: Sequence[Estimate]) -> float:
    """Estimated time left of all units whose time is known."""
    return round(sum(row.seconds for row in plan if row.seconds is not None), 1)


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
    """The units of a study, each after its dependencies; raises ValueError on the first invalid argument.

    A run directory that holds a run with different settings is invalid too, so a study that starts can finish.

    Args:
      environments: names as for `generate`.
      methods: how teammates are generated.
      learners: which ad hoc agents are trained with them.
      preset: `fast` or `paper`.
      seeds: as for `generate`.
      out: parent directory of all run directories.
      generation: fields of `GenerateSettings` and of the methods that replace the preset's; a method's own fields
        concern the methods that have them.
      training: fields of `TrainSettings` that replace the preset's.
    """
    for name, given in (("environments", environments), ("methods", methods), ("learners", learners)):
        if not given:
            raise ValueError(f"{name} must name at least one, got none.")
    check_seeds(seeds)
    check_out(Path(out))
    overrides = {
        "generation": parse_overrides("generation", generation or {}, GenerateSettings, *map(method_class, methods)),
        "training": parse_overrides("training", training or {}, TrainSettings, *map(learner_class, learners)),
    }
    units: list[Unit] = []
    for environment, method in product(dict.fromkeys(environments), dict.fromkeys(methods)):
        place = Path(out) / run_name(environment, method, preset)
        given = overrides["generation"]
        own = {**select_fields(GenerateSettings, given), **select_fields(method_class(method), given)}
        experiment = Experiment(environment, method, preset, tuple(seeds), place, own, overrides["training"])
        units += _experiment_units(experiment, dict.fromkeys(learners))
    for unit in units:
        unit.check()
    return units


def _experiment_units(experiment: Experiment, learners: Iterable[str]) -> list[Unit]:
    agents = [unit for learner in learners for unit in (Training(experiment, learner), Evaluation(experiment, learner))]
    return [Generation(experiment), Certification(experiment), *agents]


def check_out(out: Path) -> None:
    """Raise if `out` cannot be a directory."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a directory, but {out} is a file.")


def parse_overrides(name: str, given: Mapping[str, Any], *settings: Any) -> dict[str, Any]:
    """Check names and types of overrides of these records of settings, and convert JSON lists to tuples."""
    types = {field.name: get_type_hints(record)[field.name] for record in settings for field in fields(record)}
    for key, value in given.items():
        check_one_of(f"{name} setting", key, types)
        check_type(key, value, types[key])
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
