"""Build environments by name: built in, installed entry point, or `module:function`."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, get_type_hints

from coverset.checks import check_one_of, check_type, describe_exception
from coverset.envs.base import Environment
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MATCHING_PENNIES, ROCK_PAPER_SCISSORS, MatrixGame
from coverset.envs.overcooked import Overcooked
from coverset.envs.reaching import WEIGHTED, Reaching
from coverset.envs.signalling import Signalling
from coverset.runs.trust import check_trusted, foreign_names, note_named

ENTRY_POINT_GROUP = "coverset.environments"

ADAPTER_PACKAGES = {
    "coverset.adapters.gymnasium": ("pettingzoo", "coverset[pettingzoo]"),
    "coverset.adapters.hanabi": ("jaxmarl", "coverset[jaxmarl]"),
    "coverset.adapters.jaxmarl": ("jaxmarl", "coverset[jaxmarl]"),
    "coverset.adapters.jumanji": ("jumanji", "coverset[jumanji]"),
    "coverset.adapters.lbforaging": ("lbforaging", "lbforaging"),
    "coverset.adapters.pettingzoo": ("pettingzoo", "coverset[pettingzoo]"),
}
"""The package that each adapter needs, and what to install for it."""

Factory = Callable[..., Environment]

IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def _weighted_reaching(**parameters: Any) -> Reaching:
    return Reaching(**{"payoffs": WEIGHTED, "ends_apart": True, **parameters})


def _zero_sum(payoffs: tuple[tuple[float, ...], ...]) -> Factory:
    """A matrix game in which seat 1 earns what seat 0 loses."""
    opposed = tuple(tuple(0.0 - value for value in row) for row in payoffs)

    def build(**parameters: Any) -> MatrixGame:
        return MatrixGame(**{"payoffs": (payoffs, opposed), "by_player": True, **parameters})

    return build


_BUILT_IN: dict[str, Factory] = {
    "matrix": MatrixGame,
    "reaching": Reaching,
    "weighted-reaching": _weighted_reaching,
    "foraging": Foraging,
    "signalling": Signalling,
    "overcooked": Overcooked,
    "rock-paper-scissors": _zero_sum(ROCK_PAPER_SCISSORS),
    "matching-pennies": _zero_sum(MATCHING_PENNIES),
}


SUMMARIES = {
    "matrix": "The paper's matrix game: both players choose an action and earn the payoff of a 3 x 3 table.",
    "weighted-reaching": "Meet on the corners of a grid, where each pair of corners has a payoff of its own.",
    "rock-paper-scissors": "Rock, paper, scissors: what one player wins, the other loses.",
    "matching-pennies": "One player wants both actions to match, the other wants them to differ.",
}
"""What games are about whose class is more general than their name."""


def names() -> list[str]:
    """Return the names that `make` knows: built-in environments, then installed entry points."""
    installed = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return list(_BUILT_IN) + sorted(installed - set(_BUILT_IN))


def make(name: str, /, **parameters: Any) -> Environment:
    """Build the environment that the user calls `name`, and trust files of this process that name it too.

    Args:
      name: a built-in name, an entry point of the group `coverset.environments`, or `module:function`.
      **parameters: passed to the environment; the error for an unknown one lists the known ones.
    """
    environment = _make(name, parameters)
    note_named(*foreign_names({"env": name, "env_parameters": parameters}))
    return environment


def make_from_record(source: str, record: Mapping[str, Any]) -> Environment:
    """Build the environment that a file records as `env` and `env_parameters`, if those names are trusted.

    Args:
      source: name of the file in error messages.
      record: content of the file, with its `signature` if it has one; see `coverset.runs.trust`.
    """
    check_trusted(source, record)
    return _make(record["env"], record["env_parameters"])


def class_name(environment: Environment) -> str:
    """Return the class of an environment as `module:class`."""
    return f"{type(environment).__module__}:{type(environment).__qualname__}"


def _make(name: str, parameters: Mapping[str, Any]) -> Environment:
    environment = _call_factory(name, _find_factory(name), parameters)
    if not isinstance(environment, Environment):
        raise TypeError(f"Environment '{name}' must build a coverset Environment, got {type(environment).__name__}.")
    return environment


def parameters_of(environment: Environment) -> dict[str, Any]:
    """Return the parameters with which the class of this environment rebuilds it; see `OMIT_DEFAULT`."""
    if not dataclasses.is_dataclass(environment):
        return {}
    recorded = [
        field for field in dataclasses.fields(environment) if field.init and not _is_omitted(environment, field)
    ]
    return {field.name: getattr(environment, field.name) for field in recorded}


def _is_omitted(environment: Environment, field: dataclasses.Field) -> bool:
    return bool(field.metadata.get("omit_default")) and getattr(environment, field.name) == field.default


def parameters_to_record(name: str, environment: Environment, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters, defaults included, with which `make(name, ...)` rebuilds `environment`.

    A class, and every built-in name, takes the fields of the environment; a function has its own parameters.
    """
    factory = _find_factory(name)
    if name in _BUILT_IN or isinstance(factory, type):
        recorded = parameters_of(environment)
    else:
        recorded = _read_defaults(factory) | given
    equal = False
    with suppress(Exception):  # third-party code may raise anything
        equal = make(name, **recorded) == environment
    if not equal:
        listed = ", ".join(f"{parameter}={value!r}" for parameter, value in recorded.items()) or "no parameters"
        raise ValueError(
            f"environment '{name}' must be a frozen dataclass that its parameters rebuild, "
            f"got an unequal one from {listed}."
        )
    return recorded


