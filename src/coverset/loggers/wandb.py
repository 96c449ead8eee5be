"""Rows of `metrics.jsonl` as the history of a Weights & Biases run, one for each seed.

Needs the extra `coverset[wandb]`. The package's own settings say where runs go: `WANDB_PROJECT`, `WANDB_MODE=offline`
(later `wandb sync DIR/seed-N/wandb/offline-run-*`) and the others.
"""

import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import wandb

from coverset.checks import describe_exception
from coverset.loggers.base import MetricsLog, numbers
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import check_fields, read_record, write_json

PROJECT = "coverset"
ID_FILE = "wandb.json"


class WandbLog(MetricsLog):
    """Step n of the history is chunk n of the training.

    A run keeps its id over resumes. Online, the server remembers how far it came, and rows that it has are not sent
    again: they would be the same. Offline nothing remembers, so what was stored is replaced.
    """

    def __init__(self) -> None:
        self._run: Any = None
        self._sent = 0

    def start(self, directory: RunDirectory, rows: list[dict[str, Any]]) -> None:
        identity = _identity(directory.path / ID_FILE)
        for old in (directory.path / "wandb").glob(f"offline-run-*-{identity}"):
            shutil.rmtree(old)
        config = directory.config()
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                id=identity,
                name=f"{directory.path.parent.name}/{directory.path.name}",
                dir=str(directory.path),
                config={name: config[name] for name in config if name != "versions"},
                resume="allow",
                reinit="create_new",
                settings=wandb.Settings(silent=True, console="off"),
            )
        except Exception as error:  # nobody is logged in, no server answers, a setting of its own is wrong
            hint = "log in with `wandb login`, or set WANDB_MODE=offline"
            raise ValueError(f"log 'wandb' cannot start: {hint} ({describe_exception(error)}).") from error
        self._sent = self._run.step
        for row in rows:
            self.write(row)

    def write(self, row: dict[str, Any]) -> None:
        if row["chunk"] >= self._sent:
            self._run.log(numbers(row), step=row["chunk"])

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


def _identity(path: Path) -> str:
    """The run's id at Weights & Biases, drawn once."""
    if not path.is_file():
        write_json(path, {"id": secrets.token_hex(8)})
    content = read_record(path)
    check_fields(path, content, id=str)
    return content["id"]
