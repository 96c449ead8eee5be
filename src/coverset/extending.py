"""Classes by name: built-in ones from a table, installed ones by entry point, any other as `module:Class`."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from coverset.checks import describe_exception, format_value, suggest_nearest

T = TypeVar("T")


def load_class(what: str, name: str, built_in: Mapping[str, str], base: type[T]) -> type[T]:
    """The class called `name`.

    Args:
      what: what it is, for messages and for the entry point group `coverset.{what}s`.
      name: a key of `built_in`, an installed entry point, or `module:Class`.
      built_in: the places of built-in classes as `module:Class`.
      base: the class that it must inherit from.

    Raises:
      ValueError: there is no such class, or it is something else.
    """
    place = built_in.get(name) or _installed(what).get(name) or name
    module, colon, attribute = place.partition(":")
    if not colon:
        known = [*built_in, *_installed(what)]
        hint = suggest_nearest(name, known)
        raise ValueError(f"{what} must be {', '.join(known)} or module:Class, got {format_value(name)}.{hint}")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # third-party code may raise anything
        raise ValueError(f"{what} {format_value(name)} cannot be imported: {describe_exception(error)}.") from error
    if not isinstance(found, type) or not issubclass(found, base):
        wanted = f"must be a class that inherits from {base.__module__}.{base.__name__}"
        raise ValueError(f"{what} {format_value(name)} {wanted}.")
    return found


def is_installed(what: str, name: str, built_in: Mapping[str, str]) -> bool:
    """Whether a name is built in or an entry point, so that a file may name it without the user's trust."""
    return name in built_in or name in _installed(what)


def class_name(cls: type, built_in: Mapping[str, str], what: str) -> str:
    """The name under which `load_class` finds a class again."""
    place = f"{cls.__module__}:{cls.__qualname__}"
    names = {**{place: name for name, place in _installed(what).items()}, **{p: n for n, p in built_in.items()}}
    return names.get(place, place)


def _installed(what: str) -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=f"coverset.{what}s")}
