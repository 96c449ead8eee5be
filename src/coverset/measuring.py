"""Evaluation as a whole: every agent of a run with held-out partners, stored beside the agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.adhoc.saved import load_agent_policy
from coverset.evaluation.robustness import EPISODES, evaluate_agent
from coverset.partners import (
    AGENT_FILE,
    OTHER_SEEDS,
    GenerationRun,
    check_same_environment,
    find_partner,
    other_seeds,
    read_run,
    seed_directories,
)
from coverset.policies.base import Policy
from coverset.policies.scripted import heuristics
from coverset.storage import write_json

EVALUATION_FILE = "evaluation.json"
TRIALS = 128
HELD_OUT_STREAM = 3
"""Folded into the seed's key, so that evaluation draws what training never drew."""


def evaluate(
    directory: str | Path,
    *,
    learner: str = "rl2",
    seeds: Sequence[int] | None = None,
    partners: Sequence[str] = (),
    trials: int = TRIALS,
    episodes: int = EPISODES,
) -> list[dict[str, Any]]:
    """Play every agent of a run with partners it has never met.

    Args:
      directory: a generation run whose agents `train` has written.
      learner: whose agents.
      seeds: which seeds; all if not given.
      partners: names as for `train`; if not given, the environment's heuristics, or the teammates that the other seeds
        of the run have found, where it has no heuristics.
      trials: trials with each partner.
      episodes: episodes of a trial.
    Returns:
      One record per seed, as in `evaluation.json`, with mean return, oracle fraction, and the same for every partner.
    """
    records = []
    for seed, path in seed_directories(Path(directory), seeds).items():
        run = read_run(path)
        agent = path / learner / AGENT_FILE
        if not agent.is_file():
            raise ValueError(f"{path} has no agent '{learner}': make it with `coverset train {directory}`.")
        policy, about = load_agent_policy(agent)
        check_same_environment(str(agent), about, run.environment)
        record = evaluate_agent(
            jax.random.fold_in(jax.random.key(seed), HELD_OUT_STREAM),
            run.environment,
            policy,
            seat=about["seat"],
            partners=_held_out(run, partners, seat=1 - about["seat"]),
            trials=trials,
            episodes=episodes,
        )
        found = {"seed": seed, "env": about["env"], "method": run.config["method"], "learner": learner}
        records.append(found | record.to_json())
        write_json(path / learner / EVALUATION_FILE, records[-1])
    return records


def _held_out(run: GenerationRun, names: Sequence[str], *, seat: int) -> dict[str, Policy] | None:
    """The partners that are named, or else those of other seeds; None for the environment's heuristics."""
    if not names and heuristics(run.environment):
        return None
    if not names and not other_seeds(run):
        raise ValueError(
            f"'{run.config['env']}' has no heuristics to evaluate with: generate more seeds into {run.path.parent}, or "
            "name partners with --partners, such as the path of another run."
        )
    return _by_name(run, names or (OTHER_SEEDS,), seat=seat)


def _by_name(run: GenerationRun, names: Sequence[str], *, seat: int) -> dict[str, Policy]:
    """Partners one by one: members of a population are called by its name and their number."""
    named = {}
    for name in names:
        stacked = find_partner(run, name, seat=seat)
        count = jax.tree.leaves(stacked)[0].shape[0]
        for member in range(count):
            title = name if count == 1 else f"{name} {member + 1}"
            named[title] = jax.tree.map(lambda x, m=member: x[m], stacked)
    return named
