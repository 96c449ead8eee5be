"""One row of `metrics.jsonl`. It depends on nothing but the training, so a resumed run writes the same bytes."""

from typing import Any

import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.evaluation.conventions import find_members, member_names
from coverset.evaluation.cross_play import label_gaps
from coverset.runs.storage import round_floats
from coverset.settings import GenerateSettings
from coverset.teammates.methods.lbrdiv import Multipliers
from coverset.teammates.trainer import Metrics
from coverset.types import PyTree


def metrics_row(
    environment: Environment, settings: GenerateSettings, chunk: int, metrics: Metrics, rule_state: PyTree
) -> dict[str, Any]:
    """What chunk number `chunk` (from 0) reports. docs/metrics.md says what each field means."""
    with np.errstate(invalid="ignore", divide="ignore"):
        pair_returns = np.asarray(metrics.tally.returns) / np.asarray(metrics.tally.episodes)
        counts = np.asarray(metrics.tally.conventions)
        shares = np.nan_to_num(counts / counts.sum(axis=-1, keepdims=True))
    cross = ~np.eye(len(pair_returns), dtype=bool)
    members = find_members(environment, shares[0], shares[1])
    return {
        "chunk": chunk + 1,
        "update": (chunk + 1) * settings.updates_per_chunk,
        "env_steps": (chunk + 1) * settings.steps_per_chunk,
        "self_play_return": round_floats(_mean(np.diagonal(pair_returns))),
        "cross_play_return": round_floats(_mean(pair_returns[cross])),
        "coverage_found": len(set(members) - {None}),
        "covers": member_names(environment, members),
        "pair_returns": round_floats(pair_returns),
        "pair_values": round_floats(metrics.pair_values),
        "gaps": label_gaps(np.asarray(metrics.pair_values), settings.margin),
        "multipliers": _multipliers(rule_state),
        "entropy": {"best_responses": round_floats(metrics.entropy[0]), "teammates": round_floats(metrics.entropy[1])},
        "critic_loss": round_floats(metrics.critic_loss),
        "started_anew": np.flatnonzero(np.asarray(metrics.fresh)).tolist(),
    }


def _multipliers(rule_state: PyTree) -> dict[str, Any] | None:
    """One per constraint, under its name; methods that remember other things, or nothing, have none to tell of."""
    return (
        {k: round_floats(v) for k, v in rule_state._asdict().items()} if isinstance(rule_state, Multipliers) else None
    )


def _mean(values: Float[np.ndarray, "n"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
