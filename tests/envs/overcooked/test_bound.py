"""The upper bound on soups: known cases, slow counterparts, and that nobody exceeds it."""

import itertools

import jax
import jax.numpy as jnp
import pytest

from coverset.envs.extensions import heuristics, oracles
from coverset.envs.overcooked import LAYOUTS, Overcooked, bound, make_kitchen
from coverset.envs.overcooked.bound import most_soups
from coverset.envs.overcooked.oracle import EVERYTHING, held_items
from coverset.envs.overcooked.rules import ONION, PLATE, SOUP, interact

NOBODY: frozenset[int] = frozenset()
BOOTH = "XPXXX/O1S2X/XDXXX"
"""Player 1 stands on one cell and turns to everything; player 2 only reaches the back of the hatch."""


def test_labour_of_a_soup(monkeypatch) -> None:
    """Alone in the booth: turn, take, turn, add for each onion, turn, take, turn, fill, and turn, deliver: 18 steps."""
    monkeypatch.setattr(bound, "STEPS_BETWEEN_SOUPS", 1)
    kitchen = make_kitchen(BOOTH)
    for horizon in (17, 18 * 5, 18 * 6 - 3):
        assert bound._most_soups.__wrapped__(kitchen, horizon, (EVERYTHING, NOBODY)) == (horizon + 1) // 18


def test_pots_need_time() -> None:
    kitchen = make_kitchen(BOOTH)
    assert [most_soups(kitchen, horizon, (EVERYTHING, NOBODY)) for horizon in (28, 29, 54, 55)] == [0, 1, 1, 2]


def test_a_role_that_is_missing() -> None:
    kitchen = make_kitchen("coord_ring")
    onions, plates = frozenset((0, ONION)), frozenset((0, PLATE, SOUP))
    assert most_soups(kitchen, 400, (onions, onions)) == 0
    assert most_soups(kitchen, 400, (plates, plates)) == 0
    assert 0 < most_soups(kitchen, 400, (onions, plates)) <= most_soups(kitchen, 400)
    assert most_soups(make_kitchen("forced_coord"), 400, (EVERYTHING, NOBODY)) == 0
    assert most_soups(kitchen, 400, (NOBODY, NOBODY)) == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_bound_grows_with_time_and_players(layout: str) -> None:
    kitchen = make_kitchen(layout)
    soups = [most_soups(kitchen, horizon) for horizon in (50, 100, 200, 400)]
    assert soups == sorted(soups)
    assert most_soups(kitchen, 400, (EVERYTHING, NOBODY)) <= soups[-1]


def test_interactions_are_those_of_the_rules() -> None:
    """Every interaction of the rules with an effect is a transition of the program."""
    game = Overcooked()
    kitchen, start = game.kitchen, game.reset(jax.random.key(0))
    act = jax.jit(lambda state, thing: interact(kitchen, state, 0, thing, jnp.bool_(True)).held)
    for thing, held, item, pot in itertools.product(range(kitchen.num_things), range(4), range(4), (0, 2, 9, 23)):
        state = start._replace(
            held=jnp.array([held, 0]),
            counters=jnp.full(len(kitchen.counters), item),
            pots=jnp.full(1, pot),
        )
        after = int(act(state, jnp.int32(thing)))
        assert after == held or after in bound._after_interaction(kitchen, thing, held)


def test_oracles_are_bounds_that_know_the_partner() -> None:
    game = Overcooked("coord_ring")
    known = oracles(game)
    assert set(known) == set(heuristics(game))
    assert not any(oracle.exact for oracle in known.values())
    assert known["stay"].value < known["plate-worker"].value < known["cook"].value
    assert known["cook"].value == 20.0 * most_soups(game.kitchen, 400)
    assert oracles(Overcooked("coord_ring", random_objects=True)) == {}


def test_roles_hold_what_they_may() -> None:
    cooks = heuristics(Overcooked())
    held = {name: held_items(cook) for name, cook in cooks.items()}  # pyright: ignore[reportArgumentType]
    assert held["stay"] == NOBODY
    assert held["onion-worker-drops"] == {0, ONION}
    assert held["plate-worker"] == {0, PLATE, SOUP}
    assert held["random"] == held["mixture-noisy"] == held["cook"] == EVERYTHING


def test_each_start_has_its_own_part() -> None:
    """In forced coordination a partner that stays leaves nothing to earn, on either side."""
    for starts in ("layout", "swapped", "either"):
        assert oracles(Overcooked("forced_coord", starts=starts))["stay"].value == 0.0
    alone = [oracles(Overcooked("asymm_advantages", starts=starts))["stay"].value for starts in ("layout", "swapped")]
    assert oracles(Overcooked("asymm_advantages", starts="either"))["stay"].value == max(alone)
