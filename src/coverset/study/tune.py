"""The alpha of BRDiv and LIPO, tuned as in the paper (Rahman et al. 2024, appendix on hyperparameters).

The paper runs alpha in {0.1, 0.5, 1, 5, 10} twice each, takes the one whose teammates discover more members of the
minimum coverage set, and then tries values close to it. Neither that count nor our measure for the rest looks at
held-out partners, which must stay unseen until the evaluation.

Differs from the paper: it does not say how ties are broken, nor what to do where the coverage set is not known. There
we let the populations of all alphas test each other, see `regrets`. "Close" values are the geometric means with the
neighbours in the grid.
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
from coverset.evaluation.cross_play import cross_play, limit_trials, member_count
from coverset.partners import read_run
from coverset.pipeline.generate import check_seeds, run_name
from coverset.policies.population import Population
from coverset.reports.records import run_summary
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import round_floats, write_json
from coverset.settings import GenerateSettings
from coverset.study.engine import Engine, LocalEngine, Outcome, State, StudyReporter
from coverset.study.planning import check_out, settings_overrides
from coverset.study.units import Experiment, Generation

METHODS = ("brdiv", "lipo")
ALPHAS = (0.1, 0.5, 1.0, 5.0, 10.0)
SEEDS = (0, 1)
TUNING_STREAM = 4
"""Folded into the key, so that judging draws what training and evaluation never draw."""
TRIALS = 64


@dataclass(frozen=True)
class Candidate:
    """What the populations of one alpha are worth, means over seeds."""

    alpha: float
    coverage_found: float | None
    """Members of the known coverage set."""
    regret: float
    """What its best responses give away with the teammates of all alphas."""
    self_play: float
    cross_play: float

    def rank(self) -> tuple[float, float, float]:
        """Smallest first: more members found, then less regret, then the smaller alpha."""
        return -(self.coverage_found or 0.0), self.regret, self.alpha


@dataclass(frozen=True)
class Tuning:
    """The candidates in the order of their alphas, and which to take; failed ones are told of apart."""

    environment: str
    method: str
    preset: str
    seeds: tuple[int, ...]
    coverage_size: int | None
    candidates: tuple[Candidate, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def stopped(self) -> bool:
        """Whether it was asked to stop before all alphas had run."""
        return any(outcome.state in (State.STOPPED, State.TO_DO) for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """Alphas whose training failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.state in (State.FAILED, State.IN_USE))

    @property
    def chosen(self) -> float | None:
        """The best alpha; None where none could be trained."""
        return min(self.candidates, key=Candidate.rank).alpha if self.candidates else None

    def to_json(self) -> dict[str, Any]:
        """As in `tune.json`."""
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
    engine: Engine | None = None,
    reporter: StudyReporter | None = None,
) -> Tuning:
    """Generate with each alpha, choose the best, and look again close to it.

    Runs that are there already are used, and those that were stopped go on: call it again until it is through.

    Args:
      environment: a name as for `generate`.
      method: `brdiv` or `lipo`.
      alphas: the grid.
      seeds: runs of each alpha.
      refinements: how often to try the geometric means of the best alpha and its neighbours.
      preset: `fast` or `paper`.
      out: where the runs go, `alpha-A/seed-N` each; `runs/tune-ENV-METHOD-PRESET` if not given.
      generation: other fields of `GenerateSettings` that replace the preset's.
      engine: what runs them; this process if not given.
      reporter: how to follow it.
    """
    check_one_of("method", method, METHODS)
    check_seeds(seeds)
    check_at_least("refinements", refinements, 0)
    if not alphas:
        raise ValueError("alphas must hold at least one number, got none.")
    for alpha in alphas:
        check_positive("alpha", alpha)
    if "alpha" in (generation or {}):
        raise ValueError("alpha is what is tuned: give --alphas instead of a setting.")
    overrides = settings_overrides("generation", generation or {}, GenerateSettings)
    root = Path(out) if out is not None else Path("runs") / f"tune-{run_name(environment, method, preset)}"
    check_out(root)
    like = Experiment(environment, method, preset, tuple(seeds), root, overrides)
    tuning = _run(like, sorted(set(alphas)), engine or LocalEngine(), reporter or StudyReporter())
    for _ in range(refinements):
        if tuning.stopped or tuning.chosen is None:
            break
        grid = refined([candidate.alpha for candidate in tuning.candidates], tuning.chosen)
        closer = _run(like, grid, engine or LocalEngine(), reporter or StudyReporter())
        tuning = replace(closer, outcomes=(*tuning.failed, *closer.outcomes))
    if not tuning.stopped:
        write_json(root / "tune.json", tuning.to_json())
    return tuning


