"""How well one agent does with partners it has never met: trials with each, beside what could have been earned.

Returns are undiscounted, reported raw and as fractions of the oracle, never clipped: a fraction may exceed 1 by chance.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from coverset.checks import check_at_least
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.envs.extensions import oracles as oracles_of
from coverset.envs.oracle import Oracle
from coverset.learning.rollout import play_trial
from coverset.policies.stacked import group_alike
from coverset.policy import Policy
from coverset.runs.storage import round_floats
from coverset.types import PRNGKey

EPISODES = 20
"""Episodes of a trial in the paper's setting: an interaction with one teammate."""


@dataclass(frozen=True)
class RobustnessRecord:
    """Every return of one agent with each partner, and the oracles that are known."""

    seat: int
    """The agent's."""
    returns: Mapping[str, Float[np.ndarray, "trials episodes"]]
    oracles: Mapping[str, Oracle]
    """By the same names; partners may be missing."""

    def mean_return(self, partner: str) -> float:
        """Over all trials and their episodes."""
        return float(self.returns[partner].mean())

    def standard_error(self, partner: str) -> float | None:
        """Of the mean return. Episodes of one trial share a memory, so trials are the unit; None for a single one."""
        by_trial = self.returns[partner].mean(axis=1)
        return float(by_trial.std(ddof=1) / len(by_trial) ** 0.5) if len(by_trial) > 1 else None

    def curve(self, partner: str) -> Float[np.ndarray, "episodes"]:
        """Mean return of the first, second, ... episode of a trial: what the agent learns about its partner."""
        return self.returns[partner].mean(axis=0)

    def oracle_fraction(self, partner: str) -> float | None:
        """Mean return / oracle. None without an oracle, or with one that is not above 0.

        Where nothing can be won a fraction says nothing, and with a negative oracle it would grow with the loss.
        """
        oracle = self.oracles.get(partner)
        return self.mean_return(partner) / oracle.value if oracle and oracle.value > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Per partner and averaged: `mean_return` and `curve` over all partners, `oracle_fraction` over those that
        have one (`oracle_partners` of them, None if there are none); partners count alike. `oracle_exact` is False if
        any of these oracles is but an upper bound: the agent is then nearer to the best than the fraction says.
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
        }

    def _partner_json(self, partner: str) -> dict[str, Any]:
        oracle = self.oracles.get(partner)
        return {
            "mean_return": round_floats(self.mean_return(partner)),
            "standard_error": _rounded_or_none(self.standard_error(partner)),
            "oracle": round_floats(oracle.value) if oracle else None,
            "oracle_exact": oracle.exact if oracle else None,
            "full_information": round_floats(oracle.full_information) if oracle else None,
            "oracle_fraction": _rounded_or_none(self.oracle_fraction(partner)),
            "curve": round_floats(self.curve(partner)),
        }


def _rounded_or_none(value: float | None) -> float | None:
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
) -> RobustnessRecord:
    """Play `trials` trials of `episodes` episodes with each partner; the agent's memory lasts for a trial.

    What is drawn in the trials with a partner depends on `key` and the partner's name alone, not on who else is met.

    Args:
      seat: the agent's; partners sit in the other.
      partners: by name; by default the environment's heuristics.
      oracles: by name; by default those of the heuristics, and none for other partners.
    """
    if seat not in (0, 1):
        raise ValueError(f"seat must be 0 or 1, got {seat}.")
    check_at_least("trials", trials, 1)
    check_at_least("episodes", episodes, 1)
    if partners is None:
        partners, oracles = heuristics(environment), oracles_of(environment, seat) if oracles is None else oracles
    if not partners:
        raise ValueError(
            "partners must name at least one policy (by default the environment's heuristics, "
            f"where there are some), got none for {type(environment).__name__}."
        )
    returns = {}
    for names in group_alike(partners):
        stacked = _stacked([partners[name] for name in names])
        keys = jnp.stack([jax.random.split(_partner_key(key, name), trials) for name in names])
        played = np.asarray(_play(keys, environment, policy, stacked, seat, episodes))
        returns |= dict(zip(names, played, strict=True))
    known = {name: oracle for name, oracle in (oracles or {}).items() if name in partners}
    return RobustnessRecord(seat, {name: returns[name] for name in partners}, known)


def _partner_key(key: PRNGKey, name: str) -> PRNGKey:
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def _stacked(family: list[Policy]) -> Policy:
    """Arrays on a leading axis; everything else is the same for all."""
    arrays = [eqx.filter(partner, eqx.is_array) for partner in family]
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), family[0])


@eqx.filter_jit
def _play(
    keys: Key[Array, "partners trials"],
    environment: Environment,
    agent: Policy,
    partners: Policy,
    seat: int,
    episodes: int,
) -> Float[Array, "partners trials episodes"]:
    def trial(key, partner):
        policies = (agent, partner) if seat == 0 else (partner, agent)
        return play_trial(key, environment, policies, episodes=episodes).returns

    over_trials = eqx.filter_vmap(trial, in_axes=(0, None))
    return eqx.filter_vmap(over_trials, in_axes=(0, eqx.if_array(0)))(keys, partners)
