"""Networks that always choose the same action, for tests in which it matters who acts."""

import jax
import jax.numpy as jnp

from coverset.policies.network import Network
from coverset.policies.networks.dense import MLP

SURE = 1e4


def stubborn(stack: Network, actions: tuple[int, ...]) -> MLP:
    """The same networks, but member k always plays `actions[k]`."""
    assert isinstance(stack, MLP)
    head = stack.biases[-1]
    sure = SURE * jax.nn.one_hot(jnp.array(actions), head.shape[-1])
    return MLP(stack.weights, (*stack.biases[:-1], sure))
