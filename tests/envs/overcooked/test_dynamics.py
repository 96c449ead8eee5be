"""Starts, encodings and rules that the comparison with JaxMARL does not show."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.overcooked import LAYOUTS, Overcooked
from coverset.envs.overcooked.rules import COOKING_STEPS, DONE, EAST, FULL, INTERACT, NORTH, SOUTH, STAY, WEST, move

KEYS = jax.random.split(jax.random.key(0), 256)


def starts(**parameters):
    return jax.jit(jax.vmap(Overcooked(**parameters).reset))(KEYS)


def test_starts() -> None:
    kitchen = Overcooked().kitchen
    plain, swapped, either = (np.asarray(starts(starts=each).positions) for each in ("layout", "swapped", "either"))
    assert np.all(plain == np.array(kitchen.starts))
    assert np.all(swapped == np.array(kitchen.starts[::-1]))
    assert 0.4 < np.mean(either[:, 0] == kitchen.starts[0]) < 0.6
    assert np.all(either.sum(axis=1) == sum(kitchen.starts))
    directions = np.asarray(starts().directions)
    assert {tuple(pair) for pair in directions.tolist()} == {(a, b) for a in range(4) for b in range(4)}


@pytest.mark.parametrize("layout", ["cramped_room", "forced_coord"])
def test_random_starts_keep_players_apart_and_in_their_part(layout: str) -> None:
    kitchen = Overcooked(layout).kitchen
    drawn = np.asarray(starts(layout=layout, starts="random").positions)
    assert np.all(drawn[:, 0] != drawn[:, 1])
    for seat in (0, 1):
        own = np.flatnonzero(kitchen.regions == kitchen.regions[kitchen.starts[seat]])
        assert set(drawn[:, seat].tolist()) == set(own.tolist())


def test_random_objects() -> None:
    state = starts(random_objects=True)
    assert set(np.unique(state.held)) == {0, 1, 2, 3}
    assert set(np.unique(state.pots)) == set(range(DONE + 1))
    assert 0.05 < np.mean(np.asarray(state.counters) > 0) < 0.15
    empty = starts()
    assert not any(np.any(field) for field in (empty.held, empty.pots, empty.counters))


@pytest.mark.parametrize("encoding", ["vector", "image"])
@pytest.mark.parametrize("layout", ["forced_coord", "counter_circuit"])
def test_observations_hold_the_whole_state(layout: str, encoding: str) -> None:
    game = Overcooked(layout, starts="random", random_objects=True, encoding=encoding)
    state = jax.vmap(game.reset)(KEYS)
    views = jax.jit(jax.vmap(lambda s: jax.vmap(game.view)(game.observe(s))))(state)
    for field in ("positions", "directions", "held"):
        expected = np.asarray(getattr(state, field))
        np.testing.assert_array_equal(getattr(views, field), np.stack([expected, expected[:, ::-1]], axis=1))
    for field in ("counters", "pots"):
        np.testing.assert_array_equal(getattr(views, field)[:, 0], getattr(state, field))
        np.testing.assert_array_equal(getattr(views, field)[:, 1], getattr(state, field))


@pytest.mark.parametrize("encoding", ["vector", "image"])
def test_both_encodings_show_that_time_runs_out(encoding: str) -> None:
    game = Overcooked(horizon=100, encoding=encoding)
    early, late = (game.reset(KEYS[0])._replace(time=jnp.int32(time)) for time in (60, 61))
    changed = np.asarray(game.observe(early) != game.observe(late))
    assert changed.sum() == (2 if encoding == "vector" else 2 * 20)


def test_players_neither_share_nor_swap_cells() -> None:
    game = Overcooked()
    state = game.reset(KEYS[0])._replace(positions=jnp.array([0, 1]))

    def after(first: int, second: int) -> list[int]:
        return move(game.kitchen, state, jnp.array([first, second]))[0].tolist()

    assert after(2, 3) == [0, 1], "they would exchange cells"
    assert after(2, STAY) == [0, 1], "the cell is taken"
    assert after(2, SOUTH) == [1, 4], "a cell that is being left is free"
    assert after(NORTH, WEST) == [0, 1], "player 1 bumps into a counter and stays in the way"


def test_a_soup_from_start_to_finish() -> None:
    """One cook fills the pot, waits, serves and delivers; every reward is where it belongs."""
    game, step = Overcooked(), jax.jit(Overcooked().step)
    state = game.reset(KEYS[0])._replace(positions=jnp.array([0, 2]), directions=jnp.array([WEST, NORTH]))
    onion = [WEST, INTERACT, EAST, NORTH, INTERACT, WEST]
    plate = [SOUTH, SOUTH, INTERACT, NORTH, EAST, NORTH]
    sequence = [*3 * onion, *plate, *[STAY] * 16, INTERACT, SOUTH, EAST, SOUTH, INTERACT]
    earned, paid, pots = [], [], []
    for action in sequence:
        outcome = step(KEYS[0], state, jnp.array([action, STAY]))
        state = outcome.state
        earned.append(float(outcome.reward))
        assert outcome.shaping is not None
        paid.append(float(outcome.shaping))
        pots.append(int(state.pots[0]))
    assert FULL not in pots, "a pot with three onions has begun to cook in the same step"
    assert pots.index(DONE) - pots.index(FULL + 1) == COOKING_STEPS - 1
    assert [pay for pay in paid if pay] == [3.0, 3.0, 3.0, 3.0, 5.0], "three onions, a plate, a soup"
    assert earned == [0.0] * (len(sequence) - 1) + [20.0]
    assert state.held.tolist() == [0, 0]


def test_unknown_options_are_named() -> None:
    with pytest.raises(ValueError, match="starts must be one of either, layout, random, swapped, got 'here'"):
        Overcooked(starts="here")
    with pytest.raises(ValueError, match="encoding must be one of image, vector, got 'pixels'"):
        Overcooked(encoding="pixels")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_text_shows_the_layout(layout: str) -> None:
    game = Overcooked(layout)
    text = game.render(game.reset(KEYS[0])).splitlines()
    drawn = ["".join(line[::2]) for line in text[: game.kitchen.shape[0]]]
    bare = [row.replace("1", " ").replace("2", " ") for row in game.kitchen.rows]
    differ = [(a, b) for one, other in zip(drawn, bare, strict=True) for a, b in zip(one, other, strict=True) if a != b]
    assert [b for _, b in differ] == [" ", " "], "only the players differ"
