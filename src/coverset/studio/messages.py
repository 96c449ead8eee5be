"""Messages from the browser, checked field by field before use."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_type_hints

from coverset.checks import check_between, check_type
from coverset.runs.storage import DamagedFile
from coverset.studio.files import parse_json

MOST_BYTES = 4096
LONGEST_RUN_ID = 1000
MOST_EPISODES = 20
LARGEST_SEED = 2**32 - 1
LARGEST_INDEX = 10**6
NAMED = "[A-Za-z0-9_.-]{1,64}"
PARTNER = re.compile(
    rf"(agent|heuristic|probe-teammate|probe-best-response):{NAMED}|(best-response|teammate):[1-9][0-9]{{0,3}}"
)
"""For example agent:rl2, best-response:1, teammate:3, heuristic:H7, probe-teammate:probe; members count from 1."""
TEAM = re.compile(rf"(heuristic|probe-teammate):{NAMED}|teammate:[1-9][0-9]{{0,3}}")
"""Policies for the seats of the team."""
LARGEST_SEAT = 1000

Message = TypeVar("Message")


class BadMessage(ValueError):
    """A message of the wrong form."""


class OutOfOrder(ValueError):
    """A move for another step than the current one."""


@dataclass(frozen=True)
class NewTrial:
    """Start a trial: a person with one partner for several episodes."""

    run: str
    partner: str
    episodes: int
    seed: int
    seat: int | None = None
    """The person's; by default the first one that the partner leaves free."""
    team: str | None = None
    """In games of more than two players, who plays the other seats of the team if the partner is not of it."""

    def __post_init__(self) -> None:
        check_between("episodes", self.episodes, 1, MOST_EPISODES)
        check_between("seed", self.seed, 0, LARGEST_SEED)
        check_between("length of run", len(self.run), 1, LONGEST_RUN_ID)
        if not PARTNER.fullmatch(self.partner):
            raise ValueError("partner must be like agent:rl2, best-response:1, teammate:1 or heuristic:H1.")
        if self.seat is not None:
            check_between("seat", self.seat, 0, LARGEST_SEAT)
        if self.team is not None and not TEAM.fullmatch(self.team):
            raise ValueError("team must be like teammate:1 or heuristic:H1.")


@dataclass(frozen=True)
class Move:
    """The person's action at step `step` of the trial, counted from 0 over all episodes."""

    step: int
    action: int

    def __post_init__(self) -> None:
        check_between("step", self.step, 0, LARGEST_INDEX)
        check_between("action", self.action, 0, LARGEST_INDEX)


@dataclass(frozen=True)
class Watch:
    """Play an episode of one pair; members count from 1."""

    run: str
    best_response: int
    """0 for the best response that a probe has found."""
    teammate: int
    seed: int
    probe: str | None = None
    """Name of the probes whose teammate plays; `teammate` is 1 then."""

    def __post_init__(self) -> None:
        check_between("length of run", len(self.run), 1, LONGEST_RUN_ID)
        check_between("best_response", self.best_response, 0 if self.probe else 1, LARGEST_INDEX)
        check_between("teammate", self.teammate, 1, LARGEST_INDEX)
        check_between("seed", self.seed, 0, LARGEST_SEED)
        if self.probe is not None and not re.fullmatch(NAMED, self.probe):
            raise ValueError("probe must be the name of probes of this run.")


def read_body(kind: type[Message], body: bytes) -> Message:
    """Read a message from a request's JSON body."""
    if len(body) > MOST_BYTES:
        raise BadMessage(f"A message must not be longer than {MOST_BYTES:,} bytes.")
    try:
        content = parse_json(body, "The message")
    except DamagedFile as error:
        raise BadMessage(str(error)) from error
    if not isinstance(content, dict):
        raise BadMessage("A message must be a JSON object.")
    return _build(kind, content)


def read_query(kind: type[Message], query: Mapping[str, str]) -> Message:
    """Read a message from a request's query; whole numbers are in decimal digits."""
    types = get_type_hints(kind)
    content = {
        name: int(value) if types.get(name) is int and re.fullmatch(r"[0-9]{1,12}", value) else value
        for name, value in query.items()
    }
    return _build(kind, content)


def _build(kind: type[Message], content: dict[str, Any]) -> Message:
    """Build a message; its fields must be those of `kind`, with valid types and ranges."""
    known = fields(kind)  # pyright: ignore[reportArgumentType]
    needed = [field.name for field in known if field.default is MISSING]
    optional = [field.name for field in known if field.default is not MISSING]
    if not {*needed} <= {*content} <= {*needed, *optional}:
        more = f", and may have {' and '.join(optional)}" if optional else ""
        raise BadMessage(f"A message of this kind must have exactly the fields {', '.join(needed)}{more}.")
    try:
        types = get_type_hints(kind)
        for name, value in content.items():
            check_type(name, value, types[name])
        return kind(**content)
    except ValueError as error:
        raise BadMessage(str(error)[:300]) from error
