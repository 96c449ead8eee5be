"""Networks of policies that play every seat of a side: one network that knows its seat, or one for each seat.

Their inputs have an axis of seats before the features, [*b, S, d]. A policy in one seat takes that seat's part
(`Network.for_seat`).
"""

import abc
from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Int

from coverset.policies.network import Network, NetworkSpec, network_class
from coverset.types import PRNGKey, PyTree

SEAT_SCALE = 0.3
"""Standard deviation of the initial seat embeddings: about what one input adds to the first layer."""


class SeatNetworks(Network):
    """Networks of a policy for several seats. `build_network` draws them: it knows the kind of their parts."""

    @classmethod
    def build(cls, key: PRNGKey, spec: NetworkSpec) -> Network:
        del key, spec
        raise TypeError(f"{cls.__name__} is drawn by build_network.")

    @classmethod
    @abc.abstractmethod
    def build_seats(cls, key: PRNGKey, kind: str, spec: NetworkSpec) -> "SeatNetworks":
        """Draw untrained networks of a kind for all seats of a side."""


class SharedSeats(SeatNetworks):
    """One network for all seats; an embedding of the seat is added to its first dense layer's input."""

    network: Network
    embedding: Float[Array, "*k S h"]

    @property
    def recurrent(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.network.recurrent

    @classmethod
    def build_seats(cls, key: PRNGKey, kind: str, spec: NetworkSpec) -> "SharedSeats":
        network_key, seat_key = jax.random.split(key)
        shape = (spec.num_seats, spec.hidden_sizes[0])
        return cls(network_class(kind).build(network_key, spec), SEAT_SCALE * jax.random.normal(seat_key, shape))

    def for_seat(self, seat: Int[Array, ""] | None) -> tuple[Network, Float[Array, "h"] | float]:
        return self.network, self.embedding[_place(seat)]

    def initial_memory(self, *batch: int) -> PyTree:
        return self.network.initial_memory(*batch)

    def step(
        self, inputs: Float[Array, "*b S d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        return self.network.step(inputs, memory, self.embedding + context)

    def unroll(
        self,
        inputs: Float[Array, "T *b S d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b S"] | None,
        context: Float[Array, "..."] | float = 0.0,
    ) -> Float[Array, "T *b S o"]:
        return self.network.unroll(inputs, memory, fresh, self.embedding + context)

    def rescale_outputs(self, gain: Float[Array, "o"], offset: Float[Array, "o"]) -> "SharedSeats":
        return SharedSeats(self.network.rescale_outputs(gain, offset), self.embedding)


class SeparateSeats(SeatNetworks):
    """One network for each seat."""

    networks: Network
    """Stacked over seats."""

    @property
    def recurrent(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.networks.recurrent

    @classmethod
    def build_seats(cls, key: PRNGKey, kind: str, spec: NetworkSpec) -> "SeparateSeats":
        build = network_class(kind).build
        return cls(jax.vmap(lambda seat_key: build(seat_key, spec))(jax.random.split(key, spec.num_seats)))

    def for_seat(self, seat: Int[Array, ""] | None) -> tuple[Network, Float[Array, "h"] | float]:
        return jax.tree.map(lambda x: x[_place(seat)], self.networks), 0.0

    def initial_memory(self, *batch: int) -> PyTree:
        return jax.tree.map(lambda x: x[0], self.networks).initial_memory(*batch)

    def step(
        self, inputs: Float[Array, "*b S d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        seats = inputs.ndim - 2
        step = jax.vmap(type(self.networks).step, in_axes=(0, seats, seats, None), out_axes=seats)
        return step(self.networks, inputs, memory, context)

    def unroll(
        self,
        inputs: Float[Array, "T *b S d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b S"] | None,
        context: Float[Array, "..."] | float = 0.0,
    ) -> Float[Array, "T *b S o"]:
        seats = inputs.ndim - 2
        axes = (0, seats, seats - 1, None if fresh is None else seats, None)
        unroll = jax.vmap(type(self.networks).unroll, in_axes=axes, out_axes=seats)
        return unroll(self.networks, inputs, memory, fresh, context)

    def rescale_outputs(self, gain: Float[Array, "o"], offset: Float[Array, "o"]) -> "SeparateSeats":
        return SeparateSeats(jax.vmap(lambda network: network.rescale_outputs(gain, offset))(self.networks))


def _place(seat: Int[Array, ""] | None) -> Int[Array, ""]:
    """Where a side's arrays keep a seat: the team's seats are counted from 1."""
    if seat is None:
        raise ValueError("a policy for several seats must be told which it plays: its percept has no seat.")
    return seat - 1


def build_network(kind: str, key: PRNGKey, spec: NetworkSpec) -> Network:
    """An untrained network for as many seats as its specification says."""
    if spec.num_seats == 1:
        return network_class(kind).build(key, spec)
    seats = SeparateSeats if spec.separate_seats else SharedSeats
    return seats.build_seats(key, kind, spec)


def build_networks(kind: str, keys: Any, spec: NetworkSpec) -> Network:
    """One network for each key, stacked on a leading axis."""
    return jax.vmap(lambda key: build_network(kind, key, spec))(keys)