def refined(alphas: Sequence[float], best: float) -> list[float]:
    """The grid with the geometric means, to two digits, of the best alpha and its neighbours."""
    grid = sorted(alphas)
    place = grid.index(best)
    neighbours = grid[max(0, place - 1) : place] + grid[place + 1 : place + 2]
    return sorted({*grid, *(float(f"{math.sqrt(best * other):.2g}") for other in neighbours)})


def _run(like: Experiment, alphas: Sequence[float], engine: Engine, reporter: StudyReporter) -> Tuning:
    """Generate for every alpha of a grid, and judge those that were finished."""
    experiments = {alpha: _experiment(like, alpha) for alpha in alphas}
    units = {alpha: Generation(experiment) for alpha, experiment in experiments.items()}
    for unit in units.values():
        unit.check()
    outcomes = engine.run([*units.values()], reporter)
    done = {outcome.name for outcome in outcomes if outcome.state is State.DONE}
    stopped = any(outcome.state in (State.STOPPED, State.TO_DO) for outcome in outcomes)
    finished = {alpha: experiments[alpha] for alpha in alphas if units[alpha].name in done}
    environment = like.make_environment()
    candidates = () if stopped or not finished else judge(environment, finished)
    size = len(coverage_set(environment)) if environment.convention_payoffs else None
    return Tuning(like.environment, like.method, like.preset, like.seeds, size, candidates, tuple(outcomes))


def _experiment(like: Experiment, alpha: float) -> Experiment:
    settings = {**like.generation, "alpha": float(alpha)}
    place = like.directory / f"alpha-{alpha:g}"
    return Experiment(like.environment, like.method, like.preset, like.seeds, place, settings)


def judge(environment: Environment, experiments: Mapping[float, Experiment]) -> tuple[Candidate, ...]:
    """Compare the finished populations of several alphas."""
    summaries: dict[float, list[dict[str, Any]]] = {}
    populations: dict[float, list[Population]] = {}
    for alpha, experiment in experiments.items():
        places = [experiment.seed_directory(seed) for seed in experiment.seeds]
        summaries[alpha] = [run_summary(RunDirectory(place)) for place in places]
        populations[alpha] = [read_run(place).population for place in places]
    given_away = regrets(environment, populations)
    return tuple(_candidate(alpha, summaries[alpha], given_away[alpha]) for alpha in experiments)


def _candidate(alpha: float, summaries: list[dict[str, Any]], regret: float) -> Candidate:
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


def regrets(environment: Environment, populations: Mapping[float, list[Population]]) -> dict[float, float]:
    """What the best responses of each alpha give away with the teammates that all alphas have found.

        regret = mean over populations p of the alpha, and over all teammates j, of  max_k R_kj - max_{i in p} R_ij

    with k over the best responses of every population: a population with a good answer to every teammate that anybody
    found has regret 0. It can only be blamed for conventions that some alpha discovered.
    """
    everybody = [population for group in populations.values() for population in group]
    teammates = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(one.teammates for one in everybody))
    best = []
    for number, population in enumerate(everybody):
        key = jax.random.fold_in(jax.random.key(TUNING_STREAM), number)
        pairs = member_count(population.best_responses) * member_count(teammates)
        trials = limit_trials(TRIALS, environment.horizon, pairs=pairs)
        played = cross_play(key, environment, population.best_responses, teammates, trials=trials)
        best.append(np.asarray(played.returns).mean(axis=(2, 3)).max(axis=0))
    given_away = (np.max(best, axis=0) - np.array(best)).mean(axis=1)
    groups = np.split(given_away, np.cumsum([len(group) for group in populations.values()])[:-1])
    return {alpha: float(group.mean()) for alpha, group in zip(populations, groups, strict=True)}
