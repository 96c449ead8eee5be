"""Heuristics of the repeated matrix game."""

import jax.numpy as jnp
import numpy as np

from coverset.envs.extensions import heuristics
from coverset.envs.matrix import MatrixGame
from coverset.types import Percept
from heuristic_play import draw, frequencies, stacked_heuristics


def test_matrix_heuristics_are_the_papers() -> None:
    environment = MatrixGame()
    assert list(heuristics(environment)) == [f"H{number}" for number in range(1, 7)]
    mixes = 0.15 + 0.55 * np.eye(3)
    probabilities = stacked_heuristics(environment).probabilities
    np.testing.assert_allclose(probabilities, np.concatenate([np.eye(3), mixes]), atol=1e-6)
    percept = Percept(jnp.ones(1), jnp.float32(0), jnp.array(True))
    actions, _ = draw(stacked_heuristics(environment), percept, 4000)
    played = frequencies(actions, 3)
    np.testing.assert_array_equal(played[:3], np.eye(3))
    np.testing.assert_allclose(played[3:], mixes, atol=5 * np.sqrt(0.25 / 4000))


def test_matrix_heuristics_of_another_size() -> None:
    environment = MatrixGame(payoffs=((1.0, 0.0, 0.0, 2.0, 0.0),))
    assert list(heuristics(environment)) == [f"H{number}" for number in range(1, 11)]
    np.testing.assert_allclose(heuristics(environment)["H7"].probabilities, [0.075, 0.7, 0.075, 0.075, 0.075])
    assert list(heuristics(MatrixGame(payoffs=((1.0,),)))) == ["H1"]