def _read_defaults(factory: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(factory).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def is_built_in(environment: Environment) -> bool:
    """Whether the class of this environment belongs to this package, whose games are known to conform."""
    return type(environment).__module__.startswith(f"{__package__}.")


def _find_factory(name: str) -> Any:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if ":" in name:
        return _check_factory(name, import_named("environment", name))
    check_one_of("environment", name, names())
    try:
        return entry_points(group=ENTRY_POINT_GROUP)[name].load()
    except (Exception, SystemExit) as error:  # whatever the code of others may raise
        raise ValueError(
            f"environment '{name}' is installed but cannot be loaded: {describe_exception(error)}."
        ) from error


def _check_factory(name: str, found: Any) -> Any:
    """Return `found` if its type or annotation says that it makes an environment; it is not called yet."""
    if not callable(found):
        raise ValueError(f"environment '{name}' must name a function or a class, got {type(found).__name__}.")
    made = found if isinstance(found, type) else _read_annotations(found).get("return")
    if not (isinstance(made, type) and issubclass(made, Environment)):
        what = "another class" if isinstance(found, type) else "a function that does not say `-> Environment`"
        raise ValueError(
            f"environment '{name}' must name an Environment class or a function annotated as returning one, got {what}."
        )
    return found


def import_named(role: str, name: str) -> Any:
    """Import what `module:function` names; `role` says in error messages what it is for."""
    module_name, _, function_name = name.partition(":")
    try:
        if not IMPORTABLE.fullmatch(name):
            raise ImportError("it is not one")
        return getattr(importlib.import_module(module_name), function_name)
    except (Exception, SystemExit) as error:  # third-party code may raise anything while it is imported
        if isinstance(error, ModuleNotFoundError) and module_name in ADAPTER_PACKAGES:
            package, install = ADAPTER_PACKAGES[module_name]
            raise ValueError(f"{role} '{name}' needs the package {package}: install {install}.") from error
        if "/" in module_name or module_name.startswith(".") or module_name.endswith(".py"):
            module = PurePath(module_name).name.removesuffix(".py").lstrip(".")
            raise ValueError(f"{role} must name a module, such as {module}:{function_name}, got '{name}'.") from error
        plain = isinstance(error, ImportError | AttributeError | ValueError)
        cause = str(error) if plain else describe_exception(error)
        raise ValueError(f"{role} '{name}' must name an importable module:function, but {cause}.") from error


def call_named(role: str, name: str, function: Callable[..., Any], /, *arguments: Any, **parameters: Any) -> Any:
    """Call user code and wrap its failures, other than ValueError, in a ValueError that names it."""
    try:
        return function(*arguments, **parameters)
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(f"{role} '{name}' cannot be made: {describe_exception(error)}.") from error


def _call_factory(name: str, factory: Any, parameters: Mapping[str, Any]) -> Any:
    _check_complete(name, factory)
    known, types = _list_parameters(factory), _read_annotations(factory)
    for parameter in parameters:
        if known is not None and parameter not in known:
            raise ValueError(f"Environment '{name}' takes {', '.join(known) or 'no parameters'}, got '{parameter}'.")
        check_type(parameter, parameters[parameter], types.get(parameter))
    given = {parameter: _to_tuples(value) for parameter, value in parameters.items()}
    return call_named("environment", name, lambda: factory(**given))


def _check_complete(name: str, factory: Any) -> None:
    """Name the members that a class lacks; Python would only say that it is abstract."""
    missing = sorted(getattr(factory, "__abstractmethods__", ()))
    if missing:
        raise ValueError(f"environment '{name}' must define {', '.join(missing)}, got a class without.")


def _list_parameters(factory: Callable[..., Any]) -> list[str] | None:
    """Return the names of the parameters of a factory, or None if it takes any."""
    signature = inspect.signature(_find_signature(factory))
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return None
    return list(signature.parameters)


def _to_tuples(value: Any) -> Any:
    """Convert lists, as JSON has them, to tuples, because an environment must be hashable."""
    return tuple(map(_to_tuples, value)) if isinstance(value, list | tuple) else value


def _read_annotations(factory: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a factory's parameters; none if they cannot be resolved."""
    try:
        return get_type_hints(_find_signature(factory))
    except (NameError, TypeError, AttributeError):
        return {}


def _find_signature(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable whose signature lists the parameters of a factory."""
    return Reaching if factory is _weighted_reaching else factory
