"""Learners by name: the one table that names them, and what becomes of a name.

A learner is one file; besides this table nothing outside of that file names it.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, get_type_hints

from coverset.checks import of_type
from coverset.extending import class_name, load_class, split_settings
from coverset.runs.storage import jsonable
from coverset.runs.trust import foreign_names, note_named
from coverset.settings import TrainSettings, check_types

if TYPE_CHECKING:
    from coverset.adhoc.learner import Learner

LEARNERS = {
    "rl2": "coverset.adhoc.learners.rl2:RL2",
    "feedforward": "coverset.adhoc.learners.feedforward:Feedforward",
    "plastic": "coverset.adhoc.learners.plastic:Plastic",
}
"""Built-in learners by name; entry points of the group `coverset.learners` and `module:Class` name any other."""
TITLES = {"rl2": "RL²", "feedforward": "feed-forward", "plastic": "PLASTIC-Policy"}
"""What reports call them; any other learner is called by its name."""


def learner_class(name: str) -> "type[Learner]":
    """The class of a learner by its name.

    Raises:
      ValueError: there is no such class, or its settings cannot be told from those that all learners share.
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


def learner_name(learner: "str | Learner") -> str:
    """The name under which `learner_class` finds a learner's class again."""
    return learner if isinstance(learner, str) else class_name(type(learner), LEARNERS, "learner")


def agent_folder(learner: str) -> str:
    """Name of the directory, below that of a seed, in which a learner's agent lives."""
    return learner.replace(":", ".")


def make_learner(name: str, settings: Mapping[str, Any]) -> "Learner":
    """A learner from its name and its own settings, as a file or a caller gives them; raises ValueError otherwise."""
    found = learner_class(name)
    (own,) = split_settings(settings, found)
    return _build(found, own)


def choose_learner(learner: "str | Learner", overrides: Mapping[str, Any]) -> "tuple[Learner, dict[str, Any]]":
    """The learner that a user asks for, and those of the settings that all learners share.

    From now on files may name it too.

    Args:
      learner: a name, or the learner itself.
      overrides: settings by name, the learner's own and fields of `TrainSettings`.
    """
    found = learner_class(learner) if isinstance(learner, str) else type(learner)
    shared, own = split_settings(overrides, TrainSettings, found)
    chosen = _build(found, own) if isinstance(learner, str) else replace(learner, **own)  # pyright: ignore[reportArgumentType]
    check_types(chosen)
    named = {"learner": learner_name(learner), "learner_settings": learner_settings(chosen)}
    note_named(*foreign_names({"env": "matrix", "env_parameters": {}, **named}))
    return chosen, shared


def learner_settings(learner: "Learner") -> dict[str, Any]:
    """A learner's own settings as files record them."""
    return jsonable(asdict(learner))  # pyright: ignore[reportArgumentType]


def _build(found: "type[Learner]", own: Mapping[str, Any]) -> "Learner":
    types = get_type_hints(found)
    for name, value in own.items():
        of_type(name, value, types[name])
    return found(**{name: tuple(v) if isinstance(v, list) else v for name, v in own.items()})
