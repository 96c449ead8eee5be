"""What scripted cooks do: they deliver, keep to their roles, drop things, and are never stuck for good."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.extensions import describe_heuristics, heuristics, oracles
from coverset.envs.overcooked import LAYOUTS, Overcooked
from coverset.envs.overcooked.layouts import make_kitchen
from coverset.envs.overcooked.paths import reach_around, shared_counters
from heuristic_play import play

EPISODES = 4
PAIRS = {
    "cramped_room": [
        *(("cook", "cook"), ("onion-worker", "plate-worker"), ("plate-worker", "onion-worker"), ("stay", "cook")),
        *(("onion-worker", "onion-worker"), ("plate-worker", "plate-worker"), ("cook", "cook-drops")),
        *(("cook-boltzmann", "cook-noisy"), ("onion-worker-drops", "stay"), ("mixture-noisy", "cook")),
    ],
    "forced_coord": [("cook", "cook"), ("cook", "stay"), ("stay", "cook"), ("cook-drops", "cook-boltzmann")],
    "counter_circuit": [("cook", "cook"), ("onion-worker", "plate-worker"), ("stay", "cook")],
}
MOST_STEPS_WITHOUT_CHANGE = 40
"""After three steps a random move follows, which may be one against a wall: for so long with chance 1e-6 or less."""


@lru_cache(maxsize=4)
def played(layout: str):
    """Episodes of all pairs of a layout, [pairs, episodes, ...]; one compiled program."""
    game = Overcooked(layout)
    cooks = heuristics(game)
    first, second = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *(cooks[pair[seat]] for pair in PAIRS[layout]))
        for seat in (0, 1)
    )
    keys = jax.random.split(jax.random.key(0), EPISODES)

    def episode(key, one, other):
        return play(game, game.reset(key), key, (one, other))

    return jax.jit(jax.vmap(jax.vmap(episode, (0, None, None)), (None, 0, 0)))(keys, first, second)


def soups(layout: str) -> dict:
    return dict(zip(PAIRS[layout], np.asarray(played(layout).total) / 20.0, strict=True))


def test_cooks_deliver_in_the_cramped_room() -> None:
    delivered = soups("cramped_room")
    assert delivered["cook", "cook"].min() >= 8
    assert delivered["onion-worker", "plate-worker"].min() >= 8
    assert delivered["plate-worker", "onion-worker"].min() >= 8
    assert delivered["stay", "cook"].min() >= 7, "a cook needs nobody"
    assert delivered["cook-boltzmann", "cook-noisy"].min() >= 5
    assert delivered["cook", "cook-drops"].min() >= 7


def test_workers_keep_to_their_roles() -> None:
    delivered = soups("cramped_room")
    assert delivered["onion-worker", "onion-worker"].max() == 0
    assert delivered["plate-worker", "plate-worker"].max() == 0
    states = played("cramped_room").states
    number = PAIRS["cramped_room"].index(("onion-worker", "plate-worker"))
    held = np.asarray(states.held)[number]
    assert set(np.unique(held[..., 0])) == {0, 1}
    assert set(np.unique(held[..., 1])) == {0, 2, 3}


def test_dropping_puts_things_on_counters() -> None:
    counters = np.asarray(played("cramped_room").states.counters)
    names = PAIRS["cramped_room"]
    assert (counters[names.index(("cook", "cook-drops"))] > 0).any(axis=(1, 2)).all()
    assert not counters[names.index(("onion-worker", "plate-worker"))].any()


def test_cooks_hand_over_what_the_other_part_needs() -> None:
    """In forced coordination one part has onions and plates, the other pots and hatch."""
    delivered = soups("forced_coord")
    assert delivered["cook", "cook"].min() >= 3
    assert delivered["cook-drops", "cook-boltzmann"].min() >= 1
    assert delivered["cook", "stay"].max() == delivered["stay", "cook"].max() == 0


def test_cooks_find_their_way_around_the_circuit() -> None:
    delivered = soups("counter_circuit")
    assert delivered["cook", "cook"].min() >= 4
    assert delivered["onion-worker", "plate-worker"].min() >= 3


@pytest.mark.parametrize("layout", PAIRS)
def test_nobody_is_stuck_for_good(layout: str) -> None:
    states = played(layout).states
    own = np.stack([states.positions, states.directions, states.held], axis=-1)
    same = (own[:, :, 1:] == own[:, :, :-1]).all(axis=-1)
    for pair, unchanged in zip(PAIRS[layout], same, strict=True):
        for seat in (0, 1):
            if pair[seat] != "stay":
                assert longest_run(unchanged[..., seat]) < MOST_STEPS_WITHOUT_CHANGE, (pair, seat)


@pytest.mark.parametrize("layout", PAIRS)
def test_nobody_exceeds_the_bound(layout: str) -> None:
    game = Overcooked(layout)
    known = oracles(game)
    for (_, partner), delivered in soups(layout).items():
        assert 20.0 * delivered.max() <= known[partner].value


def longest_run(flags: np.ndarray) -> int:
    """Of True along the last axis."""
    run = longest = np.zeros(flags.shape[:-1], int)
    for flag in np.moveaxis(flags, -1, 0):
        run = np.where(flag, run + 1, 0)
        longest = np.maximum(longest, run)
    return int(longest.max())


def test_stay_and_random() -> None:
    game = Overcooked()
    cooks = heuristics(game)
    start = game.reset(jax.random.key(0))
    actions = play(game, start, jax.random.key(1), (cooks["stay"], cooks["random"])).actions
    assert np.unique(actions[:, 0]).tolist() == [4]
    counts = np.bincount(np.asarray(actions[:, 1]), minlength=6)
    assert counts.min() > 40, "each of the six about 67 times"


def test_a_cook_does_the_same_with_either_encoding() -> None:
    keys = jax.random.key(3)
    actions = []
    for encoding in ("vector", "image"):
        game = Overcooked(horizon=60, encoding=encoding)
        cooks = heuristics(game)
        actions.append(play(game, game.reset(keys), keys, (cooks["cook"], cooks["cook-drops"])).actions)
    np.testing.assert_array_equal(*actions)


def test_every_heuristic_has_a_sentence_and_all_stack() -> None:
    """One class whose members differ in arrays alone, so that agents can train with all of them."""
    game = Overcooked()
    cooks = heuristics(game)
    assert set(describe_heuristics(game)) == set(cooks)
    assert len({jax.tree.structure(cook) for cook in cooks.values()}) == 1


def test_tables_of_paths() -> None:
    for layout in LAYOUTS:
        kitchen = make_kitchen(layout)
        np.testing.assert_array_equal(reach_around(kitchen)[-1], kitchen.reach)
    shared = shared_counters(make_kitchen("forced_coord"))
    cells = [cell for cell, both in zip(make_kitchen("forced_coord").counters, shared, strict=True) if both]
    assert cells == [(1, 2), (2, 2), (3, 2)]
    assert not shared_counters(make_kitchen("coord_ring")).any()


def test_paths_lead_around_a_blocked_cell() -> None:
    kitchen = make_kitchen("coord_ring")
    start, goal = kitchen.floor.index((1, 1)), kitchen.hatch
    plain = kitchen.reach[goal, start]
    around = reach_around(kitchen)[kitchen.floor.index((2, 1)), goal, start]
    assert (plain, around) == (3, 5), "down the left side, or around the ring"
