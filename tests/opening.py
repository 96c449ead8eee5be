"""A game in which partners see how each of them began: known answers for handshakes, sabotage and honest conventions.

The first step is an opening that both players see for the rest of the episode, and pays nothing. In every later step
both press one of three buttons, or none; the same button pays. Whoever always presses the right one earns 1.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coverset import Environment
from coverset.envs.base import time_limit
from coverset.pipeline.generate import make_plan
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population, save_population
from coverset.runs.storage import write_json
from coverset.runs.trust import sign_record
from coverset.types import Outcome

NONE = 3
"""The action that presses no button."""
NOT_YET = 4


class OpeningState(NamedTuple):
    openings: jax.Array
    """Of both players; `NOT_YET` before the first step."""
    time: jax.Array


@dataclass(frozen=True)
class Opening(Environment):
    """Openings are seen; later steps pay for the same button."""

    horizon: int = 8

    @property
    def observation_size(self):
        return 25

    @property
    def num_actions(self):
        return 4, 4

    def reset(self, key):
        del key
        return OpeningState(jnp.full(2, NOT_YET, jnp.int32), jnp.int32(0))

    def initial_states(self):
        return jax.tree.map(lambda x: x[None], self.reset(jax.random.key(0))), np.ones(1)

    def step(self, key, state, actions):
        del key
        opens = state.openings[0] == NOT_YET
        matched = ~opens & (actions[0] == actions[1]) & (actions[0] != NONE)
        time = state.time + 1
        following = OpeningState(jnp.where(opens, actions, state.openings), time)
        over = jnp.bool_(False)
        return Outcome(following, matched.astype(jnp.float32) / 7.0, over, time_limit(time, self.horizon, over))

    def observe(self, state):
        seen = jax.nn.one_hot(state.openings[0] * 5 + state.openings[1], 25)
        return jnp.stack([seen, seen])

    def render(self, state, seat=None):
        del seat
        return f"openings {state.openings.tolist()}"


def player(opening: int, button: int, accepted: tuple[int, ...] = (0, 1, 2, NONE)) -> np.ndarray:
    """Actions by the openings of both: a teammate that presses its button after the openings that it accepts."""
    actions = np.full((5, 5), NONE)
    actions[list(accepted), :] = button
    actions[NOT_YET, NOT_YET] = opening
    return actions.reshape(25)


def tabular(tables: list[np.ndarray]) -> ActorPolicy:
    """Policies that do almost surely what their tables say, as networks of one hidden layer."""
    size = len(tables)
    first = jnp.broadcast_to(jnp.eye(25), (size, 25, 25))
    second = 50.0 * jnp.stack([jax.nn.one_hot(table, 4) for table in tables])
    return dense_policy(MLP((first, second), (jnp.zeros((size, 25)), jnp.zeros((size, 4)))))


HONEST = [(0, 0), (1, 1), (2, 2)]
"""Opening and button of best responses, each the answer to a teammate that presses its button come what may."""


def honest_population() -> Population:
    """Three conventions, which no opening changes."""
    tables = [player(*pair) for pair in HONEST]
    return Population(tabular(tables), tabular(tables))


def mixed_population() -> Population:
    """A convention; a handshake, which presses the same button after the opening of its own best response only; a
    saboteur; and a teammate that never presses any button."""
    rows = [player(0, 0), player(1, 0), player(2, 2), player(NONE, 1)]
    columns = [player(0, 0), player(1, 0, accepted=(1,)), player(2, 2, accepted=(2,)), player(NONE, NONE)]
    return Population(tabular(rows), tabular(columns))


WORDS = ["convention", "handshake", "saboteur", "incompetent"]
"""What they are."""


def write_opening_run(path: Path, population: Population, size: int) -> Path:
    """A finished run that holds this population."""
    config = make_plan("opening:Opening", population_size=size, hidden_sizes=(25,), total_steps=40_000).config(0)
    write_json(path / "config.json", config)
    about = sign_record({key: config[key] for key in ("env", "env_parameters", "seed")})
    save_population(path / "policies.safetensors", population, about)
    write_json(path / "summary.json", {"env": config["env"], "env_steps": 0, "cross_play": [[0.0] * size] * size})
    return path
