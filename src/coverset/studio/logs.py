"""Incremental readers of growing logs: every row is parsed once, and a bounded number is kept."""

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from coverset.runs.storage import DamagedFile
from coverset.studio.files import SafeDirectory, parse_json
from coverset.studio.values import as_count

MOST_ROWS = 240
"""Number of evenly spaced rows kept of a log."""
MOST_LOGS = 512
LONGEST_ROW = 2**22


@dataclass
class Log:
    """The state of one `metrics.jsonl`."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """Every `stride`-th row, oldest first."""
    last: dict[str, Any] | None = None
    """The newest row, which `rows` may not contain."""
    count: int = 0
    damaged: int = 0
    """Number of unreadable lines."""
    first_damaged: int = 0
    """Number of the first unreadable line, from 1."""
    stride: int = 1
    offset: int = 0
    inode: int = 0

    def add(self, row: dict[str, Any]) -> None:
        """Add the next row; when there are too many, keep every second one."""
        if self.count % self.stride == 0:
            self.rows.append(row)
        self.count += 1
        self.last = row
        if len(self.rows) > MOST_ROWS:
            self.rows = self.rows[::2]
            self.stride *= 2

    def curve_rows(self) -> list[dict[str, Any]]:
        """The kept rows, ending with the newest."""
        if self.last is None or self.rows[-1] is self.last:
            return list(self.rows)
        return [*self.rows, self.last]


class LogReader:
    """A cache of the logs of many runs; the least recently read ones are dropped."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self._logs: OrderedDict[Path, Log] = OrderedDict()
        self._lock = Lock()

    def read(self, path: Path) -> Log:
        """Read the log; empty if it does not exist yet. An incomplete last row is left for the next call."""
        try:
            real = self.directory.file(path)
        except FileNotFoundError:
            return Log()
        with self._lock:
            log = self._logs.pop(real, None) or Log()
            log = self._read_new_rows(real, log)
            self._logs[real] = log
            while len(self._logs) > MOST_LOGS:
                self._logs.popitem(last=False)
            return Log(log.curve_rows(), log.last, log.count, log.damaged, log.first_damaged)

    def _read_new_rows(self, path: Path, log: Log) -> Log:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != log.inode or status.st_size < log.offset:  # a resumed run replaces its log
                log = Log(inode=status.st_ino)
            file.seek(log.offset)
            while (line := file.readline(LONGEST_ROW)) and (line.endswith(b"\n") or len(line) == LONGEST_ROW):
                log.offset += len(line)
                _add_line(log, line, path.name)
        return log


def _add_line(log: Log, line: bytes, source: str) -> None:
    try:
        row = parse_json(line, source)
    except DamagedFile:
        row = None
    if isinstance(row, dict) and as_count(row.get("env_steps")) is not None:
        log.add(row)
    else:
        log.damaged += 1
        log.first_damaged = log.first_damaged or log.count + log.damaged
