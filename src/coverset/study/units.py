"""Units of work of a study: what `generate`, `certify`, `train` and `evaluate` do for one environment and method.

A unit is plain data, so that it can be sent to another process, and knows by files alone whether it is done: whoever
runs it, however often it is stopped or killed, it goes on from what is on disk.

OUT/ENV-METHOD-PRESET/seed-N/                                  generation
                             certificate.json                  certification
                             LEARNER/                          training
                                     evaluation.json           evaluation
"""

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coverset.analysis.finite import check_length
from coverset.certification import FILE_NAME as CERTIFICATE_FILE
from coverset.certification import certify_runs
from coverset.config import TrainSettings
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.generation import Plan, generate, make_plan
from coverset.looping import Reporter, Stopped
from coverset.measuring import EVALUATION_FILE, default_episodes, default_trials, evaluate, partner_titles
from coverset.partners import AGENT_FILE, OTHER_SEEDS, other_seeds
from coverset.presets import train_settings
from coverset.runs import AgentDirectory, RunDirectory
from coverset.storage import DamagedFile, read_json
from coverset.study import speeds
from coverset.training import AgentPlan, train


@dataclass(frozen=True)
class Experiment:
    """One environment and one method with all their seeds: everything that decides what the units write."""

    environment: str
    method: str
    preset: str
    seeds: tuple[int, ...]
    directory: Path
    """Where its `seed-N` directories are; its last part is the experiment's name."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `GenerateSettings` that replace the preset's."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `TrainSettings` that replace the preset's."""

    @property
    def name(self) -> str:
        return self.directory.name

    def make_environment(self) -> Environment:
        """The environment itself."""
        return registry.make(self.environment)

    def plan(self) -> Plan:
        """The plan of its generation, checked."""
        return make_plan(self.environment, method=self.method, preset=self.preset, **self.generation)

    def agent_settings(self) -> TrainSettings:
        """The settings of its agents, checked."""
        return train_settings(self.environment, self.preset, **self.training)

    def seed_directory(self, seed: int) -> Path:
        """Where one seed lives."""
        return self.directory / f"seed-{seed}"


@dataclass(frozen=True)
class Unit(abc.ABC):
    """A piece of work on one experiment."""

    experiment: Experiment

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The experiment's name and what is done with it."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the units that must be done before."""
        return ()

    def obstacle(self) -> str | None:
        """Why this can never be done for this environment, in a sentence; None where it can."""
        return None

    def check(self) -> None:
        """Raise ValueError if its settings are bad, or its place holds the work of other settings."""
        self.experiment.plan()

    @abc.abstractmethod
    def seeds_left(self) -> list[int]:
        """Seeds that are not done, by their files."""

    def is_done(self) -> bool:
        """Whether all seeds are done."""
        return not self.seeds_left()

    def has_begun(self) -> bool:
        """Whether some of the work is there to go on from."""
        return len(self.seeds_left()) < len(self.experiment.seeds)

    @abc.abstractmethod
    def run(self, reporter: Reporter) -> None:
        """Do what is left. Raises `Stopped` where the reporter asked for it."""

    @abc.abstractmethod
    def seconds_left(self) -> float | None:
        """A guess of how long that takes; None where nothing comparable has been measured."""

    def one_by_one(self, reporter: Reporter) -> Iterator[int]:
        """The seeds that are left, until the reporter asks to stop."""
        for seed in self.seeds_left():
            if reporter.should_stop():
                raise Stopped(f"Stopped before seed {seed}; the others are kept.")
            yield seed

    def for_seeds_left(self, seconds: float | None) -> float | None:
        """Time for all seeds that are left, if each takes so long."""
        return None if seconds is None else seconds * len(self.seeds_left())


class Learning(Unit):
    """What the two kinds of training share: a run directory for each seed, and checkpoints to go on from."""

    @abc.abstractmethod
    def run_directory(self, seed: int) -> RunDirectory:
        """Where one seed's training is."""

    @abc.abstractmethod
    def config(self, seed: int) -> dict[str, Any]:
        """What its `config.json` must hold."""

    def check(self) -> None:
        for seed in self.experiment.seeds:
            self.run_directory(seed).check_claim(self.config(seed), resume=True)

    def seeds_left(self) -> list[int]:
        return [seed for seed in self.experiment.seeds if not self.run_directory(seed).is_done()]

    def has_begun(self) -> bool:
        return any(self.run_directory(seed).checkpoints() for seed in self.experiment.seeds)

    def steps_left(self, chunks: int, steps_per_chunk: int) -> int:
        """Environment steps that are left over all seeds, each of `chunks` chunks in all."""
        done = (max(self.run_directory(seed).checkpoints(), default=0) for seed in self.seeds_left())
        return sum(chunks - chunk for chunk in done) * steps_per_chunk


