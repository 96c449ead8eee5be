"""Recurrent networks: dense layers, a recurrent cell, a linear head.

The encoder's last layer computes the cell's gates from the input for a whole rollout in one product; only what depends
on memory goes step by step.
"""

import abc
import math
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from coverset.policies.network import Network, NetworkSpec, clear_memory
from coverset.policies.networks.dense import MLP
from coverset.types import PRNGKey, PyTree


class RecurrentNetwork(Network):
    """What the GRU and the LSTM share."""

    recurrent: ClassVar[bool] = True
    num_gates: ClassVar[int]

    encoder: MLP
    recurrent_weight: Float[Array, "*s m g"]
    head: MLP

    @classmethod
    def build(cls, key: PRNGKey, spec: NetworkSpec) -> "RecurrentNetwork":
        encoder_key, recurrent_key, head_key = jax.random.split(key, 3)
        size, gates = spec.memory_size, cls.num_gates * spec.memory_size
        sizes = (math.prod(spec.input_shape), *spec.hidden_sizes, gates)
        return cls(
            encoder=MLP.create(encoder_key, sizes, fourier_bandwidth=spec.fourier_bandwidth),
            recurrent_weight=size**-0.5 * jax.random.normal(recurrent_key, (size, gates)),
            head=MLP.create(head_key, (size, spec.num_outputs), spec.head_scale),
        )

    @property
    def memory_size(self) -> int:
        """Size of the hidden state."""
        return self.recurrent_weight.shape[-2]

    @abc.abstractmethod
    def advance(self, encoded: Float[Array, "*b g"], memory: PyTree) -> PyTree:
        """The memory after one step, from the gates' input."""

    @abc.abstractmethod
    def hidden(self, memory: PyTree) -> Float[Array, "*b m"]:
        """The part of the memory that the head reads."""

    def step(
        self, inputs: Float[Array, "*b d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        memory = self.advance(self.encoder(inputs, context), memory)
        return self.head(self.hidden(memory)), memory

    def unroll(
        self,
        inputs: Float[Array, "T *b d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b"] | None,
        context: Float[Array, "..."] | float = 0.0,
    ) -> Float[Array, "T *b o"]:
        assert fresh is not None
        initial = self.initial_memory(*fresh.shape[1:])

        def advance(memory: PyTree, step) -> tuple[PyTree, Float[Array, "*b m"]]:
            encoded, fresh_now = step
            memory = self.advance(encoded, clear_memory(memory, initial, fresh_now))
            return memory, self.hidden(memory)

        _, hidden = jax.lax.scan(advance, memory, (self.encoder(inputs, context), fresh))
        return self.head(hidden)

    def rescale_outputs(self, gain: Float[Array, "o"], offset: Float[Array, "o"]) -> "RecurrentNetwork":
        return eqx.tree_at(lambda network: network.head, self, self.head.rescale_outputs(gain, offset))


class LSTMMemory(NamedTuple):
    """Hidden and cell state of an LSTM."""

    hidden: Float[Array, "*b m"]
    cell: Float[Array, "*b m"]


class LSTM(RecurrentNetwork):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gates by Gers et al. 2000)."""

    num_gates: ClassVar[int] = 4

    def initial_memory(self, *batch: int) -> LSTMMemory:
        zeros = jnp.zeros((*batch, self.memory_size))
        return LSTMMemory(zeros, zeros)

    def advance(self, encoded: Float[Array, "*b g"], memory: LSTMMemory) -> LSTMMemory:
        gates = encoded + memory.hidden @ self.recurrent_weight
        keep, write, show, content = jnp.split(gates, 4, axis=-1)
        # A forget gate that starts open lets gradients reach far back from the first update on.
        cell = jax.nn.sigmoid(keep + 1.0) * memory.cell + jax.nn.sigmoid(write) * jnp.tanh(content)
        return LSTMMemory(jax.nn.sigmoid(show) * jnp.tanh(cell), cell)

    def hidden(self, memory: LSTMMemory) -> Float[Array, "*b m"]:
        return memory.hidden


class GRU(RecurrentNetwork):
    """Gated recurrent unit (Cho et al. 2014), with the reset gate behind the recurrent product."""

    num_gates: ClassVar[int] = 3

    def initial_memory(self, *batch: int) -> Float[Array, "*b m"]:
        return jnp.zeros((*batch, self.memory_size))

    def advance(self, encoded: Float[Array, "*b g"], memory: Float[Array, "*b m"]) -> Float[Array, "*b m"]:
        reset_in, update_in, content_in = jnp.split(encoded, 3, axis=-1)
        reset_m, update_m, content_m = jnp.split(memory @ self.recurrent_weight, 3, axis=-1)
        reset = jax.nn.sigmoid(reset_in + reset_m)
        # An update gate that starts nearly closed keeps memories over many steps from the first update on.
        update = jax.nn.sigmoid(update_in + update_m - 1.0)
        return (1.0 - update) * memory + update * jnp.tanh(content_in + reset * content_m)

    def hidden(self, memory: Float[Array, "*b m"]) -> Float[Array, "*b m"]:
        return memory
