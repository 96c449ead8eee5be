"""Learners by name: a new one is one file, and one line here if it is built in."""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from coverset.extending import class_name, load_class
from coverset.runs.storage import to_jsonable
from coverset.runs.trust import foreign_names, note_named
from coverset.settings import TrainSettings, build_checked

if TYPE_CHECKING:
    from coverset.adhoc.learner import Learner

LEARNERS = {
    "rl2": "coverset.adhoc.learners.rl2:RL2",
    "feedforward": "coverset.adhoc.learners.feedforward:Feedforward",
    "plastic": "coverset.adhoc.learners.plastic:Plastic",
    "planner": "coverset.adhoc.learners.planner:Planner",
    "liam": "coverset.adhoc.learners.liam:LIAM",
    "e3t": "coverset.adhoc.learners.e3t:E3T",
    "upd": "coverset.adhoc.learners.upd:UPD",
    "gpl": "coverset.adhoc.learners.gpl:GPL",
    "odits": "coverset.adhoc.learners.odits:ODITS",
    "meliba": "coverset.adhoc.learners.meliba:MeLIBA",
}
AGENT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
NOT_AGENTS = ("checkpoints", "figures", "recordings", "report")
"""Other directories of runs."""
TITLES = {"rl2": "RL²", "feedforward": "feed-forward", "plastic": "PLASTIC-Policy", "planner": "belief planner"} | {
    name: name.upper() for name in ("liam", "e3t", "upd", "gpl", "odits")
}
"""What reports call them; any other learner is called by its name."""


def learner_class(name: str) -> "type[Learner]":
    """The class of a learner by its name, its entry point in the group `coverset.learners`, or as `module:Class`.

    Raises:
      ValueError: there is no such class, or it is no frozen dataclass of settings of its own.
    """
    from coverset.adhoc.learner import Learner

    found = load_class("learner", name, LEARNERS, Learner)
    if not is_dataclass(found) or not found.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(f"learner '{name}' must be a frozen dataclass.")
    shared = {field.name for field in fields(TrainSettings)}
    for field in fields(found):
        if field.name in shared:
            raise ValueError(f"learner '{name}' has a setting '{field.name}', which all learners share: rename it.")
    return found


def learner_name(learner: "Learner") -> str:
    """The name under which `learner_class` finds this learner's class again."""
    return class_name(type(learner), LEARNERS, "learner")


def learner_settings(learner: "Learner") -> dict[str, Any]:
    """A learner's own settings as files record them."""
    return to_jsonable(asdict(learner))  # pyright: ignore[reportArgumentType]


def make_learner(name: str, settings: Mapping[str, Any]) -> "Learner":
    """A learner with its own settings."""
    return build_checked(learner_class(name), settings)


def allow_learner(learner: "Learner") -> None:
    """The user has named this learner: for as long as this process lives, files may name it and its networks too."""
    named = {"learner": learner_name(learner), "learner_settings": learner_settings(learner)}
    note_named(*foreign_names({"env": "matrix", "env_parameters": {}, **named}))


def agent_folder(learner: str) -> str:
    """The default name of a learner's agents, and of their directories below those of the seeds."""
    return learner.replace(":", ".")


def check_agent_name(name: str) -> str:
    """Return the name of an agent if a directory beside the files of a seed may have it."""
    if not AGENT_NAME.fullmatch(name) or name.lower() in NOT_AGENTS:
        raise ValueError(
            f"name must consist of up to 64 letters, digits, '_', '.' and '-', begin with one of the first three, and "
            f"not be {' or '.join(NOT_AGENTS)}, got '{name}'."
        )
    return name
