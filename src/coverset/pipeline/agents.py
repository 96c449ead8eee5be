"""The agents of a run: directories `seed-N/NAME` that hold one, found by name, by learner, or all of them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from coverset.adhoc.registry import LEARNERS, agent_folder, check_agent_name, learner_class
from coverset.partners import AGENT_FILE
from coverset.runs.directory import AgentDirectory


def find_agents(
    directory: str | Path,
    seeds: Mapping[int, Path],
    *,
    names: Sequence[str] = (),
    learner: str | None = None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> dict[str, dict[int, Path]]:
    """Directories of agents by name and seed, in order.

    Args:
      directory: the run, for messages.
      seeds: its directories by seed.
      names: which agents; each must exist for all seeds.
      learner: agents of this learner, under any name; each must exist for all seeds.
      warn: is told of seeds that lack an agent which others have, if neither names nor a learner were given.
    """
    found = {seed: _agents_below(path, learner) for seed, path in seeds.items()}
    known = sorted({name for agents in found.values() for name in agents}, key=_rank)
    chosen = [check_agent_name(name) for name in names] or known or [agent_folder(learner or _begun(seeds) or "rl2")]
    agents: dict[str, dict[int, Path]] = {name: {} for name in chosen}
    for name in agents:
        for seed, path in seeds.items():
            if name in found[seed] or (names and (path / name / AGENT_FILE).is_file()):
                agents[name][seed] = path / name
            elif names or learner or not known:
                raise ValueError(f"{path} has no agent '{name}': {_remedy(name, learner, directory, path)}")
            else:
                warn(f"{path} has no finished agent '{name}', which is measured without this seed.")
    return agents


def _agents_below(path: Path, learner: str | None) -> list[str]:
    """Names of the finished agents of a seed, of one learner or of all."""
    places = sorted(place.parent for place in path.glob(f"*/{AGENT_FILE}"))
    return [place.name for place in places if learner is None or _learner(place) == learner]


def _learner(place: Path) -> str:
    """Whose agent this is; the name tells it where the agent was copied without its config."""
    agent = AgentDirectory(place)
    learner = agent.config().get("learner") if agent.config_path.is_file() else None
    return learner if isinstance(learner, str) else place.name


def _begun(seeds: Mapping[int, Path]) -> str | None:
    """The name of an agent whose training has begun."""
    places = [place.parent for path in seeds.values() for place in sorted(path.glob("*/config.json"))]
    return next((place.name for place in places), None)


def _rank(name: str) -> tuple[int, str]:
    """Built-in learners under their own names come first."""
    return [*LEARNERS, name].index(name), name


def _remedy(name: str, learner: str | None, directory: str | Path, path: Path) -> str:
    """How to make an agent that is missing."""
    place = path / name
    begun = AgentDirectory(place).config_path.is_file()
    made_by = _learner(place) if begun else learner or name
    arguments = {"learner": made_by}
    try:
        learner_class(made_by)
    except ValueError as error:
        if learner is not None:
            return str(error)
        arguments = {}
    arguments |= {"name": name} if agent_folder(arguments.get("learner", "rl2")) != name else {}
    words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"make it with `train({str(directory)!r}, {words}{', resume=True' if begun else ''})`."