class Generation(Learning):
    """Teammates of every seed."""

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
        e, settings = self.experiment, self.experiment.plan().settings
        steps = self.steps_left(settings.num_chunks, settings.steps_per_chunk)
        measured = speeds.recorded_speed(e.directory, e.environment, e.preset)
        return speeds.seconds(steps, measured or speeds.GENERATION.get((e.environment, e.preset)))


@dataclass(frozen=True)
class Training(Learning):
    """An ad hoc agent for the teammates of every seed."""

    learner: str

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/{self.learner}/train"

    @property
    def needs(self) -> tuple[str, ...]:
        return (Generation(self.experiment).name,)

    def run_directory(self, seed: int) -> RunDirectory:
        return AgentDirectory(self.experiment.seed_directory(seed) / self.learner)

    def config(self, seed: int) -> dict[str, Any]:
        e, generation = self.experiment, self.experiment.plan()
        chosen = (self.learner, e.preset, e.agent_settings(), 0, ("teammates",))
        plan = AgentPlan(e.environment, generation.environment, *chosen)
        return plan.config(seed, generation.config(seed))

    def run(self, reporter: Reporter) -> None:
        e = self.experiment
        chosen = {"learner": self.learner, "preset": e.preset, "seeds": e.seeds}
        train(e.directory, **chosen, resume=True, reporter=reporter, **e.training)

    def seconds_left(self) -> float | None:
        e, settings = self.experiment, self.experiment.agent_settings()
        if self.learner == "plastic":
            return self.for_seeds_left(speeds.PLASTIC_SECONDS)
        partners = e.plan().settings.population_size
        steps = self.steps_left(settings.num_chunks(partners), settings.steps_per_chunk(partners))
        measured = speeds.recorded_speed(e.directory, e.environment, e.preset, self.learner)
        return speeds.seconds(steps, measured or speeds.TRAINING.get((e.environment, e.preset)))


class Certification(Unit):
    """The exact solution around the teammates of every seed."""

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/certify"

    @property
    def needs(self) -> tuple[str, ...]:
        return (Generation(self.experiment).name,)

    def obstacle(self) -> str | None:
        environment = self.experiment.make_environment()
        if environment.initial_states() is None:
            return f"{self.experiment.environment} does not know the distribution of its resets."
        try:
            check_length(environment)
        except ValueError as error:
            return str(error)
        return None

    def seeds_left(self) -> list[int]:
        e = self.experiment
        return [seed for seed in e.seeds if not (e.seed_directory(seed) / CERTIFICATE_FILE).is_file()]

    def run(self, reporter: Reporter) -> None:
        for seed in self.one_by_one(reporter):
            certify_runs(self.experiment.directory, seeds=[seed])

    def seconds_left(self) -> float | None:
        return self.for_seeds_left(speeds.CERTIFICATION_SECONDS.get(self.experiment.environment))


@dataclass(frozen=True)
class Evaluation(Unit):
    """Every seed's agent with the held-out heuristics, or with the teammates of other seeds where there are none."""

    learner: str

    @property
    def name(self) -> str:
        return f"{self.experiment.name}/{self.learner}/evaluate"

    @property
    def needs(self) -> tuple[str, ...]:
        return (Training(self.experiment, self.learner).name,)

    def obstacle(self) -> str | None:
        e = self.experiment
        if len(e.seeds) == 1 and not heuristics(e.make_environment()):
            return f"{e.environment} has no held-out heuristics, and the study has no other seeds to play with."
        return None

    def seeds_left(self) -> list[int]:
        return [seed for seed in self.experiment.seeds if not self._is_evaluated(seed)]

    def _is_evaluated(self, seed: int) -> bool:
        """Whether there is an evaluation of this study's kind: somebody may have made one with other partners."""
        agent = self.experiment.seed_directory(seed) / self.learner
        if not (agent / EVALUATION_FILE).is_file() or not (agent / AGENT_FILE).is_file():
            return False
        try:
            record = read_json(agent / EVALUATION_FILE)
            found = (record["trials"], record["episodes"], [*record["partners"]])
        except (DamagedFile, KeyError, TypeError):
            return False  # it is quicker measured again than repaired
        partners = self._default_partners(seed)
        environment = self.experiment.make_environment()
        episodes = default_episodes(environment)
        return found == (default_trials(environment, episodes, len(partners)), episodes, partners)

    def _default_partners(self, seed: int) -> list[str]:
        """Whom `evaluate` meets if nobody says, by name."""
        e = self.experiment
        if held_out := heuristics(e.make_environment()):
            return [*held_out]
        return partner_titles(OTHER_SEEDS, len(other_seeds(e.seed_directory(seed))) * e.plan().settings.population_size)

    def run(self, reporter: Reporter) -> None:
        for seed in self.one_by_one(reporter):
            evaluate(self.experiment.directory, learner=self.learner, seeds=[seed])

    def seconds_left(self) -> float | None:
        return self.for_seeds_left(speeds.EVALUATION_SECONDS.get(self.experiment.environment))
