"""Fictitious co-play (Strouse et al. 2021): K runs of self-play, and of each the policy at its start, half way and end.

    w_ii = 1, w_ij = 0        teammates saved: 3 K, the last ones first, then those half way, then untrained ones

Teammates of less skill are part of the population, so that an agent that trains with it learns to carry a partner.

The return half way is the mean of the first return and of the final one; the checkpoint is the first that reaches it.
Checkpoints are kept at the end of `checkpoints` windows of the run, which become longer quadratically because most is
learned early: window s ends at (s / S)^2 of the run. Returns are means over all episodes of a window.

Differs from the source: half way is half of the final return only where untrained policies earn nothing; returns may
be negative. Untrained teammates are drawn apart from the run's own. An agent of `coverset train` meets all teammates
equally often, as in the paper.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.checks import check_at_least
from coverset.policies.network import Network
from coverset.policies.population import Population
from coverset.policies.team import build_networks
from coverset.teammates.method import Seen, World
from coverset.teammates.networks import actor_spec
from coverset.teammates.self_play import SelfPlay
from coverset.types import PairMatrix, PRNGKey


class Checkpoints(NamedTuple):
    """What the method remembers; S is the number of windows."""

    pair_weights: PairMatrix
    untrained: Network
    """Teammates that never learn, stacked [K]."""
    teammates: Network
    """At the end of every window, stacked [S, K]."""
    returns: Float[Array, "S K"]
    """Mean return of every pair in self-play in every window; NaN before its end."""
    rewards: Float[Array, "K"]
    """Sum over the present window."""
    episodes: Float[Array, "K"]
    """Number that ended in the present window."""


@dataclass(frozen=True)
class FCP(SelfPlay):
    """Self-play whose earlier teammates are saved too."""

    checkpoints: int = 16
    """Windows of a run, at whose ends teammates are kept until its end."""

    def __post_init__(self) -> None:
        check_at_least("checkpoints", self.checkpoints, 2)

    def init(self, key: PRNGKey, world: World) -> Checkpoints:
        s, size = world.settings, world.rows
        keys = jax.random.split(key, size)
        untrained = build_networks(s.network, keys, actor_spec(world.environment, s, 1))
        return Checkpoints(
            pair_weights=jnp.eye(size),
            untrained=untrained,
            teammates=jax.tree.map(lambda x: jnp.stack([x] * self.checkpoints), untrained),
            returns=jnp.full((self.checkpoints, size), jnp.nan),
            rewards=jnp.zeros(size),
            episodes=jnp.zeros(size),
        )

    def weights(self, state: Checkpoints) -> PairMatrix:  # pyright: ignore[reportIncompatibleMethodOverride]
        return state.pair_weights

    def update(self, state: Checkpoints, seen: Seen) -> Checkpoints:
        steps = seen.steps
        ended = (steps.terminated | steps.truncated).astype(jnp.float32)
        rewards, episodes = state.rewards + steps.reward.sum(axis=(0, 2)), state.episodes + ended.sum(axis=(0, 2))
        updates = self.schedule(seen.world.settings).num_updates
        window, following = (self._window((seen.update + passed) / updates) for passed in (0, 1))
        is_over = following > window
        mean = rewards / jnp.maximum(episodes, 1.0)

        def keep(kept: Array, now: Array) -> Array:
            return kept.at[window].set(jnp.where(is_over, now, kept[window]))

        return state._replace(
            teammates=jax.tree.map(keep, state.teammates, seen.networks.teammates),
            returns=keep(state.returns, jnp.where(episodes > 0, mean, jnp.nan)),
            rewards=jnp.where(is_over, 0.0, rewards),
            episodes=jnp.where(is_over, 0.0, episodes),
        )

    def _window(self, progress: Float[Array, ""]) -> Int[Array, ""]:
        """The window in which a run is; S at its end."""
        # Rounding must not move a window's end, (s / S)^2, below itself.
        return jnp.floor(self.checkpoints * jnp.sqrt(progress) + 1e-5).astype(jnp.int32)

    def report(self, state: Checkpoints) -> dict[str, Array]:
        return {"checkpoint_returns": state.returns}

    def population(self, state: Checkpoints, trained: Population) -> Population:
        half = choose_half_way(np.asarray(state.returns))
        members = np.arange(len(half))
        parts = (trained.teammates.network, jax.tree.map(lambda x: x[half, members], state.teammates), state.untrained)
        network = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
        teammates = trained.teammates
        return trained._replace(teammates=type(teammates)(network, teammates.kind, teammates.spec))


def choose_half_way(returns: Float[np.ndarray, "S K"]) -> Int[np.ndarray, "K"]:
    """The first window of every pair whose return reaches the mean of its first and its final one.

    Windows in which no episode ended are passed over; without any, the last one is taken.
    """
    chosen = []
    for column in returns.T:
        known = np.flatnonzero(~np.isnan(column))
        if not known.size:
            chosen.append(len(column) - 1)
            continue
        half = (column[known[0]] + column[known[-1]]) / 2
        chosen.append(known[np.argmax(column[known] >= half)] if column[known[-1]] >= half else known[0])
    return np.array(chosen)
