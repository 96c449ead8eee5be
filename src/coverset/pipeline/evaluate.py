"""Evaluation as a whole: every agent of a run with held-out partners, stored beside the agent."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.adhoc.learner import Learner
from coverset.adhoc.registry import agent_folder, learner_class, learner_name
from coverset.envs.base import Environment
from coverset.envs.extensions import best_response, heuristics
from coverset.envs.oracle import Oracle
from coverset.envs.seats import partner_seat
from coverset.evaluation.cross_play import limit_episodes, limit_trials
from coverset.evaluation.robustness import EPISODES, count_mixed_teams, evaluate_agent
from coverset.evaluation.summary import describe_unit
from coverset.partners import (
    AGENT_FILE,
    HEURISTICS,
    OTHER_SEEDS,
    GenerationRun,
    find_partner,
    load_agent_for,
    other_seeds,
    read_run,
    seed_directories,
)
from coverset.policies.stacked import count_members, take_member
from coverset.policies.third_party import checked_heuristics
from coverset.policy import Policy
from coverset.runs.directory import AgentDirectory
from coverset.runs.storage import write_json
from coverset.runs.trust import note_named

EVALUATION_FILE = "evaluation.json"
TRIALS = 128
HELD_OUT_STREAM = 3
"""Folded into the seed's key, so that evaluation draws what training never drew."""


def evaluate(
    directory: str | Path,
    *,
    learner: str | Learner = "rl2",
    seeds: Sequence[int] | None = None,
    partners: Sequence[str] = (),
    trials: int | None = None,
    episodes: int | None = None,
    mixed_teams: bool = True,
    rotate_seats: bool = False,
) -> list[dict[str, Any]]:
    """Play every agent of a run with partners it has never met.

    Args:
      directory: a generation run whose agents `train` has written.
      learner: whose agents, by name or as `module:Class`, or a `Learner` itself.
      seeds: which seeds; all if not given.
      partners: names as for `train`; if not given, the environment's heuristics, or the teammates that the other seeds
        of the run have found, where it has no heuristics.
      trials: trials with each partner; 128 if not given, and fewer where that would be too many steps.
      episodes: episodes of a trial; 20 if not given, and fewer where one of them is very long.
      mixed_teams: whether, in games of three or more players, the agents also play with teams of different partners.
      rotate_seats: whether agents take another seat in each trial, in games whose seats are alike.
    Returns:
      One record per seed, as in `evaluation.json`, with mean return, oracle fraction, and the same for every partner;
      those with mixed teams are under `mixed_teams`.
    """
    name = learner if isinstance(learner, str) else learner_name(learner)
    note_named(*([name] if ":" in name else []))
    records = []
    for seed, path in seed_directories(Path(directory), seeds).items():
        run = read_run(path)
        agent = path / agent_folder(name) / AGENT_FILE
        if not agent.is_file():
            raise ValueError(f"{path} has no agent '{name}': {_remedy(name, directory, agent.parent)}")
        policy, about = load_agent_for(agent, run.environment, run.config)
        seat = about["seat"]
        held_out = _held_out(run, partners, seat=partner_seat(run.environment, seat))
        length = default_episodes(run.environment) if episodes is None else episodes
        record = evaluate_agent(
            jax.random.fold_in(jax.random.key(seed), HELD_OUT_STREAM),
            run.environment,
            policy,
            seat=seat,
            partners=held_out,
            oracles=_oracles(run, held_out, seat),
            trials=default_trials(run.environment, length, len(held_out)) if trials is None else trials,
            episodes=length,
            mixed_teams=mixed_teams,
            rotate_seats=rotate_seats,
        )
        found = {"seed": seed, "env": about["env"], "method": run.config["method"], "learner": name}
        found["return_unit"] = describe_unit(run.environment)
        records.append(found | record.to_json())
        write_json(agent.with_name(EVALUATION_FILE), records[-1])
    return records


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


def _remedy(learner: str, directory: str | Path, place: Path) -> str:
    try:
        learner_class(learner)
    except ValueError as error:
        return str(error)
    resume = " --resume" if AgentDirectory(place).config_path.is_file() else ""
    return f"make it with `coverset train {directory} --learner {learner}{resume}`."


def _held_out(run: GenerationRun, names: Sequence[str], *, seat: int) -> dict[str, Policy]:
    """The partners that are named, or else the environment's heuristics, or else those of other seeds."""
    known = checked_heuristics(run.environment)
    if not names and not known and not other_seeds(run.path):
        raise ValueError(
            f"'{run.config['env']}' has no heuristics to evaluate with: generate more seeds into {run.path.parent}, or "
            "name partners with --partners, such as the path of another run."
        )
    named: dict[str, Policy] = {}
    for name in names or (HEURISTICS if known else OTHER_SEEDS,):
        if name == HEURISTICS and known:
            named |= known
        elif name in known:
            named[name] = known[name]
        else:
            named |= _one_by_one(run, name, seat=seat)
    return named


def _one_by_one(run: GenerationRun, name: str, *, seat: int) -> dict[str, Policy]:
    """Partners of one name, each alone."""
    stacked = find_partner(run, name, seat=seat)
    titles = partner_titles(name, count_members(stacked))
    return {title: take_member(stacked, index) for index, title in enumerate(titles)}


def partner_titles(name: str, count: int) -> list[str]:
    """What the partners of one name are called: members of a population by its name and their number."""
    return [name] if count == 1 else [f"{name} {member + 1}" for member in range(count)]
