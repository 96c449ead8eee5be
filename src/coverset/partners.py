"""Finding what earlier commands wrote: runs of teammates, agents, and pools of partners named by the user."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from coverset.adhoc.pool import PartnerPool
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.exported.file import ExportedPolicy, load_saved, shape_of
from coverset.policies.guests import as_guest, load_guest
from coverset.policies.population import Population, load_population
from coverset.policies.stacked import stack
from coverset.policy import Policy
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import check_fields, read_record, to_jsonable
from coverset.runs.trust import check_record, is_trusted

AGENT_FILE = "agent.safetensors"
POLICIES_FILE = "policies.safetensors"
HEURISTICS = "heuristics"
OTHER_SEEDS = "other-seeds"
"""Name of the teammates that the other seeds of a run have found: held out from the agent of this one."""


@dataclass(frozen=True)
class GenerationRun:
    """One seed of a finished generation run."""

    path: Path
    config: dict[str, Any]
    environment: Environment
    population: Population


def seed_directories(directory: Path, seeds: Sequence[int] | None = None) -> dict[int, Path]:
    """Directories `seed-N` of a run by their seed, in order; only those asked for. A run of one seed may be that one's.

    A directory that is called otherwise on the way here, as `.` is, comes back under the name that tells its seed.
    """
    if not directory.is_dir():
        raise ValueError(f"DIR must be a directory made by `coverset generate`, but {directory} is not a directory.")
    found = _numbered(directory.glob("seed-*")) or _numbered([directory]) or _numbered([directory.resolve()])
    if not found and (directory / POLICIES_FILE).is_file():
        raise ValueError(f"{directory} must be called seed-N, as `coverset generate` calls it, to tell its seed.")
    if not found:
        raise ValueError(f"{directory} holds no seed-N directories: make them with `coverset generate`.")
    missing = sorted(set(seeds or ()) - set(found))
    if missing:
        raise ValueError(f"{directory} has no seed {missing[0]}; it has {', '.join(map(str, sorted(found)))}.")
    return {seed: found[seed] for seed in (sorted(found) if seeds is None else seeds)}


def _numbered(paths: Iterable[Path]) -> dict[int, Path]:
    """Those of the directories that are called `seed-N`, by their number."""
    names = {path: re.fullmatch("seed-([0-9]+)", path.name) for path in paths if path.is_dir()}
    return {int(name[1]): path for path, name in names.items() if name}


def read_run(path: Path) -> GenerationRun:
    """Read one seed of a finished generation run."""
    config = read_config(path)
    policies = RunDirectory(path).policies_path
    if not policies.is_file():
        raise ValueError(f"{path} has no policies yet: finish it with `coverset generate --resume`.")
    population, _ = load_population(policies)
    environment = registry.make_from_record(str(RunDirectory(path).config_path), config)
    _check_version(str(path), config, environment)
    check_fits(f"{path}: best responses", population.best_responses, environment, seat=0)
    check_fits(f"{path}: teammates", population.teammates, environment, seat=1)
    return GenerationRun(path, config, environment, population)


def read_config(path: Path) -> dict[str, Any]:
    """What one seed of a generation run was started with, finished or not."""
    run = RunDirectory(path)
    if not run.config_path.is_file():
        raise ValueError(f"{path} has no config.json: it is not a run of `coverset generate`.")
    config = run.config()
    check_fields(run.config_path, config, env=str, env_parameters=dict, env_version=int, method=str)
    return config


def find_partners(run: GenerationRun, names: Sequence[str], *, seat: int) -> PartnerPool:
    """The pool that `names` describe, for partners in `seat` of the run's environment."""
    if not names:
        raise ValueError("partners must name at least one partner, got none.")
    return PartnerPool(tuple(find_partner(run, name, seat=seat) for name in names))


def find_partner(run: GenerationRun, name: str, *, seat: int) -> Policy:
    """A stacked policy by name.

    Args:
      name: `teammates` or `best-responses` of this run; `other-seeds`, the teammates of the seeds beside it, in order;
        `heuristics` or one of them; the path of a run, a seed of a run, or an agent; or `module:function`, see
        `adapters.guests`.
    """
    known = heuristics(run.environment)
    if name == "teammates":
        return fitting(name, run.population.teammates, run.environment, seat)
    if name == "best-responses":
        return fitting(name, run.population.best_responses, run.environment, seat)
    if name == OTHER_SEEDS and (siblings := other_seeds(run.path)):
        return fitting(name, _together(siblings, run.environment, run.config), run.environment, seat)
    if name == HEURISTICS and known:
        return stack(list(known.values()))
    if name in known:
        return stack([known[name]])
    if Path(name).exists():
        stacked = load_stacked(Path(name), run.environment, run.config, seat=seat)
        return fitting(name, stacked, run.environment, seat)
    if ":" in name:
        return load_guest(name, run.environment, seat=seat)
    check_is_no_path(name)
    usable = ["teammates", "best-responses"]
    usable += [OTHER_SEEDS] if other_seeds(run.path) else []
    usable += [HEURISTICS, *known] if known else []
    raise ValueError(f"partners must be {', '.join(usable)}, a path or module:function, got '{name}'.")


