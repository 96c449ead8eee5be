"""Evaluation as a whole: every agent of a run with held-out partners, stored beside the agent."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.adhoc.learner import Learner
from coverset.adhoc.registry import learner_name
from coverset.envs.base import Environment
from coverset.envs.extensions import best_response, heuristics
from coverset.envs.oracle import Oracle
from coverset.evaluation.cross_play import limit_episodes, limit_trials
from coverset.evaluation.robustness import EPISODES, count_mixed_teams, evaluate_agent
from coverset.evaluation.summary import describe_unit
from coverset.evaluation.trial_bounds import TrialBounds, measure_bounds
from coverset.partners import AGENT_FILE, GenerationRun, load_agent_for, read_run, seed_directories
from coverset.pipeline.agents import find_agents
from coverset.pipeline.held_out import add_references, find_held_out
from coverset.pipeline.loop import Reporter
from coverset.pipeline.progress import show_progress
from coverset.pipeline.results import EvaluationResult, Evaluations
from coverset.policy import Policy
from coverset.runs.game_names import game_title
from coverset.runs.storage import round_floats, write_json
from coverset.runs.trust import note_named

EVALUATION_FILE = "evaluation.json"
TRIALS = 128
HELD_OUT_STREAM = 3
"""Folded into the seed's key, so that evaluation draws what training never drew."""
BOUNDS_STREAM = 4


def evaluate(
    directory: str | Path,
    *,
    agents: Sequence[str] = (),
    learner: str | Learner | None = None,
    seeds: Sequence[int] | None = None,
    partners: Sequence[str] = (),
    trials: int | None = None,
    episodes: int | None = None,
    mixed_teams: bool = True,
    rotate_seats: bool = False,
    bounds: bool = False,
    reporter: Reporter | None = None,
    progress: bool = True,
) -> Evaluations:
    """Play the agents of a run with partners they have never met.

    Args:
      directory: a generation run whose agents `train` has written.
      agents: names of agents; all that `train` has finished if neither these nor a learner are given.
      learner: whose agents, under any name: a learner by name or as `module:Class`, or a `Learner` itself.
      seeds: which seeds; all if not given.
      partners: names as for `train`; if not given, the environment's heuristics, or the teammates that the other seeds
        of the run have found, where it has no heuristics.
      trials: trials with each partner; 128 if not given, and fewer where that would be too many steps.
      episodes: episodes of a trial; 20 if not given, and fewer where one of them is very long.
      mixed_teams: whether, in games of three or more players, the agents also play with teams of different partners.
      rotate_seats: whether agents take another seat in each trial, in games whose seats are alike.
      bounds: whether to compute what is possible with these partners, `bounds` of the records; may take minutes.
      reporter: how to follow the work, instead of `progress`; it is told which seeds lack an agent that others have.
      progress: whether to show progress in a terminal or notebook.
    Returns:
      One record per agent and seed, as in `evaluation.json`, with mean return, oracle fraction, and the same for every
      partner, with a `title` that says who it is. Teammates of a run have as `reference` what the best responses of
      their own seed earn with them. Results with mixed teams are under `mixed_teams`. `bounds` has chance, covering
      bound, Bayes bound and oracle of a trial, and `covering_fraction` is mean return / covering bound.
    """
    whose = learner_name(learner) if isinstance(learner, Learner) else learner
    note_named(*([whose] if whose and ":" in whose else []))
    paths = seed_directories(Path(directory), seeds)
    runs = {seed: read_run(path) for seed, path in paths.items()}
    options = {"trials": trials, "episodes": episodes, "mixed_teams": mixed_teams, "rotate_seats": rotate_seats}
    known: dict[tuple[int, int], TrialBounds] | None = {} if bounds else None
    records = Evaluations()
    with show_progress(reporter, progress=progress) as shown:
        found = find_agents(directory, paths, names=agents, learner=whose, warn=shown.warn)
        for name, by_seed in found.items():
            for seed, place in by_seed.items():
                shown.work(f"{name} of seed {seed} plays with held-out partners")
                records.append(
                    EvaluationResult(_evaluate_one(runs[seed], place, seed, partners, known, **options), path=place)
                )
                write_json(place / EVALUATION_FILE, records[-1])
    return records


