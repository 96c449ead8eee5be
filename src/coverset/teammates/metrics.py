"""One row of `metrics.jsonl`. It depends on nothing but the training, so a resumed run writes the same bytes."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from coverset.evaluation.conventions import find_members, member_names
from coverset.evaluation.cross_play import label_gaps
from coverset.evaluation.mixed_play import blank_diagonals, mixed_team_gaps
from coverset.runs.storage import round_floats
from coverset.teammates.trainer import Metrics, Trainer

_Matrix = tuple[tuple[float | None, ...], ...]
ROW_FIELDS = {
    "chunk": int,
    "update": int,
    "env_steps": int,
    "self_play_return": float | None,
    "cross_play_return": float | None,
    "coverage_found": int,
    "covers": tuple[str | None, ...],
    "pair_returns": _Matrix,
    "pair_values": _Matrix,
    "gaps": Any,  # `check_run_row` looks into them
    "method": dict,
    "entropy": dict,
    "critic_loss": float | None,
    "restarted": tuple[int, ...],
}
"""Every field of a row, and its type; runs with mixed teams have `mixed_teams` besides."""


def metrics_row(trainer: Trainer, chunk: int, metrics: Metrics, reported: dict[str, Any]) -> dict[str, Any]:
    """What chunk number `chunk` (from 0) reports. docs/reference/metrics.md says what each field means.

    Args:
      trainer: what made it.
      chunk: its number.
      metrics: of all its updates.
      reported: what the method reports of itself.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        team_returns = np.asarray(metrics.tally.returns) / np.asarray(metrics.tally.episodes)
        counts = np.asarray(metrics.tally.conventions)
        shares = np.nan_to_num(counts / counts.sum(axis=-1, keepdims=True))
    pair_returns, mixed_returns = trainer.grid.split_teams(team_returns)
    pairs = trainer.grid.pairs()
    cross = np.ones(pair_returns.shape, bool)
    cross[pairs] = False
    members = find_members(trainer.environment, shares[0], shares[1])
    schedule, losses = trainer.schedule, metrics.losses
    is_played = trainer.grid.is_played()
    values = np.where(is_played, np.asarray(metrics.pair_values), np.nan)
    has_constraints = trainer.is_square and is_played.all()
    return {
        "chunk": chunk + 1,
        "update": (chunk + 1) * schedule.updates_per_chunk,
        "env_steps": (chunk + 1) * schedule.steps_per_chunk,
        "self_play_return": round_floats(_known_mean(pair_returns[pairs])),
        "cross_play_return": round_floats(_known_mean(pair_returns[cross])),
        "coverage_found": len(set(members) - {None}),
        "covers": member_names(trainer.environment, members),
        "pair_returns": round_floats(pair_returns),
        "pair_values": round_floats(values),
        "gaps": label_gaps(values, trainer.settings.margin) if has_constraints else None,
        "method": jax.tree.map(round_floats, {**reported, **losses.method}),
        "entropy": {"best_responses": round_floats(losses.entropy[0]), "teammates": round_floats(losses.entropy[1])},
        "critic_loss": round_floats(losses.critic),
        "restarted": (1 + np.flatnonzero(np.asarray(metrics.restarted))).tolist(),
        **_mixed_teams(mixed_returns, metrics.mixed_values, values, trainer.settings.margin),
    }


def _mixed_teams(
    returns: Float[np.ndarray, "S K K"] | None,
    values: Float[Array | np.ndarray, "S K K"] | None,
    pair_values: Float[np.ndarray, "R C"],
    margin: float,
) -> dict[str, Any]:
    """What is known of mixed teams; no field at all where none play."""
    if returns is None or values is None:
        return {}
    estimates = np.asarray(values)
    return {
        "mixed_teams": {
            "returns": round_floats(blank_diagonals(returns)),
            "values": round_floats(blank_diagonals(estimates)),
            "gaps": round_floats(mixed_team_gaps(pair_values, estimates, margin)),
        }
    }


def _known_mean(values: Float[np.ndarray, "n"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
