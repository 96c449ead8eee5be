"""Units of work of a study: what `generate`, `certify`, `train` and `evaluate` do for one environment and method.

A unit is plain data that can be sent to another process. Its state is in its files alone, so any process can resume it
after it was stopped or killed.

OUT/ENV-METHOD-PRESET/seed-N/                                  generation
                             certificate.json                  certification
                             LEARNER/                          training
                                     evaluation.json           evaluation
"""

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from coverset.adhoc.learner import FittedLearner
from coverset.adhoc.registry import agent_folder, learner_class
from coverset.adhoc.trainer import training_schedule
from coverset.certificates.contract import check_solvable
from coverset.certificates.finite import check_length
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.partners import AGENT_FILE, OTHER_SEEDS, other_seeds
from coverset.pipeline.certify import FILE_NAME as CERTIFICATE_FILE
from coverset.pipeline.certify import certify_runs
from coverset.pipeline.evaluate import EVALUATION_FILE, default_episodes, default_trials, evaluate
from coverset.pipeline.generate import Plan, generate, make_plan
from coverset.pipeline.held_out import partner_titles
from coverset.pipeline.loop import Reporter, Stopped
from coverset.pipeline.train import AgentPlan, train
from coverset.presets import resolve_training
from coverset.runs.directory import AgentDirectory, RunDirectory
from coverset.runs.storage import DamagedFile, read_json
from coverset.settings import TrainSettings
from coverset.study import time_estimates


@dataclass(frozen=True)
class Experiment:
    """One environment and method with all seeds: everything that determines what the units write."""

    environment: str
    method: str
    preset: str
    seeds: tuple[int, ...]
    directory: Path
    """Parent of the `seed-N` directories; its last part is the experiment's name."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `GenerateSettings` and of the method that replace the preset's."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `TrainSettings` that replace the preset's, and fields of learners."""

    @property
    def name(self) -> str:
        return self.directory.name

    def make_environment(self) -> Environment:
        """Make the environment."""
        return registry.make(self.environment)

    def plan(self) -> Plan:
        """The checked plan of teammate generation."""
        return make_plan(self.environment, method=self.method, preset=self.preset, **self.generation)

    def training_of(self, learner: str) -> dict[str, Any]:
        """Those of the `training` settings that this learner has."""
        known = {field.name for owner in (TrainSettings, learner_class(learner)) for field in fields(owner)}  # pyright: ignore[reportArgumentType]
        return {name: value for name, value in self.training.items() if name in known}

    def agent_plan(self, learner: str) -> AgentPlan:
        """The checked plan of agent training."""
        settings, chosen = resolve_training(self.environment, learner, self.preset, **self.training_of(learner))
        return AgentPlan(self.environment, self.make_environment(), chosen, self.preset, settings)

    def seed_directory(self, seed: int) -> Path:
        """The run directory of one seed."""
        return self.directory / f"seed-{seed}"


@dataclass(frozen=True)
class Unit(abc.ABC):
    """A piece of work on one experiment."""

    experiment: Experiment

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The experiment's name and the command, such as `matrix-lbrdiv-fast/certify`."""

    @property
    def dependencies(self) -> tuple[str, ...]:
        """Names of the units that must be done first."""
        return ()

    def find_obstacle(self) -> str | None:
        """One sentence on why the unit is impossible in this environment; None if it is possible."""
        return None

    def check(self) -> None:
        """Raise ValueError if the settings are invalid, or a run directory holds a run with different settings."""
        self.experiment.plan()

    @abc.abstractmethod
    def seeds_left(self) -> list[int]:
        """Seeds that are not done according to their files."""

    def is_done(self) -> bool:
        """Whether all seeds are done."""
        return not self.seeds_left()

    def has_begun(self) -> bool:
        """Whether some of the work is done."""
        return len(self.seeds_left()) < len(self.experiment.seeds)

    @abc.abstractmethod
    def run(self, reporter: Reporter) -> None:
        """Do the remaining work; raises `Stopped` if the reporter asks to stop."""

    @abc.abstractmethod
    def seconds_left(self) -> float | None:
        """Estimated time of the remaining work; None if no comparable run has been measured."""

    def iterate_seeds_left(self, reporter: Reporter) -> Iterator[int]:
        """Yield the remaining seeds; raises `Stopped` if the reporter asks to stop."""
        for seed in self.seeds_left():
            if reporter.should_stop():
                raise Stopped(f"Stopped before seed {seed}; results of earlier seeds are kept.")
            yield seed

    def scale_by_seeds_left(self, seconds: float | None) -> float | None:
        """Time for all remaining seeds, given the seconds per seed."""
        return None if seconds is None else seconds * len(self.seeds_left())


class ResumableUnit(Unit):
    """A unit that trains: each seed has a run directory with checkpoints to resume from."""

    @abc.abstractmethod
    def run_directory(self, seed: int) -> RunDirectory:
        """The run directory of one seed's training."""

    @abc.abstractmethod
    def config(self, seed: int) -> dict[str, Any]:
        """The expected content of the seed's `config.json`."""

    def check(self) -> None:
        for seed in self.experiment.seeds:
            self.run_directory(seed).check_claim(self.config(seed), resume=True)

    def seeds_left(self) -> list[int]:
        return [seed for seed in self.experiment.seeds if not self.run_directory(seed).is_done()]

    def has_begun(self) -> bool:
        return any(self.run_directory(seed).checkpoints() for seed in self.experiment.seeds)

    def steps_left(self, chunks: int, steps_per_chunk: int) -> int:
        """Remaining environment steps over all seeds, each of which trains for `chunks` chunks."""
        done = (max(self.run_directory(seed).checkpoints(), default=0) for seed in self.seeds_left())
        return sum(chunks - chunk for chunk in done) * steps_per_chunk


