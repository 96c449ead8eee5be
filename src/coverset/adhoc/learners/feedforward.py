"""An agent without memory, which sees nothing but the present observation: the control for learners that remember."""

from dataclasses import dataclass

from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec, OnPolicyLearner, init_actor_critic
from coverset.adhoc.ppo import ppo_loss
from coverset.policies.network import network_class
from coverset.types import PRNGKey, Scalar


@dataclass(frozen=True)
class Feedforward(OnPolicyLearner):
    """An actor and a critic without memory, trained by PPO; a last hidden layer has the size of RL^2's memory."""

    network: str = "dense"
    """Network of actor and critic: dense, conv or module:Class."""

    def __post_init__(self) -> None:
        if network_class(self.network).recurrent:
            raise ValueError(
                f"feedforward needs a network without memory, dense, conv or module:Class, got '{self.network}'; "
                "rl2 is the learner with memory."
            )

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        return init_actor_critic(
            key,
            spec,
            network=self.network,
            input_shape=spec.observation_shape,
            hidden_sizes=(*spec.hidden_sizes, spec.memory_size),
        )

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        return ppo_loss(*self.unroll(networks, batch), batch, pace)
