"""Where a name becomes an environment: built in, installed entry point, or `module:function`."""

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
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import WEIGHTED, Reaching
from coverset.runs.trust import check_trusted, foreign_names, note_named

ENTRY_POINT_GROUP = "coverset.environments"

NEEDED = {
    "coverset.adapters.gymnasium": ("pettingzoo", "coverset[pettingzoo]"),
    "coverset.adapters.jaxmarl": ("jaxmarl", "coverset[jaxmarl]"),
    "coverset.adapters.jumanji": ("jumanji", "coverset[jumanji]"),
    "coverset.adapters.lbforaging": ("lbforaging", "lbforaging"),
    "coverset.adapters.pettingzoo": ("pettingzoo", "coverset[pettingzoo]"),
}
"""Packages that our adapters need, and what to install for them."""

Factory = Callable[..., Environment]

IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def _weighted_reaching(**parameters: Any) -> Reaching:
    return Reaching(**{"payoffs": WEIGHTED, "ends_apart": True, **parameters})


_BUILT_IN: dict[str, Factory] = {
    "matrix": MatrixGame,
    "reaching": Reaching,
    "weighted-reaching": _weighted_reaching,
    "foraging": Foraging,
}


def names() -> list[str]:
    """Every environment that `make` knows by name: the built-in ones, then installed entry points."""
    installed = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return list(_BUILT_IN) + sorted(installed - set(_BUILT_IN))


def make(name: str, /, **parameters: Any) -> Environment:
    """Build the environment called `name`, by the user and not by a file, with `parameters` of its own.

    From now on files may name it too.

    Args:
      name: a built-in name, an entry point of the group `coverset.environments`, or `module:function`.
      **parameters: passed to the environment; unknown ones are refused with a list of the known.
    """
    environment = _make(name, parameters)
    note_named(*foreign_names({"env": name, "env_parameters": parameters}))
    return environment


def make_recorded(source: str, record: Mapping[str, Any]) -> Environment:
    """Build the environment that a file names as `env` and `env_parameters`, if what it names is trusted.

    Args:
      source: what the file is called in an error.
      record: its content, with its `signature` if it has one; see `coverset.runs.trust`.
    """
    check_trusted(source, record)
    return _make(record["env"], record["env_parameters"])


def class_name(environment: Environment) -> str:
    """The class of an environment as a name."""
    return f"{type(environment).__module__}:{type(environment).__qualname__}"


def _make(name: str, parameters: Mapping[str, Any]) -> Environment:
    environment = _call(name, _factory(name), parameters)
    if not isinstance(environment, Environment):
        raise TypeError(f"Environment '{name}' must build a coverset Environment, got {type(environment).__name__}.")
    return environment


def parameters_of(environment: Environment) -> dict[str, Any]:
    """The parameters with which the class of this environment would build it again."""
    if not dataclasses.is_dataclass(environment):
        return {}
    return {field.name: getattr(environment, field.name) for field in dataclasses.fields(environment) if field.init}


def recorded_parameters(name: str, environment: Environment, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters with which `make(name, ...)` builds `environment` again, defaults written out.

    A class, and every built-in name, takes the fields of the environment; a function takes parameters of its own.
    """
    factory = _factory(name)
    if name in _BUILT_IN or isinstance(factory, type):
        recorded = parameters_of(environment)
    else:
        recorded = _defaults(factory) | given
    again = False
    with suppress(Exception):  # whatever the code of others may raise, it does not build the same again
        again = make(name, **recorded) == environment
    if not again:
        told = ", ".join(f"{parameter}={value!r}" for parameter, value in recorded.items()) or "no parameters"
        raise ValueError(
            f"environment '{name}' must be a frozen dataclass that its parameters build again, "
            f"got an unequal one from {told}."
        )
    return recorded


def _defaults(factory: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(factory).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def is_built_in(environment: Environment) -> bool:
    """Whether the class of this environment is part of this package's `envs`, whose games are known to conform."""
    return type(environment).__module__.startswith(f"{__package__}.")


def _factory(name: str) -> Any:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if ":" in name:
        return _checked_factory(name, import_named("environment", name))
    check_one_of("environment", name, names())
    try:
        return entry_points(group=ENTRY_POINT_GROUP)[name].load()
    except (Exception, SystemExit) as error:  # whatever the code of others may raise
        raise ValueError(
            f"environment '{name}' is installed but cannot be loaded: {describe_exception(error)}."
        ) from error


def _checked_factory(name: str, found: Any) -> Any:
    """What a name stands for, if it is sure to make an environment: asked before it is called."""
    if not callable(found):
        raise ValueError(f"environment '{name}' must name a function or a class, got {type(found).__name__}.")
    made = found if isinstance(found, type) else _types(found).get("return")
    if not (isinstance(made, type) and issubclass(made, Environment)):
        what = "a class that is none" if isinstance(found, type) else "a function that does not say `-> Environment`"
        raise ValueError(
            f"environment '{name}' must name an Environment class or a function annotated as making one, got {what}."
        )
    return found


def import_named(role: str, name: str) -> Any:
    """What `module:function` names; `role` says in an error what it was wanted for."""
    module_name, _, function_name = name.partition(":")
    try:
        if not IMPORTABLE.fullmatch(name):
            raise ImportError("it is none")
        return getattr(importlib.import_module(module_name), function_name)
    except (Exception, SystemExit) as error:  # whatever a module of others may raise while it is imported
        if isinstance(error, ModuleNotFoundError) and module_name in NEEDED:
            package, install = NEEDED[module_name]
            raise ValueError(f"{role} '{name}' needs the package {package}: install {install}.") from error
        if "/" in module_name or module_name.startswith(".") or module_name.endswith(".py"):
            module = PurePath(module_name).name.removesuffix(".py").lstrip(".")
            raise ValueError(f"{role} must name a module, such as {module}:{function_name}, got '{name}'.") from error
        plain = isinstance(error, ImportError | AttributeError | ValueError)
        cause = str(error) if plain else describe_exception(error)
        raise ValueError(f"{role} '{name}' must name an importable module:function, but {cause}.") from error


def call_named(role: str, name: str, function: Callable[..., Any], /, *arguments: Any, **parameters: Any) -> Any:
    """What a function of others gives; where it fails, a ValueError names it. Its own ValueErrors are sentences."""
    try:
        return function(*arguments, **parameters)
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(f"{role} '{name}' cannot be made: {describe_exception(error)}.") from error


def _call(name: str, factory: Any, parameters: Mapping[str, Any]) -> Any:
    known, types = _accepted(factory), _types(factory)
    for parameter in parameters:
        if known is not None and parameter not in known:
            raise ValueError(f"Environment '{name}' takes {', '.join(known) or 'no parameters'}, got '{parameter}'.")
        check_type(parameter, parameters[parameter], types.get(parameter))
    given = {parameter: _tuples(value) for parameter, value in parameters.items()}
    return call_named("environment", name, lambda: factory(**given))


def _accepted(factory: Callable[..., Any]) -> list[str] | None:
    """Names of the parameters a factory takes, or None where it takes any."""
    signature = inspect.signature(_described(factory))
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return None
    return list(signature.parameters)


def _tuples(value: Any) -> Any:
    """Lists, as JSON gives them, as tuples: an environment must be hashable."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _types(factory: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of a factory's parameters; none where they cannot be read."""
    try:
        return get_type_hints(_described(factory))
    except (NameError, TypeError, AttributeError):
        return {}


def _described(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Where the parameters of a factory are written down."""
    return Reaching if factory is _weighted_reaching else factory
