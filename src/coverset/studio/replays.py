"""Replay recordings as frames for the browser, or as data about the person's play."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from coverset.envs.base import Environment
from coverset.runs.storage import DamagedFile
from coverset.studio.boards import describe_board
from coverset.studio.match import Match, Step
from coverset.types import Percept

TOLERANCE = 1e-5


class PersonSteps(NamedTuple):
    """Every step of a person's trial, for example to learn a partner from."""

    observations: Float[np.ndarray, "n d"]
    """Observations of the person's seat."""
    actions: Int[np.ndarray, "n"]
    partner_actions: Int[np.ndarray, "n *others"]
    """Of the other player; in games of more than two, [n, others], counted on from the person's seat."""
    rewards: Float[np.ndarray, "n"]
    """The person's reward for the step."""
    first: Bool[np.ndarray, "n"]
    """Whether the step is the first of an episode."""
    legal: Bool[np.ndarray, "n a"] | None = None
    """The actions that the person could choose; None in games whose actions are always legal."""


def replay_frames(recording: dict[str, Any], environment: Environment) -> dict[str, Any]:
    """Replay a checked recording; return the frames of every episode."""
    episodes: list[list[dict[str, Any]]] = []
    for match, step in _replay(recording, environment):
        if step is None:
            episodes.append([])
        episodes[-1].append(match.frame(step))
    return {"board": describe_board(environment), "seat": recording["seat"], "episodes": episodes}


def person_steps(recording: dict[str, Any], environment: Environment) -> PersonSteps:
    """Replay a checked recording; return the steps of the person's seat."""
    seat = recording["seat"]
    percepts: list[Percept] = []
    steps: list[Step] = []
    seen: Percept | None = None
    for match, step in _replay(recording, environment):
        if step is not None and seen is not None:
            percepts.append(seen)
            steps.append(step)
        seen = match.perceive(seat)
    if not steps:
        raise ValueError("The recording has no steps.")
    joint = np.roll(np.array([step.actions for step in steps]), -seat, axis=1)
    return PersonSteps(
        np.array([percept.observation for percept in percepts]),
        joint[:, 0],
        joint[:, 1] if environment.num_seats == 2 else joint[:, 1:],
        np.array([step.rewards[seat] for step in steps]),
        np.array([bool(percept.first) for percept in percepts]),
        None if percepts[0].legal is None else np.array([percept.legal for percept in percepts]),
    )


def _replay(recording: dict[str, Any], environment: Environment) -> Iterator[tuple[Match, Step | None]]:
    """Yield the match after every start (None) and every step. Raise if the rewards differ from the recording."""
    if recording["env_version"] != environment.version:
        raise DamagedFile(
            f"The recording was made with version {recording['env_version']} of its environment, "
            f"which is now at version {environment.version}."
        )
    seat = recording["seat"]
    match = Match(environment, (None,) * environment.num_seats, recording["seed"])
    for number, episode in enumerate(recording["episodes"]):
        if number:
            match.start_episode()
        yield match, None
        for actions, reward in zip(episode["actions"], episode["rewards"], strict=True):
            _check_actions(environment, actions)
            step = match.step(dict(enumerate(actions)))
            if abs(step.rewards[seat] - reward) > TOLERANCE:
                raise DamagedFile(
                    f"Episode {number + 1} of the recording does not replay as recorded: it was made with another "
                    "version of JAX or has been changed."
                )
            yield match, step


def _check_actions(environment: Environment, actions: list[int]) -> None:
    if len(actions) != environment.num_seats:
        raise DamagedFile(
            f"The recording contains steps of {len(actions)} players, but the environment has {environment.num_seats}."
        )
    for action, number in zip(actions, environment.num_actions, strict=True):
        if not 0 <= action < number:
            raise DamagedFile(f"The recording contains action {action}, but the environment has {number} actions.")
