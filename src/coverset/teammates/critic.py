"""The centralised critic V^{i,-j} of Algorithm 1."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.learning.value_scale import ValueScale, follow_targets, output_correction, start_value_scale
from coverset.policies.network import Network, NetworkSpec, clear_memory, network_class
from coverset.types import PRNGKey, PyTree


class Values(NamedTuple):
    """A critic's estimates along a rollout, with an axis of heads where there are several."""

    present: Float[Array, "T *b"]
    """Of the state before each step."""
    following: Float[Array, "T *b"]
    """Of the state that each step led to, before any reset."""
    memory: PyTree
    """The critic's memory after the rollout."""


class PairCritic(eqx.Module):
    """All seats' observations and both identities in, the pair's expected discounted return out.

    One number is the return of all seats, or of the ego, if nobody else's matters; several are that of every seat.

    A one-hot identity times a weight matrix is a row of that matrix, so identities enter as two embeddings that are
    added to the first dense layer's input.
    """

    network: Network
    best_response_embedding: Float[Array, "*s R h"]
    teammate_embedding: Float[Array, "*s C h"]
    image_shape: tuple[int, ...] | None = eqx.field(static=True, default=None)
    """Shape of all seats' images side by side as channels, where the network reads images."""
    scale: ValueScale | None = None
    """Units of the network's outputs; None where they are those of the rewards."""

    @classmethod
    def create(
        cls, key: PRNGKey, kind: str, spec: NetworkSpec, rows: int, columns: int, *, finds_scale: bool = False
    ) -> "PairCritic":
        """Draw the layers, and unit-scale embeddings that tell pairs apart from the start.

        Args:
          key: of the random numbers.
          kind: name of the network.
          spec: its sizes; the input is the observations of all seats.
          rows: number of best responses.
          columns: number of teammates.
          finds_scale: whether values are learned in units of their own.
        """
        network_key, row_key, column_key = jax.random.split(key, 3)
        width = spec.hidden_sizes[0]
        return cls(
            network=network_class(kind).build(network_key, spec),
            best_response_embedding=jax.random.normal(row_key, (rows, width)),
            teammate_embedding=jax.random.normal(column_key, (columns, width)),
            image_shape=spec.input_shape if len(spec.input_shape) > 1 else None,
            scale=start_value_scale(spec.num_outputs) if finds_scale else None,
        )

    def identity(self, best_response: Int[Array, "*b"], teammate: Int[Array, "*b"]) -> Float[Array, "*b h"]:
        """What a pair's identity adds to the first dense layer."""
        return self.best_response_embedding[best_response] + self.teammate_embedding[teammate]

    def step(
        self, observations: Float[Array, "*b s d"], memory: PyTree, identity: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], PyTree]:
        """Expected discounted return of the pair from these observations on, and the memory after them."""
        values, memory = self.network.step(self._join(observations), memory, identity)
        return _single_head(self._in_units_of_reward(values)), memory

    def evaluate(
        self,
        observations: Float[Array, "T *b s d"],
        final_observations: Float[Array, "T *b s d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b"],
        identity: Float[Array, "*b h"],
    ) -> Values:
        """Values of a rollout that starts with `memory`, which is cleared before each `fresh` step.

        Args:
          observations: of all seats before each step.
          final_observations: of the state that each step led to, before any reset.
          memory: before the rollout.
          fresh: where episodes start.
          identity: of the pairs, from `identity`.
        """
        if not self.network.recurrent:
            present, following = (self.step(seen, (), identity)[0] for seen in (observations, final_observations))
            return Values(present, following, memory)
        initial = self.network.initial_memory(*fresh.shape[1:])

        def advance(memory: PyTree, step) -> tuple[PyTree, tuple[Array, Array]]:
            seen, final, fresh_now = step
            present, memory = self.step(seen, clear_memory(memory, initial, fresh_now), identity)
            return memory, (present, self.step(final, memory, identity)[0])

        memory, (present, following) = jax.lax.scan(advance, memory, (observations, final_observations, fresh))
        return Values(present, following, memory)

    def unroll(
        self,
        observations: Float[Array, "T *b s d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b"] | None,
        identity: Float[Array, "..."],
    ) -> Float[Array, "..."]:
        """Values of a rollout, for the critic's loss."""
        outputs = self.network.unroll(self._join(observations), memory, fresh, identity)
        return _single_head(self._in_units_of_reward(outputs))

    def _in_units_of_reward(self, outputs: Float[Array, "... h"]) -> Float[Array, "... h"]:
        if self.scale is None:
            return outputs
        mean, deviation = (jax.lax.stop_gradient(x) for x in (self.scale.mean, self.scale.deviation))
        lead = (1,) * (outputs.ndim - 1)
        return outputs * deviation.reshape(*lead, -1) + mean.reshape(*lead, -1)

    @property
    def deviation(self) -> Float[Array, ""] | float:
        """Standard deviation of the ego's values over what the critic has seen; 0 where it does not know."""
        return 0.0 if self.scale is None else self.scale.deviation[0]

    def in_units(self, errors: Float[Array, "..."]) -> Float[Array, "..."]:
        """Errors of values in the units in which they are learned."""
        if self.scale is None:
            return errors
        unit = jax.lax.stop_gradient(self.scale.deviation)
        return errors / (unit[0] if unit.shape[0] == 1 else unit.reshape((1,) * (errors.ndim - 1) + unit.shape))

    def follow_targets(self, targets: Float[Array, "T *b"]) -> "PairCritic":
        """The same values in units that have seen these targets, too; itself, where it has no units of its own."""
        if self.scale is None:
            return self
        scale = follow_targets(self.scale, targets.reshape(-1, self.scale.mean.shape[0]))
        network = self.network.rescale_outputs(*output_correction(self.scale, scale))
        return eqx.tree_at(lambda critic: (critic.network, critic.scale), self, (network, scale))

    def _join(self, observations: Float[Array, "*b s d"]) -> Float[Array, "*b j"]:
        """All seats' observations as one flat vector; images side by side as channels."""
        if self.image_shape is None:
            return observations.reshape(*observations.shape[:-2], -1)
        rows, columns, _ = self.image_shape
        images = observations.reshape(*observations.shape[:-1], rows, columns, -1)
        return jnp.moveaxis(images, -4, -2).reshape(*observations.shape[:-2], -1)


def _single_head(values: Float[Array, "*b h"]) -> Float[Array, "..."]:
    """Without the axis of heads where there is only one."""
    return values[..., 0] if values.shape[-1] == 1 else values


def joint_shape(observation_shape: tuple[int, ...], num_seats: int) -> tuple[int, ...]:
    """Shape of the joint observation: vectors one after the other, images side by side as channels."""
    return (*observation_shape[:-1], num_seats * observation_shape[-1])
