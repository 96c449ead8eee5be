"""Teammates at different target entropies (Xing et al. 2021, EDRQN): self-play with K temperatures in a closed loop.

Both policies of pair k maximise R_kk + alpha_k H(pi_k). After every update each policy's temperature follows the error
of its entropy, as measured on the rollout:

    alpha_k <- clip(alpha_k - eta (H(pi_k) - H_k), 0, alpha_max)

    H_k = f_k log |A|        f from `lowest_entropy` for the first pair to `highest_entropy` for the last

Pairs of low target entropy follow a convention strictly; those of high target entropy leave it now and then.

Differs from the source, of which we know the abstract and reviews alone: only the idea of teammates at different target
entropies with a closed loop is taken. Policies learn by PPO, where EDRQN learns recurrent Q-networks and the
temperatures with a network of their own. The shared entropy bonus is off in presets (`entropy` 0).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.checks import check_at_least, check_between, check_finite
from coverset.envs.seats import sides
from coverset.learning.losses import entropy
from coverset.teammates.method import Seen, World
from coverset.teammates.self_play import SelfPlay
from coverset.types import PairMatrix, PRNGKey, Scalar


class Temperatures(NamedTuple):
    """What the method remembers; first axis best responses, then teammates."""

    pair_weights: PairMatrix
    temperatures: Float[Array, "2 K"]
    entropies: Float[Array, "2 K"]
    """Of the last rollout, in nats."""


@dataclass(frozen=True)
class EDRQN(SelfPlay):
    """Self-play at K target entropies."""

    preset_changes: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {**SelfPlay.preset_changes, "entropy": 0.0, "entropy_final": None}
    )

    lowest_entropy: float = 0.02
    """Target entropy of the first pair, as a share of the largest possible."""
    highest_entropy: float = 0.5
    """Target entropy of the last pair, as a share of the largest possible; those between are spaced evenly."""
    temperature_learning_rate: float = 0.01
    """Step size of the temperatures: eta."""
    initial_temperature: float = 0.05
    """Temperature before training: the entropy bonus with which a run starts."""
    max_temperature: float = 10.0
    """Upper bound of the temperatures."""

    def __post_init__(self) -> None:
        for name in ("lowest_entropy", "highest_entropy"):
            check_between(name, getattr(self, name), 0, 1)
        if self.lowest_entropy > self.highest_entropy:
            raise ValueError(
                f"lowest_entropy must be at most highest_entropy, {self.highest_entropy}, got {self.lowest_entropy}."
            )
        for name in ("temperature_learning_rate", "initial_temperature", "max_temperature"):
            check_at_least(name, getattr(self, name), 0)
            check_finite(name, getattr(self, name))

    def targets(self, world: World) -> Float[Array, "2 K"]:
        """H_k of best responses and of teammates, in nats."""
        shares = jnp.linspace(self.lowest_entropy, self.highest_entropy, world.rows)
        largest = jnp.log(jnp.array([side.num_actions for side in sides(world.environment)], jnp.float32))
        return largest[:, None] * shares[None]

    def init(self, key: PRNGKey, world: World) -> Temperatures:
        del key
        start = min(self.initial_temperature, self.max_temperature)
        return Temperatures(jnp.eye(world.rows), jnp.full((2, world.rows), start), self.targets(world))

    def weights(self, state: Temperatures) -> PairMatrix:  # pyright: ignore[reportIncompatibleMethodOverride]
        return state.pair_weights

    def loss(self, parameters, state: Temperatures, batch, logits) -> tuple[Scalar, dict[str, Scalar]]:
        """-sum_k alpha_k H(pi_k), over both sides."""
        del parameters
        total = jnp.float32(0.0)
        for temperatures, data, outputs in zip(state.temperatures, batch[:2], logits, strict=True):
            own = tuple(range(1, data.share.ndim))
            total += jnp.sum(temperatures * jnp.mean(data.share * entropy(outputs), axis=own))
        return -total, {}

    def update(self, state: Temperatures, seen: Seen) -> Temperatures:
        """Entropies are estimated by the surprise of the actions taken, -log pi(a | o)."""
        surprise = -seen.steps.log_p.mean(axis=(0, 2))
        entropies = jnp.stack([surprise[:, 0], surprise[:, 1:].mean(axis=1)])
        moved = state.temperatures - self.temperature_learning_rate * (entropies - self.targets(seen.world))
        return state._replace(temperatures=jnp.clip(moved, 0.0, self.max_temperature), entropies=entropies)

    def report(self, state: Temperatures) -> dict[str, Any]:
        named = ("best_responses", "teammates")
        return {"temperature": dict(zip(named, state.temperatures, strict=True))}
