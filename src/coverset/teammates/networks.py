"""What gradients train: best responses, teammates, one critic, and what a method brings of its own."""

from functools import partial
from typing import NamedTuple

import jax

from coverset.envs.base import Environment
from coverset.policies.network import POLICY_HEAD_SCALE, Network, NetworkSpec, network_class
from coverset.settings import GenerateSettings
from coverset.teammates.critic import PairCritic, joint_shape
from coverset.types import PRNGKey, PyTree


class Networks(NamedTuple):
    """The policies are stacked over members; their data never mixes."""

    best_responses: Network
    teammates: Network
    critic: PairCritic
    method: PyTree = ()
    """Parameters of the method's own."""


def actor_spec(environment: Environment, settings: GenerateSettings, seat: int) -> NetworkSpec:
    """The network of a policy for a seat."""
    return NetworkSpec(
        input_shape=environment.observation_shape,
        num_outputs=environment.num_actions[seat],
        hidden_sizes=settings.hidden_sizes,
        memory_size=settings.memory_size,
        fourier_bandwidth=settings.fourier_bandwidth,
        head_scale=POLICY_HEAD_SCALE,
    )


def critic_spec(environment: Environment, settings: GenerateSettings) -> NetworkSpec:
    """The network of the centralised critic, which reads the observations of all seats."""
    return NetworkSpec(
        input_shape=joint_shape(environment.observation_shape, len(environment.num_actions)),
        num_outputs=1,
        hidden_sizes=settings.hidden_sizes,
        memory_size=settings.memory_size,
        fourier_bandwidth=settings.fourier_bandwidth,
    )


def init_networks(
    key: PRNGKey, environment: Environment, settings: GenerateSettings, size: tuple[int, int]
) -> Networks:
    """Draw the networks of as many best responses and teammates as `size` says; the method's own come separately."""
    row_key, column_key, critic_key = jax.random.split(key, 3)
    build = network_class(settings.network).build

    def population(key: PRNGKey, seat: int) -> Network:
        create = partial(build, spec=actor_spec(environment, settings, seat))
        return jax.vmap(create)(jax.random.split(key, size[seat]))

    best_responses = population(row_key, 0)
    teammates = best_responses if settings.share_pair_parameters else population(column_key, 1)
    spec = critic_spec(environment, settings)
    critic = PairCritic.create(critic_key, settings.critic_network, spec, *size)
    return Networks(best_responses, teammates, critic)
