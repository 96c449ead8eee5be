"""Chunk after chunk: the loop that every training shares, with its log, its checkpoints and its clock.

A job trains several seeds side by side as one compiled program. It can be killed at any moment: it goes on from the
newest checkpoint that all its seeds have whole, its log is cut back to that point, and the bytes come out the same.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.envs.base import Environment
from coverset.envs.registry import parameters_of
from coverset.loggers.base import MetricsLogger
from coverset.pipeline.clock import Clock
from coverset.runs.directory import GROUP, RunDirectory, remove_created, to_tensors
from coverset.runs.storage import DamagedFile, check_fields
from coverset.types import PyTree

CHECKPOINT_SECONDS = 5.0
RUNS_ONCE = {"xla_backend_optimization_level": 1}
"""Compiler options of a program that runs once, such as drawing networks: it takes longer to compile than to run."""
RUNS_LONG = {"xla_backend_optimization_level": 2}
"""Those of a training: it runs as fast as with level 3, the default, and compiles in half the time."""


class TrainingDiverged(ValueError):
    """Training produced a number that is not finite."""


class Stopped(Exception):
    """The run was asked to stop; it has a checkpoint and can be resumed."""


class Reporter:
    """How a run talks to whoever started it. This one is silent and never asks it to stop."""

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        """Training of `seeds` begins, or goes on after `steps_done` of its steps."""

    def chunk(self, env_steps: int, status: str) -> None:
        """Another chunk of updates is done; `status` says in a few words how it goes."""

    def work(self, words: str) -> None:
        """Work that counts no steps begins, such as measuring what was trained."""

    def warn(self, sentence: str) -> None:
        """Something is amiss but can be dealt with."""

    def should_stop(self) -> bool:
        """Whether to save a checkpoint and stop."""
        return False


class Job(abc.ABC):
    """A training of several seeds, whose states and reports are stacked on a leading axis."""

    title: str
    seeds: tuple[int, ...]
    num_chunks: int
    steps_per_chunk: int
    row_fields: Mapping[str, Any]
    """Fields of a row, `chunk` and `env_steps` among them, and their types as `check_fields` takes them."""

    @abc.abstractmethod
    def init(self) -> PyTree:
        """The state before the first chunk, over all seeds."""

    @abc.abstractmethod
    def advance(self, chunk: int, state: PyTree) -> tuple[PyTree, PyTree]:
        """Chunk number `chunk` (from 0) in one dispatch: the next state, and a report of arrays over all seeds."""

    def over(self, state: PyTree) -> Sequence[bool]:
        """Which seeds have ended before the last chunk; `advance` leaves those as they are."""
        del state
        return [False] * len(self.seeds)

    def rows_written(self, chunk: int, state: PyTree) -> Sequence[int]:
        """How many rows the log of each seed holds after `chunk` chunks: one each, until it ended."""
        del state
        return [chunk] * len(self.seeds)

    @abc.abstractmethod
    def row(self, chunk: int, report: PyTree) -> dict[str, Any]:
        """A line of the log from one seed's report: the `row_fields`, which depend on the training alone."""

    def check_row(self, number: int, row: dict[str, Any]) -> None:
        """Raise ValueError unless this is row `number`, from 1, of a seed's log; `row` holds JSON of any kind."""
        check_fields("The row", row, **self.row_fields)
        if (row["chunk"], row["env_steps"]) != (number, number * self.steps_per_chunk):
            raise DamagedFile(f"The row is that of chunk {row['chunk']}, not of chunk {number}.")

    @abc.abstractmethod
    def trouble(self, report: PyTree) -> str | None:
        """What is wrong in one seed's report and what to do about it; None if all is well."""

    @abc.abstractmethod
    def status(self, rows: list[dict[str, Any]]) -> str:
        """A few words on how it goes."""

    @abc.abstractmethod
    def finish(self, seed: int, directory: RunDirectory, state: PyTree, seconds: float) -> None:
        """Write what came of a seed; the summary last, which marks it as done."""


