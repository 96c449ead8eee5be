"""Certificates of run directories: read finished runs, solve around them, write `certificate.json` into each."""

from collections.abc import Callable, Sequence
from pathlib import Path

from coverset.certificates.blind import TRIALS
from coverset.certificates.certificate import certify
from coverset.checks import check_at_least
from coverset.partners import GenerationRun, read_run, seed_directories
from coverset.pipeline.results import CertificateResult, Certificates
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import check_fields, write_json

FILE_NAME = "certificate.json"
ORIGIN = ("env", "env_parameters", "method", "preset", "seed")
"""What a certificate repeats of the run it belongs to."""


def certify_runs(
    directory: str | Path,
    *,
    seeds: Sequence[int] | None = None,
    trials: int = TRIALS,
    starting: Callable[[Path], None] = lambda path: None,
) -> Certificates:
    """Certify finished runs. Every run is checked before work on the first begins.

    Args:
      directory: what `coverset generate` made: the directory of all seeds, or of one.
      seeds: which seeds; all if none are given.
      trials: effort to close the bounds of blind best responses, for each teammate and reading.
      starting: called with the path of each run before the work on it.
    Returns:
      The content of `certificate.json` of every seed, which can also be shown and drawn.
    """
    check_at_least("trials", trials, 0)
    runs = [_read(path) for path in seed_directories(Path(directory), seeds or None).values()]
    certificates = Certificates()
    for run in runs:
        starting(run.path)
        settings = run.config["settings"]
        certificate = certify(
            run.environment,
            run.population,
            margin=settings["margin"],
            discount=settings["discount"],
            trials=trials,
        )
        content = {**{name: run.config.get(name) for name in ORIGIN}, **certificate.to_json()}
        write_json(run.path / FILE_NAME, content)
        certificates.append(CertificateResult(content, run.path))
    return certificates


def _read(path: Path) -> GenerationRun:
    """Read one run, and refuse one that is unfinished or damaged."""
    if RunDirectory(path).summary() is None:
        raise ValueError(f"{path} is not finished: go on with `generate(..., resume=True)` first.")
    run = read_run(path)
    config = RunDirectory(path).config_path
    check_fields(config, run.config, settings=dict)
    check_fields(config, run.config["settings"], margin=float, discount=float)
    return run
