"""One side of a cross-play table: who sits there, found by a path or a name, and checked against the seat."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from coverset.checks import check_one_of
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.evaluation.cross_play import member_count
from coverset.exported.file import load_saved
from coverset.partners import AGENT_FILE, check_is_no_path, check_origin, check_trained_seat, fitting
from coverset.policies.guests import load_guest
from coverset.policies.population import Population
from coverset.policies.stacked import stack
from coverset.policy import Policy
from coverset.runs.directory import RunDirectory
from coverset.runs.trust import check_record

ROLES = ("best-responses", "teammates")
"""Halves of a population; best responses belong in seat 0, teammates in seat 1."""


@dataclass(frozen=True)
class Saved:
    """What a path holds, and what it was made for."""

    file: Path
    content: Population | Policy
    about: dict[str, Any]


@dataclass(frozen=True)
class Side:
    """Policies stacked on a leading axis, with a name for each."""

    source: str
    policies: Policy
    names: tuple[str, ...]


def find_saved(name: str) -> Saved | None:
    """What a path holds; None for a name that looks like none."""
    path = Path(name)
    if not path.exists():
        check_is_no_path(name)
        return None
    file = _file(path)
    return Saved(file, *load_saved(file))


def _file(path: Path) -> Path:
    """The file of policies that a path means."""
    if path.is_file():
        return path
    for file in (path / AGENT_FILE, RunDirectory(path).policies_path):
        if file.is_file():
            return file
    seeds = sorted(seed for seed in path.glob("seed-*") if RunDirectory(seed).policies_path.is_file())
    hint = f": choose one of its seeds, such as {seeds[0]}." if seeds else "."
    raise ValueError(f"{path} holds neither an agent nor generated policies{hint}")


def make_side(
    name: str, saved: Saved | None, known_as: Mapping[str, Any], environment: Environment, *, seat: int, role: str
) -> Side:
    """The policies that `name` means in a seat; raises ValueError where they cannot sit there.

    Args:
      name: who is meant, a path or a name.
      saved: what the path holds; None for a name.
      known_as: `env` and `env_parameters` under which the environment is known.
      environment: what is played.
      seat: where they sit.
      role: which half of a population is meant.
    """
    if saved is None and ":" in name:
        return Side(name, load_guest(name, environment, seat=seat), (name,))
    if saved is None:
        return _heuristics(name, known_as["env"], environment)
    _check_environment(name, saved, known_as, environment)
    if isinstance(saved.content, Population):
        policies: Policy = getattr(saved.content, role.replace("-", "_"))
        title = role.removesuffix("s").replace("-", " ")
        side = Side(name, policies, tuple(f"{title} {n + 1}" for n in range(member_count(policies))))
    else:
        check_trained_seat(name, saved.about, environment, seat)
        alone = jax.tree.map(lambda x: jnp.asarray(x)[None], saved.content)
        side = Side(name, alone, (str(saved.about.get("learner", "agent")),))
    return replace(side, policies=fitting(name, side.policies, environment, seat))


def _heuristics(name: str, env: str, environment: Environment) -> Side:
    known = heuristics(environment)
    if not known:
        raise ValueError(f"{env} has no heuristics: name the path of a population or an agent, not '{name}'.")
    check_one_of("policy", name, ["heuristics", *known])
    chosen = [*known] if name == "heuristics" else [name]
    return Side(name, stack([known[one] for one in chosen]), tuple(chosen))


def _check_environment(name: str, saved: Saved, known_as: Mapping[str, Any], environment: Environment) -> None:
    """Raise unless both were made for the same game, parameters included."""
    check_record(name, saved.about)
    if saved.about["env"] != known_as["env"]:
        raise ValueError(f"{name} was made for environment '{saved.about['env']}', not '{known_as['env']}'.")
    check_origin(name, saved.file, saved.about, environment, known_as)
