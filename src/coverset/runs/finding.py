"""Files of policies below a path: of a run with several seeds, of one seed, of an agent, or the file itself."""

import re
from pathlib import Path

AGENT_FILE = "agent.safetensors"
POLICIES_FILE = "policies.safetensors"
SEED = re.compile("seed-([0-9]+)")


def find_population_file(path: Path) -> Path:
    """The policies of a run's first seed, of a seed, or the file itself.

    Raises:
      ValueError: a directory holds no population.
    """
    if not path.is_dir():
        return path
    found = [place / POLICIES_FILE for place in (path, *_seeds(path)) if (place / POLICIES_FILE).is_file()]
    if not found:
        raise ValueError(f"path must be a run, a seed or a file of policies, but {path} holds no {POLICIES_FILE}.")
    return found[0]


def find_agent_file(path: Path, name: str | None = None) -> Path:
    """The agent of a run's first seed, of a seed, of its own directory, or the file itself.

    Args:
      path: where to look.
      name: which agent of a seed; not needed where there is one only.

    Raises:
      ValueError: a directory holds no agent, or several of which none is named.
    """
    if not path.is_dir():
        return path
    if (path / AGENT_FILE).is_file():
        return path / AGENT_FILE
    for place in (path, *_seeds(path)):
        files = {file.parent.name: file for file in sorted(place.glob(f"*/{AGENT_FILE}"))}
        if name is not None and name in files:
            return files[name]
        if name is None and len(files) == 1:
            return next(iter(files.values()))
        if files:
            known = ", ".join(files)
            raise ValueError(f"name must be one of the agents of {place}, {known}, got {name!r}.")
    raise ValueError(f"path must be a run, a seed or an agent, but {path} holds no {AGENT_FILE}.")


def _seeds(path: Path) -> list[Path]:
    """Directories of the seeds of a run, in order."""
    found = {int(match[1]): place for place in path.glob("seed-*") if (match := SEED.fullmatch(place.name))}
    return [found[seed] for seed in sorted(found)]
