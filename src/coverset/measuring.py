"""Evaluation as a whole: every agent of a run with held-out partners, stored beside the agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.adhoc.saved import load_agent_policy
from coverset.evaluation.robustness import EPISODES, evaluate_agent
from coverset.partners import (
    AGENT_FILE,
    GenerationRun,
    check_same_environment,
    find_partner,
    read_run,
    seed_directories,
)
from coverset.policies.base import Policy
from coverset.storage import write_json

HELD_OUT_STREAM = 3
"""Folded into the seed's key, so that evaluation draws what training never drew."""


def evaluate(
    directory: str | Path,
    *,
    learner: str = "rl2",
    seeds: Sequence[int] | None = None,
    partners: Sequence[str] = (),
    trials: int = 128,
    episodes: int = EPISODES,
) -> list[dict[str, Any]]:
    """Play every agent of a run with partners it has never met.

    Args:
      directory: a generation run whose agents `train` has written.
      learner: whose agents.
      seeds: which seeds; all if not given.
      partners: names as for `train`; the environment's heuristics if not given.
      trials: trials with each partner.
      episodes: episodes of a trial.
    Returns:
      One record per seed, as in `evaluation.json`: mean return, oracle fraction, and the same for every partner.
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
            partners=_by_name(run, partners, seat=1 - about["seat"]) if partners else None,
            trials=trials,
            episodes=episodes,
        )
        found = {"seed": seed, "env": about["env"], "method": run.config["method"], "learner": learner}
        records.append(found | record.to_json())
        write_json(path / learner / "evaluation.json", records[-1])
    return records


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
