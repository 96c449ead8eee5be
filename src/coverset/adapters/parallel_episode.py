"""One episode of a PettingZoo environment by seats, with everything it returns checked.

Parallel environments are played as they are. Environments whose agents act in turn (AEC) are converted by PettingZoo's
own wrappers; in a game of turns, whoever waits has no legal action. Legal actions are read where PettingZoo documents
them: under `action_mask` in an agent's info, or beside `observation` in a dictionary that the agent observes.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim, flatten
from jaxtyping import Bool, Float, Int
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import (
    aec_to_parallel,
    turn_based_aec_to_parallel,
    turn_based_aec_to_parallel_wrapper,
)

from coverset.adapters.replay import PROBE_SEED, EpisodeStep
from coverset.checks import describe_exception

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
OBSERVATION, MASK = "observation", "action_mask"


class Seats(NamedTuple):
    """The agents of an environment, in the order of `possible_agents`, and their spaces."""

    name: str
    """Of the environment, for error messages."""
    agents: tuple[str, ...]
    actions: tuple[spaces.Discrete, ...]
    observations: tuple[spaces.Space, ...]
    """Spaces of what is observed, without masks."""
    masked: bool
    """Whether some actions may be illegal."""

    @property
    def num_actions(self) -> tuple[int, ...]:
        return tuple(int(space.n) for space in self.actions)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the flat observations."""
        return tuple(flatdim(space) for space in self.observations)


def as_parallel(name: str, made: Any) -> ParallelEnv:
    """The environment as a parallel one; raises ValueError if it is none of PettingZoo's."""
    if isinstance(made, AECEnv):
        parallelizable = made.metadata.get("is_parallelizable", False)
        return aec_to_parallel(made) if parallelizable else turn_based_aec_to_parallel(made)
    if not isinstance(made, ParallelEnv):
        raise ValueError(f"'{name}' must make a PettingZoo ParallelEnv or AECEnv, got {type(made).__name__}.")
    return made


def inspect_seats(name: str, made: ParallelEnv) -> Seats:
    """Agents and spaces of a new environment, which is closed; raises ValueError if it is unsupported."""
    agents: tuple[str, ...] = tuple(getattr(made, "possible_agents", ()))
    if len(agents) < 2:
        listed = ", ".join(map(str, agents)) or "no possible_agents"
        raise ValueError(f"'{name}' must have two or more agents, got {len(agents)}: {listed}.")
    actions = tuple(call_method(name, made, "action_space", agent) for agent in agents)
    observations = tuple(call_method(name, made, "observation_space", agent) for agent in agents)
    for agent, space in zip(agents, actions, strict=True):
        if not isinstance(space, spaces.Discrete):
            raise ValueError(f"Actions of '{agent}' must be Discrete, got {space}.")
    seen = tuple(_find_array_space(agent, space) for agent, space in zip(agents, observations, strict=True))
    masked = any(map(_holds_mask, observations)) or _takes_turns(made) or _starts_with_masks(name, made)
    call_method(name, made, "close")
    return Seats(name, agents, actions, seen, masked)


def call_method(name: str, made: Any, method: str, *arguments: Any, **named: Any) -> Any:
    """Call a method of a third-party environment; raises ValueError that names both if it fails."""
    try:
        return getattr(made, method)(*arguments, **named)
    except Exception as error:
        raise ValueError(f"environment '{name}' failed in {method}: {describe_exception(error)}.") from error


def _holds_mask(space: spaces.Space) -> bool:
    """Whether observations are dictionaries of what is seen and a mask."""
    return isinstance(space, spaces.Dict) and set(space.spaces) == {OBSERVATION, MASK}


def _find_array_space(agent: str, space: spaces.Space) -> spaces.Space:
    """The space of what an agent sees, which must be an array."""
    seen = space[OBSERVATION] if isinstance(space, spaces.Dict) and _holds_mask(space) else space
    if not isinstance(seen, ARRAY_SPACES):
        wanted = f"arrays, or dictionaries of {OBSERVATION} and {MASK}"
        raise ValueError(f"Observations of '{agent}' must be {wanted}, got {seen}.")
    return seen


