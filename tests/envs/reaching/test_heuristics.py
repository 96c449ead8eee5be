"""Heuristics of both reaching games: what they choose, how they break ties, how often they draw what."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.extensions import heuristics
from coverset.envs.reaching import WEIGHTED, Reaching, ReachingState
from coverset.types import Percept
from heuristic_play import draw, frequencies, play, stacked_heuristics

REACHING = [Reaching(), Reaching(payoffs=WEIGHTED, ends_apart=True, encoding="coordinates", sees_teammate=True)]
CHOICES = {  # of H1 to H6 from a cell: nearest, furthest, the same of A and B, of C and D; ties to the lowest letter
    (1, 1): "ACABDC",
    (1, 3): "BDBACD",
    (3, 3): "CABACD",
    (3, 1): "DBABDC",
    (2, 2): "AAAACC",
    (1, 2): "ACAACC",
    (2, 1): "ABABDC",
    (2, 3): "BABACD",
    (3, 2): "CAAACC",
}


def chosen_corners(environment: Reaching, cell: tuple[int, int]) -> str:
    state = ReachingState(positions=jnp.array([cell, (2, 2)], jnp.int32), time=jnp.int32(0))
    percept = Percept(environment.observe(state)[0], jnp.float32(0), jnp.array(True))
    _, corners = draw(stacked_heuristics(environment), percept, 1)
    return "".join("ABCD"[corner] for corner in np.asarray(corners)[:, 0])


@pytest.mark.parametrize("environment", REACHING, ids=["plain", "weighted"])
def test_reaching_choices_and_ties(environment: Reaching) -> None:
    assert list(heuristics(environment)) == [f"H{number}" for number in range(1, 16)]
    for cell, corners in CHOICES.items():
        chosen = chosen_corners(environment, cell)
        assert chosen[:6] == corners, cell
        assert chosen[7:11] == "ABCD"


def test_reaching_draws_with_the_stated_chances() -> None:
    environment = REACHING[0]
    percept = Percept(environment.observe(environment.reset(jax.random.key(0)))[0], jnp.float32(0), jnp.array(True))
    _, corners = draw(stacked_heuristics(environment), percept, 4000)
    drawn = frequencies(corners, 4)
    np.testing.assert_allclose(drawn[6], np.full(4, 0.25), atol=5 * np.sqrt(0.25 / 4000))
    np.testing.assert_allclose(drawn[11:], 0.15 + 0.4 * np.eye(4), atol=5 * np.sqrt(0.25 / 4000))


def test_reaching_keeps_its_corner_and_draws_anew_with_the_episode() -> None:
    environment = REACHING[0]
    h7 = heuristics(environment)["H7"]
    observation = environment.observe(environment.reset(jax.random.key(0)))[0]

    def corners(first):
        def body(memory, key):
            memory = h7.act(key, Percept(observation, jnp.float32(0), jnp.array(first)), memory)[1]
            return memory, memory

        return jax.lax.scan(body, jnp.int32(2), jax.random.split(jax.random.key(0), 60))[1]

    assert set(np.asarray(corners(False)).tolist()) == {2}
    assert set(np.asarray(corners(True)).tolist()) == {0, 1, 2, 3}


def test_reaching_walks_vertically_then_horizontally_then_stays() -> None:
    environment = REACHING[0]
    h10, h8 = (heuristics(environment)[name] for name in ("H10", "H8"))
    start = ReachingState(positions=jnp.array([(1, 2), (3, 3)], jnp.int32), time=jnp.int32(0))
    played = jax.jit(partial(play, environment))(start, jax.random.key(0), (h10, h8))
    assert played.actions[:8].tolist() == [[2, 1], [2, 1], [2, 1], [4, 3], [4, 3], [0, 3], [0, 0], [0, 0]]
    assert played.states.positions[7].tolist() == [[4, 4], [0, 0]]
