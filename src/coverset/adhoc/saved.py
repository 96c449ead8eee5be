"""Agents on disk and in other people's programs."""

from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from coverset.adhoc.agent import AdHocPolicy, MemoryNetwork, feature_size
from coverset.adhoc.plastic import PlasticPolicy
from coverset.policies.actor import dense_policy
from coverset.policies.layers import check_tensors, kind_of, named_layers, read_kind, read_layers
from coverset.policies.population import check_format
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile, check_fields, load_tensors, save_tensors
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
    tensors, about = load_tensors(path)
    check_format(path, about, FORMAT)
    check_fields(path, about, kind=Literal["memory", "feedforward", "plastic"], seat=Literal[0, 1])
    policy = _read_plastic(path, tensors, about) if about["kind"] == "plastic" else _read_network(path, tensors, about)
    return policy, about


def _read_plastic(path: Path, tensors: dict[str, np.ndarray], about: dict[str, Any]) -> PlasticPolicy:
    check_tensors(path, tensors, ("library",), ("edges", "log_likelihood"))
    library = read_layers(path, "library", tensors, stacked=True, waves=read_kind(path, about))
    edges, log_likelihood = tensors["edges"], tensors["log_likelihood"]
    members = library.weights[0].shape[0]
    if edges.ndim != 1 or log_likelihood.shape != (members, members, len(edges) + 1):
        raise DamagedFile(f"{path} holds edges and log_likelihood whose shapes do not fit {members} best responses.")
    return PlasticPolicy(dense_policy(library), jnp.asarray(edges), jnp.asarray(log_likelihood))


def _read_network(path: Path, tensors: dict[str, np.ndarray], about: dict[str, Any]) -> AdHocPolicy:
    check_tensors(path, tensors, ("encoder", "head"), ("recurrent",))
    check_fields(path, about, num_actions=int, reward_scale=float)
    encoder = read_layers(path, "encoder", tensors, waves=read_kind(path, about))
    head = read_layers(path, "head", tensors)
    remembers, actions, memory = about["kind"] == "memory", about["num_actions"], head.sizes[0]
    gates = 4 * memory if remembers else memory
    if (encoder.sizes[-1], tensors["recurrent"].shape) != (gates, (memory, gates)):
        raise DamagedFile(f"{path} holds encoder, recurrent and head whose shapes do not fit together.")
    if head.sizes[-1] != actions or encoder.sizes[0] <= feature_size(0, actions, recurrent=remembers):
        raise DamagedFile(f"{path} holds a network that does not choose among {actions} actions, its num_actions.")
    network = MemoryNetwork(encoder, jnp.asarray(tensors["recurrent"]), head, remembers)
    return AdHocPolicy(network, actions, float(about["reward_scale"]))


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
