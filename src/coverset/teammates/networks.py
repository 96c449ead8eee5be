"""What gradients train: K best responses, K teammates, one critic."""

from functools import partial
from typing import NamedTuple

import jax

from coverset.envs.base import Environment
from coverset.policies.network import POLICY_HEAD_SCALE
from coverset.policies.networks.dense import MLP
from coverset.settings import GenerateSettings
from coverset.teammates.critic import PairCritic
from coverset.types import PRNGKey


class Networks(NamedTuple):
    """The policies are stacked over members; their data never mixes."""

    best_responses: MLP
    teammates: MLP
    critic: PairCritic


def init_networks(key: PRNGKey, environment: Environment, settings: GenerateSettings) -> Networks:
    """Draw all networks anew."""
    row_key, column_key, critic_key = jax.random.split(key, 3)
    size, k = environment.observation_size, settings.population_size

    def population(key: PRNGKey, num_actions: int) -> MLP:
        sizes = (size, *settings.hidden_sizes, num_actions)
        create = partial(MLP.create, sizes=sizes, head_scale=POLICY_HEAD_SCALE, waves=settings.fourier_bandwidth)
        return jax.vmap(create)(jax.random.split(key, k))

    best_responses = population(row_key, environment.num_actions[0])
    teammates = best_responses if settings.share_pair_parameters else population(column_key, environment.num_actions[1])
    return Networks(
        best_responses=best_responses,
        teammates=teammates,
        critic=PairCritic.create(critic_key, size, k, settings.hidden_sizes, settings.fourier_bandwidth),
    )
