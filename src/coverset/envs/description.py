"""What can be told about a game without playing it: seats, actions, observations, parameters, partners, conventions."""

import inspect
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.conformance import check_declarations
from coverset.envs.extensions import describe_heuristics, draw_board, heuristics, is_shown_by_seat

ADAPTER_NAMES = (
    ("coverset.adapters.pettingzoo:from_parallel", "a PettingZoo environment: environment=module:function horizon=N"),
    ("coverset.adapters.jaxmarl:from_jaxmarl", "a JaxMARL environment by its name: environment=NAME"),
    ("coverset.adapters.jaxmarl:overcooked", "Overcooked-AI in JaxMARL: layout=cramped_room"),
    ("coverset.adapters.hanabi:Hanabi", "Hanabi, of any size"),
    ("coverset.adapters.hanabi:mini_hanabi", "Hanabi with a small deck"),
    ("coverset.adapters.jumanji:JumanjiForaging", "Jumanji's level-based foraging"),
)
"""Environments of other packages, and the parameters that they need."""


@dataclass(frozen=True)
class Description:
    """A game by name."""

    name: str
    summary: str
    """The first sentence of its documentation."""
    players: int
    num_actions: tuple[int, ...]
    observation_sizes: tuple[int, ...]
    horizon: int
    seats_alike: bool
    parameters: dict[str, Any]
    conventions: tuple[str, ...]
    heuristics: dict[str, str]
    """What each hand-written partner does; empty text where the game does not say."""
    certifiable: bool
    """Whether it lists its initial states, so that `coverset certify` may solve it."""
    drawn: bool
    """Whether the studio draws it; otherwise it shows text."""
    shown_by_seat: bool
    """Whether a person who plays is shown what its seat may know; otherwise everything."""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def describe_environment(name: str, environment: Environment) -> Description:
    """Describe a game; raises ValueError if it declares something wrong."""
    check_declarations(environment)
    told = describe_heuristics(environment)
    shapes = environment.observation_shapes
    return Description(
        name=name,
        summary=registry.SUMMARIES.get(name) or _first_sentence(environment),
        players=environment.num_seats,
        num_actions=tuple(environment.num_actions),
        observation_sizes=tuple(int(_product(shape)) for shape in shapes),
        horizon=environment.horizon,
        seats_alike=environment.seats_alike,
        parameters=registry.parameters_of(environment),
        conventions=tuple(environment.conventions),
        heuristics={heuristic: told.get(heuristic, "") for heuristic in heuristics(environment)},
        certifiable=environment.initial_states() is not None,
        drawn=draw_board(environment) is not None,
        shown_by_seat=is_shown_by_seat(environment),
    )


def describe_all() -> list[Description]:
    """Describe every game that has a name: built-in and installed ones."""
    return [describe_environment(name, registry.make(name)) for name in registry.names() if _has_defaults(name)]


def list_adapters() -> list[dict[str, Any]]:
    """Environments of other packages: how they are called, what they are, and whether the package is installed."""
    found = []
    for name, purpose in ADAPTER_NAMES:
        package, extra = registry.ADAPTER_PACKAGES[name.partition(":")[0]]
        installed = find_spec(package) is not None
        found.append({"name": name, "summary": purpose, "installed": installed, "install": extra})
    return found


def _has_defaults(name: str) -> bool:
    """Whether a game can be made without parameters; one that cannot is listed by nobody but its own documentation."""
    try:
        registry.make(name)
    except (ValueError, TypeError):
        return False
    return True


def _first_sentence(environment: Environment) -> str:
    text = " ".join((inspect.getdoc(type(environment)) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".") + "." if text else ""


def _product(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
