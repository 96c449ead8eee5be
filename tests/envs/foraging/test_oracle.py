"""Bounds of Level-based Foraging: what they say, and that they are all but reached."""

import itertools

import jax
import jax.numpy as jnp
import pytest

from coverset.envs.extensions import heuristics, oracles
from coverset.envs.foraging import LOAD, NOWHERE, Foraging
from coverset.envs.foraging.heuristics import ForagingMemory, ObjectCollector, _update_blocked_cell
from coverset.evaluation.robustness import evaluate_agent
from coverset.policy import Policy


def test_foraging_is_a_bound_and_says_so() -> None:
    for environment in (Foraging(), Foraging(objects="random", horizon=2), Foraging(sees_teammate=True)):
        found = oracles(environment)
        assert found.keys() == heuristics(environment).keys()
        assert {(oracle.value, oracle.exact, oracle.full_information) for oracle in found.values()} == {
            (1.0, False, 1.0)
        }
    late = oracles(Foraging(horizon=7))
    assert all(0 < oracle.value < 1 for oracle in late.values())
    assert late["H1"].value > max(late[f"H{number}"].value for number in range(3, 9))  # it may follow any order


class Patient(Policy):
    """Goes to the nearest object, loads for two steps, goes on to the next if nobody helped, and so on in turn."""

    walker: ObjectCollector

    def initial_memory(self):
        return self.walker.initial_memory(), jnp.int32(0)

    def act(self, key, percept, memory):
        at, waited = memory
        view = self.walker.environment.view(percept.observation)
        waited = jnp.where(at.action == LOAD, waited + 1, 0)
        afresh, leaves = percept.first | ~view.present[at.target], waited >= 2
        others = (at.target + 1 + jnp.arange(len(view.present))) % len(view.present)
        following = others[jnp.argmax(view.present[others])]
        target = jnp.where(afresh, self.walker._choose(view), jnp.where(leaves, following, at.target))
        blocked = jnp.where(afresh | leaves, NOWHERE, _update_blocked_cell(key, view, at))
        action = self.walker._approach(view, target.astype(jnp.int32), blocked)
        waited = jnp.where(afresh | leaves, 0, waited)
        return action, (ForagingMemory(target.astype(jnp.int32), view.position, action, blocked), waited)


def test_the_bound_of_foraging_is_all_but_reached_with_every_heuristic() -> None:
    """By one agent that does not even know with whom it plays."""
    environment = Foraging()
    agent = Patient(heuristics(environment)["H1"])
    record = evaluate_agent(jax.random.key(0), environment, agent, trials=200, episodes=1)
    assert {name: record.oracle_fraction(name) > 0.97 for name in record.returns} == dict.fromkeys(record.returns, True)


def test_bounds_of_three_by_a_loop() -> None:
    """All three must come to the first object of the best order, then walk from object to object together."""
    environment = Foraging(players=3, horizon=6)
    cells, size = environment.cells, environment.size
    free = [cell for cell in itertools.product(range(size), repeat=2) if cell not in cells]

    def away(one, other):
        return abs(one[0] - other[0]) + abs(one[1] - other[1])

    def collected(starts, order):
        time, number = max(away(start, cells[order[0]]) for start in starts), 0
        for here, there in itertools.zip_longest(order, order[1:]):
            number += time <= environment.horizon
            time += 0 if there is None else away(cells[here], cells[there]) - 1
        return number

    totals = [collected(starts, (1, 0, 2)) for starts in itertools.permutations(free, 3)]
    found = oracles(environment)
    assert found["H5"].value == pytest.approx(sum(totals) / len(totals) / 3)
    assert {oracle.exact for oracle in found.values()} == {False}
    assert 0 < found["H5"].value < found["H1"].value < 1


def test_bounds_of_other_teams_are_everything() -> None:
    for environment in (Foraging(players=4, horizon=6), Foraging(players=3, needed=2, horizon=6)):
        assert {(oracle.value, oracle.exact) for oracle in oracles(environment, 2).values()} == {(1.0, False)}


def test_foraging_too_short_to_walk() -> None:
    """Around one object on 3 x 3: in one step only if both of 8 free cells drawn are among the 4 beside it."""
    found = [oracles(Foraging(size=3, cells=((1, 1),), num_objects=1, horizon=steps))["H3"].value for steps in (1, 2)]
    assert found == pytest.approx([4 / 8 * 3 / 7, 1.0])
