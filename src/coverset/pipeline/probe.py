"""The search for teammates that a finished set of best responses does not serve: probes trained against it.

The probes of `DIR/seed-N` live in `DIR/seed-N/NAME`, a run directory of its own that can be stopped and resumed: the
worst teammate that was found and its best response in `policies.safetensors`, what they tell in `summary.json`. The
summary of the run repeats the latter as `probe`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coverset.adhoc.registry import check_agent_name
from coverset.certificates.served import certify_regret
from coverset.checks import check_at_least
from coverset.envs.seats import describe_seats
from coverset.evaluation.conventions import convention_shares, describe_conventions
from coverset.evaluation.coverage_regret import MeasuredRegret, describe_regret, measure_regret, take_members
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.partners import GenerationRun, read_run, seed_directories
from coverset.pipeline.clock import describe_cost
from coverset.pipeline.generate import GenerationJob, Plan
from coverset.pipeline.loop import CHECKPOINT_SECONDS, Reporter, claim, train_seeds
from coverset.pipeline.progress import show_progress
from coverset.pipeline.results import ProbeResult, Probes
from coverset.policies.actor import ActorPolicy
from coverset.policies.population import Population, save_population
from coverset.policies.stacked import count_members
from coverset.presets import resolve_generation
from coverset.runs.directory import ProbeDirectory, RunDirectory, count_threads, versions
from coverset.runs.game_names import game_title
from coverset.runs.storage import round_floats, write_json
from coverset.runs.trust import sign_record
from coverset.teammates.methods.probing import Probing, insert_members
from coverset.teammates.networks import actor_spec
from coverset.teammates.trainer import TrainState

PROBES = 16
PROBE_STREAM = 3
"""Folded into the seed's key, so that probes draw what no other training of the run draws."""
MEASURING_STREAM = 4
UNTRAINED_PAIRS = 4
UNTRAINED_TRIALS = 64
FIELD = "probe"
"""Of the run's summary."""


def probe(
    directory: str | Path,
    *,
    seeds: Sequence[int] | None = None,
    probes: int = PROBES,
    steps: int | None = None,
    name: str = FIELD,
    reporter: Reporter | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: bool = True,
) -> Probes:
    """Search for the teammate that the best responses of every seed serve worst.

    Probes that were stopped go on; those that are done are returned as they are.

    Args:
      directory: what `generate` has written: the directory of all seeds, or of one.
      seeds: which seeds of the run; all of them if not given.
      probes: pairs that look for such a teammate side by side.
      steps: environment steps at most; as many as a round of `growing` if not given.
      name: of the directory beside each seed's files, so that several searches can stand side by side.
      reporter: how to follow the training, instead of `progress`.
      checkpoint_seconds: time between two checkpoints.
      progress: whether to show progress in a terminal or notebook.
    Returns:
      What each seed's probes found, in the order of the seeds, as a list that can be shown.
    """
    check_at_least("probes", probes, 1)
    check_agent_name(name)
    runs = {seed: _read(path) for seed, path in seed_directories(Path(directory), seeds).items()}
    plans = {seed: make_probe_plan(run, probes=probes, steps=steps) for seed, run in runs.items()}
    places: dict[int, RunDirectory] = {seed: ProbeDirectory(run.path / name) for seed, run in runs.items()}
    with show_progress(reporter, progress=progress) as shown:
        claim(places, lambda seed: _config(runs[seed], plans[seed], seed), shown, resume=True, together=1)
        train_seeds(
            lambda group: ProbeJob(plans[group[0]], group, runs[group[0]]),
            places,
            shown,
            together=1,
            checkpoint_seconds=checkpoint_seconds,
        )
    return Probes(_note(runs[seed], place) for seed, place in places.items())


def _read(path: Path) -> GenerationRun:
    """Read one run, and refuse one that is unfinished."""
    if not RunDirectory(path).has_ended():
        raise ValueError(f"{path} is not finished: go on with `generate(..., resume=True)` first.")
    return read_run(path)


def make_probe_plan(run: GenerationRun, *, probes: int, steps: int | None) -> Plan:
    """How probes train against a run's best responses: as `growing` does, with the networks of the run."""
    settings, growing = resolve_generation(run.config["env"], "growing", "fast")
    own = asdict(growing)  # pyright: ignore[reportArgumentType]
    method = Probing(**{**own, "probes": probes, "rounds": 1})
    allowed = settings.total_steps // own["rounds"] if steps is None else steps
    check_at_least("steps", allowed, 1)
    members = run.population.best_responses
    settings = replace(
        settings,
        population_size=max(2, count_members(members)),
        total_steps=allowed,
        parallel_seeds=1,
        minibatches=1 if members.network.recurrent else settings.minibatches,
        network=members.kind,
        hidden_sizes=members.spec.hidden_sizes,
        memory_size=members.spec.memory_size,
        fourier_bandwidth=members.spec.fourier_bandwidth,
    )
    fitted = settings.for_horizon(run.environment.horizon)
    return Plan(run.config["env"], run.environment, run.config["env_parameters"], method, "fast", fitted)


