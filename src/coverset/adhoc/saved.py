"""Agents on disk and in other people's programs."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.adhoc.agent import AdHocPolicy, MemoryNetwork
from coverset.adhoc.plastic import PlasticPolicy
from coverset.policies.base import Policy
from coverset.policies.layers import WAVES, kind_of, named_layers, read_layers
from coverset.policies.networks import NetworkPolicy
from coverset.storage import DamagedFile, load_tensors, save_tensors
from coverset.types import Percept

FORMAT = "coverset agent 1"


def save_agent(path: Path, policy: AdHocPolicy | PlasticPolicy, about: dict[str, Any]) -> None:
    """Write an agent; `about` says which environment and seat it is for."""
    if isinstance(policy, PlasticPolicy):
        tensors = {
            "edges": policy.edges,
            "log_likelihood": policy.log_likelihood,
            **named_layers("library", policy.library.mlp),
        }
        kind: dict[str, Any] = {"kind": "plastic", **kind_of(policy.library.mlp)}
    else:
        actor = policy.actor
        tensors = {
            "recurrent": actor.recurrent_weight,
            **named_layers("encoder", actor.encoder),
            **named_layers("head", actor.head),
        }
        kind = {
            "kind": "memory" if actor.recurrent else "feedforward",
            "num_actions": policy.num_actions,
            "reward_scale": policy.reward_scale,
            **kind_of(actor.encoder),
        }
    arrays = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    save_tensors(path, arrays, {"format": FORMAT, **kind, **about})


def load_agent_policy(path: Path) -> tuple[Policy, dict[str, Any]]:
    """Read what `save_agent` wrote: the policy, and what it is for."""
    arrays, about = load_tensors(path)
    if about.get("format") != FORMAT:
        raise DamagedFile(f"{path} holds '{about.get('format')}' where '{FORMAT}' was expected.")
    tensors = {name: jnp.asarray(array) for name, array in arrays.items()}
    waves = bool(about.get(WAVES))
    try:
        if about["kind"] == "plastic":
            library = NetworkPolicy(read_layers("library", tensors, waves=waves))
            return PlasticPolicy(library, tensors["edges"], tensors["log_likelihood"]), about
        encoder, head = read_layers("encoder", tensors, waves=waves), read_layers("head", tensors)
        network = MemoryNetwork(encoder, tensors["recurrent"], head, about["kind"] == "memory")
        return AdHocPolicy(network, about["num_actions"], about["reward_scale"]), about
    except KeyError as error:
        raise DamagedFile(f"{path} lacks {error}.") from error


class Agent:
    """A trained agent for a loop of one's own: give it what it sees, get its action.

    Memory lasts from `reset` on; call that when a new partner comes.
    """

    def __init__(self, policy: Policy, about: dict[str, Any], seed: int = 0) -> None:
        self.about = about
        self._policy = policy
        self._act = jax.jit(lambda key, percept, memory: policy.act(key, percept, memory))
        self._key = jax.random.key(seed)
        self.reset()

    def reset(self) -> None:
        """Forget everything: a new partner."""
        self._memory = self._policy.initial_memory()
        self._first = True

    def act(self, observation: Any, reward: float = 0.0, done: bool = False) -> int:
        """Choose an action.

        Args:
          observation: the agent's observation, [d].
          reward: the reward of the step before; 0 at the first step with a partner.
          done: whether that step ended an episode, so that `observation` starts another.
        """
        self._key, key = jax.random.split(self._key)
        percept = Percept(jnp.asarray(observation, jnp.float32), jnp.float32(reward), jnp.bool_(done or self._first))
        action, self._memory = self._act(key, percept, self._memory)
        self._first = False
        return int(action)


def load_agent(path: str | Path, seed: int = 0) -> Agent:
    """Load an agent that `coverset train` has written, from its file or its directory."""
    path = Path(path)
    policy, about = load_agent_policy(path / "agent.safetensors" if path.is_dir() else path)
    return Agent(policy, about, seed)
