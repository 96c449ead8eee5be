"""What an agent can earn at most with a scripted cook: a bound, not the return of a best response.

The bound of `envs.overcooked.bound` lets us choose the actions of both players, but leaves the partner what its role
never touches: an onion worker holds no plates, and a partner that stays holds nothing at all.
"""

from coverset.envs.oracle import Oracle
from coverset.envs.overcooked.bound import most_soups
from coverset.envs.overcooked.dynamics import Overcooked
from coverset.envs.overcooked.heuristics import BOTH_ROLES, ONION_ROLE, PLATE_ROLE, ScriptedCook
from coverset.envs.overcooked.rules import DELIVERY_REWARD, NOTHING, ONION, PLATE, SOUP

EVERYTHING = frozenset((NOTHING, ONION, PLATE, SOUP))
ITEMS = {ONION_ROLE: frozenset((NOTHING, ONION)), PLATE_ROLE: frozenset((NOTHING, PLATE, SOUP)), BOTH_ROLES: EVERYTHING}


def bound_return(environment: Overcooked, partner: ScriptedCook, seat: int) -> Oracle | None:
    """An upper bound on the return of any agent in `seat` with this partner; None with random objects at the start."""
    if environment.random_objects:
        return None
    own, other = EVERYTHING, held_items(partner)
    players = (own, other) if seat == 0 else (other, own)
    orders = {"swapped": (players[::-1],), "either": (players, players[::-1])}.get(environment.starts, (players,))
    soups = max(most_soups(environment.kitchen, environment.horizon, order) for order in orders)
    value = DELIVERY_REWARD * soups
    return Oracle(value, exact=False, full_information=value)


def held_items(partner: ScriptedCook) -> frozenset[int]:
    """All that a scripted cook may ever hold; nothing, not even empty hands, for one that never acts."""
    if float(partner.idle) >= 1.0:
        return frozenset()
    if float(partner.noise) > 0.0:
        return EVERYTHING
    return frozenset().union(*(ITEMS[role] for role, chance in enumerate(partner.roles.tolist()) if chance > 0.0))
