"""A recurrent network in one file, as somebody outside of coverset would write it (Elman 1990)."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset import Network
from coverset.policies.network import clear_memory


class Elman(Network):
    """h' = tanh(x U + h W), outputs h' V."""

    recurrent: ClassVar[bool] = True

    inputs: Float[Array, "*s d m"]
    hidden: Float[Array, "*s m m"]
    outputs: Float[Array, "*s m o"]

    @classmethod
    def build(cls, key, spec):
        size, width = math.prod(spec.input_shape), spec.hidden_sizes[0]
        keys = jax.random.split(key, 3)
        return cls(
            size**-0.5 * jax.random.normal(keys[0], (size, width)),
            width**-0.5 * jax.random.normal(keys[1], (width, width)),
            spec.head_scale * width**-0.5 * jax.random.normal(keys[2], (width, spec.num_outputs)),
        )

    def initial_memory(self, *batch):
        return jnp.zeros((*batch, self.hidden.shape[-1]))

    def step(self, inputs, memory, context=0.0):
        memory = jnp.tanh(inputs @ self.inputs + memory @ self.hidden + context)
        return memory @ self.outputs, memory

    def unroll(self, inputs, memory, fresh, context=0.0):
        initial = self.initial_memory(*fresh.shape[1:])

        def advance(memory, step):
            seen, fresh_now = step
            outputs, memory = self.step(seen, clear_memory(memory, initial, fresh_now), context)
            return memory, outputs

        return jax.lax.scan(advance, memory, (inputs, fresh))[1]