def claim(
    directories: dict[int, RunDirectory],
    config: Callable[[int], dict[str, Any]],
    reporter: Reporter,
    *,
    resume: bool,
    together: int,
) -> None:
    """Make every seed's directory its run. Nothing is written unless all of them are free, or already are that run.

    Args:
      directories: by seed.
      config: the content of `config.json` by seed.
      reporter: is told where a run was begun under other versions.
      resume: whether runs that exist may go on.
      together: how many seeds train in one program.
    """
    configs = {seed: config(seed) for seed in directories}
    for seed, directory in directories.items():
        directory.check_claim(configs[seed], resume=resume)
    for group in seed_groups(directories, together):
        configs |= {seed: {**configs[seed], GROUP: list(group)} for seed in group}
    _claim_all(directories, configs)
    for seed, directory in directories.items():
        if not directory.is_done() and (differences := directory.describe_version_changes(configs[seed])):
            reporter.warn(
                f"{directory.path} was begun with {differences}: its results may differ from those of one go."
            )


def _claim_all(directories: dict[int, RunDirectory], configs: dict[int, dict[str, Any]]) -> None:
    """Write every config, or none: where one cannot be written, those before it are taken back."""
    new: list[Path] = []
    try:
        for seed, directory in directories.items():
            new += directory.claim(configs[seed])
    except ValueError:
        remove_created(new)
        raise


def train_seeds(
    make_job: Callable[[tuple[int, ...]], Job],
    directories: dict[int, RunDirectory],
    reporter: Reporter,
    *,
    together: int,
    checkpoint_seconds: float,
    logs: Sequence[Callable[[], MetricsLogger]] = (),
) -> None:
    """Train all seeds that are not done, some of them side by side, and finish each.

    A seed that has ended but lost results is restored from its last checkpoint, and they are written again.

    Args:
      make_job: makes the job of some seeds.
      directories: by seed.
      reporter: how to follow the training.
      together: how many seeds train in one program.
      checkpoint_seconds: training time between two checkpoints.
      logs: makers of further logs; each run directory gets one of each.

    Raises:
      Stopped: the reporter asked for it; what there is can be resumed.
      InUse: another process trains one of the seeds.
    """
    waiting = {seed: directory for seed, directory in directories.items() if not directory.is_done()}
    with ExitStack() as held:
        for directory in waiting.values():
            held.enter_context(directory.hold_lock())
            _tell_lost(directory, reporter)
        for group in seed_groups(directories, together):
            chosen = {seed: waiting[seed] for seed in group if seed in waiting}
            if not chosen:
                continue
            _check_stop(reporter, chosen)
            job = make_job(tuple(chosen))
            states, seconds = run_job(job, chosen, group, reporter, checkpoint_seconds=checkpoint_seconds, logs=logs)
            for seed, state in zip(chosen, states, strict=True):
                _check_stop(reporter, {seed: chosen[seed]})
                chosen[seed].check_exists()
                reporter.work(f"{job.title} seed {seed}: measuring and writing results")
                job.finish(seed, chosen[seed], state, seconds)


def _tell_lost(directory: RunDirectory, reporter: Reporter) -> None:
    """Say which results of a run that had ended are made again."""
    if directory.has_ended():
        for path in directory.list_missing_results():
            reporter.warn(f"{path} is {'damaged' if path.exists() else 'missing'} and is made again.")


def _check_stop(reporter: Reporter, directories: Iterable[int]) -> None:
    if reporter.should_stop():
        raise Stopped(f"Stopped before seed {next(iter(directories))}; the run can be resumed.")


def seed_groups(directories: dict[int, RunDirectory], together: int) -> list[tuple[int, ...]]:
    """Seeds that train together: runs that were begun as their config says, all others at most `together` at a time.

    Finished runs that say with whom they trained are in no group, as nothing is left to do.

    Raises:
      ValueError: a run was begun together with seeds that are not at hand.
    """
    noted = {seed: directory.group() for seed, directory in directories.items()}
    begun = {group: seed for seed, group in noted.items() if group and not directories[seed].is_done()}
    for group, seed in begun.items():
        _check_at_hand(directories[seed], group, noted)
    silent = [seed for seed in directories if noted[seed] is None and not any(seed in group for group in begun)]
    free = [seed for seed in silent if not directories[seed].config_path.is_file()]
    older = [seed for seed in silent if seed not in free]
    place = {seed: number for number, seed in enumerate(directories)}
    return sorted([*begun, *_split(older, together), *_split(free, together)], key=lambda group: place[group[0]])


