"""What gradients train: best responses, teammates, one critic, and what a method brings of its own."""

from typing import NamedTuple

import jax

from coverset.envs.base import Environment
from coverset.envs.seats import has_common_reward, sides
from coverset.policies.network import POLICY_HEAD_SCALE, Network, NetworkSpec
from coverset.policies.team import build_networks
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


def actor_spec(environment: Environment, settings: GenerateSettings, side: int) -> NetworkSpec:
    """The network of a policy for a side; one that best responses and teammates share cannot know its seat."""
    played = sides(environment)[side]
    return NetworkSpec(
        input_shape=played.observation_shape,
        num_outputs=played.num_actions,
        hidden_sizes=settings.hidden_sizes,
        memory_size=settings.memory_size,
        fourier_bandwidth=settings.fourier_bandwidth,
        head_scale=POLICY_HEAD_SCALE,
        num_seats=1 if settings.share_pair_parameters else played.num_seats,
        separate_seats=settings.team_networks == "separate",
    )


def critic_spec(environment: Environment, settings: GenerateSettings) -> NetworkSpec:
    """The network of the centralised critic, which reads the observations of all seats."""
    return NetworkSpec(
        input_shape=joint_shape(critic_input_shape(environment), environment.num_seats),
        num_outputs=num_value_heads(environment, settings),
        hidden_sizes=settings.hidden_sizes,
        memory_size=settings.memory_size,
        fourier_bandwidth=settings.fourier_bandwidth,
        # Units are not known yet: values that start at random would be in wrong ones.
        head_scale=POLICY_HEAD_SCALE if settings.normalise_values else 1.0,
    )


def critic_input_shape(environment: Environment) -> tuple[int, ...]:
    """The shape of each seat's observation, as the critic reads it: flat where seats differ."""
    shapes = set(environment.observation_shapes)
    return environment.observation_shape if len(shapes) == 1 else (environment.observation_size,)


def num_value_heads(environment: Environment, settings: GenerateSettings) -> int:
    """Returns that the critic estimates: the ego's, and one for each teammate where they want something else."""
    apart = not has_common_reward(environment) and settings.ego_reward_share < 1.0
    return environment.num_seats if apart else 1


def init_networks(
    key: PRNGKey,
    environment: Environment,
    settings: GenerateSettings,
    size: tuple[int, int],
    num_teams: int | None = None,
) -> Networks:
    """Draw untrained networks; the method's own come separately.

    Args:
      key: of the random numbers.
      environment: the game.
      settings: of the run.
      size: numbers of best responses and of teammates.
      num_teams: teams that the critic tells apart; as many as there are teammates if not given.
    """
    row_key, column_key, critic_key = jax.random.split(key, 3)

    def population(key: PRNGKey, side: int) -> Network:
        return build_networks(
            settings.network, jax.random.split(key, size[side]), actor_spec(environment, settings, side)
        )

    best_responses = population(row_key, 0)
    teammates = best_responses if settings.share_pair_parameters else population(column_key, 1)
    spec = critic_spec(environment, settings)
    scaled, teams = settings.normalise_values, num_teams or size[1]
    critic = PairCritic.create(critic_key, settings.critic_network, spec, size[0], teams, finds_scale=scaled)
    return Networks(best_responses, teammates, critic)
