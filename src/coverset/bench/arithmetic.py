"""Count the floating-point operations of training, and define the matrix product that measures the machine's peak.

Each weight costs two operations per sample in the forward pass, two for its own gradient, and two for the gradient of
its input, which the first layer does not need. Everything else (environment, random numbers, Adam) counts as overhead.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp

from coverset.envs.base import Environment
from coverset.settings import GenerateSettings, TrainSettings

PEAK_SIZE = 2048
PEAK_OPERATIONS = 2 * PEAK_SIZE**3


def layer_operations(sizes: Sequence[int]) -> int:
    """Operations of a forward pass of one sample through layers of these widths."""
    return 2 * sum(fan_in * fan_out for fan_in, fan_out in pairwise(sizes))


def learning_operations(sizes: Sequence[int]) -> int:
    """Operations of a forward and backward pass of one sample, without the gradient of the network's input."""
    return 3 * layer_operations(sizes) - layer_operations(sizes[:2])


def generation_operations(environment: Environment, settings: GenerateSettings, *, masked: bool = False) -> float:
    """Operations of teammate generation per environment step: act, value before and after, learn, weigh.

    Args:
      masked: whether every policy's loss runs over all data instead of its own, K times as much.
    """
    s, size = settings, environment.observation_size
    policies = [(size, *s.hidden_sizes, count) for count in environment.num_actions]
    critic = (2 * size, *s.hidden_sizes, 1)
    acting = sum(map(layer_operations, policies))
    valuing = 2 * (1 if s.target_update_rate == 1.0 else 2) * layer_operations(critic)
    own = sum(map(learning_operations, policies))
    learning = s.epochs * (own * (s.population_size if masked else 1) + learning_operations(critic))
    # All pairs see the same states, so they share the critic's first product.
    per_state = layer_operations(critic[:2]) + s.population_size**2 * layer_operations(critic[1:])
    num_envs = s.population_size * (s.population_size * s.envs_per_pair + s.extra_self_play)
    weighing = s.value_samples * per_state / (num_envs * s.rollout_length)
    return acting + valuing + learning + weighing


def training_operations(
    environment: Environment, settings: TrainSettings, partner_sizes: Sequence[int], *, seat: int = 0
) -> int:
    """Operations of RL^2 training per environment step: actor and critic act and learn, a network partner acts."""
    s, actions = settings, environment.num_actions[seat]
    # The observation, the last action, the last reward and the start flag.
    features = environment.observation_size + actions + 2
    gates = 4 * s.memory_size
    encoder, recurrent = (features, *s.hidden_sizes, gates), layer_operations((s.memory_size, gates))
    heads = layer_operations((s.memory_size, actions)) + layer_operations((s.memory_size, 1))
    acting = 2 * (layer_operations(encoder) + recurrent) + heads
    learning = 2 * (learning_operations(encoder) + 3 * recurrent) + 3 * heads
    return acting + s.epochs * learning + layer_operations(partner_sizes)


def peak_product() -> Callable[[], jax.Array]:
    """A product of two large matrices: `PEAK_OPERATIONS` operations at the machine's peak speed."""
    matrix = jnp.ones((PEAK_SIZE, PEAK_SIZE))
    multiply = jax.jit(jnp.matmul)
    return lambda: multiply(matrix, matrix)