def _check_at_hand(directory: RunDirectory, group: tuple[int, ...], noted: dict[int, tuple[int, ...] | None]) -> None:
    """Raise unless all seeds of a group are named, and none has been begun otherwise: its program has that size."""
    named = " ".join(map(str, group))
    if not set(group) <= set(noted):
        raise ValueError(
            f"{directory.path} trains in one program with other seeds: resume it with `seeds={list(group)}`."
        )
    for seed in group:
        if noted[seed] not in (None, group):
            raise ValueError(
                f"{directory.path} was begun in one program with seeds {named}, but seed {seed} was begun otherwise: "
                f"choose another `{directory.chosen_by}`."
            )


def _split(seeds: Sequence[int], size: int) -> Iterable[tuple[int, ...]]:
    return (tuple(seeds[start : start + size]) for start in range(0, len(seeds), size))


def run_job(
    job: Job,
    directories: dict[int, RunDirectory],
    group: Sequence[int],
    reporter: Reporter,
    *,
    checkpoint_seconds: float,
    logs: Sequence[Callable[[], MetricsLogger]] = (),
) -> tuple[list[PyTree], float]:
    """Train to the end. Returns the state of every seed, and the seconds that all of them together have taken.

    Args:
      directories: of the seeds that are not done.
      group: all seeds that trained in one program with them, and share its time.
      logs: makers of further logs; each run directory gets one of each.

    Raises:
      Stopped: the reporter asked for it; a checkpoint has been written.
      TrainingDiverged: a report is not finite.
    """
    seeds = tuple(directories)
    timings = [directory.path / "timing.json" for directory in directories.values()]
    clock = Clock(timings, checkpoint_seconds, reporter.warn)  # starting, too, is waited for
    done, state = _restore(job, directories, group, reporter)
    reporter.start(job.title, seeds, done * job.steps_per_chunk, job.num_chunks * job.steps_per_chunk)
    rows: dict[int, dict[str, Any]] = {}
    over = job.over(state)
    with _opened(directories, logs) as write:
        for chunk in range(done, job.num_chunks):
            training = [seed for seed, ended in zip(seeds, over, strict=True) if not ended]
            if not training:
                break
            state, report = job.advance(chunk, state)
            reports = dict(zip(seeds, unstack(jax.device_get(report), len(seeds)), strict=True))
            new = {seed: job.row(chunk, reports[seed]) for seed in training}
            _check_finite(job, directories, new, reports)
            write(new)
            rows |= new
            over = job.over(state)
            steps = new[training[0]]["env_steps"]
            reporter.chunk(steps, job.status(list(rows.values())))
            last, stopping = chunk + 1 == job.num_chunks or all(over), reporter.should_stop()
            if stopping or last or clock.checkpoint_due():
                _save(directories, chunk + 1, state)
                clock.save()
            if stopping and not last:
                raise Stopped(f"Stopped after {steps:,} steps; the run can be resumed.")
    return unstack_state(state, len(seeds)), clock.noted


@contextmanager
def _opened(
    directories: dict[int, RunDirectory], makers: Sequence[Callable[[], MetricsLogger]]
) -> Iterator[Callable[[dict[int, dict[str, Any]]], None]]:
    """Give a function that writes rows by their seeds, to `metrics.jsonl` first, and close all logs in the end."""
    logs = {seed: [make() for make in makers] for seed in directories}

    def write(rows: dict[int, dict[str, Any]]) -> None:
        for seed, row in rows.items():
            directories[seed].append_metrics(row)
            for log in logs[seed]:
                log.write(row)

    try:
        for seed, directory in directories.items():
            for log in logs[seed]:
                log.start(directory, directory.rows())
        yield write
    finally:
        for log in (log for of_seed in logs.values() for log in of_seed):
            log.close()


def unstack(tree: PyTree, count: int) -> list[PyTree]:
    """Take a tree of arrays on the host apart along their leading axis."""
    return [jax.tree.map(lambda x, i=index: np.asarray(x[i]), tree) for index in range(count)]


