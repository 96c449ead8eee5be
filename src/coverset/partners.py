"""The one resolver of policies by name: runs, agents, members of populations, heuristics, third-party code.

Every command and the studio find policies here. Members of a population are counted from 1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.registry import agent_folder
from coverset.adhoc.saved import load_agent_policy
from coverset.checks import check_between, check_one_of, suggest_nearest
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.seats import check_ego_seat, sides
from coverset.exported.file import ExportedPolicy, load_saved
from coverset.policies.actor import ActorPolicy
from coverset.policies.compatibility import policy_shape
from coverset.policies.population import Population, load_population
from coverset.policies.stacked import count_members, stack, take_member
from coverset.policies.third_party import checked_heuristics, load_third_party, wrap_checked
from coverset.policy import Policy
from coverset.runs.directory import RunDirectory
from coverset.runs.finding import AGENT_FILE, POLICIES_FILE
from coverset.runs.storage import DamagedFile, check_fields, read_record, to_jsonable
from coverset.runs.trust import check_record, is_trusted

HEURISTICS = "heuristics"
OTHER_SEEDS = "other-seeds"
"""Name of the teammates that the other seeds of a run have found: held out from the agent of this one."""
SEATS = {"best-responses": 0, "teammates": 1}
"""Halves of a population, and where they sit."""
ROLES: tuple[str, str] = ("best-responses", "teammates")


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
        raise ValueError(f"directory must be one that `coverset generate` made, but {directory} is not a directory.")
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
        raise ValueError(f"{path} has no policies yet: finish it with `generate(..., resume=True)`.")
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


@dataclass(frozen=True)
class PartnerGame:
    """What policies are looked up for."""

    environment: Environment
    known_as: Mapping[str, Any]
    """`env` and `env_parameters` under which it is known."""
    run: GenerationRun | None = None
    """The run whose population the names `teammates`, `best-responses` and `other-seeds` mean."""


@dataclass(frozen=True)
class Group:
    """What one name stands for: policies stacked on a leading axis, with a title for each."""

    source: str
    policies: Policy
    titles: tuple[str, ...]
    members: tuple[tuple[Path, int], ...] = ()
    """Of teammates that a run has found: the directory of the seed, and which member each is, from 1."""


@dataclass(frozen=True)
class Saved:
    """What a path holds, and what it was made for."""

    file: Path
    content: Population | Policy
    about: dict[str, Any]


def game_of(run: GenerationRun) -> PartnerGame:
    """The game of a run, and its own population."""
    return PartnerGame(run.environment, run.config, run)


def find_partners(run: GenerationRun, names: Sequence[str], *, seat: int) -> PartnerPool:
    """The pool that `names` describe, for partners in `seat` of the run's environment."""
    if not names:
        raise ValueError("partners must name at least one partner, got none.")
    kinds = tuple(find_partner(run, name, seat=seat) for name in names)
    return PartnerPool(kinds, tuple(_best_responses(run, name, seat=seat) for name in names))


def _best_responses(run: GenerationRun, name: str, *, seat: int) -> ActorPolicy | None:
    """The best responses to partners of this name, where the run has one for each and they fit the agent's seat."""
    fits = seat != 0 or run.environment.seats_alike
    matched = count_members(run.population.best_responses) == count_members(run.population.teammates)
    return run.population.best_responses if name == "teammates" and fits and matched else None


def find_partner(run: GenerationRun, name: str, *, seat: int) -> Policy:
    """A stacked policy by name, as `find_group` takes it."""
    return find_group(name, game_of(run), seat=seat).policies


