"""The report of a study: find its runs, read their files, and write the page with its figures and data.

Reading a study runs none of its code: environments are built only where the user has installed them by name.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from coverset.envs import registry
from coverset.evaluation.conventions import coverage_set
from coverset.reports import records
from coverset.reports.chapters import Chapter, make_chapters
from coverset.reports.document import make_document
from coverset.reports.page import render_page
from coverset.reports.records import AgentRecord, Content, RunRecord, UnreadableRun
from coverset.reports.rendering import draw_file
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import MAX_LOG_BYTES, DamagedFile, parse_row, read_bytes, read_json, write_bytes

T = TypeVar("T")
LOST_ROWS = "To train again what the log lost, remove summary.json, if it exists, and repeat the command with --resume."
"""What to do about a damaged row. A run that has its summary counts as finished, whatever its log holds."""


def report(directory: str | Path, *, out: str | Path | None = None) -> dict[str, Any]:
    """Write the report of all runs below a directory.

    Args:
      directory: a study, a run of several seeds, or one seed; runs are found by their config.json.
      out: the page; `directory/report/index.html` if not given, and index.html in it if it is a directory. Figures and
        data go to `figures` and `data` beside the page.
    Returns:
      The path of the `page`, and lists of those of `figures` and `data`.
    """
    directory = Path(directory)
    study = read_study(directory)
    page = _page_path(directory, None if out is None else Path(out))
    document = make_document(f"Coverset report: {directory.resolve().name}", *study)
    figures, data = [], []
    for picture in document.pictures():
        for kind in picture.formats:
            figures.append(page.parent / "figures" / f"{picture.name}.{kind}")
            write_bytes(figures[-1], draw_file(picture.figure, picture.svg, kind))
    for table in document.tables():
        data.append(page.parent / "data" / f"{table.name}.csv")
        write_bytes(data[-1], table.csv().encode())
    footer = f"Made by coverset {version('coverset')} with `coverset report`."
    write_bytes(page, render_page(document, footer=footer).encode())
    return {"page": str(page), "figures": list(map(str, figures)), "data": list(map(str, data))}


def write_report(directory: Path, out: Path | None = None) -> Path:
    """Write the report and return the path of its page."""
    return Path(report(directory, out=out)["page"])


def _page_path(directory: Path, out: Path | None) -> Path:
    page = directory / "report" / "index.html" if out is None else out
    if page.is_dir() or page.suffix.lower() not in (".html", ".htm"):
        page = page / "index.html"
    if page.is_dir() or any(parent.exists() and not parent.is_dir() for parent in page.parents):
        raise ValueError(f"out must be an HTML file or a directory, but {page} cannot be written there.")
    return page


def read_study(directory: Path) -> tuple[tuple[Chapter, ...], list[RunRecord], list[UnreadableRun]]:
    """What is below a directory: chapters in order, all runs in them, and runs of which nothing can be told."""
    if not directory.is_dir():
        raise ValueError(f"DIR must be a directory with runs of coverset, but {directory} is not a directory.")
    runs, unreadable = _read_runs(directory)
    if not runs:
        reason = f": {unreadable[0].path}: {unreadable[0].problem}" if unreadable else "."
        raise ValueError(f"{directory} holds no run of `coverset generate` that can be read{reason}")
    return make_chapters(runs, _members), runs, unreadable


def _read_runs(directory: Path) -> tuple[list[RunRecord], list[UnreadableRun]]:
    """All runs below a directory with their agents, by path, and those whose config cannot be read."""
    runs: dict[Path, tuple[Content, list[AgentRecord]]] = {}
    agents: list[tuple[Path, Content]] = []
    unreadable = []
    for path in _configs(directory):
        try:
            config, command = _read_config(path)
        except (ValueError, OSError) as error:
            unreadable.append(UnreadableRun(_told(path.parent, directory), _problem(path, error)))
            continue
        if command == "generate":
            runs[path.parent] = (config, [])
        elif command == "train":
            agents.append((path.parent, config))
    for path, config in agents:
        if path.parent in runs:
            runs[path.parent][1].append(_read_agent(path, config, _told(path, directory)))
        else:
            problem = "the run of teammates to which this agent belongs cannot be read."
            unreadable.append(UnreadableRun(_told(path, directory), problem))
    found = [_read_run(path, *parts, _told(path, directory)) for path, parts in runs.items()]
    return found, unreadable


def _configs(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("config.json")):
        if not any(part.startswith(".") for part in path.relative_to(directory).parts):
            yield path


def _told(path: Path, directory: Path) -> str:
    """The path relative to the study, or the names that matter where the study is the run itself."""
    relative = path.relative_to(directory)
    return relative.as_posix() if relative.parts else directory.resolve().name


def _read_config(path: Path) -> tuple[Content, str | None]:
    """A config and which command wrote it; None for one that is not of ours."""
    content = read_json(path)
    command = content.get("command") if isinstance(content, dict) else None
    checks = {"generate": records.check_run_config, "train": records.check_agent_config}
    if not isinstance(command, str) or command not in checks:
        return {}, None
    # Settings may be infinite and are then spelled out; numbers of any other kind are checked with the rest.
    return records.validate(content, checks[command]), command


def _read_run(path: Path, config: Content, agents: list[AgentRecord], told: str) -> RunRecord:
    problems: list[str] = []
    check_row = partial(records.check_run_row, size=config["settings"]["population_size"])
    summary = _optional(path / "summary.json", records.check_run_summary, problems)
    rows = _rows(path / "metrics.jsonl", check_row, problems)
    certificate = _optional(path / "certificate.json", records.check_certificate, problems)
    inspection = _optional(RunDirectory(path).inspection_path, records.check_inspection, problems)
    return RunRecord(told, config, rows, summary, certificate, tuple(agents), tuple(problems), inspection)


def _read_agent(path: Path, config: Content, told: str) -> AgentRecord:
    problems: list[str] = []
    summary = _optional(path / "summary.json", records.check_agent_summary, problems)
    rows = _rows(path / "metrics.jsonl", records.check_agent_row, problems)
    evaluation = _optional(path / "evaluation.json", records.check_evaluation, problems)
    return AgentRecord(told, config, rows, summary, evaluation, tuple(problems))


def _optional(path: Path, check: Callable[[Content], None], problems: list[str]) -> Content | None:
    """A file's content; None, and a sentence among the problems, if it is damaged."""
    if not path.is_file():
        return None
    return _guarded(lambda: records.validate(read_json(path), check), path, problems)