class Generation(ResumableUnit):
    """Generates the teammates of every seed."""

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/generate"

    def run_directory(self, seed: int) -> RunDirectory:
        return RunDirectory(self.experiment.seed_directory(seed))

    def config(self, seed: int) -> dict[str, Any]:
        return self.experiment.plan().config(seed)

    def run(self, reporter: Reporter) -> None:
        e = self.experiment
        chosen = {"method": e.method, "preset": e.preset, "seeds": e.seeds, "out": e.directory}
        generate(e.environment, **chosen, resume=True, reporter=reporter, **e.generation)

    def seconds_left(self) -> float | None:
        e, schedule = self.experiment, self.experiment.plan().trainer.schedule
        steps = self.steps_left(schedule.num_chunks, schedule.steps_per_chunk)
        measured = time_estimates.find_recorded_speed(e.directory, e.environment, e.preset)
        return time_estimates.estimate_seconds(
            steps, measured or time_estimates.GENERATION_STEPS_PER_SECOND.get((e.environment, e.preset))
        )


@dataclass(frozen=True)
class Training(ResumableUnit):
    """Trains an ad hoc agent with the teammates of every seed."""

    learner: str

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/{self.learner}/train"

    @property
    def dependencies(self) -> tuple[str, ...]:
        return (Generation(self.experiment).name,)

    def run_directory(self, seed: int) -> RunDirectory:
        return AgentDirectory(self.experiment.seed_directory(seed) / agent_folder(self.learner))

    def config(self, seed: int) -> dict[str, Any]:
        return self.experiment.agent_plan(self.learner).config(seed, self.experiment.plan().config(seed))

    def run(self, reporter: Reporter) -> None:
        e = self.experiment
        chosen = {"learner": self.learner, "preset": e.preset, "seeds": e.seeds}
        train(e.directory, **chosen, resume=True, reporter=reporter, **e.training_of(self.learner))

    def seconds_left(self) -> float | None:
        e, plan = self.experiment, self.experiment.agent_plan(self.learner)
        if isinstance(plan.learner, FittedLearner):
            return self.scale_by_seeds_left(time_estimates.FITTING_SECONDS)
        schedule = training_schedule(plan.settings, plan.learner.num_rows(e.plan().settings.population_size))
        steps = self.steps_left(schedule.num_chunks, schedule.steps_per_chunk)
        folder = agent_folder(self.learner)
        measured = time_estimates.find_recorded_speed(e.directory, e.environment, e.preset, folder)
        return time_estimates.estimate_seconds(
            steps, measured or time_estimates.TRAINING_STEPS_PER_SECOND.get((e.environment, e.preset))
        )


class Certification(Unit):
    """Certifies the population of every seed."""

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/certify"

    @property
    def dependencies(self) -> tuple[str, ...]:
        return (Generation(self.experiment).name,)

    def find_obstacle(self) -> str | None:
        environment = self.experiment.make_environment()
        try:
            check_solvable(environment)
            if environment.initial_states() is None:
                return f"{self.experiment.environment} does not define the distribution of its initial states."
            check_length(environment)
        except ValueError as error:
            return str(error)
        return None

    def seeds_left(self) -> list[int]:
        e = self.experiment
        return [seed for seed in e.seeds if not (e.seed_directory(seed) / CERTIFICATE_FILE).is_file()]

    def run(self, reporter: Reporter) -> None:
        for seed in self.iterate_seeds_left(reporter):
            certify_runs(self.experiment.directory, seeds=[seed])

    def seconds_left(self) -> float | None:
        return self.scale_by_seeds_left(time_estimates.CERTIFICATION_SECONDS.get(self.experiment.environment))


@dataclass(frozen=True)
class Evaluation(Unit):
    """Evaluates every seed's agent with the held-out heuristics, or with teammates of other seeds if there are none."""

    learner: str

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/{self.learner}/evaluate"

    @property
    def dependencies(self) -> tuple[str, ...]:
        return (Training(self.experiment, self.learner).name,)

    def find_obstacle(self) -> str | None:
        e = self.experiment
        if len(e.seeds) == 1 and not heuristics(e.make_environment()):
            return f"{e.environment} has no held-out heuristics, and the study has no other seeds to play with."
        return None

    def seeds_left(self) -> list[int]:
        return [seed for seed in self.experiment.seeds if not self._is_evaluated(seed)]

    def _is_evaluated(self, seed: int) -> bool:
        """Whether an evaluation with the default partners exists; the user may have run one with other partners."""
        agent = self.experiment.seed_directory(seed) / agent_folder(self.learner)
        if not (agent / EVALUATION_FILE).is_file() or not (agent / AGENT_FILE).is_file():
            return False
        try:
            record = read_json(agent / EVALUATION_FILE)
            found = (record["trials"], record["episodes"], [*record["partners"]])
        except (DamagedFile, KeyError, TypeError):
            return False  # measure again
        partners = self._default_partners(seed)
        environment = self.experiment.make_environment()
        episodes = default_episodes(environment)
        return found == (default_trials(environment, episodes, len(partners)), episodes, partners)

    def _default_partners(self, seed: int) -> list[str]:
        """Names of the default partners of `evaluate`."""
        e = self.experiment
        if held_out := heuristics(e.make_environment()):
            return [*held_out]
        return partner_titles(OTHER_SEEDS, len(other_seeds(e.seed_directory(seed))) * e.plan().settings.population_size)

    def run(self, reporter: Reporter) -> None:
        for seed in self.iterate_seeds_left(reporter):
            evaluate(self.experiment.directory, agents=[agent_folder(self.learner)], seeds=[seed])

    def seconds_left(self) -> float | None:
        return self.scale_by_seeds_left(time_estimates.EVALUATION_SECONDS.get(self.experiment.environment))
