"""Tune alpha of BRDiv and LIPO as in the paper (Rahman et al. 2024, appendix on hyperparameters).

The paper runs alpha in {0.1, 0.5, 1, 5, 10} twice each, takes the value whose teammates discover the most members of
the minimum coverage set, and then tries values close to it. Neither this criterion nor the tie-breaker below uses
held-out partners, which must stay unseen until the evaluation.

Differs from the paper: it does not say how ties are broken, nor what to do if the coverage set is unknown. In both
cases the populations of all alphas are played with each other, see `measure_regrets`. "Close" values are the geometric
means of the best alpha and its neighbours in the grid.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import check_at_least, check_one_of, check_positive
from coverset.envs.base import Environment
from coverset.evaluation.conventions import coverage_set
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.partners import read_run
from coverset.pipeline.generate import check_seeds, run_name
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.reports.records import read_run_summary
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import round_floats, write_json
from coverset.settings import GenerateSettings
from coverset.study.engine import LocalEngine, StudyEngine, StudyReporter, UnitOutcome, UnitState
from coverset.study.planning import check_out, parse_overrides
from coverset.study.units import Experiment, Generation
from coverset.teammates.registry import method_class

METHODS = ("brdiv", "lipo")
ALPHAS = (0.1, 0.5, 1.0, 5.0, 10.0)
SEEDS = (0, 1)
TUNING_STREAM = 4
"""Folded into the key, so that tuning uses random numbers of its own."""
TRIALS = 64


@dataclass(frozen=True)
class Candidate:
    """Results of the populations generated with one alpha, averaged over seeds."""

    alpha: float
    coverage_found: float | None
    """Members of the known coverage set."""
    regret: float
    """Coverage regret of its best responses with the teammates of all alphas."""
    self_play: float
    cross_play: float

    def rank(self) -> tuple[float, float, float]:
        """Sort key, best first: most members found, then least regret, then smallest alpha."""
        return -(self.coverage_found or 0.0), self.regret, self.alpha


@dataclass(frozen=True)
class Tuning:
    """Candidates sorted by alpha, and the outcome of each generation unit."""

    environment: str
    method: str
    preset: str
    seeds: tuple[int, ...]
    coverage_size: int | None
    candidates: tuple[Candidate, ...]
    outcomes: tuple[UnitOutcome, ...]

    @property
    def stopped(self) -> bool:
        """Whether tuning was stopped before all alphas had run."""
        return any(outcome.state in (UnitState.STOPPED, UnitState.TO_DO) for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[UnitOutcome, ...]:
        """Outcomes of the alphas whose generation failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.state in (UnitState.FAILED, UnitState.IN_USE))

    @property
    def chosen(self) -> float | None:
        """The best alpha; None if generation failed for every alpha."""
        return min(self.candidates, key=Candidate.rank).alpha if self.candidates else None

    def to_json(self) -> dict[str, Any]:
        """The content of `tune.json`."""
        return {
            "env": self.environment,
            "method": self.method,
            "preset": self.preset,
            "seeds": list(self.seeds),
            "criterion": "regret" if self.coverage_size is None else "coverage_found, then regret",
            "coverage_size": self.coverage_size,
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "failed": [{"name": outcome.name, "error": outcome.error} for outcome in self.failed],
            "chosen": self.chosen,
        }


def tune(
    environment: str,
    *,
    method: str,
    alphas: Sequence[float] = ALPHAS,
    seeds: Sequence[int] = SEEDS,
    refinements: int = 1,
    preset: str = "fast",
    out: str | Path | None = None,
    generation: Mapping[str, Any] | None = None,
    engine: StudyEngine | None = None,
    reporter: StudyReporter | None = None,
) -> Tuning:
    """Generate with each alpha of a grid, choose the best, and refine the grid around it.

    Finished runs are reused, and stopped ones resume: call it again until tuning is done.

    Args:
      environment: a name as for `generate`.
      method: `brdiv` or `lipo`.
      alphas: the grid.
      seeds: runs of each alpha.
      refinements: how many times to add the geometric means of the best alpha and its neighbours to the grid.
      preset: `fast` or `paper`.
      out: parent directory of the runs `alpha-A/seed-N` (default: `runs/tune-ENV-METHOD-PRESET`).
      generation: other fields of `GenerateSettings` that replace the preset's.
      engine: runs the generation units (default: `LocalEngine`, in this process).
      reporter: receives progress.
    """
    _check_choices(method, alphas, seeds, refinements, generation or {})
    overrides = parse_overrides("generation", generation or {}, GenerateSettings, method_class(method))
    root = Path(out) if out is not None else Path("runs") / f"tune-{run_name(environment, method, preset)}"
    check_out(root)
    template = Experiment(environment, method, preset, tuple(seeds), root, overrides)
    engine, reporter = engine or LocalEngine(), reporter or StudyReporter()
    tuning = _run_grid(template, sorted(set(alphas)), engine, reporter)
    for _ in range(refinements):
        if tuning.stopped or tuning.chosen is None:
            break
        grid = refine_grid([candidate.alpha for candidate in tuning.candidates], tuning.chosen)
        closer = _run_grid(template, grid, engine, reporter)
        tuning = replace(closer, outcomes=(*tuning.failed, *closer.outcomes))
    if not tuning.stopped:
        write_json(root / "tune.json", tuning.to_json())
    return tuning


