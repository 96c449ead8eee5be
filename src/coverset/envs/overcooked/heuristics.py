"""Scripted cooks as held-out partners of Overcooked.

A cook has a role, onions, plates or both, and does the next useful thing of its role: it chooses one of the things that
it wants, walks there by a shortest path, and interacts. Where its part of the kitchen lacks what it needs, it hands
things over on counters that both parts reach. A cook without anything to do waits.

Nobody is stuck for good: a cook in whose way the partner stands walks around it or tries again, with probability 1/2
each, and one for whom nothing has changed for three steps makes a random move.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.overcooked.dynamics import Overcooked
from coverset.envs.overcooked.layouts import UNREACHABLE
from coverset.envs.overcooked.observations import View
from coverset.envs.overcooked.paths import reach_around, shared_counters
from coverset.envs.overcooked.rules import DONE, FULL, INTERACT, NOTHING, ONION, PLATE, SOUP, STAY
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

ONION_ROLE, PLATE_ROLE, BOTH_ROLES = range(3)
NO_THING = -1
PATIENCE = 3
"""Steps without any change after which a cook makes a random move."""
SPARE_COUNTERS = 2
"""Empty counters that a cook leaves when it drops something: with all of them full, hands that hold the wrong thing
cannot be emptied."""
GREEDY = 1e-3
"""Temperature at which the nearest thing is chosen, and one of the nearest at random."""


class CookMemory(NamedTuple):
    """What a `ScriptedCook` remembers."""

    role: Int[Array, ""]
    target: Int[Array, ""]
    """The thing to which it walks, or `NO_THING`."""
    blocked: Int[Array, ""]
    """A floor cell to walk around until the target changes; the number of floor cells for none."""
    dropping: Bool[Array, ""]
    """Whether it puts what it holds on a counter instead of using it."""
    put: Int[Array, ""]
    """The counter on which it last put something, from which it does not take it again; `NO_THING` for none."""
    own: Int[Array, "3"]
    """Its position, direction and item one step ago."""
    stuck: Int[Array, ""]
    """Steps for which these have not changed."""


@final
class ScriptedCook(Policy):
    """A cook of one role, or of one that is drawn for each episode."""

    environment: Overcooked = eqx.field(static=True)
    roles: Float[Array, "3"]
    """Probabilities of the roles onions, plates, both."""
    drop: Float[Array, ""]
    """Chance that an onion or plate which it picks up goes to a counter."""
    noise: Float[Array, ""]
    """Chance of a random action, at every step."""
    idle: Float[Array, ""]
    """Chance to stay, at every step."""
    temperature: Float[Array, ""]
    """Things are chosen with probability proportional to exp(-steps / temperature)."""

    def initial_memory(self) -> CookMemory:
        none = jnp.int32(NO_THING)
        return CookMemory(
            role=jnp.int32(BOTH_ROLES),
            target=none,
            blocked=jnp.int32(len(self.environment.kitchen.floor)),
            dropping=jnp.bool_(False),
            put=none,
            own=jnp.full(3, NO_THING, jnp.int32),
            stuck=jnp.int32(0),
        )

    def act(self, key: PRNGKey, percept: Percept, memory: CookMemory) -> tuple[Int[Array, ""], CookMemory]:
        role_key, drop_key, choose_key, walk_key, chance_key, move_key = jax.random.split(key, 6)
        view = self.environment.view(percept.observation)
        drawn = jax.random.categorical(role_key, jnp.log(self.roles)).astype(jnp.int32)
        fresh = self.initial_memory()._replace(role=drawn)
        memory = jax.tree.map(lambda new, old: jnp.where(percept.first, new, old), fresh, memory)
        memory = self._notice(drop_key, view, memory)
        memory = self._choose(choose_key, view, memory)
        action, memory = self._approach(walk_key, view, memory)
        action = jnp.where(memory.stuck >= PATIENCE, jax.random.randint(move_key, (), 0, STAY), action)
        chance = jax.random.uniform(chance_key)
        erratic = jax.random.randint(move_key, (), 0, INTERACT + 1)
        action = jnp.where(chance < self.noise, erratic, action)
        action = jnp.where(chance >= 1.0 - self.idle, STAY, action)
        stuck = jnp.where(memory.stuck >= PATIENCE, 0, memory.stuck)
        return action.astype(jnp.int32), memory._replace(stuck=stuck)

    def _notice(self, key: PRNGKey, view: View, memory: CookMemory) -> CookMemory:
        """Compare with the step before: whether anything has changed, and what was picked up or put down."""
        own = jnp.stack([view.positions[0], view.directions[0], view.held[0]])
        before, held = memory.own[2], view.held[0]
        picked = (held != before) & ((held == ONION) | (held == PLATE))
        put_down = (held == NOTHING) & (before > NOTHING) & (memory.target < len(self.environment.kitchen.counters))
        stuck = jnp.where(jnp.all(own == memory.own), memory.stuck + 1, 0)
        return memory._replace(
            own=own,
            stuck=stuck,
            dropping=jnp.where(picked, jax.random.bernoulli(key, self.drop), memory.dropping & (held == before)),
            put=jnp.where(put_down, memory.target, memory.put),
            target=jnp.where((held == before) & (stuck < PATIENCE), memory.target, NO_THING),
        )

    def _choose(self, key: PRNGKey, view: View, memory: CookMemory) -> CookMemory:
        """Keep the target while it is wanted; else draw one of the things that are, near ones rather than far ones."""
        steps = jnp.asarray(reach_around(self.environment.kitchen))[-1][:, view.positions[0]]
        wanted = find_wanted(self.environment, view, memory)
        nearness = jnp.where(wanted, -steps.astype(jnp.float32) / self.temperature, -jnp.inf)
        drawn = jnp.where(jnp.any(wanted), jax.random.categorical(key, nearness), NO_THING).astype(jnp.int32)
        kept = (memory.target >= 0) & wanted[memory.target]
        none = len(self.environment.kitchen.floor)
        return memory._replace(
            target=jnp.where(kept, memory.target, drawn), blocked=jnp.where(kept, memory.blocked, none)
        )

    def _approach(self, key: PRNGKey, view: View, memory: CookMemory) -> tuple[Int[Array, ""], CookMemory]:
        """Interact with the target, turn to it, or take a step of a shortest path to it; stay without a target."""
        kitchen, here = self.environment.kitchen, view.positions[0]
        tie_key, detour_key = jax.random.split(key)
        ahead = jnp.asarray(kitchen.ahead)[here]
        beside, facing = ahead == memory.target, ahead[view.directions[0]] == memory.target
        reach, following = jnp.asarray(reach_around(kitchen))[:, memory.target], jnp.asarray(kitchen.moves)[here]

        def step_around(blocked: Int[Array, ""]) -> Int[Array, ""]:
            steps = jnp.where(following == here, UNREACHABLE, reach[blocked][following])
            return jnp.argmin(steps.astype(jnp.float32) + jax.random.uniform(tie_key, (4,))).astype(jnp.int32)

        none = jnp.int32(len(kitchen.floor))
        blocked = jnp.where(reach[memory.blocked, here] < UNREACHABLE, memory.blocked, none)
        direction = step_around(blocked)
        in_the_way = following[direction] == view.positions[1]
        detour = in_the_way & jax.random.bernoulli(detour_key) & (reach[view.positions[1], here] < UNREACHABLE)
        blocked = jnp.where(detour, view.positions[1], blocked)
        direction = jnp.where(detour, step_around(blocked), direction)
        action = jnp.where(jnp.any(beside), jnp.argmax(beside), direction)
        action = jnp.where(facing, INTERACT, action)
        return jnp.where(memory.target >= 0, action, STAY), memory._replace(blocked=blocked)


def find_wanted(environment: Overcooked, view: View, memory: CookMemory) -> Bool[Array, "things"]:
    """The things with which a cook would interact next: counters, pots, onions, plates and hatch.

    Empty-handed, it fetches a soup that lies around, a plate if one is short, else an onion, as far as these belong to
    its role. It carries an onion to a pot with room, a plate to a pot that will be done when it arrives, a soup to the
    hatch; and what it cannot use to a counter.
    """
    kitchen, counters, pots = environment.kitchen, view.counters, view.pots
    onion_role, plate_role = memory.role != PLATE_ROLE, memory.role != ONION_ROLE
    steps = jnp.asarray(reach_around(kitchen))[-1][:, view.positions[0]]
    near = steps < UNREACHABLE
    num_counters, first_pot, num_pots = len(kitchen.counters), kitchen.first_pot, len(kitchen.pots)
    to_pots = steps[first_pot : first_pot + num_pots]
    serves, cooks = near[kitchen.hatch], jnp.any(to_pots < UNREACHABLE)
    empty, shared = counters == NOTHING, jnp.asarray(shared_counters(kitchen))
    free, busy = pots < FULL, jnp.sum(pots >= FULL)

    plates_waiting = (view.held[1] == PLATE).astype(jnp.int32) + jnp.where(cooks, 0, jnp.sum(counters == PLATE))
    plate_short = plate_role & (busy > plates_waiting)
    onions_waiting = jnp.where(cooks, 0, jnp.sum(counters == ONION))
    onion_short = jnp.sum(jnp.where(free, FULL - pots, 0)) > onions_waiting

    def things(on_counters: Any, at_pots: Any = False, *, onions=False, plates=False, hatch=False) -> Array:
        parts = [
            jnp.broadcast_to(jnp.asarray(on_counters), (num_counters,)),
            jnp.broadcast_to(jnp.asarray(at_pots), (num_pots,)),
            jnp.stack([jnp.asarray(each, bool) for each in (onions, plates, hatch)]),
        ]
        return near & jnp.concatenate(parts)

    # What lies on a shared counter is there for the other part of the kitchen, unless this is the part that cooks.
    takeable = (jnp.arange(num_counters) != memory.put) & (cooks | ~shared)
    soups = things((counters == SOUP) & serves & plate_role)
    plates = things((counters == PLATE) & takeable, plates=True)
    onions = things((counters == ONION) & takeable, onions=True)
    hand_over, put_down = things(empty & shared), things(empty)

    fetches_plate = plate_role & (~onion_role | plate_short) & jnp.any(plates)
    fetched = jnp.where(fetches_plate, plates, onions & onion_role)
    empty_handed = jnp.where(jnp.any(soups), soups, fetched)

    passed_on = hand_over & (onion_short | ~plate_role)
    with_onion = jnp.where(cooks, things(False, free), passed_on)
    useless_onion = ~onion_role | (plate_short & ~jnp.any(with_onion))
    with_onion = jnp.where(useless_onion, put_down, with_onion)

    soon = (pots >= FULL) & (DONE - pots <= to_pots)
    with_plate = jnp.where(cooks, things(False, soon), hand_over)
    useless_plate = ~plate_role | (onion_role & cooks & (busy == 0))
    with_plate = jnp.where(useless_plate, put_down, with_plate)

    with_soup = jnp.where(serves, things(False, hatch=True), hand_over)
    wanted = jnp.stack([empty_handed, with_onion, with_plate, with_soup])[view.held[0]]
    return jnp.where(memory.dropping & (jnp.sum(put_down) > SPARE_COUNTERS), put_down, wanted)


def list_heuristics(environment: Overcooked) -> dict[str, tuple[ScriptedCook, str]]:
    """Scripted partners by name, with a sentence each."""

    def cook(*roles: int, drop=0.0, noise=0.0, idle=0.0, temperature=GREEDY) -> ScriptedCook:
        probabilities = np.bincount(roles, minlength=3) / len(roles)
        numbers = (jnp.float32(each) for each in (drop, noise, idle, temperature))
        return ScriptedCook(environment, jnp.asarray(probabilities, jnp.float32), *numbers)

    every = (ONION_ROLE, PLATE_ROLE, BOTH_ROLES)
    drops = "puts every second onion or plate that it picks up on a counter"
    return {
        "stay": (cook(BOTH_ROLES, idle=1.0), "Never moves."),
        "random": (cook(BOTH_ROLES, noise=1.0), "Plays a random action at every step."),
        "onion-worker": (cook(ONION_ROLE), "Brings onions to pots and does nothing else."),
        "onion-worker-drops": (cook(ONION_ROLE, drop=0.5), f"Brings onions to pots, and {drops}."),
        "plate-worker": (cook(PLATE_ROLE), "Fetches plates, serves soups that are done, and does nothing else."),
        "plate-worker-drops": (cook(PLATE_ROLE, drop=0.5), f"Fetches plates and serves soups, and {drops}."),
        "cook": (cook(BOTH_ROLES), "Cooks and serves by itself; always takes what is nearest."),
        "cook-drops": (cook(BOTH_ROLES, drop=0.5), f"Cooks and serves by itself, and {drops}."),
        "cook-boltzmann": (
            cook(BOTH_ROLES, temperature=2.0),
            "Cooks and serves by itself; chooses among piles, counters and pots with probability proportional to "
            "exp(-steps / 2).",
        ),
        "cook-noisy": (cook(BOTH_ROLES, noise=0.3), "Cooks and serves by itself; every third action is random."),
        "mixture-noisy": (
            cook(*every, noise=0.2),
            "Draws one of the roles onions, plates and both for each episode; every fifth action is random.",
        ),
    }
