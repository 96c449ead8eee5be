"""Heuristics H1 to H15 of both reaching games (Rahman et al. 2024, Appendix A).

In a team of several teammates each follows the heuristic by itself, with a start and draws of its own.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.envs.extensions import number_heuristics
from coverset.envs.reaching.dynamics import CORNERS, Reaching
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

STAY, UP, DOWN, LEFT, RIGHT = range(5)
NEAREST, ANY, FURTHEST = 1, 0, -1
FAVOURED = 0.55
"""Probability of the main corner of H12 to H15; the others share the rest equally."""


@final
class CornerWalker(Policy):
    """Choose a corner at the start of an episode, walk there, vertically first, then horizontally, and stay.

    With `nearness` 1 or -1 it is the nearest or furthest corner with positive probability, by Manhattan distance from
    the start, with ties broken alphabetically. With 0 it is drawn from `probabilities`. Memory is the corner.
    """

    environment: Reaching = eqx.field(static=True)
    probabilities: Float[Array, "4"]
    nearness: Int[Array, ""]

    def initial_memory(self) -> Int[Array, ""]:
        return jnp.int32(0)

    def act(self, key: PRNGKey, percept: Percept, memory: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        position = self.environment.own_position(percept.observation)
        corner = jnp.where(percept.first, self._choose(key, position), memory)
        return self._walk(position, corner), corner

    def _choose(self, key: PRNGKey, position: Int[Array, "2"]) -> Int[Array, ""]:
        distance = jnp.sum(jnp.abs(self.environment.corners() - position[None]), axis=-1)
        # argmin returns the first minimum, which breaks ties alphabetically
        by_distance = jnp.argmin(jnp.where(self.probabilities > 0, self.nearness * distance, jnp.iinfo(jnp.int32).max))
        drawn = jax.random.categorical(key, jnp.log(self.probabilities))
        return jnp.where(self.nearness == ANY, drawn, by_distance).astype(jnp.int32)

    def _walk(self, position: Int[Array, "2"], corner: Int[Array, ""]) -> Int[Array, ""]:
        down, right = self.environment.corners()[corner] - position
        sideways = jnp.where(right > 0, RIGHT, jnp.where(right < 0, LEFT, STAY))
        return jnp.where(down > 0, DOWN, jnp.where(down < 0, UP, sideways)).astype(jnp.int32)


def list_heuristics(environment: Reaching) -> dict[str, tuple[CornerWalker, str]]:
    """Return H1 to H15 with a sentence each."""
    rest = (1 - FAVOURED) / 3
    rows: list[tuple[str, int, str]] = [
        ("ABCD", NEAREST, "Walks to the nearest corner."),
        ("ABCD", FURTHEST, "Walks to the furthest corner."),
        ("AB", NEAREST, "Walks to the nearer of corners A and B."),
        ("AB", FURTHEST, "Walks to the further of corners A and B."),
        ("CD", NEAREST, "Walks to the nearer of corners C and D."),
        ("CD", FURTHEST, "Walks to the further of corners C and D."),
        ("ABCD", ANY, "Draws one of the four corners uniformly for each episode and walks there."),
        *((corner, ANY, f"Walks to corner {corner}.") for corner in CORNERS),
    ]
    walkers = [(_make_walker(environment, _make_uniform(corners), nearness), text) for corners, nearness, text in rows]
    for number, corner in enumerate(CORNERS):
        probabilities = [FAVOURED if other == number else rest for other in range(len(CORNERS))]
        text = f"Draws corner {corner} with 55%, each other with 15%, for each episode and walks there."
        walkers.append((_make_walker(environment, probabilities, ANY), text))
    return number_heuristics(walkers)


def _make_walker(environment: Reaching, probabilities: list[float], nearness: int) -> CornerWalker:
    return CornerWalker(environment, jnp.array(probabilities, jnp.float32), jnp.int32(nearness))


def _make_uniform(corners: str) -> list[float]:
    return [1.0 / len(corners) if corner in corners else 0.0 for corner in CORNERS]
