"""RL^2 (Duan et al. 2016; paper, experiment setup and last appendix).

A recurrent network reads the observation, the agent's own last action, the last reward and whether an episode starts.
Its memory lasts for a whole trial of episodes with one partner, so that the agent can find out whom it plays with.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec, OnPolicyLearner, init_actor_critic
from coverset.adhoc.ppo import ppo_loss
from coverset.policies.network import network_class
from coverset.types import Percept, PRNGKey, Scalar


@dataclass(frozen=True)
class RL2(OnPolicyLearner):
    """A recurrent actor and critic, trained by PPO."""

    network: str = "lstm"
    """Recurrent network of actor and critic: lstm, gru or module:Class."""

    def __post_init__(self) -> None:
        if not network_class(self.network).recurrent:
            raise ValueError(
                f"rl2 needs a recurrent network, lstm, gru or module:Class, got '{self.network}'; a convolutional one "
                "is not possible, because the last action, reward and start flag stand beside the observation."
            )

    def num_outputs(self, spec: AgentSpec) -> int:
        """Outputs of the actor: one for each action. A learner with auxiliary losses may add more behind them."""
        return spec.num_actions

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        shape = (spec.observation_size + spec.num_actions + 2,)
        return init_actor_critic(key, spec, network=self.network, input_shape=shape, num_outputs=self.num_outputs(spec))

    def inputs(self, percept: Percept, last_action: Int[Array, "*b"], spec: AgentSpec) -> Float[Array, "*b f"]:
        """The observation, the last action as one-hot (zeros for none), the scaled last reward, and the start flag."""
        return jnp.concatenate(
            [
                percept.observation,
                jax.nn.one_hot(last_action, spec.num_actions),
                (percept.reward * spec.reward_scale)[..., None],
                percept.first[..., None].astype(jnp.float32),
            ],
            axis=-1,
        )

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        outputs, values = self.unroll(networks, batch)
        return ppo_loss(outputs[..., : spec.num_actions], values, batch, pace)
