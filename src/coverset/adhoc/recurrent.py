"""Recurrent agents with a memory of the whole trial: what they read, and networks trained by PPO alone.

At every step the networks read x_t: the observation, the agent's own last action, the last reward and whether an
episode starts.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec, OnPolicyLearner, init_actor_critic
from coverset.adhoc.ppo import ppo_loss
from coverset.policies.network import network_class
from coverset.types import Percept, PRNGKey, Scalar


def trial_input_size(spec: AgentSpec) -> int:
    """Length of what `read_trial` gives."""
    return spec.observation_size + spec.num_actions + 2


def read_trial(percept: Percept, last_action: Int[Array, "*b"], spec: AgentSpec) -> Float[Array, "*b f"]:
    """x_t: the observation, the last action as one-hot (zeros for none), the scaled last reward, and the start flag."""
    return jnp.concatenate(
        [
            percept.observation,
            jax.nn.one_hot(last_action, spec.num_actions),
            (percept.reward * spec.reward_scale)[..., None],
            percept.first[..., None].astype(jnp.float32),
        ],
        axis=-1,
    )


def check_recurrent(learner: str, network: str) -> None:
    """Raise ValueError unless a network of this kind remembers."""
    if not network_class(network).recurrent:
        raise ValueError(
            f"{learner} needs a recurrent network, lstm, gru or module:Class, got '{network}'; a convolutional one "
            "is not possible, because the last action, reward and start flag stand beside the observation."
        )


@dataclass(frozen=True)
class RecurrentLearner(OnPolicyLearner):
    """A recurrent actor and critic, trained by PPO."""

    network: str = "lstm"
    """Recurrent network of actor and critic: lstm, gru or module:Class."""

    def __post_init__(self) -> None:
        check_recurrent(type(self).__name__.lower(), self.network)

    def num_outputs(self, spec: AgentSpec) -> int:
        """Outputs of the actor: one for each action. A learner with auxiliary losses may add more behind them."""
        return spec.num_actions

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        shape, outputs = (trial_input_size(spec),), self.num_outputs(spec)
        return init_actor_critic(key, spec, network=self.network, input_shape=shape, num_outputs=outputs)

    def inputs(self, percept: Percept, last_action: Int[Array, "*b"], spec: AgentSpec) -> Float[Array, "*b f"]:
        return read_trial(percept, last_action, spec)

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        outputs, values = self.unroll(networks, batch)
        return ppo_loss(outputs[..., : spec.num_actions], values, batch, pace)
