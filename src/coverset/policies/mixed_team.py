"""Teams of several policies in games of three or more players, as one policy for all seats of the team."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree


class MixedTeam(Policy):
    """Each seat of the team, counted from 1, is played by the member of that number. Memory: one for each member."""

    members: tuple[Policy, ...]

    def initial_memory(self) -> tuple[PyTree, ...]:
        return tuple(member.initial_memory() for member in self.members)

    def act(
        self, key: PRNGKey, percept: Percept, memory: tuple[PyTree, ...]
    ) -> tuple[Int[Array, ""], tuple[PyTree, ...]]:
        if percept.seat is None:
            raise ValueError("a mixed team needs a game of three or more players: its percept has no seat.")

        def play(number: int) -> Callable[..., tuple[Int[Array, ""], tuple[PyTree, ...]]]:
            def act(key: PRNGKey, percept: Percept, memory: tuple[PyTree, ...]):
                action, own = self.members[number].act(key, percept, memory[number])
                return action.astype(jnp.int32), (*memory[:number], own, *memory[number + 1 :])

            return act

        return jax.lax.switch(percept.seat - 1, [*map(play, range(len(self.members)))], key, percept, memory)


def mix_teams(partners: Mapping[str, Policy], num_seats: int) -> dict[str, MixedTeam]:
    """One mixed team for each partner, which takes the first of the seats, and the partners after it the others.

    Partners are counted on from the last to the first. Teams are called by their members, as in "H1+H2".
    """
    names = [*partners]
    if num_seats < 2 or len(names) < 2:
        return {}
    teams = [[names[(first + seat) % len(names)] for seat in range(num_seats)] for first in range(len(names))]
    return {"+".join(team): MixedTeam(tuple(partners[name] for name in team)) for team in teams}
