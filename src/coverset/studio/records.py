"""Records of runs for the pages, read from files without JAX.

Files may be incomplete while training writes them, damaged or missing: a record then has a message, and None for
unknown values. Rows are best responses, columns teammates.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverset.runs.game_names import game_title
from coverset.runs.storage import DamagedFile
from coverset.studio.catalogue import Run
from coverset.studio.files import OutsideDirectory, SafeDirectory
from coverset.studio.logs import Log, LogReader
from coverset.studio.values import (
    LONGEST_TEXT,
    as_count,
    as_matrix,
    as_number,
    as_numbers,
    as_object,
    as_text,
    as_texts,
)

QUIET_SECONDS = 120.0
"""A run whose log has not grown for this long counts as stopped."""
MEASURING_SECONDS = 900.0
"""A run that has trained all its steps, and is not finished after this long, counts as stopped."""
MOST_AGENTS = 16
MOST_POINTS = 30
"""Number of points of the small curves in the overview."""
MOST_METHOD_FIELDS = 16
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
        """Summarise a run for the overview. Damaged files never raise."""
        known: dict[str, Any] = {"id": run.id, "group": run.group, "seed": run.seed}
        try:
            config = self.directory.read_record(run.path / "config.json")
            summary = self._optional(run.path / "summary.json")
            log = self.logs.read(run.path / "metrics.jsonl")
        except FileNotFoundError:
            return known | {"state": "damaged", "message": "The run has no config.json.", "agents": []}
        except UNREADABLE as error:
            return known | {"state": "damaged", "message": _describe_error(error), "agents": []}
        last = log.last or {}
        return {
            **known,
            **_settings(config),
            **(
                {"population_size": as_count(summary["population_size"])}
                if summary and "population_size" in summary
                else {}
            ),
            **self._progress(run.path, config, summary, log),
            "message": _log_message(log),
            "returns": _returns(log.rows),
            "coverage_found": as_count((summary or last).get("coverage_found")),
            "coverage_size": as_count((summary or {}).get("coverage_size")),
            "watchable": summary is not None and (run.path / "policies.safetensors").is_file(),
            "agents": self._agents(run.path),
            "advice": as_text((summary or {}).get("advice")),
        }

    def details(self, run: Run) -> dict[str, Any]:
        """Describe one run in full: cross-play, coverage, curves."""
        brief = self.brief(run)
        if brief["state"] == "damaged":
            return brief
        try:
            summary = self._optional(run.path / "summary.json") or {}
            log = self.logs.read(run.path / "metrics.jsonl")
        except UNREADABLE as error:
            return brief | {"state": "damaged", "message": _describe_error(error)}
        last = log.last or {}
        measured = as_matrix(summary.get("cross_play"))
        return {
            **brief,
            "cross_play": measured or as_matrix(last.get("pair_returns")),
            "cross_play_measured": measured is not None,
            "standard_error": as_matrix(summary.get("cross_play_standard_error")),
            "conventions": as_texts(summary.get("conventions")),
            "best_response_conventions": as_texts(summary.get("best_response_conventions")),
            "covers": as_texts(summary["covers"] if "covers" in summary else last.get("covers")),
            "constraints_violated": as_count(summary.get("constraints_violated")),
            "margin": as_number(summary.get("margin", brief["margin"])),
            "gaps": _constraints(summary["gaps"] if "gaps" in summary else last.get("gaps")),
            "words": self._words(run.path),
            "curves": _curves(log.rows),
            "probes": self._probes(run.path),
        }

    def _probes(self, path: Path) -> list[dict[str, Any]]:
        """Describe what finished probes have found against this run's best responses."""
        found = [self._probe(place.parent) for place in sorted(path.glob("*/config.json")) if not place.is_symlink()]
        return [probe for probe in found if probe is not None][:MOST_AGENTS]

    def _probe(self, path: Path) -> dict[str, Any] | None:
        try:
            is_probe = self.directory.read_record(path / "config.json").get("command") == "probe"
            summary = self._optional(path / "summary.json") if is_probe else None
        except UNREADABLE:
            return None
        if summary is None:
            return None
        texts = {name: as_text(summary.get(name)) for name in ("sentence", "teammate", "best_response")}
        return {"name": path.name, "served_by": as_count(summary.get("served_by")), **texts}

    def _words(self, path: Path) -> list[str | None] | None:
        """What `coverset inspect` calls every teammate; None where the run has not been inspected."""
        try:
            record = self._optional(path / "inspection.json")
        except UNREADABLE:
            return None
        found = (record or {}).get("teammates")
        return as_texts([as_object(mate).get("word") for mate in found]) if isinstance(found, list) else None

    def _optional(self, path: Path) -> dict[str, Any] | None:
        return self.directory.read_record(path) if path.exists() else None

    def _progress(self, path: Path, config: dict[str, Any], summary: dict[str, Any] | None, log: Log) -> dict[str, Any]:
        """Describe how far training is, and whether it is running."""
        done = as_count((summary or log.last or {}).get("env_steps")) or 0
        total = as_count(as_object(config.get("settings")).get("total_steps"))
        trained = bool(total) and done >= (total or 0)
        return {
            "state": "finished" if summary is not None else self._state(path, started=bool(done), trained=trained),
            "env_steps": done,
            "total_steps": max(total, done) if summary is None and total else done or total,
        }

    def _state(self, path: Path, *, started: bool, trained: bool) -> str:
        """What an unfinished run does, as far as the times of its files and of its sibling seeds' tell."""
        quiet = self.clock() - _last_change(path)
        if trained:
            return "measuring" if quiet < MEASURING_SECONDS else "stopped"
        if quiet < QUIET_SECONDS:
            return "training"
        seeds = (*path.parent.glob("seed-*"), *path.parent.parent.glob(f"seed-*/{path.name}"))
        others = any(self.clock() - _last_change(seed) < QUIET_SECONDS for seed in seeds)
        return "waiting" if others and not started else "stopped"

    def _agents(self, path: Path) -> list[dict[str, Any]]:
        """Describe the ad hoc agents trained with this run's teammates."""
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
            return {"name": path.name, "state": "damaged", "message": _describe_error(error), "playable": False}
        return {
            "name": path.name,
            "learner": as_text(config.get("learner")),
            **self._progress(path, config, summary, log),
            "message": _log_message(log),
            "playable": (path / AGENT_FILE).is_file(),
            "seat": as_count(config.get("seat")),
            "mean_return": as_number(evaluation.get("mean_return")),
            "oracle_fraction": as_number(evaluation.get("oracle_fraction")),
            "curves": {name: [as_number(row.get(name)) for row in log.rows] for name in ("env_steps", "mean_return")},
        }


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    settings = as_object(config.get("settings"))
    env = as_text(config.get("env")) or "unknown"
    return {
        "game": game_title(env, as_object(config.get("env_parameters"))),
        **{name: as_text(config.get(name)) or "unknown" for name in ("env", "method", "preset")},
        "population_size": as_count(settings.get("population_size")),
        "margin": as_number(settings.get("margin")),
    }


