"""Loggers of others, by name. `metrics.jsonl` is always written; these get the same rows beside it."""

import abc
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from coverset.checks import check_one_of
from coverset.runs.directory import RunDirectory


class MetricsLog(abc.ABC):
    """A third-party log, which gets every row of one run's `metrics.jsonl`, once."""

    @abc.abstractmethod
    def start(self, directory: RunDirectory, rows: list[dict[str, Any]]) -> None:
        """Training begins or goes on. Afterwards the log must hold `rows` and nothing else of this run."""

    @abc.abstractmethod
    def write(self, row: dict[str, Any]) -> None:
        """Training has come one row further."""

    @abc.abstractmethod
    def close(self) -> None:
        """Training is done or stopped."""


LOGS = {
    "tensorboard": ("coverset.loggers.tensorboard:TensorBoardLog", "tensorboardX"),
    "wandb": ("coverset.loggers.wandb:WandbLog", "wandb"),
}
"""Where each is, and the package that it needs; the extras of coverset have the same names."""


def find_logs(names: Sequence[str]) -> list[Callable[[], MetricsLog]]:
    """Makers of the logs called `names`; one log is made for every run directory."""
    return [_find(name) for name in names]


def _find(name: str) -> Callable[[], MetricsLog]:
    check_one_of("log", name, LOGS)
    place, package = LOGS[name]
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ValueError(f"log '{name}' needs the package {package}: install coverset[{name}].") from error


def numbers(row: dict[str, Any]) -> dict[str, float]:
    """Every number of a row under a name of its own, as `pair_returns/1-2`; lists count from 1, nulls are left out."""
    found: dict[str, float] = {}
    for name, value in row.items():
        found |= _flat(name, value, "/")
    return found


def _flat(name: str, value: Any, joint: str) -> dict[str, float]:
    if isinstance(value, bool | int | float):
        return {name: float(value)}
    if isinstance(value, dict):
        inner = [_flat(f"{name}/{key}", part, "/") for key, part in value.items()]
    elif isinstance(value, list):
        inner = [_flat(f"{name}{joint}{number}", part, "-") for number, part in enumerate(value, start=1)]
    else:
        inner = []
    return {key: number for part in inner for key, number in part.items()}
