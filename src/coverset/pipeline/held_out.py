"""Partners that an agent is evaluated with: who each is, and what it could earn with it.

Heuristics may have an oracle. Teammates that a run has found have a reference: the most that a best response of their
own seed earns with them, from that seed's `summary.json`. It is a lower bound on what an agent that knows its partner
can earn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from coverset.envs.extensions import describe_heuristics
from coverset.envs.seats import partner_seat
from coverset.partners import HEURISTICS, OTHER_SEEDS, GenerationRun, Group, find_group, game_of, other_seeds
from coverset.policies.stacked import count_members, take_member
from coverset.policies.third_party import checked_heuristics
from coverset.policy import Policy
from coverset.reports.records import read_run_summary
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile, round_floats


@dataclass(frozen=True)
class HeldOut:
    """A partner, the words that tell it from others, and what its own best responses earn with it."""

    policy: Policy
    title: str
    reference: float | None = None
    reference_source: str | None = None
    """Such as `best responses of seed-1`."""
    description: str | None = None
    """What a heuristic does."""


def find_held_out(run: GenerationRun, names: Sequence[str], *, agent_seat: int) -> dict[str, HeldOut]:
    """The partners that are named, or else the environment's heuristics, or else those of other seeds, by name."""
    known = checked_heuristics(run.environment)
    if not names and not known and not other_seeds(run.path):
        raise ValueError(
            f"'{run.config['env']}' has no heuristics to evaluate with: generate more seeds into {run.path.parent}, or "
            "name `partners`, such as the path of another run."
        )
    told = describe_heuristics(run.environment)
    found: dict[str, HeldOut] = {}
    for name in names or (HEURISTICS if known else OTHER_SEEDS,):
        if name == HEURISTICS and known:
            found |= {one: HeldOut(policy, one, description=told.get(one)) for one, policy in known.items()}
        elif name in known:
            found[name] = HeldOut(known[name], name, description=told.get(name))
        else:
            found |= _members(run, name, agent_seat, several=len(names) > 1)
    return found


def _members(run: GenerationRun, name: str, agent_seat: int, *, several: bool) -> dict[str, HeldOut]:
    """The partners of one name, each alone; titles tell where they come from if there are several names."""
    group = find_group(name, game_of(run), seat=partner_seat(run.environment, agent_seat))
    keys = partner_titles(name, count_members(group.policies))
    titles = [_title(group, title, several=several) for title in group.titles]
    references = _references(group, run, agent_seat) or [(None, None)] * len(keys)
    return {
        key: HeldOut(take_member(group.policies, index), titles[index], *references[index])
        for index, key in enumerate(keys)
    }


def _title(group: Group, title: str, *, several: bool) -> str:
    """The name of one policy of a group, with the end of the group's path where other groups may have the same."""
    if not several or group.source in (title, OTHER_SEEDS):
        return title
    return f"{'/'.join(Path(group.source).parts[-2:])}: {title}"


def partner_titles(name: str, count: int) -> list[str]:
    """Keys of the partners of one name in records: members of a population by its name and their number."""
    return [name] if count == 1 else [f"{name} {member + 1}" for member in range(count)]


def _references(group: Group, run: GenerationRun, agent_seat: int) -> list[tuple[float | None, str | None]]:
    """What the best responses of each teammate's own seed earn with it, and whose they are."""
    swapped = agent_seat == 1 and run.environment.num_seats == 2
    tables = {path: _cross_play(path, swapped=swapped) for path, _ in group.members}
    return [
        (None, None)
        if (table := tables[path]) is None
        else (max(row[number - 1] for row in table), f"best responses of {path.name}")
        for path, number in group.members
    ]


def _cross_play(path: Path, *, swapped: bool) -> list[list[float]] | None:
    """The returns that a finished seed has measured, rows best responses; None where they are not known."""
    try:
        return read_run_summary(RunDirectory(path)).get("cross_play_seats_swapped" if swapped else "cross_play")
    except DamagedFile:
        return None


def add_references(record: dict[str, Any], partners: Mapping[str, HeldOut]) -> dict[str, Any]:
    """An evaluation's record with titles, references, and the fractions of positive references."""
    cells = {name: _add_reference(cell, partners[name]) for name, cell in record["partners"].items()}
    fractions = [cell["reference_fraction"] for cell in cells.values() if cell["reference_fraction"] is not None]
    mean = round_floats(fmean(fractions)) if fractions else None
    return {**record, "reference_fraction": mean, "partners": cells}


def _add_reference(cell: dict[str, Any], partner: HeldOut) -> dict[str, Any]:
    reference = partner.reference
    return {
        "title": partner.title,
        "description": partner.description,
        **cell,
        "reference": None if reference is None else round_floats(reference),
        "reference_source": partner.reference_source,
        "reference_fraction": round_floats(cell["mean_return"] / reference) if reference and reference > 0 else None,
    }
