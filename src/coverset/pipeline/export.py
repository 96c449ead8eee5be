"""Agents for people without coverset: from a run to a file that runs with jax alone."""

from pathlib import Path

from coverset.adhoc.saved import load_agent_policy
from coverset.exported.archive import Inputs
from coverset.exported.file import require_flatbuffers, write_exported
from coverset.partners import AGENT_FILE, POLICIES_FILE, SEATS, find_member
from coverset.policies.compatibility import policy_shape
from coverset.policies.population import load_population
from coverset.policies.saving import read_seats

EXPORT_FILE = "agent.zip"
KEPT = ("env", "env_parameters", "seat", "seed", "learner", "role", "member")
"""What an exported file keeps of where its policy came from."""


def export_agent(
    agent: str | Path, out: str | Path | None = None, *, role: str | None = None, member: int | None = None
) -> Path:
    """Write an agent, or one member of a population, as a file that runs with jax alone.

    Args:
      agent: the directory or the file of an agent that `train` has written; with `role` and `member`, those of one seed
        that `generate` has written.
      out: where to; if not given `agent.zip` beside the agent, or such as `teammate-1.zip` beside the population.
      role: half of a population, `teammates` or `best-responses`.
      member: which of them, counted from 1.
    Returns:
      The path of the file.
    """
    require_flatbuffers()
    if (role is None) != (member is None):
        raise ValueError(f"role and member must be given together or not at all, got {role!r} and {member!r}.")
    path = Path(agent)
    if role is None or member is None:
        file, name = _file(path, AGENT_FILE, "agent", "coverset train"), EXPORT_FILE
        policy, about = load_agent_policy(file)
    else:
        file = _file(path, POLICIES_FILE, "population", "coverset generate")
        population, about = load_population(file)
        title, policy = find_member(population, role, member)
        name = f"{title.replace(' ', '-')}.zip"
        about = {**about, "seat": SEATS[role], "role": role, "member": member}
    target = Path(out) if out is not None else file.parent / name
    seats, masked = read_seats(file, about)
    inputs = Inputs(*policy_shape(policy), legal=masked, seat=seats > 2 and role == "teammates")
    kept = {name: about[name] for name in KEPT if name in about}
    return write_exported("out", target, policy, inputs, {**kept, "num_seats": seats})


def _list_agents(path: Path, content: str) -> str | None:
    """What may be exported of a seed that is named instead of its agent."""
    agents = sorted(file.parent.name for file in path.glob(f"*/{AGENT_FILE}"))
    if content != "agent" or not (agents or (path / POLICIES_FILE).is_file()):
        return None
    named = f"name one of its agents, such as {path / agents[0]}, or a" if agents else "name a"
    return f"{named} member of its population by role and member"


def _file(path: Path, name: str, content: str, command: str) -> Path:
    """The file that a path means, itself or within a directory."""
    file = path / name if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no {content}: {_list_agents(path, content) or f'make one with `{command}`'}.")
    return file