def _check_choices(
    method: str, alphas: Sequence[float], seeds: Sequence[int], refinements: int, generation: Mapping[str, Any]
) -> None:
    check_one_of("method", method, METHODS)
    check_seeds(seeds)
    check_at_least("refinements", refinements, 0)
    if not alphas:
        raise ValueError("alphas must hold at least one number, got none.")
    for alpha in alphas:
        check_positive("alpha", alpha)
    if "alpha" in generation:
        raise ValueError("alpha is what is tuned: give `alphas` instead of a setting.")


def refine_grid(alphas: Sequence[float], best: float) -> list[float]:
    """Add the geometric means, to two digits, of the best alpha and its neighbours to the grid."""
    grid = sorted(alphas)
    place = grid.index(best)
    neighbours = grid[max(0, place - 1) : place] + grid[place + 1 : place + 2]
    return sorted({*grid, *(float(f"{math.sqrt(best * other):.2g}") for other in neighbours)})


def _run_grid(template: Experiment, alphas: Sequence[float], engine: StudyEngine, reporter: StudyReporter) -> Tuning:
    """Generate with every alpha of a grid, and compare the finished populations."""
    experiments = {alpha: _make_experiment(template, alpha) for alpha in alphas}
    units = {alpha: Generation(experiment) for alpha, experiment in experiments.items()}
    for unit in units.values():
        unit.check()
    outcomes = engine.run([*units.values()], reporter)
    done = {outcome.name for outcome in outcomes if outcome.state is UnitState.DONE}
    stopped = any(outcome.state in (UnitState.STOPPED, UnitState.TO_DO) for outcome in outcomes)
    finished = {alpha: experiments[alpha] for alpha in alphas if units[alpha].name in done}
    environment = template.make_environment()
    candidates = () if stopped or not finished else compare_candidates(environment, finished)
    size = len(coverage_set(environment)) if environment.convention_payoffs else None
    t = template
    return Tuning(t.environment, t.method, t.preset, t.seeds, size, candidates, tuple(outcomes))


def _make_experiment(template: Experiment, alpha: float) -> Experiment:
    settings = {**template.generation, "alpha": float(alpha)}
    return replace(template, directory=template.directory / f"alpha-{alpha:g}", generation=settings)


def compare_candidates(environment: Environment, experiments: Mapping[float, Experiment]) -> tuple[Candidate, ...]:
    """A candidate for each alpha, from its finished populations."""
    summaries: dict[float, list[dict[str, Any]]] = {}
    populations: dict[float, list[Population]] = {}
    for alpha, experiment in experiments.items():
        places = [experiment.seed_directory(seed) for seed in experiment.seeds]
        summaries[alpha] = [read_run_summary(RunDirectory(place)) for place in places]
        populations[alpha] = [read_run(place).population for place in places]
    regrets = measure_regrets(environment, populations)
    return tuple(_make_candidate(alpha, summaries[alpha], regrets[alpha]) for alpha in experiments)


def _make_candidate(alpha: float, summaries: list[dict[str, Any]], regret: float) -> Candidate:
    known = summaries[0]["coverage_size"] is not None
    returns = np.array([summary["cross_play"] for summary in summaries])
    own = np.eye(returns.shape[-1], dtype=bool)
    return Candidate(
        alpha=alpha,
        coverage_found=float(np.mean([summary["coverage_found"] for summary in summaries])) if known else None,
        regret=round_floats(regret),
        self_play=round_floats(returns[:, own].mean()),
        cross_play=round_floats(returns[:, ~own].mean()),
    )


def measure_regrets(environment: Environment, populations: Mapping[float, list[Population]]) -> dict[float, float]:
    """Coverage regret of each alpha's best responses with the teammates of all alphas.

        regret = mean over populations p of the alpha, and over all teammates j, of  max_k R_kj - max_{i in p} R_ij

    where k runs over the best responses of every population. Regret is 0 if the population best-responds to every
    teammate found; conventions that no alpha discovers do not count.
    """
    everybody = [population for group in populations.values() for population in group]
    teammates = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(one.teammates for one in everybody))
    best = []
    for number, population in enumerate(everybody):
        key = jax.random.fold_in(jax.random.key(TUNING_STREAM), number)
        pairs = count_members(population.best_responses) * count_members(teammates)
        trials = limit_trials(TRIALS, environment.horizon, pairs=pairs)
        played = cross_play(key, environment, population.best_responses, teammates, trials=trials)
        best.append(np.asarray(played.returns).mean(axis=(2, 3)).max(axis=0))
    regrets = (np.max(best, axis=0) - np.array(best)).mean(axis=1)
    groups = np.split(regrets, np.cumsum([len(group) for group in populations.values()])[:-1])
    return {alpha: float(group.mean()) for alpha, group in zip(populations, groups, strict=True)}
