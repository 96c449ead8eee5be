"""Finding what earlier commands wrote: runs of teammates, agents, and pools of partners named by the user."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from coverset.adapters.guests import load_guest
from coverset.adhoc.exported import load_any_agent
from coverset.adhoc.pool import PartnerPool
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.policies.base import Policy
from coverset.policies.population import Population, load_population
from coverset.policies.scripted import heuristics, stack
from coverset.runs import RunDirectory
from coverset.storage import jsonable

AGENT_FILE = "agent.safetensors"
POLICIES_FILE = "policies.safetensors"
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
    """Directories `seed-N` of a run by their seed, in order; only those asked for."""
    if not directory.is_dir():
        raise ValueError(f"DIR must be a directory made by `coverset generate`, but {directory} is not a directory.")
    if (directory / POLICIES_FILE).is_file() and directory.name.startswith("seed-"):
        found = {int(directory.name.removeprefix("seed-")): directory}
    else:
        numbered = [path for path in directory.glob("seed-*") if path.name.removeprefix("seed-").isdigit()]
        found = {int(path.name.removeprefix("seed-")): path for path in numbered}
    if not found:
        raise ValueError(f"{directory} holds no seed-N directories: make them with `coverset generate`.")
    missing = sorted(set(seeds or ()) - set(found))
    if missing:
        raise ValueError(f"{directory} has no seed {missing[0]}; it has {', '.join(map(str, sorted(found)))}.")
    return {seed: found[seed] for seed in (sorted(found) if seeds is None else seeds)}


def read_run(path: Path) -> GenerationRun:
    """Read one seed of a finished generation run."""
    run = RunDirectory(path)
    if not run.config_path.is_file():
        raise ValueError(f"{path} has no config.json: it is not a run of `coverset generate`.")
    if not run.policies_path.is_file():
        raise ValueError(f"{path} has no policies yet: finish it with `coverset generate --resume`.")
    config = run.config()
    population, _ = load_population(run.policies_path)
    environment = registry.make(config["env"], **config["env_parameters"])
    check_fits(f"{path}: best responses", population.best_responses, environment, seat=0)
    check_fits(f"{path}: teammates", population.teammates, environment, seat=1)
    return GenerationRun(path, config, environment, population)


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
        return _fitting(name, run.population.teammates, run.environment, seat)
    if name == "best-responses":
        return _fitting(name, run.population.best_responses, run.environment, seat)
    if name == OTHER_SEEDS and (siblings := other_seeds(run)):
        return _fitting(name, _together(siblings, run.environment), run.environment, seat)
    if name == "heuristics" and known:
        return stack(list(known.values()))
    if name in known:
        return stack([known[name]])
    if Path(name).exists():
        return _fitting(name, load_stacked(Path(name), run.environment), run.environment, seat)
    if ":" in name:
        return load_guest(name, run.environment, seat=seat)
    usable = ["teammates", "best-responses"]
    usable += [OTHER_SEEDS] if other_seeds(run) else []
    usable += ["heuristics", *known] if known else []
    raise ValueError(f"partners must be {', '.join(usable)}, a path or module:function, got '{name}'.")


def other_seeds(run: GenerationRun) -> list[Path]:
    """The finished seeds beside this one, in order."""
    finished = [path.parent for path in run.path.parent.glob(f"seed-*/{POLICIES_FILE}")]
    numbered = [path for path in finished if path.name.removeprefix("seed-").isdigit() and path != run.path]
    return sorted(numbered, key=lambda path: int(path.name.removeprefix("seed-")))


def _together(paths: Sequence[Path], environment: Environment) -> Policy:
    """The teammates of several seeds as one stack."""
    stacks = [load_stacked(path, environment) for path in paths]
    shapes = {tuple(leaf.shape[1:] for leaf in jax.tree.leaves(stack)) for stack in stacks}
    if len(shapes) > 1:
        raise ValueError(f"{paths[0].parent} holds seeds whose networks differ: name them one by one.")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *stacks)


def load_stacked(path: Path, environment: Environment) -> Policy:
    """The teammates of a run or of one of its seeds, or an agent alone, stacked on a leading axis."""
    file = path if path.is_file() else path / AGENT_FILE
    if file.is_file() and file.name != POLICIES_FILE:
        policy, about = load_any_agent(file)
        check_same_environment(str(path), about, environment)
        return jax.tree.map(lambda x: jnp.asarray(x)[None], policy)
    policies = path if path.is_file() else path / POLICIES_FILE
    if not policies.is_file() and any(path.glob(f"seed-*/{POLICIES_FILE}")):
        return _together([*seed_directories(path).values()], environment)
    if not policies.is_file():
        raise ValueError(f"{path} holds neither an agent nor generated policies.")
    population, about = load_population(policies)
    check_same_environment(str(path), about, environment)
    return population.teammates


def check_same_environment(source: str, about: dict[str, Any], environment: Environment) -> None:
    """Raise unless what was saved was made for this very game, parameters included."""
    made_for = registry.make(about["env"], **about["env_parameters"])
    if type(made_for) is not type(environment):
        raise ValueError(f"{source} was made for environment '{about['env']}', which is not the one at hand.")
    here, there = (jsonable(registry.parameters_of(one)) for one in (environment, made_for))
    for field in sorted(here):
        if here[field] != there[field]:
            raise ValueError(
                f"{source} was made for environment '{about['env']}' with {field} {there[field]}, "
                f"but here it is {here[field]}."
            )


def check_fits(source: str, policy: Policy, environment: Environment, *, seat: int) -> None:
    """Raise unless a network reads this environment's observations and chooses among a seat's actions."""
    mlp = getattr(policy, "mlp", None)
    if mlp is None:
        return
    reads, chooses = mlp.sizes[0], mlp.sizes[-1]
    if reads != environment.observation_size or chooses != environment.num_actions[seat]:
        raise ValueError(
            f"{source} reads {reads} numbers and chooses among {chooses} actions, but seat {seat} has "
            f"{environment.observation_size} and {environment.num_actions[seat]}."
        )


def _fitting(name: str, policy: Policy, environment: Environment, seat: int) -> Policy:
    check_fits(name, policy, environment, seat=seat)
    return policy