def _evaluate_one(
    run: GenerationRun,
    place: Path,
    seed: int,
    partners: Sequence[str],
    known_bounds: dict[tuple[int, int], TrialBounds] | None,
    *,
    trials: int | None,
    episodes: int | None,
    **options: bool,
) -> dict[str, Any]:
    """The record of one agent; bounds are added to those that other agents of the same seed and seat have needed."""
    policy, about = load_agent_for(place / AGENT_FILE, run.environment, run.config)
    seat = about["seat"]
    held_out = find_held_out(run, partners, agent_seat=seat)
    policies = {name: partner.policy for name, partner in held_out.items()}
    length = default_episodes(run.environment) if episodes is None else episodes
    oracles = _oracles(run, policies, seat)
    record = evaluate_agent(
        jax.random.fold_in(jax.random.key(seed), HELD_OUT_STREAM),
        run.environment,
        policy,
        seat=seat,
        partners=policies,
        oracles=oracles,
        trials=default_trials(run.environment, length, len(held_out)) if trials is None else trials,
        episodes=length,
        **options,
    )
    made_by = {"method": run.config["method"], "learner": about["learner"], "agent": place.name}
    game = {"game": game_title(about["env"], about["env_parameters"]), "return_unit": describe_unit(run.environment)}
    played = add_references(record.to_json(), held_out)
    if known_bounds is not None and (seed, seat) not in known_bounds:
        known_bounds[seed, seat] = _bounds(run, policies, oracles, seed, seat, length)
    bounds = None if known_bounds is None else known_bounds[seed, seat]
    return {"seed": seed, "env": about["env"], **game, **made_by, **played, **_describe_bounds(bounds, played)}


def _bounds(
    run: GenerationRun,
    held_out: Mapping[str, Policy],
    oracles: Mapping[str, Oracle],
    seed: int,
    seat: int,
    episodes: int,
) -> TrialBounds:
    """What is possible with these partners and the best responses of this seed."""
    own = heuristics(run.environment)
    return measure_bounds(
        jax.random.fold_in(jax.random.key(seed), BOUNDS_STREAM),
        run.environment,
        run.population.best_responses,
        seat=seat,
        partners={name: own.get(name, partner) for name, partner in held_out.items()},
        oracles=oracles,
        episodes=episodes,
    )


def _describe_bounds(bounds: TrialBounds | None, played: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds as records have them, with the fraction of the covering bound, where that is positive."""
    covering = bounds.covering if bounds else None
    fraction = played["mean_return"] / covering.at_least if covering and covering.at_least > 0 else None
    return {
        "bounds": bounds.to_json() if bounds else None,
        "covering_fraction": None if fraction is None else round_floats(fraction),
    }


def default_episodes(environment: Environment) -> int:
    """Episodes of a trial if nobody says: the paper's 20, unless they are very long."""
    return limit_episodes(EPISODES, environment.horizon)


def default_trials(environment: Environment, episodes: int, partners: int) -> int:
    """Trials with each partner, and with each mixed team, if nobody says."""
    teams = partners + count_mixed_teams(partners, environment.num_seats - 1)
    return limit_trials(TRIALS, max(1, episodes) * environment.horizon, pairs=teams)


def _oracles(run: GenerationRun, held_out: Mapping[str, Policy], seat: int) -> dict[str, Oracle]:
    """The oracles of those held-out partners that are heuristics, where they are known."""
    known = heuristics(run.environment)
    found = {name: best_response(run.environment, known[name], seat) for name in held_out if name in known}
    return {name: oracle for name, oracle in found.items() if oracle is not None}