def find_group(name: str, game: PartnerGame, *, seat: int, role: str = "teammates") -> Group:
    """The policies that a name stands for in a seat; raises ValueError where they cannot sit there.

    Args:
      name: `heuristics` or one of them; the path of a run, a seed of a run, an agent or an exported agent; or
        `module:function`, see `policies.third_party`. Where the game has a run, also `teammates` or `best-responses` of
        it, and `other-seeds`, the teammates of the seeds beside it, in order.
      game: what is played.
      seat: where the policies sit.
      role: which half of a population a path means.
    """
    known = checked_heuristics(game.environment)
    if game.run is not None and name in ROLES:
        return _fitting_group(_half(name, game.run.population, name, game.run.path), game, seat)
    if game.run is not None and name == OTHER_SEEDS and (siblings := other_seeds(game.run.path)):
        return _fitting_group(_several_seeds(name, siblings, game), game, seat)
    if name in known or (name == HEURISTICS and known):
        chosen = [*known] if name == HEURISTICS else [name]
        return Group(name, stack([known[one] for one in chosen]), tuple(chosen))
    if Path(name).exists():
        return _fitting_group(_saved_group(Path(name), game, seat, role), game, seat)
    if ":" in name:
        return Group(name, load_third_party(name, game.environment, seat=seat), (name,))
    check_is_no_path(name)
    raise ValueError(_unknown(name, game, known))


def _unknown(name: str, game: PartnerGame, known: Mapping[str, Policy]) -> str:
    """A sentence with all names that the game knows."""
    usable = [*reversed(ROLES)] if game.run is not None else []
    usable += [OTHER_SEEDS] if game.run is not None and other_seeds(game.run.path) else []
    usable += [HEURISTICS, *known] if known else []
    lacking = "" if known else f" {game.known_as['env']} has no heuristics."
    told = ", ".join([*usable, "a path or module:function"])
    return f"A policy must be {told}, got '{name}'.{suggest_nearest(name, usable)}{lacking}"


def _half(source: str, population: Population, role: str, path: Path) -> Group:
    policies: Policy = getattr(population, role.replace("-", "_"))
    numbers = range(1, count_members(policies) + 1)
    members = tuple((path, number) for number in numbers) if role == "teammates" else ()
    return Group(source, policies, tuple(f"{role_title(role)} {number}" for number in numbers), members)


def role_title(role: str) -> str:
    """What a member of one half of a population is called: `best-responses` hold a `best response`."""
    return role.removesuffix("s").replace("-", " ")


def _saved_group(path: Path, game: PartnerGame, seat: int, role: str) -> Group:
    """What a path holds, or the teammates of all seeds of a run."""
    if not any(file.is_file() for file in _policy_files(path)) and [*path.glob(f"seed-*/{POLICIES_FILE}")]:
        return _several_seeds(str(path), [*seed_directories(path).values()], game)
    saved = read_saved(path)
    check_origin(str(path), saved.file, saved.about, game.environment, game.known_as)
    if isinstance(saved.content, Population):
        return _half(str(path), saved.content, role, saved.file.parent)
    check_trained_seat(str(path), saved.about, game.environment, seat)
    alone = jax.tree.map(lambda x: jnp.asarray(x)[None], saved.content)
    return Group(str(path), alone, (_agent_title(saved),))


def _agent_title(saved: Saved) -> str:
    """The name of an agent: its learner's, or that of its directory where it has one of its own."""
    learner = str(saved.about.get("learner", "agent"))
    named = saved.file.name == AGENT_FILE and saved.file.parent.name not in ("", agent_folder(learner))
    return saved.file.parent.name if named else learner


def _several_seeds(source: str, paths: Sequence[Path], game: PartnerGame) -> Group:
    """The teammates of several seeds as one stack."""
    groups = [_saved_group(path, game, SEATS["teammates"], "teammates") for path in paths]
    shapes = {tuple(leaf.shape[1:] for leaf in jax.tree.leaves(group.policies)) for group in groups}
    structures = {jax.tree.structure(group.policies) for group in groups}
    if len(shapes) > 1 or len(structures) > 1:
        raise ValueError(f"{paths[0].parent} holds seeds whose networks differ: name them one by one.")
    stacked = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(group.policies for group in groups))
    titles = [f"{path.name} {title}" for path, group in zip(paths, groups, strict=True) for title in group.titles]
    return Group(source, stacked, tuple(titles), tuple(member for group in groups for member in group.members))


def _fitting_group(group: Group, game: PartnerGame, seat: int) -> Group:
    """The group if its policies fit; an exported one may not do what its file says, so that its actions are checked."""
    check_fits(group.source, group.policies, game.environment, seat=seat)
    if not isinstance(group.policies, ExportedPolicy):
        return group
    return replace(group, policies=wrap_checked(group.source, group.policies, game.environment, seat=seat))


