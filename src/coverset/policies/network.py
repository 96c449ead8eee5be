"""The one interface of every network: dense, convolutional or recurrent, for actors and critics alike.

Observations reach a network as flat vectors; one that reads images restores their shape from its specification.
Networks are written for any leading batch axes and are stacked over members by `vmap`.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.extending import load_class
from coverset.types import PRNGKey, PyTree

NETWORKS = {
    "dense": "coverset.policies.networks.dense:MLP",
    "conv": "coverset.policies.networks.conv:Conv",
    "gru": "coverset.policies.networks.recurrent:GRU",
    "lstm": "coverset.policies.networks.recurrent:LSTM",
}
"""Built-in networks by name; `module:Class` names any other."""

POLICY_HEAD_SCALE = 0.01
"""Near-zero logits: every policy starts close to uniform."""


@dataclass(frozen=True)
class NetworkSpec:
    """What a network is built from."""

    input_shape: tuple[int, ...]
    """Shape of one observation; its product is the length of the flat vector that the network reads."""
    num_outputs: int
    hidden_sizes: tuple[int, ...]
    """Widths of the dense hidden layers."""
    memory_size: int = 64
    """Size of a recurrent network's state."""
    fourier_bandwidth: float = 0.0
    """Bandwidth of Fourier features in the first dense layer; 0 for ReLU as in the other layers."""
    head_scale: float = 1.0
    """Scale of the last layer's initial weights."""
    num_seats: int = 1
    """Seats of a side that one policy plays, knowing which; 1 for a policy that need not know."""
    separate_seats: bool = False
    """Whether every seat has a network of its own (`policies.team`)."""


class Network(eqx.Module):
    """Maps observations, and what it remembers of earlier ones, to `num_outputs` numbers."""

    recurrent: ClassVar[bool] = False
    """Whether outputs depend on earlier inputs: then rollouts are split over environments, never along time."""

    @classmethod
    @abc.abstractmethod
    def build(cls, key: PRNGKey, spec: NetworkSpec) -> "Network":
        """Draw an untrained network."""

    def for_seat(self, seat: Int[Array, ""] | None) -> tuple["Network", Float[Array, "h"] | float]:
        """The network that plays in a seat, and its context there; itself, unless it knows seats (`policies.team`)."""
        del seat
        return self, 0.0

    def initial_memory(self, *batch: int) -> PyTree:
        """The memory with which an episode or trial starts, with these leading axes; nothing, unless recurrent."""
        del batch
        return ()

    @abc.abstractmethod
    def step(
        self, inputs: Float[Array, "*b d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        """One time step: the outputs, and the memory after it.

        Args:
          inputs: flat observations.
          memory: what the step before left.
          context: what a critic adds to the first dense layer's input to say which pair is playing; its last axis has
            the width of that layer.
        """

    def unroll(
        self,
        inputs: Float[Array, "T *b d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b"] | None,
        context: Float[Array, "..."] | float = 0.0,
    ) -> Float[Array, "T *b o"]:
        """The outputs of a whole rollout that starts with `memory`, which is cleared before each `fresh` step.

        Networks without memory are called with `fresh` None and take all time steps as one batch. A recurrent network
        defines this method.
        """
        if self.recurrent:
            raise TypeError(f"{type(self).__name__} is recurrent and must define unroll.")
        return self.step(inputs, memory, context)[0]

    def rescale_outputs(self, gain: Float[Array, "o"], offset: Float[Array, "o"]) -> "Network":
        """The network whose outputs are `gain * outputs + offset`, for critics whose units move.

        A network that does not define it keeps its outputs, and its values move with their units.
        """
        del gain, offset
        return self


def clear_memory(memory: PyTree, initial: PyTree, fresh: Bool[Array, "*b"]) -> PyTree:
    """The initial memory where `fresh`, else the present one."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(fresh.reshape(fresh.shape + (1,) * (old.ndim - fresh.ndim)), new, old)

    return jax.tree.map(choose, initial, memory)


def initial_memories(stacked: Network, *batch: int) -> PyTree:
    """The initial memory of any member of a stack of networks, with these leading axes."""
    member = jax.tree.map(lambda x: x[0], stacked)
    return member.initial_memory(*batch)


def network_class(kind: str) -> type[Network]:
    """The class of a network by its name or as `module:Class`."""
    return load_class("network", kind, NETWORKS, Network)


def check_observation_shape(kind: str, shape: Sequence[int]) -> None:
    """Raise unless a network of this kind can read observations of this shape."""
    if kind == "conv" and len(shape) != 3:
        raise ValueError(
            "network 'conv' needs observations with a shape (rows, columns, channels): give the environment an "
            f"observation_shape, got {tuple(shape)}."
        )
