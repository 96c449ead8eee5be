"""Heuristics H1 to H15 of both reaching games (Rahman et al. 2024, Appendix A)."""

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
"""How often H12 to H15 walk to their corner; the others share the rest."""


@final
class CornerWalker(Policy):
    """Choose a corner when an episode starts, walk there, vertically first, then horizontally, and stay.

    With `nearness` 1 or -1 it is the nearest or furthest of the corners whose chance is above 0, by Manhattan distance
    from the cell of the start; among equals the lowest letter. With 0 it is drawn by the chances. Memory is the corner.
    """

    environment: Reaching = eqx.field(static=True)
    chances: Float[Array, "4"]
    nearness: Int[Array, ""]

    def initial_memory(self) -> Int[Array, ""]:
        return jnp.int32(0)

    def act(self, key: PRNGKey, percept: Percept, memory: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        position = self.environment.own_position(percept.observation)
        corner = jnp.where(percept.first, self._choose(key, position), memory)
        return self._walk(position, corner), corner

    def _choose(self, key: PRNGKey, position: Int[Array, "2"]) -> Int[Array, ""]:
        distance = jnp.sum(jnp.abs(self.environment.corners() - position[None]), axis=-1)
        # argmin takes the first of equals, that is the lowest letter
        by_distance = jnp.argmin(jnp.where(self.chances > 0, self.nearness * distance, jnp.iinfo(jnp.int32).max))
        drawn = jax.random.categorical(key, jnp.log(self.chances))
        return jnp.where(self.nearness == ANY, drawn, by_distance).astype(jnp.int32)

    def _walk(self, position: Int[Array, "2"], corner: Int[Array, ""]) -> Int[Array, ""]:
        down, right = self.environment.corners()[corner] - position
        sideways = jnp.where(right > 0, RIGHT, jnp.where(right < 0, LEFT, STAY))
        return jnp.where(down > 0, DOWN, jnp.where(down < 0, UP, sideways)).astype(jnp.int32)


def list_heuristics(environment: Reaching) -> dict[str, tuple[CornerWalker, str]]:
    """H1 to H15, and a sentence each."""
    rest = (1 - FAVOURED) / 3
    rows: list[tuple[str, int, str]] = [
        ("ABCD", NEAREST, "Walks to the nearest corner."),
        ("ABCD", FURTHEST, "Walks to the furthest corner."),
        ("AB", NEAREST, "Walks to the nearer of corners A and B."),
        ("AB", FURTHEST, "Walks to the further of corners A and B."),
        ("CD", NEAREST, "Walks to the nearer of corners C and D."),
        ("CD", FURTHEST, "Walks to the further of corners C and D."),
        ("ABCD", ANY, "Draws one of the four corners evenly for each episode and walks there."),
        *((corner, ANY, f"Walks to corner {corner}.") for corner in CORNERS),
    ]
    walkers = [(_walker(environment, _evenly(corners), nearness), text) for corners, nearness, text in rows]
    for number, corner in enumerate(CORNERS):
        chances = [FAVOURED if other == number else rest for other in range(len(CORNERS))]
        text = f"Draws corner {corner} with 55%, each other with 15%, for each episode and walks there."
        walkers.append((_walker(environment, chances, ANY), text))
    return number_heuristics(walkers)


def _walker(environment: Reaching, chances: list[float], nearness: int) -> CornerWalker:
    return CornerWalker(environment, jnp.array(chances, jnp.float32), jnp.int32(nearness))


def _evenly(corners: str) -> list[float]:
    return [1.0 / len(corners) if corner in corners else 0.0 for corner in CORNERS]