def unstack_state(state: PyTree, count: int) -> list[PyTree]:
    """The same for a state on the device, which may hold random keys."""
    return [jax.tree.map(lambda x, i=index: x[i], state) for index in range(count)]


def _restore(
    job: Job, directories: dict[int, RunDirectory], group: Sequence[int], reporter: Reporter
) -> tuple[int, PyTree]:
    """The newest state that all seeds of the group have whole, log and all, or fresh ones; logs are cut back to it."""
    fresh = job.init()
    like = jax.eval_shape(lambda: jax.tree.map(lambda x: x[0], fresh))
    found = [directory.load_intact_checkpoints(like, reporter.warn) for directory in directories.values()]
    chunk, state, rows = 0, fresh, [0] * len(directories)
    for common in sorted(set.intersection(*map(set, found)), reverse=True):
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(states[common] for states in found))
        written = job.rows_written(common, stacked)
        if _all_logged(job, directories, common, written, reporter):
            chunk, state, rows = common, stacked, written
            break
    if len(directories) < len(group) and chunk < job.num_chunks and not all(job.over(state)):
        raise DamagedFile(_cannot_train_alone(directories, group))
    for directory, count in zip(directories.values(), rows, strict=True):
        directory.rewind(chunk, count)
    return chunk, state


def _cannot_train_alone(directories: dict[int, RunDirectory], group: Sequence[int]) -> str:
    """What to do about seeds without a last checkpoint, whose group has ended: alone they would get other bytes."""
    (seed, directory), *_ = directories.items()
    return (
        f"{directory.path} has lost its results and its last checkpoint, and seed {seed} trained in one program with "
        f"seeds {' '.join(map(str, group))}: remove the directories of these seeds to train them again."
    )


def _all_logged(
    job: Job, directories: dict[int, RunDirectory], chunk: int, written: Sequence[int], reporter: Reporter
) -> bool:
    """Whether the logs still hold all rows up to a checkpoint; says which does not."""
    for directory, count in zip(directories.values(), written, strict=True):
        if (left := directory.count_intact_rows(job.check_row)) < count:
            reporter.warn(
                f"{directory.metrics_path} holds {left} of the {count} rows that were logged by the checkpoint of "
                f"chunk {chunk}, which is passed over."
            )
            return False
    return True


def _save(directories: dict[int, RunDirectory], chunk: int, state: PyTree) -> None:
    for directory, tensors in zip(directories.values(), unstack(to_tensors(state), len(directories)), strict=True):
        directory.save_checkpoint(chunk, tensors)


def _check_finite(
    job: Job, directories: dict[int, RunDirectory], rows: dict[int, dict[str, Any]], reports: dict[int, PyTree]
) -> None:
    for seed, row in rows.items():
        if found := job.trouble(reports[seed]):
            raise TrainingDiverged(
                f"Training of seed {seed} diverged before step {row['env_steps']:,}: {found}; a new try needs "
                f"another `{directories[seed].chosen_by}`, or {directories[seed].path} removed."
            )


def trouble(paid: bool, finite: bool, rates: str, environment: Environment) -> str | None:
    """What can go wrong in any training: rewards depend on the environment alone, the rest on rates too.

    Args:
      paid: whether all rewards and returns are finite.
      finite: whether everything else is.
      rates: names of the learning rates.
      environment: the game.
    """
    if not (paid and finite) and (huge := _huge_parameter(environment)):
        return f"{huge} overflow float32 arithmetic. Choose smaller numbers"
    if not paid:
        return (
            "the return of an episode is not finite. Make the rewards of the environment finite, and small enough that "
            "their sum is within float32 (3.4e38)"
        )
    return None if finite else f"a value is not finite. Lower {rates}"


def _huge_parameter(environment: Environment) -> str | None:
    """A parameter of the environment with numbers whose squares are no finite float32, such as payoffs of 3e38."""
    limit = float(np.finfo(np.float32).max) ** 0.5
    for name, value in parameters_of(environment).items():
        largest = max((abs(number) for number in jax.tree.leaves(value) if isinstance(number, int | float)), default=0)
        if largest >= limit:
            return f"{name} of up to {largest:g}"
    return None