def _last_change(path: Path) -> float:
    """When training last wrote a file."""
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
        return f"Line {log.first_damaged} of metrics.jsonl cannot be read."
    return f"{log.damaged} lines of metrics.jsonl cannot be read; the first is line {log.first_damaged}."


def _describe_error(error: Exception) -> str:
    """Describe an error without paths outside the directory."""
    if isinstance(error, OSError) and error.strerror:
        return f"A file cannot be read: {error.strerror}."
    return str(error)


def _constraints(value: Any) -> dict[str, list[list[float | None]] | None] | None:
    """The matrices of both sets of constraints."""
    return {name: as_matrix(value.get(name)) for name in CONSTRAINTS} if isinstance(value, dict) else None


def _returns(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Self-play and cross-play returns at a few points, ending with the newest."""
    spread = rows[:: max(1, len(rows) // MOST_POINTS)] + rows[-1:]
    return {name: [as_number(row.get(f"{name}_return")) for row in spread] for name in ("self_play", "cross_play")}


def _curves(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Metrics over time, by column."""
    numbers = ("env_steps", "self_play_return", "cross_play_return", "coverage_found")
    return {
        **{name: [as_number(row.get(name)) for row in rows] for name in numbers},
        "gaps": [_constraints(row.get("gaps")) for row in rows],
        "method": _method_curves([as_object(row.get("method")) for row in rows]),
    }


def _method_curves(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """The method's own fields over time: numbers, vectors or matrices by field and part.

    A field that is a JSON object has one part per key, any other field the single part "".
    """
    curves: dict[str, dict[str, list[Any]]] = {}
    flat = [{(name, part): value for name in row for part, value in _parts(row[name])} for row in rows]
    for name, part in list(dict.fromkeys(key for row in flat for key in row))[:MOST_METHOD_FIELDS]:
        values = [as_numbers(row.get((name, part))) for row in flat]
        if any(value is not None for value in values):
            curves.setdefault(name[:LONGEST_TEXT], {})[part[:LONGEST_TEXT]] = values
    return curves


def _parts(value: Any) -> list[tuple[str, Any]]:
    return [*value.items()] if isinstance(value, dict) else [("", value)]
