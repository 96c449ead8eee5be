"""Signalling: who sees what, what pays, and which convention was followed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset import make
from coverset.envs.signalling import Signalling
from coverset.envs.signalling.heuristics import Receiver
from coverset.evaluation.conventions import coverage_set
from coverset.evaluation.cross_play import cross_play
from coverset.policy import Policy

GAME = Signalling()


class Sender(Policy):
    """Sends the messages of one permutation."""

    messages: jax.Array

    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return self.messages[jnp.argmax(percept.observation)], memory


def play(actions: list[tuple[int, int]]) -> tuple[list[int], list[float], object]:
    """The symbols shown and rewards of some joint actions, and the last state."""
    state, symbols, rewards = GAME.reset(jax.random.key(3)), [], []
    for number, joint in enumerate(actions):
        symbols.append(int(state.symbol))
        outcome = GAME.step(jax.random.key(number), state, jnp.asarray(joint))
        state = outcome.state
        rewards.append(float(outcome.reward))
    return symbols, rewards, state


def test_a_button_pays_for_the_symbol_of_the_message_before() -> None:
    symbols, rewards, _ = play([(0, 0), (1, 0), (2, 1), (0, 2), (1, 0)])
    buttons = [0, 0, 1, 2, 0]
    assert rewards == [0.0, *(float(b == s) for b, s in zip(buttons[1:], symbols[:-1], strict=True))]


def test_each_seat_sees_its_own_part() -> None:
    _, _, state = play([(2, 0)])
    np.testing.assert_array_equal(GAME.observe(state)[1], [0.0, 0.0, 1.0])
    assert "symbol" not in GAME.render(state, 1)
    assert "message" not in GAME.render(state, 0)


def test_permutations_are_the_coverage_set() -> None:
    assert len(coverage_set(GAME)) == 6
    assert len(make("signalling", symbols=2).conventions) == 2


def test_returns_and_conventions_of_permutations() -> None:
    """Every sender with every receiver earns what the table of payoffs says, and both are recognised."""
    codes = GAME.permutations
    senders = Sender(jnp.asarray(codes))
    receivers = jax.vmap(Receiver)(jax.nn.one_hot(np.argsort(codes, axis=-1), 3))
    played = cross_play(jax.random.key(0), GAME, senders, receivers, trials=512)
    returns = np.asarray(played.returns)[..., 0].mean(axis=-1)
    np.testing.assert_allclose(returns, GAME.convention_payoffs, atol=0.35)
    np.testing.assert_allclose(np.diagonal(returns), 7.0)
    followed = np.asarray(played.conventions)[np.arange(6), np.arange(6), :, 0]
    for convention in range(6):
        assert np.mean(followed[convention] == convention, axis=0).min() > 0.98


def test_bad_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="symbols must lie between 2 and 5, got 7"):
        Signalling(symbols=7)
