"""Log rows of `metrics.jsonl` as TensorBoard scalars over environment steps, in `DIR/seed-N/tensorboard`.

Needs the extra `coverset[tensorboard]`.
"""

from typing import Any

from tensorboardX import SummaryWriter

from coverset.loggers.base import MetricsLogger, flatten_row
from coverset.runs.directory import RunDirectory

PLACE = "tensorboard"
EVENTS = "events.out.tfevents.*"


class TensorBoardLogger(MetricsLogger):
    """Writes event files. They cannot be truncated, so a resumed run rewrites them from the rows that it keeps."""

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None

    def start(self, directory: RunDirectory, rows: list[dict[str, Any]]) -> None:
        place = directory.path / PLACE
        for old in place.glob(EVENTS):
            old.unlink()
        self._writer = SummaryWriter(str(place), write_to_disk=True)
        for row in rows:
            self.write(row)

    def write(self, row: dict[str, Any]) -> None:
        assert self._writer is not None
        for name, number in flatten_row(row).items():
            self._writer.add_scalar(name, number, row["env_steps"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
