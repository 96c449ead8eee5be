"""The players of one seat in cross-play, found by path or name and checked against the seat."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from coverset.checks import one_of
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.exported.file import load_saved
from coverset.partners import AGENT_FILE, check_is_no_path, check_origin, check_trained_seat, fitting
from coverset.policies.population import Population
from coverset.policies.stacked import count_members, stack
from coverset.policies.third_party import load_third_party
from coverset.policy import Policy
from coverset.runs.directory import RunDirectory
from coverset.runs.trust import check_record

ROLES = ("best-responses", "teammates")
"""Roles in a population: best responses play in seat 0, teammates in seat 1."""


@dataclass(frozen=True)
class SavedPolicies:
    """The policies in a file, and the description that was saved with them."""

    file: Path
    content: Population | Policy
    about: dict[str, Any]


@dataclass(frozen=True)
class SeatPlayers:
    """The policies of one seat, stacked on a leading axis, with a name for each."""

    source: str
    policies: Policy
    names: tuple[str, ...]


def find_saved(name: str) -> SavedPolicies | None:
    """Load the policies at a path; None if `name` is not a path."""
    path = Path(name)
    if not path.exists():
        check_is_no_path(name)
        return None
    file = _find_file(path)
    return SavedPolicies(file, *load_saved(file))


def _find_file(path: Path) -> Path:
    """The policies file at a path or in a directory."""
    if path.is_file():
        return path
    for file in (path / AGENT_FILE, RunDirectory(path).policies_path):
        if file.is_file():
            return file
    seeds = sorted(seed for seed in path.glob("seed-*") if RunDirectory(seed).policies_path.is_file())
    hint = f": choose one of its seeds, such as {seeds[0]}." if seeds else "."
    raise ValueError(f"{path} holds neither an agent nor generated policies{hint}")


def find_players(
    name: str,
    saved: SavedPolicies | None,
    known_as: Mapping[str, Any],
    environment: Environment,
    *,
    seat: int,
    role: str,
) -> SeatPlayers:
    """The policies that `name` refers to; raises ValueError if they cannot play in the seat.

    Args:
      name: a path, the name of a heuristic, or `module:function`.
      saved: the policies at the path; None if `name` is not a path.
      known_as: `env` and `env_parameters` of the environment.
      environment: the environment to play.
      seat: the seat of the policies.
      role: which half of a population to use.
    """
    if saved is None and ":" in name:
        return SeatPlayers(name, load_third_party(name, environment, seat=seat), (name,))
    if saved is None:
        return _find_heuristics(name, known_as["env"], environment)
    _check_environment(name, saved, known_as, environment)
    if isinstance(saved.content, Population):
        policies: Policy = getattr(saved.content, role.replace("-", "_"))
        title = role.removesuffix("s").replace("-", " ")
        players = SeatPlayers(name, policies, tuple(f"{title} {n + 1}" for n in range(count_members(policies))))
    else:
        check_trained_seat(name, saved.about, environment, seat)
        alone = jax.tree.map(lambda x: jnp.asarray(x)[None], saved.content)
        players = SeatPlayers(name, alone, (str(saved.about.get("learner", "agent")),))
    return replace(players, policies=fitting(name, players.policies, environment, seat))


def _find_heuristics(name: str, env: str, environment: Environment) -> SeatPlayers:
    known = heuristics(environment)
    if not known:
        raise ValueError(f"{env} has no heuristics: name the path of a population or an agent, not '{name}'.")
    one_of("policy", name, ["heuristics", *known])
    chosen = [*known] if name == "heuristics" else [name]
    return SeatPlayers(name, stack([known[one] for one in chosen]), tuple(chosen))


def _check_environment(name: str, saved: SavedPolicies, known_as: Mapping[str, Any], environment: Environment) -> None:
    """Raise unless the policies were made for this environment with the same parameters."""
    check_record(name, saved.about)
    if saved.about["env"] != known_as["env"]:
        raise ValueError(f"{name} was made for environment '{saved.about['env']}', not '{known_as['env']}'.")
    check_origin(name, saved.file, saved.about, environment, known_as)
