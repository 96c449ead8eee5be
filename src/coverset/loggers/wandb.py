"""Log rows of `metrics.jsonl` as the history of a Weights & Biases run, one for each seed.

Needs the extra `coverset[wandb]`. The package's own environment variables apply, such as `WANDB_PROJECT` and
`WANDB_MODE=offline` (upload later with `wandb sync DIR/seed-N/wandb/offline-run-*`).
"""

import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import wandb

from coverset.checks import describe_exception
from coverset.loggers.base import MetricsLogger, flatten_row
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import check_fields, read_record, write_json

PROJECT = "coverset"
ID_FILE = "wandb.json"


class WandbLogger(MetricsLogger):
    """Writes chunk n of the training as step n of the history.

    A run keeps its id when it resumes. Online, rows that the server already has are not sent again, since they are
    identical. Offline, the stored history is replaced.
    """

    def __init__(self) -> None:
        self._run: Any = None
        self._sent = 0

    def start(self, directory: RunDirectory, rows: list[dict[str, Any]]) -> None:
        run_id = _read_or_create_id(directory.path / ID_FILE)
        for old in (directory.path / "wandb").glob(f"offline-run-*-{run_id}"):
            shutil.rmtree(old)
        config = directory.config()
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                id=run_id,
                name=f"{directory.path.parent.name}/{directory.path.name}",
                dir=str(directory.path),
                config={name: config[name] for name in config if name != "versions"},
                resume="allow",
                reinit="create_new",
                settings=wandb.Settings(silent=True, console="off"),
            )
        except Exception as error:  # not logged in, no connection, or an invalid setting
            hint = "log in with `wandb login`, or set WANDB_MODE=offline"
            raise ValueError(f"log 'wandb' cannot start: {hint} ({describe_exception(error)}).") from error
        self._sent = self._run.step
        for row in rows:
            self.write(row)

    def write(self, row: dict[str, Any]) -> None:
        if row["chunk"] >= self._sent:
            self._run.log(flatten_row(row), step=row["chunk"])

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


def _read_or_create_id(path: Path) -> str:
    """The run's id at Weights & Biases, generated on first use."""
    if not path.is_file():
        write_json(path, {"id": secrets.token_hex(8)})
    content = read_record(path)
    check_fields(path, content, id=str)
    return content["id"]