def check_is_no_path(name: str) -> None:
    """Raise if a name that is no path of this machine looks like one."""
    path = Path(name)
    if ":" not in name and (path.suffix or len(path.parts) > 1):
        raise ValueError(f"{path} does not exist.")


def other_seeds(path: Path) -> list[Path]:
    """The finished seeds beside this one, in order."""
    beside = _numbered(file.parent for file in path.parent.glob(f"seed-*/{POLICIES_FILE}"))
    return [beside[seed] for seed in sorted(beside) if beside[seed] != path]


def _together(paths: Sequence[Path], environment: Environment, known_as: Mapping[str, Any] | None) -> Policy:
    """The teammates of several seeds as one stack."""
    stacks = [load_stacked(path, environment, known_as) for path in paths]
    shapes = {tuple(leaf.shape[1:] for leaf in jax.tree.leaves(stack)) for stack in stacks}
    if len(shapes) > 1:
        raise ValueError(f"{paths[0].parent} holds seeds whose networks differ: name them one by one.")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *stacks)


def load_stacked(
    path: Path, environment: Environment, known_as: Mapping[str, Any] | None = None, *, seat: int | None = None
) -> Policy:
    """The teammates of a run or of one of its seeds, or an agent alone, stacked on a leading axis.

    Args:
      environment: they must have been made for it.
      known_as: `env` and `env_parameters` under which it is known; those of its class if not given.
      seat: where they are to sit; an agent is then refused where it was trained for the other seat, if that matters.
    """
    file = next((file for file in (path, path / AGENT_FILE, path / POLICIES_FILE) if file.is_file()), None)
    if file is None and any(path.glob(f"seed-*/{POLICIES_FILE}")):
        return _together([*seed_directories(path).values()], environment, known_as)
    if file is None:
        raise ValueError(f"{path} holds neither an agent nor generated policies.")
    content, about = load_saved(file)
    check_origin(str(path), file, about, environment, known_as)
    if isinstance(content, Population):
        return content.teammates
    if seat is not None:
        check_trained_seat(str(path), about, environment, seat)
    return jax.tree.map(lambda x: jnp.asarray(x)[None], content)


def check_origin(
    source: str,
    file: Path,
    about: dict[str, Any],
    environment: Environment,
    known_as: Mapping[str, Any] | None = None,
) -> None:
    """Raise unless a file of policies was made for this very game, and for its version as far as that is known.

    The version stands in the config.json beside the file, which may have been copied without it.
    """
    check_same_environment(source, about, environment, known_as)
    config = RunDirectory(file.parent).config_path
    made_with = read_record(config) if config.is_file() else {}
    if "env_version" in made_with:
        _check_version(source, {**about, "env_version": made_with["env_version"]}, environment)


def _check_version(source: str, made_with: dict[str, Any], environment: Environment) -> None:
    """Raise where the environment has changed since."""
    if made_with["env_version"] != environment.version:
        raise ValueError(
            f"{source} was made with version {made_with['env_version']} of {made_with['env']}, which is now at version "
            f"{environment.version}: make it again."
        )


def check_trained_seat(source: str, about: dict[str, Any], environment: Environment, seat: int) -> None:
    """Raise if an agent was trained for the other seat and the seats differ."""
    trained = about.get("seat", seat)
    if trained != seat and not environment.seats_alike:
        raise ValueError(f"{source} was trained for seat {trained}, and the seats of '{about['env']}' are not alike.")


def check_same_environment(
    source: str, about: Mapping[str, Any], environment: Environment, known_as: Mapping[str, Any] | None = None
) -> None:
    """Raise unless what was saved was made for this very game, parameters included.

    One game may have several names. A name that may not run is only compared, with that of the class and `known_as`.
    """
    check_record(source, about)
    known = {registry.class_name(environment): registry.parameters_of(environment)}
    name, parameters = about["env"], about["env_parameters"]
    if is_trusted(about):
        made_for = registry.make_from_record(source, about)
        name, parameters = registry.class_name(made_for), registry.parameters_of(made_for)
    elif known_as is not None:
        known[known_as["env"]] = known_as["env_parameters"]
    if name not in known:
        raise ValueError(f"{source} was made for environment '{about['env']}', which is not the one at hand.")
    here, there = to_jsonable(known[name]), to_jsonable(parameters)
    for field in sorted({*here, *there}):
        if here.get(field) != there.get(field):
            raise ValueError(
                f"{source} was made for environment '{about['env']}' with {field} {there.get(field)}, "
                f"but here it is {here.get(field)}."
            )


def check_fits(source: str, policy: Policy, environment: Environment, *, seat: int) -> None:
    """Raise unless a saved policy reads this environment's observations and chooses among a seat's actions."""
    reads, chooses = shape_of(policy)
    wanted = environment.observation_size, environment.num_actions[seat]
    if (reads, chooses) != wanted:
        raise ValueError(
            f"{source} reads {reads} numbers and chooses among {chooses} actions, but seat {seat} has {wanted[0]} and "
            f"{wanted[1]}."
        )


def fitting(name: str, policy: Policy, environment: Environment, seat: int) -> Policy:
    """A stacked policy if it fits; an exported one may not do what its file says, so that its actions are checked."""
    check_fits(name, policy, environment, seat=seat)
    return as_guest(name, policy, environment, seat=seat) if isinstance(policy, ExportedPolicy) else policy