def read_saved(path: Path) -> Saved:
    """The agent or the population of one seed that a path holds."""
    for file in _policy_files(path):
        if file.is_file():
            return Saved(file, *load_saved(file))
    seeds = sorted(file.parent for file in path.glob(f"seed-*/{POLICIES_FILE}"))
    hint = f": choose one of its seeds, such as {seeds[0]}." if seeds else "."
    raise ValueError(f"{path} holds neither an agent nor generated policies{hint}")


def _policy_files(path: Path) -> tuple[Path, ...]:
    """The files of policies that a path may mean, in the order in which they are looked for."""
    return path, path / AGENT_FILE, path / POLICIES_FILE


def load_agent_for(path: Path, environment: Environment, known_as: Mapping[str, Any]) -> tuple[Policy, dict[str, Any]]:
    """The agent of a file, and what it is for, if it was made for this very game and fits the seat that it names."""
    policy, about = load_agent_policy(path)
    check_origin(str(path), path, about, environment, known_as)
    try:
        check_ego_seat(environment, about["seat"])
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    check_fits(str(path), policy, environment, seat=about["seat"] if environment.num_seats == 2 else 0)
    return policy, about


def load_probe_for(path: Path, environment: Environment, known_as: Mapping[str, Any]) -> Population:
    """What probes have found, if it was made for this very game and fits its seats."""
    population, about = load_population(path)
    check_origin(str(path), path, about, environment, known_as)
    for seat, policies in enumerate(population):
        check_fits(str(path), policies, environment, seat=seat)
    return population


def find_member(population: Population, role: str, number: int) -> tuple[str, Policy]:
    """One member of a population, counted from 1, and its title such as `best response 2`."""
    check_one_of("role", role, ROLES)
    policies: Policy = getattr(population, role.replace("-", "_"))
    check_between(role_title(role), number, 1, count_members(policies))
    return f"{role_title(role)} {number}", take_member(policies, number - 1)


def check_is_no_path(name: str) -> None:
    """Raise if a name that is no path of this machine looks like one."""
    path = Path(name)
    if ":" not in name and (path.suffix or len(path.parts) > 1):
        raise ValueError(f"{path} does not exist.")


def other_seeds(path: Path) -> list[Path]:
    """The finished seeds beside this one, in order."""
    beside = _numbered(file.parent for file in path.parent.glob(f"seed-*/{POLICIES_FILE}"))
    return [beside[seed] for seed in sorted(beside) if beside[seed] != path]


def check_origin(
    source: str,
    file: Path,
    about: dict[str, Any],
    environment: Environment,
    known_as: Mapping[str, Any] | None = None,
) -> None:
    """Raise unless a file of policies was made for this very game, and for its version as far as that is known.

    The version stands in the config.json beside the file, which may have been copied without it.

    Args:
      source: who names the file, for messages.
      file: the file of policies.
      about: its metadata.
      environment: the game at hand.
      known_as: `env` and `env_parameters` under which the game is known; those of its class if not given.
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
        here = registry.class_name(environment) if known_as is None else known_as["env"]
        raise ValueError(f"{source} was made for environment '{about['env']}', not '{here}'.")
    here, there = to_jsonable(known[name]), to_jsonable(parameters)
    for field in sorted({*here, *there}):
        if here.get(field) != there.get(field):
            raise ValueError(
                f"{source} was made for environment '{about['env']}' with {field} {there.get(field)}, "
                f"but here it is {here.get(field)}."
            )


def check_fits(source: str, policy: Policy, environment: Environment, *, seat: int) -> None:
    """Raise unless a saved policy reads this environment's observations and chooses among a seat's actions."""
    reads, chooses = policy_shape(policy)
    side = sides(environment)[min(seat, 1)]
    wanted = side.observation_size, side.num_actions
    if (reads, chooses) != wanted:
        raise ValueError(
            f"{source} must read {wanted[0]} numbers and choose among {wanted[1]} actions to play in seat {seat}, got "
            f"{reads} and {chooses}{_advise(source)}."
        )


def _advise(source: str) -> str:
    """Which half of a population plays where the other does not fit."""
    if source not in ROLES:
        return ""
    (other,) = set(ROLES) - {source}
    return f": for partners in that seat, name `partners=['{other}']`"
