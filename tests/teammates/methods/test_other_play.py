"""Other-Play: symmetries of games, the relabelled game, and the lever game, whose answer is known."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.envs.reaching.dynamics import WEIGHTED
from coverset.envs.relabelled import Relabelled, RelabelledState
from coverset.envs.symmetry_checks import check_symmetries
from coverset.evaluation.cross_play import cross_play
from coverset.settings import GenerateSettings
from coverset.teammates.methods.independent import Independent
from coverset.teammates.methods.other_play import OtherPlay
from coverset.teammates.trainer import Trainer
from coverset.types import Symmetry

LEVERS = MatrixGame(payoffs=((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.9)))
"""Hu et al. 2020: of several levers that are alike and one that pays less, only the last can be agreed upon."""


def test_the_three_levers_that_are_alike_may_be_exchanged() -> None:
    assert {symmetry.actions[3] for symmetry in LEVERS.symmetries} == {3}
    assert len(LEVERS.symmetries) == 6


def test_a_game_without_equal_actions_has_the_identity_alone() -> None:
    assert MatrixGame().symmetries == (Symmetry((0,), (0, 1, 2)),)
    assert MatrixGame(payoffs=((1.0, 2.0),)).symmetries == ()
    assert MatrixGame(payoffs=tuple(map(tuple, np.eye(7)))).symmetries == (), "too many to be tried"


@pytest.mark.parametrize(
    ("game", "count"),
    [
        (Reaching(), 8),
        (Reaching(sees_teammate=True, size=4), 8),
        (Reaching(encoding="coordinates"), 2),
        (Reaching(payoffs=WEIGHTED, ends_apart=True), 2),
        (LEVERS, 6),
    ],
    ids=str,
)
def test_listed_symmetries_leave_the_game_as_it_is(game, count: int) -> None:
    assert len(set(game.symmetries)) == count
    check_symmetries(game)


@dataclass(frozen=True)
class WrongLevers(MatrixGame):
    """Claims that all levers are alike."""

    claimed: tuple = (Symmetry((0,), (0, 1, 2)), Symmetry((0,), (1, 0, 2)))

    @property
    def symmetries(self):
        return self.claimed


@pytest.mark.parametrize(
    ("claimed", "sentence"),
    [
        (None, r"WrongLevers\.symmetries\[1\] must leave the game as it is"),
        (
            (Symmetry((0,), (1, 0, 1)),),
            r"symmetries\[0\]\.actions must be a permutation of 3 numbers, got \(1, 0, 1\)\.",
        ),
        ((Symmetry((0,), (1, 0, 2)),), r"symmetries must contain the identity"),
        (("none",), r"symmetries must be a tuple of Symmetry"),
    ],
)
def test_wrong_symmetries_are_found_by_the_conformance_check(claimed, sentence: str) -> None:
    game = WrongLevers() if claimed is None else WrongLevers(claimed=claimed)
    with pytest.raises(ValueError, match=sentence):
        check_symmetries(game)


def test_the_team_sees_and_acts_through_the_symmetry_and_the_ego_does_not() -> None:
    """The exchange of rows and columns: the team believes to be in the mirrored cell and its left is the true up."""
    game = Relabelled(Reaching(size=3))
    mirrored = next(number for number, each in enumerate(game.game.symmetries) if each.actions == (0, 3, 4, 1, 2))
    inner = Reaching(size=3).reset(jax.random.key(0))._replace(positions=jnp.array([[1, 0], [1, 0]], jnp.int32))
    state = RelabelledState(inner, jnp.int32(mirrored))
    assert game.observe(state).argmax(axis=1).tolist() == [3, 1]
    outcome = game.step(jax.random.key(0), state, jnp.array([1, 3]))
    assert outcome.state.state.positions.tolist() == [[0, 0], [0, 0]], "both went up"
    assert float(outcome.reward) == 1.0


def test_all_symmetries_are_drawn() -> None:
    drawn = jax.vmap(Relabelled(LEVERS).reset)(jax.random.split(jax.random.key(0), 300)).symmetry
    assert np.bincount(drawn, minlength=6).min() > 20


SETTINGS = GenerateSettings(
    population_size=6, total_steps=60_000, chunk_steps=60_000, hidden_sizes=(8,), envs_per_pair=4, rollout_length=4,
    epochs=2, learning_rate=0.02, critic_learning_rate=0.02, entropy=0.02, entropy_final=0.0,
    normalise_advantages=False,
)  # fmt: skip


def train(method):
    trainer = Trainer(LEVERS, method, SETTINGS)
    state, _ = jax.jit(trainer.train_chunk)(trainer.init(jax.random.key(0)))
    return trainer.population(state)


def self_play(game, population) -> np.ndarray:
    played = cross_play(jax.random.key(1), game, *population, trials=64)
    return np.diagonal(np.asarray(played.returns).mean(axis=(2, 3)))


def test_in_the_lever_game_the_best_pair_chooses_the_lever_that_is_unlike_the_others() -> None:
    """The optimum is 0.9, on that lever. To choose among the other three is an equilibrium too, and earns 1/3."""
    population = train(OtherPlay())
    relabelled = self_play(Relabelled(LEVERS), population)
    assert np.all((np.abs(relabelled - 0.9) < 0.05) | (np.abs(relabelled - 1 / 3) < 0.25))
    best = np.abs(relabelled - 0.9) < 0.05
    assert best.any()
    np.testing.assert_allclose(self_play(LEVERS, population)[best], 0.9, atol=0.05)


def test_self_play_alone_chooses_one_of_the_levers_that_are_alike() -> None:
    population = train(Independent())
    assert self_play(LEVERS, population).max() > 0.95
    assert self_play(Relabelled(LEVERS), population).max() < 0.95


def test_games_without_symmetries_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^other-play needs a game that lists its symmetries, got MatrixGame"):
        Trainer(MatrixGame(), OtherPlay(), SETTINGS)
    assert Trainer(LEVERS, Independent(), SETTINGS).game is LEVERS
    coverset.check_environment(Relabelled(LEVERS), quick=True)