def _config(run: GenerationRun, plan: Plan, seed: int) -> dict[str, Any]:
    """The content of `config.json`; the digest tells whether the run has the same policies as when it was probed."""
    digest = hashlib.sha256(RunDirectory(run.path).policies_path.read_bytes()).hexdigest()
    return sign_record(
        {
            "command": "probe",
            "env": plan.environment_name,
            "env_parameters": plan.env_parameters,
            "env_version": plan.environment.version,
            "method": run.config["method"],
            "seed": seed,
            "policies": digest,
            "method_settings": asdict(plan.method_settings),  # pyright: ignore[reportArgumentType]
            "settings": asdict(plan.settings),
            "versions": {**versions(), "threads": count_threads()},
        }
    )


class ProbeJob(GenerationJob):
    """The probes of one seed, as the shared loop sees them."""

    def __init__(self, plan: Plan, seeds: tuple[int, ...], run: GenerationRun) -> None:
        super().__init__(plan, seeds)
        self.run = run
        network, spec = run.population.best_responses.network, actor_spec(run.environment, plan.settings, 0)
        self.members = ActorPolicy(network, plan.settings.network, spec)
        self.title = f"{plan.title} probes"

    def init(self) -> TrainState:
        key = jax.random.fold_in(jax.random.key(self.seeds[0]), PROBE_STREAM)
        state = jax.tree.map(lambda x: x[0], self.start(key[None]))
        returns = self._measure_range(key, self.trainer.population(state))
        state = insert_members(self.trainer, state, self.members.network, returns)
        return jax.tree.map(lambda x: x[None], state)

    def _measure_range(self, key: jax.Array, untrained: Population) -> np.ndarray:
        """Returns of the run's pairs, and of untrained ones."""
        environment, measured = self.run.environment, []
        first = jax.tree.map(lambda x: x[:UNTRAINED_PAIRS], untrained)
        for stream, pairs in enumerate((self.run.population, first)):
            count = count_members(pairs.best_responses) * count_members(pairs.teammates)
            trials = limit_trials(UNTRAINED_TRIALS, environment.horizon, pairs=count)
            played = cross_play(jax.random.fold_in(key, stream), environment, *pairs, trials=trials)
            means = np.asarray(played.returns, float)[..., 0].mean(axis=-1)
            measured.append(means.ravel() if stream == 0 else means.mean(keepdims=True).ravel())
        return np.concatenate(measured)

    def status(self, rows: list[dict[str, Any]]) -> str:
        own, other = rows[-1]["self_play_return"], rows[-1]["cross_play_return"]
        return f"probes earn {_format(own)} with their own teammates, the set {_format(other)} on average"

    def finish(self, seed: int, directory: RunDirectory, state: TrainState, seconds: float) -> None:
        """Measure the regret, and write the worst teammate with its best response, and the summary."""
        run, plan = self.run, self.plan
        members, probes = self.members, self.trainer.population(state)
        key = jax.random.fold_in(jax.random.key(seed), MEASURING_STREAM)
        found = measure_regret(key, run.environment, members, probes)
        worst = Population(
            take_members(probes.best_responses, [found.best_response]), take_members(probes.teammates, [found.teammate])
        )
        about = {"env": plan.environment_name, "env_parameters": plan.env_parameters, "seed": seed}
        save_population(directory.policies_path, worst, about | describe_seats(run.environment))
        env_steps = int(state.update) * self.trainer.schedule.steps_per_update
        summary = {
            "env": plan.environment_name,
            "game": game_title(plan.environment_name, plan.env_parameters),
            "method": run.config["method"],
            "seed": seed,
            "members": count_members(members),
            "probes": count_members(probes.teammates),
            **describe_cost(directory, env_steps, seconds),
            **_describe_found(found, run),
            "exact": certify_regret(run.environment, members, worst.teammates)._asdict(),
        }
        write_json(directory.summary_path, summary | {"sentence": describe_regret(summary)})


def _describe_found(found: MeasuredRegret, run: GenerationRun) -> dict[str, Any]:
    """Fields of the summary about the regret and the worst teammate; members count from 1."""
    environment, margin = run.environment, (RunDirectory(run.path).summary() or {}).get("margin")
    shares = [convention_shares(found.conventions[None, :, s], len(environment.conventions)) for s in (0, 1)]
    told = describe_conventions(environment, *shares) if environment.conventions else {}
    return {
        "coverage_regret": round_floats(found.value),
        "standard_error": round_floats(found.standard_error),
        "margin": run.config["settings"]["margin"] if margin is None else margin,
        "best_return": round_floats(found.best_return),
        "served_return": round_floats(found.served_return),
        "served_by": found.served_by + 1,
        "episodes": found.trials,
        "regrets": round_floats(found.regrets),
        "teammate": told["conventions"][0] if told else None,
        "best_response": told["best_response_conventions"][0] if told else None,
    }


def _note(run: GenerationRun, place: RunDirectory) -> ProbeResult:
    """What was found, which the run's summary repeats."""
    found, directory = place.summary() or {}, RunDirectory(run.path)
    summary = directory.summary()
    short = {name: found[name] for name in PROBE_FIELDS} | {"name": place.path.name}
    if summary is not None and summary.get(FIELD) != short:
        write_json(directory.summary_path, summary | {FIELD: short})
    return ProbeResult(found, path=place.path)


PROBE_FIELDS = ("coverage_regret", "standard_error", "margin", "probes", "exact", "teammate", "sentence")
"""What the summary of a run repeats."""


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
