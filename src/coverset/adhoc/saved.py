"""Agents on disk and in other people's programs.

A file names the agent's learner with its settings and the specification of its networks; from these loading builds the
policy without its numbers, and fills in the tensors.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import equinox as eqx
import jax
import numpy as np

from coverset.adhoc.learner import AgentSpec, Learner, StackSpec
from coverset.adhoc.registry import LEARNERS, learner_name, learner_settings, make_learner
from coverset.checks import check_positive, format_value
from coverset.policies.agent import Agent
from coverset.policies.compatibility import policy_shape
from coverset.policies.population import Population, check_format
from coverset.policies.saving import (
    LARGEST_SIZE,
    MOST_LAYERS,
    build_template,
    check_roles,
    fill_template,
    named_tensors,
    network_record,
    read_network_template,
    read_seats,
)
from coverset.policy import Policy
from coverset.runs.finding import find_agent_file
from coverset.runs.storage import DamagedFile, check_fields, load_tensors, save_tensors
from coverset.runs.trust import check_trusted, foreign_names, sign_record

FORMAT = "coverset agent 3"
ROLE = "policy"
SPEC_FIELDS = {name: kind for name, kind in get_type_hints(AgentSpec).items() if name not in Population._fields}
"""Plain fields of a specification, and their types."""
NEWER_FIELDS = {"partner_seats": 1, "num_partners": 1}
"""What fields mean where a file of an earlier version does not have them."""


def save_agent(path: Path, policy: Policy, learner: Learner, spec: AgentSpec, about: Mapping[str, Any]) -> None:
    """Write an agent.

    Args:
      path: the file.
      policy: the agent, as `learner` made it.
      learner: its learner.
      spec: what it is built from.
      about: environment, parameters of the environment and seat that it is for, and whatever else is to be kept.
    """
    made_by = {"learner": learner_name(learner), "learner_settings": learner_settings(learner)}
    record = {"format": FORMAT, **made_by, "spec": _spec_record(spec), **about}
    save_tensors(path, named_tensors(ROLE, eqx.filter(policy, eqx.is_array)), sign_record(record))


def load_agent_policy(path: Path) -> tuple[Policy, dict[str, Any]]:
    """Read what `save_agent` wrote: the policy, and what it is for.

    Raises:
      ValueError: the file names a learner that is not installed, and that the user does not trust.
    """
    tensors, about = load_tensors(path)
    check_format(path, about, FORMAT)
    check_fields(path, about, learner=str, learner_settings=dict, spec=dict, seat=int)
    seats, _ = read_seats(path, about)
    if not 0 <= about["seat"] < seats:
        raise DamagedFile(f"{path} is damaged: seat must lie between 0 and {seats - 1}, got {about['seat']}.")
    learner = _read_learner(path, about)
    spec = _read_spec(path, about, learner)
    template = build_template(path, lambda: learner.build_policy(jax.random.key(0), spec))
    check_roles(path, tensors, (ROLE,))
    _check_all_used(path, tensors, template)
    policy = fill_template(path, ROLE, tensors, template)
    policy_shape(policy)
    return policy, about


def _read_learner(path: Path, about: Mapping[str, Any]) -> Learner:
    """The learner that a file names, if its code may be imported."""
    code = {name: about[name] for name in ("learner", "learner_settings", "spec")}
    if foreign_names({"env": "matrix", "env_parameters": {}, **code}):
        check_trusted(str(path), about)
    try:
        return make_learner(about["learner"], about["learner_settings"])
    except ValueError as error:
        if about["learner"] in LEARNERS:
            raise DamagedFile(f"{path} is damaged: {error}") from error
        raise ValueError(f"{path}: {error}") from error


def _spec_record(spec: AgentSpec) -> dict[str, Any]:
    """A specification as files record it: networks as `network_record` gives them."""
    halves = {name: half for name in Population._fields if (half := getattr(spec, name)) is not None}
    records = {name: {"size": half.size, **network_record(half.kind, half.network)} for name, half in halves.items()}
    return {**{name: getattr(spec, name) for name in SPEC_FIELDS}, **records}


def _read_spec(path: Path, about: Mapping[str, Any], learner: Learner) -> AgentSpec:
    record = NEWER_FIELDS | about["spec"]
    check_fields(path, record, **SPEC_FIELDS)
    plain: dict[str, Any] = {name: tuple(v) if isinstance(v := record[name], list) else v for name in SPEC_FIELDS}
    _check_sizes(path, plain)
    try:
        check_positive("reward_scale", plain["reward_scale"])
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    halves: dict[str, Any] = {name: _read_half(path, about, name) for name in Population._fields if name in record}
    if learner.needs_population and len(halves) < len(Population._fields):
        raise DamagedFile(f"{path} does not describe the population that its agent was made from.")
    return AgentSpec(**plain, **halves)


def _check_sizes(path: Path, plain: Mapping[str, Any]) -> None:
    """Raise DamagedFile where a size is none, or absurd."""
    sizes = {name: value for name, value in plain.items() if SPEC_FIELDS[name] is not float}
    numbers = [number for value in sizes.values() for number in (value if isinstance(value, tuple) else (value,))]
    if len(numbers) > MOST_LAYERS or min(numbers) < 1 or max(numbers) > LARGEST_SIZE:
        raise DamagedFile(f"{path} describes an agent of sizes {format_value(sizes)}.")


def _read_half(path: Path, about: Mapping[str, Any], name: str) -> StackSpec:
    record = about["spec"][name]
    _, network = read_network_template(path, about, record)
    check_fields(path, record, size=int)
    if not 1 <= record["size"] <= LARGEST_SIZE:
        raise DamagedFile(f"{path} describes {name} of {format_value(record['size'])} members.")
    return StackSpec(size=record["size"], kind=record["kind"], network=network)


def _check_all_used(path: Path, tensors: Mapping[str, np.ndarray], template: Policy) -> None:
    """Raise DamagedFile if the file holds a tensor that the policy has no place for."""
    places = jax.tree_util.tree_leaves_with_path(template)
    known = {f"{ROLE}.{jax.tree_util.keystr(place, simple=True, separator='.')}" for place, _ in places}
    for name in tensors:
        if name not in known:
            raise DamagedFile(f"{path} holds the tensor {format_value(name)}, for which its agent has no place.")


def load_agent(path: str | Path, seed: int = 0, *, name: str | None = None) -> Agent:
    """Load an agent that `coverset train` has written.

    Args:
      path: the file or directory of an agent, a seed, or a run, of which the first seed with agents is taken.
      seed: of the agent's random numbers.
      name: which agent of a seed or run, where it has several.
    """
    policy, about = load_agent_policy(find_agent_file(Path(path), name))
    return Agent(policy, about, seed)