def _rows(path: Path, check: Callable[[Content], None], problems: list[str]) -> tuple[Content, ...]:
    """The rows of a log up to the first that is damaged. A last line without its end is still being written."""
    if not path.is_file():
        return ()
    rows: list[Content] = []

    def read() -> None:
        for number, line in enumerate(read_bytes(path, MAX_LOG_BYTES).split(b"\n")[:-1], start=1):
            try:
                rows.append(records.check_numbered_row(parse_row(line, path, number), path, number, check))
            except DamagedFile as error:
                raise DamagedFile(f"{error} {LOST_ROWS}") from error

    _guarded(read, path, problems)
    return tuple(rows)


def _guarded(read: Callable[[], T], path: Path, problems: list[str]) -> T | None:
    try:
        return read()
    except (ValueError, OSError) as error:
        problems.append(_problem(path, error))
        return None


def _problem(path: Path, error: Exception) -> str:
    """What is wrong with a file, which is named; its directory stands beside it on the page."""
    if isinstance(error, DamagedFile):
        return str(error).replace(str(path), path.name, 1)
    return f"{path.name}: {error.strerror if isinstance(error, OSError) else error}"


def _members(config: Content) -> tuple[str, ...]:
    """Names of the coverage set's members; none for environments that only a path in the config could load."""
    if config["env"] not in registry.names():
        return ()
    try:
        environment = registry.make_from_record("config.json", config)
    except (ValueError, TypeError):
        return ()
    return tuple(environment.conventions[member] for member in coverage_set(environment))
