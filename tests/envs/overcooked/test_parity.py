"""The built-in game and JaxMARL's Overcooked, version 1, play the same from the same states with the same actions."""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adapters.promotion import implicit_promotion
from coverset.envs.overcooked import LAYOUTS, Overcooked, OvercookedState
from coverset.envs.overcooked.rules import take_step

pytest.importorskip("jaxmarl")

EPISODES, STEPS = 128, 60
"""Episodes side by side, from states with random objects, and steps of each: 7,680 joint actions in every layout."""
EMPTY_POT = 23
ITEMS = {1: 0, 2: 0, 3: 1, 5: 2, 9: 3}
"""JaxMARL's numbers of nothing (in hands, on counters), onion, plate and soup, and ours."""


def make_theirs(layout: str, max_steps: int = STEPS):
    from jaxmarl.environments.overcooked import Overcooked as Theirs
    from jaxmarl.environments.overcooked import overcooked_layouts

    with warnings.catch_warnings(), implicit_promotion():
        warnings.filterwarnings("ignore", "OvercookedV2 is now released", DeprecationWarning)
        return Theirs(layout=overcooked_layouts[layout], random_reset=True, max_steps=max_steps)


def convert(kitchen, theirs) -> OvercookedState:
    """A state of JaxMARL's game, or a batch of them, in numbers of the kitchen."""
    rows, columns = kitchen.shape
    padding = (theirs.maze_map.shape[-3] - rows) // 2
    objects = np.asarray(theirs.maze_map)[..., padding : padding + rows, padding : padding + columns, :]
    floor = np.full((rows, columns), -1)
    floor[tuple(zip(*kitchen.floor, strict=True))] = np.arange(len(kitchen.floor))
    items = np.vectorize(ITEMS.__getitem__, otypes=[np.int32])
    place = np.asarray(theirs.agent_pos).astype(int)
    at = tuple(zip(*kitchen.counters, strict=True))
    pots = tuple(zip(*kitchen.pots, strict=True))
    return OvercookedState(
        positions=floor[place[..., 1], place[..., 0]].astype(np.int32),
        directions=np.asarray(theirs.agent_dir_idx).astype(np.int32),
        held=items(np.asarray(theirs.agent_inv)),
        counters=items(objects[..., 0][..., at[0], at[1]]),
        pots=EMPTY_POT - objects[..., 2][..., pots[0], pots[1]].astype(np.int32),
        time=np.asarray(theirs.step).astype(np.int32),
    )


class Played(NamedTuple):
    """Every step of both games; axes [STEPS, EPISODES]."""

    theirs: object
    ours: OvercookedState
    rewards: tuple
    shaping: tuple
    images: tuple
    ended: tuple


def play_both(layout: str) -> Played:
    """Random play in both games from JaxMARL's random starts; one compiled program each."""
    theirs, ours = make_theirs(layout), Overcooked(layout, horizon=STEPS, encoding="image")
    keys = jax.random.split(jax.random.key(0), EPISODES)
    with implicit_promotion():
        start = jax.jit(jax.vmap(theirs.reset))(keys)[1]
    actions = jax.random.randint(jax.random.key(1), (STEPS, EPISODES, 2), 0, 6)

    def step_theirs(state, joint):
        def one(state, pair):
            joint = {"agent_0": pair[0], "agent_1": pair[1]}
            seen, state, reward, done, info = theirs.step_env(jax.random.key(0), state, joint)
            shaped = info["shaped_reward"]
            images = jnp.stack([seen["agent_0"], seen["agent_1"]])
            return state, (state, reward["agent_0"], jnp.stack([*shaped.values()]), images, done["__all__"])

        return jax.vmap(one)(state, joint)

    def step_ours(state, joint):
        def one(state, pair):
            outcome = ours.step(jax.random.key(0), state, pair)
            _, _, shaped = take_step(ours.kitchen, state, pair)
            return outcome.state, (
                outcome.state,
                outcome.reward,
                shaped,
                ours.observe(outcome.state),
                outcome.truncated,
            )

        return jax.vmap(one)(state, joint)

    with implicit_promotion():
        _, expected = jax.jit(lambda s: jax.lax.scan(step_theirs, s, actions))(start)
    first = jax.tree.map(jnp.asarray, convert(ours.kitchen, start))
    _, found = jax.jit(lambda s: jax.lax.scan(step_ours, s, actions))(first)
    return Played(expected[0], found[0], *zip(expected[1:], found[1:], strict=True))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_games_play_the_same(layout: str) -> None:
    played = play_both(layout)
    expected = convert(Overcooked(layout).kitchen, played.theirs)
    for field in OvercookedState._fields:
        np.testing.assert_array_equal(getattr(played.ours, field), getattr(expected, field), err_msg=field)
    for pair in (played.rewards, played.shaping, played.ended):
        np.testing.assert_array_equal(pair[1], pair[0])
    theirs, ours = (np.asarray(image) for image in played.images)
    np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs)
    # The comparison is worth something: soups are delivered, steps are shaped, items lie on counters, pots cook.
    assert (played.rewards[1] > 0).any()
    assert set(np.unique(played.shaping[1])) >= {0.0, 3.0, 5.0}
    assert set(np.unique(played.ours.counters)) == {0, 1, 2, 3}
    assert set(np.unique(played.ours.pots)) >= {0, 1, 2, 10, 23}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_default_starts_are_the_same(layout: str) -> None:
    from jaxmarl.environments.overcooked import overcooked_layouts

    kitchen, theirs = Overcooked(layout).kitchen, overcooked_layouts[layout]
    assert kitchen.shape == (theirs["height"], theirs["width"])

    def cells(name: str) -> set:
        return {(index // theirs["width"], index % theirs["width"]) for index in np.asarray(theirs[name]).tolist()}

    for symbol, name in {"O": "onion_pile_idx", "D": "plate_pile_idx", "P": "pot_idx", "S": "goal_idx"}.items():
        assert set(kitchen.cells_of(symbol)) == cells(name)
    assert set(kitchen.cells_of("X", "O", "D", "P", "S")) == cells("wall_idx")
    starts = [divmod(index, theirs["width"]) for index in np.asarray(theirs["agent_idx"]).tolist()]
    assert [kitchen.floor[start] for start in kitchen.starts] == starts
