"""The interface of third-party loggers, and the table of their names. `metrics.jsonl` is always written too."""

import abc
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from coverset.checks import check_one_of
from coverset.runs.directory import RunDirectory


class MetricsLogger(abc.ABC):
    """A third-party logger that receives every row of one run's `metrics.jsonl` exactly once."""

    @abc.abstractmethod
    def start(self, directory: RunDirectory, rows: list[dict[str, Any]]) -> None:
        """Called when training starts or resumes. Afterwards the log must hold exactly `rows` of this run."""

    @abc.abstractmethod
    def write(self, row: dict[str, Any]) -> None:
        """Log one more row."""

    @abc.abstractmethod
    def close(self) -> None:
        """Called when training is done or stopped."""


LOGGERS = {
    "tensorboard": ("coverset.loggers.tensorboard:TensorBoardLogger", "tensorboardX"),
    "wandb": ("coverset.loggers.wandb:WandbLogger", "wandb"),
}
"""`module:class` of each logger, and the package that it needs; the extras of coverset have the same names."""


def find_loggers(names: Sequence[str]) -> list[Callable[[], MetricsLogger]]:
    """Classes of the named loggers; each run directory gets an instance of its own."""
    return [_find(name) for name in names]


def _find(name: str) -> Callable[[], MetricsLogger]:
    check_one_of("log", name, LOGGERS)
    place, package = LOGGERS[name]
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ValueError(f"log '{name}' needs the package {package}: install coverset[{name}].") from error


def flatten_row(row: dict[str, Any]) -> dict[str, float]:
    """Flatten a row into named numbers such as `pair_returns/1-2`; lists count from 1, nulls are left out."""
    found: dict[str, float] = {}
    for name, value in row.items():
        found |= _flatten(name, value, "/")
    return found


def _flatten(name: str, value: Any, separator: str) -> dict[str, float]:
    if isinstance(value, bool | int | float):
        return {name: float(value)}
    if isinstance(value, dict):
        inner = [_flatten(f"{name}/{key}", part, "/") for key, part in value.items()]
    elif isinstance(value, list):
        inner = [_flatten(f"{name}{separator}{number}", part, "-") for number, part in enumerate(value, start=1)]
    else:
        inner = []
    return {key: number for part in inner for key, number in part.items()}
