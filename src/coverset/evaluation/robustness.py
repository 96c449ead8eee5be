"""Robustness of one agent: returns in trials with held-out partners, compared with oracles.

Returns are undiscounted, reported raw and as fractions of the oracle, never clipped: a fraction may exceed 1 by chance.
In games of three or more players a partner takes all seats but the agent's; mixed teams, in which several partners play
together, are measured apart from these whole ones.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from coverset.checks import check_at_least
from coverset.envs.base import Environment
from coverset.envs.extensions import oracles as oracles_of
from coverset.envs.oracle import Oracle
from coverset.envs.seats import check_ego_seat, has_common_reward
from coverset.learning.rollout import Episode, play_trial
from coverset.policies.stacked import group_alike
from coverset.policies.third_party import checked_heuristics
from coverset.policy import Policy
from coverset.runs.storage import round_floats
from coverset.types import PRNGKey

EPISODES = 20
"""Episodes of a trial in the paper's setting: an interaction with one teammate."""


@dataclass(frozen=True)
class RobustnessRecord:
    """Every return of one agent with each partner, and the known oracles."""

    seat: int
    """The seat of the agent."""
    returns: Mapping[str, Float[np.ndarray, "trials episodes"]]
    oracles: Mapping[str, Oracle]
    """By partner name, where known."""
    mixed_returns: Mapping[str, Float[np.ndarray, "trials episodes"]] = field(default_factory=dict)
    """The same with mixed teams, by names such as `A + B`; empty in games of two players."""
    seat_returns: Mapping[str, Float[np.ndarray, "seats"]] = field(default_factory=dict)
    """Mean return of every seat, by partner and mixed team; empty where all seats share one reward."""

    def mean_return(self, partner: str) -> float:
        """Return the mean over all trials and their episodes."""
        return float(self._played(partner).mean())

    def standard_error(self, partner: str) -> float | None:
        """Return the standard error of the mean over trials, whose episodes share a memory; None for one trial."""
        by_trial = self._played(partner).mean(axis=1)
        return float(by_trial.std(ddof=1) / len(by_trial) ** 0.5) if len(by_trial) > 1 else None

    def curve(self, partner: str) -> Float[np.ndarray, "episodes"]:
        """Return the mean return by episode of a trial, which shows adaptation to the partner."""
        return self._played(partner).mean(axis=0)

    def _played(self, name: str) -> Float[np.ndarray, "trials episodes"]:
        return self.returns[name] if name in self.returns else self.mixed_returns[name]

    def oracle_fraction(self, partner: str) -> float | None:
        """Return mean return / oracle; None without a positive oracle.

        With an oracle of 0 the fraction is undefined, and with a negative one it would grow with the loss.
        """
        oracle = self.oracles.get(partner)
        return self.mean_return(partner) / oracle.value if oracle and oracle.value > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return results per partner and averaged, weighted equally: `mean_return` and `curve` over all partners,
        `oracle_fraction` over those that have one (`oracle_partners` of them, None if there are none). `oracle_exact`
        is False if any of these oracles is only an upper bound, so that the fraction understates the agent. Mixed teams
        count in `mixed_mean_return` alone.
        """
        fractions = {name: f for name in self.returns if (f := self.oracle_fraction(name)) is not None}
        trials, episodes = next(iter(self.returns.values())).shape
        return {
            "seat": self.seat,
            "trials": trials,
            "episodes": episodes,
            "mean_return": round_floats(np.mean([self.mean_return(partner) for partner in self.returns])),
            "oracle_fraction": round_floats(np.mean([*fractions.values()])) if fractions else None,
            "oracle_partners": len(fractions),
            "oracle_exact": all(self.oracles[name].exact for name in fractions) if fractions else None,
            "curve": round_floats(np.mean([self.curve(partner) for partner in self.returns], axis=0)),
            "partners": {partner: self._partner_json(partner) for partner in self.returns},
            "mixed_mean_return": round_floats(np.mean([*map(self.mean_return, self.mixed_returns)]))
            if self.mixed_returns
            else None,
            "mixed_teams": {team: self._team_json(team) for team in self.mixed_returns},
        }

    def _team_json(self, team: str) -> dict[str, Any]:
        seats = self.seat_returns.get(team)
        return {
            "mean_return": round_floats(self.mean_return(team)),
            "standard_error": _round_or_none(self.standard_error(team)),
            "seat_returns": None if seats is None else round_floats(seats),
            "curve": round_floats(self.curve(team)),
        }

    def _partner_json(self, partner: str) -> dict[str, Any]:
        oracle = self.oracles.get(partner)
        return {
            **self._team_json(partner),
            "oracle": round_floats(oracle.value) if oracle else None,
            "oracle_exact": oracle.exact if oracle else None,
            "full_information": round_floats(oracle.full_information) if oracle else None,
            "oracle_fraction": _round_or_none(self.oracle_fraction(partner)),
        }


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else round_floats(value)


def evaluate_agent(
    key: PRNGKey,
    environment: Environment,
    policy: Policy,
    *,
    seat: int = 0,
    partners: Mapping[str, Policy] | None = None,
    oracles: Mapping[str, Oracle] | None = None,
    trials: int,
    episodes: int = EPISODES,
    mixed_teams: bool = True,
    rotate_seats: bool = False,
) -> RobustnessRecord:
    """Play `trials` trials of `episodes` episodes with each partner; the agent's memory lasts for a trial.

    In games of three or more players it also plays with mixed teams (`mix_teams`). Random draws with a partner depend
    only on `key` and the partner's name, not on the other partners.

    Args:
      key: random key.
      environment: the game.
      policy: the agent.
      seat: seat of the agent; partners take all others.
      partners: by name; by default the environment's heuristics.
      oracles: by name; by default those of the heuristics, and none for other partners.
      trials: trials with each partner.
      episodes: episodes per trial.
      mixed_teams: whether it also plays with mixed teams.
      rotate_seats: whether the agent takes another seat in each trial, which alike seats allow. Returns then have the
        same distribution in all of them, unless a game or a policy is wrong about its seats.
    """
    check_ego_seat(environment, seat)
    if rotate_seats and not environment.seats_alike:
        raise ValueError("rotate_seats must be false in a game whose seats are not alike.")
    check_at_least("trials", trials, 1)
    check_at_least("episodes", episodes, 1)
    if partners is None:
        partners = checked_heuristics(environment)
        oracles = oracles_of(environment, seat) if oracles is None else oracles
    if not partners:
        raise ValueError(
            "partners must name at least one policy (by default the environment's heuristics, "
            f"if it has any), got none for {type(environment).__name__}."
        )
    mixed = mix_teams(partners, environment.num_seats - 1) if mixed_teams else {}
    teams = {name: (partner,) for name, partner in partners.items()} | mixed
    returns, by_seat = {}, {}
    for names in group_alike(teams):
        stacked = _stack_teams([teams[name] for name in names])
        keys = jnp.stack([jax.random.split(_partner_key(key, name), trials) for name in names])
        played, of_seats = _play_seats(keys, environment, policy, stacked, seat, episodes, rotate=rotate_seats)
        returns |= dict(zip(names, played, strict=True))
        if not has_common_reward(environment):
            by_seat |= dict(zip(names, of_seats.mean(axis=(1, 2)), strict=True))
    known = {name: oracle for name, oracle in (oracles or {}).items() if name in partners}
    whole, together = ({name: returns[name] for name in some} for some in (partners, mixed))
    return RobustnessRecord(seat, whole, known, together, by_seat)


def count_mixed_teams(partners: int, seats: int) -> int:
    """One for each partner, where there are two seats and two partners."""
    return partners if min(seats, partners) > 1 else 0


def mix_teams(partners: Mapping[str, Policy], seats: int) -> dict[str, tuple[Policy, ...]]:
    """One mixed team for each partner, by names such as `A + B`: it plays in the first seat after the agent's, and
    those that follow it in order, counted on from the last to the first, take the other seats.
    """
    names = [*partners]
    starts = range(count_mixed_teams(len(names), seats))
    orders = [[names[(first + seat) % len(names)] for seat in range(seats)] for first in starts]
    return {" + ".join(order): tuple(partners[name] for name in order) for order in orders}


def _partner_key(key: PRNGKey, name: str) -> PRNGKey:
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def _stack_teams(family: list[tuple[Policy, ...]]) -> tuple[Policy, ...]:
    """Stack arrays on a leading axis; everything else is equal in all teams."""
    arrays = [eqx.filter(team, eqx.is_array) for team in family]
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), family[0])


def _play_seats(
    keys: Key[Array, "teams trials"],
    environment: Environment,
    agent: Policy,
    teams: tuple[Policy, ...],
    seat: int,
    episodes: int,
    *,
    rotate: bool,
) -> tuple[Float[np.ndarray, "teams trials episodes"], Float[np.ndarray, "teams trials episodes seats"]]:
    """The agent's returns and those of all seats; with `rotate`, trial t has the agent in the t-th seat from `seat`."""
    seats = environment.num_seats
    returns = np.zeros((*keys.shape, episodes), np.float32)
    by_seat = np.zeros((*returns.shape, seats), np.float32)
    turns = min(seats, keys.shape[1]) if rotate else 1
    for turn in range(turns):
        chosen = np.s_[:, turn::turns]
        played = _play(keys[chosen], environment, agent, teams, (seat + turn) % seats, episodes)
        returns[chosen], by_seat[chosen] = played.returns, played.seat_returns
    return returns, by_seat


@eqx.filter_jit
def _play(
    keys: Key[Array, "partners trials"],
    environment: Environment,
    agent: Policy,
    teams: tuple[Policy, ...],
    seat: int,
    episodes: int,
) -> Episode:
    """Fields have leading axes [teams, trials, episodes]."""

    def trial(key, team):
        policies = (*team, agent) if seat == 1 and environment.num_seats == 2 else (agent, *team)
        return play_trial(key, environment, policies, episodes=episodes, ego=seat)

    over_trials = eqx.filter_vmap(trial, in_axes=(0, None))
    return eqx.filter_vmap(over_trials, in_axes=(0, eqx.if_array(0)))(keys, teams)
