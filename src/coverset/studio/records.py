"""What the pages say about runs, from their files alone and without JAX.

Files are read while training writes them, and may be damaged or not there: a record then says so in words, and holds
null for what is not known. Rows are best responses, columns teammates, as everywhere.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverset.runs.storage import DamagedFile
from coverset.studio.catalogue import Run
from coverset.studio.files import OutsideDirectory, SafeDirectory
from coverset.studio.logs import Log, LogReader
from coverset.studio.values import count, matrix, number, record, text, texts

QUIET_SECONDS = 120.0
"""A log that has not grown for so long belongs to a run that was stopped or killed."""
MOST_AGENTS = 16
MOST_POINTS = 30
"""Of the small curves in the overview."""
CONSTRAINTS = ("other_best_response", "other_teammate")
AGENT_FILE = "agent.safetensors"
UNREADABLE = (DamagedFile, OutsideDirectory, OSError)


class RunRecords:
    """Records of the runs of one directory."""

    def __init__(self, directory: SafeDirectory, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self.logs = LogReader(directory)
        self.clock = clock

    def brief(self, run: Run) -> dict[str, Any]:
        """A row of the overview. Never raises for what is in the run's files."""
        known: dict[str, Any] = {"id": run.id, "group": run.group, "seed": run.seed}
        try:
            config = self.directory.read_record(run.path / "config.json")
            summary = self._optional(run.path / "summary.json")
            log = self.logs.read(run.path / "metrics.jsonl")
        except FileNotFoundError:
            return known | {"state": "damaged", "message": "It has no config.json.", "agents": []}
        except UNREADABLE as error:
            return known | {"state": "damaged", "message": _sentence(error), "agents": []}
        last = log.last or {}
        return {
            **known,
            **_settings(config),
            **self._progress(run.path, config, summary, log),
            "message": _log_message(log),
            "returns": _returns(log.rows),
            "coverage_found": count((summary or last).get("coverage_found")),
            "coverage_size": count((summary or {}).get("coverage_size")),
            "watchable": summary is not None and (run.path / "policies.safetensors").is_file(),
            "agents": self._agents(run.path),
        }

    def details(self, run: Run) -> dict[str, Any]:
        """Everything about one run: its cross-play, what it covers, its curves."""
        brief = self.brief(run)
        if brief["state"] == "damaged":
            return brief
        try:
            summary = self._optional(run.path / "summary.json") or {}
            log = self.logs.read(run.path / "metrics.jsonl")
        except UNREADABLE as error:
            return brief | {"state": "damaged", "message": _sentence(error)}
        last = log.last or {}
        measured = matrix(summary.get("cross_play"))
        return {
            **brief,
            "cross_play": measured or matrix(last.get("pair_returns")),
            "cross_play_measured": measured is not None,
            "standard_error": matrix(summary.get("cross_play_standard_error")),
            "conventions": texts(summary.get("conventions")),
            "best_response_conventions": texts(summary.get("best_response_conventions")),
            "covers": texts(summary["covers"] if "covers" in summary else last.get("covers")),
            "constraints_violated": count(summary.get("constraints_violated")),
            "margin": number(summary.get("margin", brief["margin"])),
            "gaps": _constraints(summary["gaps"] if "gaps" in summary else last.get("gaps")),
            "curves": _curves(log.rows),
        }

    def _optional(self, path: Path) -> dict[str, Any] | None:
        return self.directory.read_record(path) if path.exists() else None

    def _progress(self, path: Path, config: dict[str, Any], summary: dict[str, Any] | None, log: Log) -> dict[str, Any]:
        """How far training is, and whether it goes on."""
        done = count((summary or log.last or {}).get("env_steps")) or 0
        total = count(record(config.get("settings")).get("total_steps"))
        quiet = self.clock() - _changed(path)
        return {
            "state": "finished" if summary is not None else "training" if quiet < QUIET_SECONDS else "stopped",
            "env_steps": done,
            "total_steps": max(total, done) if summary is None and total else done or total,
        }

    def _agents(self, path: Path) -> list[dict[str, Any]]:
        """The ad hoc agents trained with this run's teammates."""
        found = sorted(place.parent for place in path.glob("*/config.json"))[:MOST_AGENTS]
        agents = [self._agent(place) for place in found if not place.is_symlink()]
        return [agent for agent in agents if agent is not None]

    def _agent(self, path: Path) -> dict[str, Any] | None:
        try:
            config = self.directory.read_record(path / "config.json")
            if config.get("command") != "train":
                return None
            log = self.logs.read(path / "metrics.jsonl")
            summary = self._optional(path / "summary.json")
            evaluation = self._optional(path / "evaluation.json") or {}
        except UNREADABLE as error:
            return {"learner": path.name, "state": "damaged", "message": _sentence(error), "playable": False}
        return {
            "learner": path.name,
            **self._progress(path, config, summary, log),
            "message": _log_message(log),
            "playable": (path / AGENT_FILE).is_file(),
            "mean_return": number(evaluation.get("mean_return")),
            "oracle_fraction": number(evaluation.get("oracle_fraction")),
            "curves": {name: [number(row.get(name)) for row in log.rows] for name in ("env_steps", "mean_return")},
        }


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    settings = record(config.get("settings"))
    return {
        **{name: text(config.get(name)) or "unknown" for name in ("env", "method", "preset")},
        "population_size": count(settings.get("population_size")),
        "margin": number(settings.get("margin")),
    }


def _changed(path: Path) -> float:
    """When training last wrote something."""
    times = []
    for name in ("metrics.jsonl", "config.json", "timing.json"):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _log_message(log: Log) -> str:
    if not log.damaged:
        return ""
    if log.damaged == 1:
        return f"Line {log.first_damaged} of its log, metrics.jsonl, cannot be read."
    return f"{log.damaged} lines of its log, metrics.jsonl, cannot be read, line {log.first_damaged} first of all."


def _sentence(error: Exception) -> str:
    """One sentence without the path of anything outside the directory."""
    if isinstance(error, OSError) and error.strerror:
        return f"A file cannot be read: {error.strerror}."
    return str(error)


def _constraints(value: Any) -> dict[str, list[list[float | None]] | None] | None:
    """The two matrices that go with the paper's two families of constraints."""
    return {name: matrix(value.get(name)) for name in CONSTRAINTS} if isinstance(value, dict) else None


def _returns(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Self-play and cross-play in a few points, ending with the newest."""
    spread = rows[:: max(1, len(rows) // MOST_POINTS)] + rows[-1:]
    return {name: [number(row.get(f"{name}_return")) for row in spread] for name in ("self_play", "cross_play")}


def _curves(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns over time."""
    numbers = ("env_steps", "self_play_return", "cross_play_return", "coverage_found")
    return {
        **{name: [number(row.get(name)) for row in rows] for name in numbers},
        "gaps": [_constraints(row.get("gaps")) for row in rows],
        "multipliers": [_constraints(row.get("multipliers")) for row in rows],
    }