def _takes_turns(made: Any) -> bool:
    return isinstance(made, turn_based_aec_to_parallel_wrapper)


def _starts_with_masks(name: str, made: ParallelEnv) -> bool:
    """Whether infos hold masks; what is wrong with them is found when an episode is played."""
    given = call_method(name, made, "reset", seed=PROBE_SEED)
    infos = given[1] if isinstance(given, tuple | list) and len(given) == 2 else None
    return isinstance(infos, Mapping) and any(isinstance(info, Mapping) and MASK in info for info in infos.values())


class ParallelEpisode:
    """One episode by seats; raises ValueError on values outside of the environment's spaces.

    Agents may leave before the end: their seats then observe zeros, earn nothing and have no legal action. The episode
    is over when all have left.
    """

    def __init__(self, seats: Seats, environment: ParallelEnv) -> None:
        self.seats = seats
        self.environment: Any = environment
        self.live = seats.agents

    def reset(self, seed: int) -> EpisodeStep:
        """Start the episode."""
        given = self._check_count("reset", 2, call_method(self.seats.name, self.environment, "reset", seed=seed))
        return self._read_step("reset", given[0], given[1], np.zeros(len(self.seats.agents)))

    def step(self, actions: Int[np.ndarray, "seats"]) -> EpisodeStep:
        """Play the actions of those that have not left."""
        joint = self._join(actions)
        given = self._check_count("step", 5, call_method(self.seats.name, self.environment, "step", joint))
        rewards = self._check_rewards(given[1])
        over, terminated = self._note_ends(given[2], given[3])
        step = self._read_step("step", given[0], given[4], rewards)
        if over:
            call_method(self.seats.name, self.environment, "close")
        return step._replace(terminated=terminated, truncated=over and not terminated)

    def _join(self, actions: Int[np.ndarray, "seats"]) -> dict[str, int]:
        """Actions as the environment counts them, of those that have not left."""
        numbered = zip(self.seats.agents, self.seats.actions, actions, strict=True)
        return {agent: int(space.start) + int(action) for agent, space, action in numbered if agent in self.live}

    def _note_ends(self, terminations: Any, truncations: Any) -> tuple[bool, bool]:
        """Note who has left; whether the episode is over, and whether it has terminated.

        At the end of an episode, those who have played its last step count as present: their observations matter.
        """
        terminated = self._by_agent("step", "a termination", terminations)
        truncated = self._by_agent("step", "a truncation", truncations)
        stay = tuple(agent for agent in self.live if not (terminated[agent] or truncated[agent]))
        self.live = stay or self.live
        return not stay, not stay and any(terminated.values())

    def _read_step(
        self, method: str, observations: Any, infos: Any, rewards: Float[np.ndarray, "seats"]
    ) -> EpisodeStep:
        observed = self._by_agent(method, "an observation", observations)
        return EpisodeStep(
            self._flatten_observations(method, observed), rewards, self._read_masks(method, observed, infos)
        )

    def _make_error(self, method: str, wanted: str, got: str) -> ValueError:
        sentence = f"environment '{self.seats.name}' must return {wanted} from {method}, {got}."
        return ValueError(" ".join(sentence.split()))

    def _check_count(self, method: str, number: int, given: Any) -> tuple[Any, ...]:
        if not isinstance(given, tuple | list) or len(given) != number:
            got = len(given) if isinstance(given, tuple | list) else type(given).__name__
            raise self._make_error(method, f"{number} values", f"got {got}")
        return tuple(given)

    def _by_agent(self, method: str, what: str, given: Any) -> dict[str, Any]:
        """The values of all agents that have not left, in the order of seats."""
        for agent in self.live:
            if not isinstance(given, Mapping):
                raise self._make_error(method, f"{what} for agent '{agent}'", f"got {type(given).__name__} for a dict")
            if agent not in given:
                listed = ", ".join(map(str, given)) or "no agent"
                raise self._make_error(method, f"{what} for agent '{agent}'", f"got one for {listed}")
        return {agent: given[agent] for agent in self.live}

    def _check_rewards(self, given: Any) -> Float[np.ndarray, "seats"]:
        rewards = np.zeros(len(self.seats.agents))
        for agent, reward in self._by_agent("step", "a reward", given).items():
            try:
                number = float(reward)
            except (TypeError, ValueError):
                number = math.nan
            if not math.isfinite(number):
                raise self._make_error("step", f"a finite reward for agent '{agent}'", f"got {reward!r}")
            rewards[self.seats.agents.index(agent)] = number
        return rewards

    def _read_masks(self, method: str, observed: dict[str, Any], infos: Any) -> Bool[np.ndarray, "seats a"]:
        """The legal actions of every seat: all that it has, unless the environment says otherwise."""
        masks = np.zeros((len(self.seats.agents), max(self.seats.num_actions)), bool)
        for agent, observation in observed.items():
            if _takes_turns(self.environment) and agent != self.environment.aec_env.agent_selection:
                continue
            seat = self.seats.agents.index(agent)
            number = self.seats.num_actions[seat]
            given = _find_mask(observation, infos, agent)
            masks[seat, :number] = True if given is None else self._check_mask(method, agent, given, number)
        return masks

    def _check_mask(self, method: str, agent: str, given: Any, number: int) -> Bool[np.ndarray, "_"]:
        if not self.seats.masked:
            wanted = f"an {MASK} for agent '{agent}' from reset, if it returns one"
            raise self._make_error(method, wanted, "got none there")
        mask = np.asarray(given)
        if mask.shape != (number,):
            wanted = f"an {MASK} of {number} entries for agent '{agent}'"
            raise self._make_error(method, wanted, f"got shape {list(mask.shape)}")
        return mask.astype(bool)

    def _flatten_observations(self, method: str, observed: dict[str, Any]) -> Float[np.ndarray, "seats d"]:
        vectors = np.zeros((len(self.seats.agents), max(self.seats.sizes)), np.float32)
        for agent, observation in observed.items():
            seat = self.seats.agents.index(agent)
            seen = observation[OBSERVATION] if isinstance(observation, Mapping) else observation
            vector = self._flatten_observation(method, seat, seen)
            vectors[seat, : len(vector)] = vector
        return vectors

    def _flatten_observation(self, method: str, seat: int, observation: Any) -> Float[np.ndarray, "_"]:
        """One agent's observation, flattened."""
        space, whose = self.seats.observations[seat], f"for agent '{self.seats.agents[seat]}'"
        numbered = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
        if numbered and not space.contains(observation):  # `flatten` accepts negative indices
            raise self._make_error(method, f"an observation {whose} in {space}", f"got {observation!r}")
        try:
            with np.errstate(invalid="raise", over="raise"):
                vector = np.asarray(flatten(space, observation), np.float32)
        except Exception as error:  # numpy may raise anything here
            raise self._make_error(
                method, f"an observation {whose} in {space}", f"but {describe_exception(error)}"
            ) from error
        if len(vector) != flatdim(space):
            wanted = f"an observation of {flatdim(space)} numbers, as in its space, {whose}"
            raise self._make_error(method, wanted, f"got {len(vector)}")
        if not np.isfinite(vector).all():
            got = vector[~np.isfinite(vector)][0]
            raise self._make_error(method, f"an observation of finite numbers {whose}", f"got {got}")
        return vector


def _find_mask(observation: Any, infos: Any, agent: str) -> Any:
    """An agent's mask, from its observation or else from its info; None if there is none."""
    if isinstance(observation, Mapping) and MASK in observation:
        return observation[MASK]
    info = infos.get(agent) if isinstance(infos, Mapping) else None
    return info.get(MASK) if isinstance(info, Mapping) else None
