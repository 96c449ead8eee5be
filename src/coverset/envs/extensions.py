"""Optional extensions of an environment: heuristics, oracles, and a drawing for the studio.

An environment provides them by overriding methods of `Environment`, without registration:

| method                      | default | used by                                                |
|-----------------------------|---------|--------------------------------------------------------|
| `heuristics()`              | none    | `evaluate`, `train --partners`, `crossplay`, the studio |
| `describe_heuristics()`     | none    | the studio, in the list of partners                     |
| `best_response(partner, seat)` | None | `oracle_fraction` of `evaluate`, scores in the studio   |
| `partner_draws(partners, seat)` | None | exact or tighter `bounds` of `evaluate`               |
| `board()`, `scene(state, seat)` | None | the studio, which otherwise shows `render` as text     |

For a third-party environment, such as one behind an adapter, a package registers functions by class:

    @coverset.heuristics.register(TheirGame)
    def their_heuristics(environment):
        return {"greedy": Greedy()}

and lists the registering module in the entry point group `coverset.plugins`. Only entry points of installed
distributions are imported, once, before the first lookup; run files never name a plugin.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Concatenate, Generic, ParamSpec, TypeVar

from coverset.checks import describe_exception
from coverset.envs.base import Environment, scene_for, takes_seat
from coverset.envs.drawing import Board, Scene
from coverset.envs.oracle import Oracle, PartnerDraws
from coverset.envs.seats import check_ego_seat
from coverset.policy import Policy
from coverset.types import PyTree

PLUGIN_GROUP = "coverset.plugins"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Described = TypeVar("Described")


@functools.cache
def load_plugins() -> None:
    """Import every installed plugin, so that it can register its extensions."""
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            entry.load()
        except (Exception, SystemExit) as error:  # third-party code may raise anything while it is imported
            raise ValueError(
                f"plugin '{entry.name}' is installed but cannot be loaded: {describe_exception(error)}."
            ) from error


class Extension(Generic[Arguments, Result]):
    """A function of an environment that other packages implement for further classes of environments.

    Works as `functools.singledispatch` does, with installed plugins imported before the first lookup.
    """

    def __init__(self, default: Callable[Concatenate[Environment, Arguments], Result]) -> None:
        self._dispatch = functools.singledispatch(default)
        functools.update_wrapper(self, default)

    def __call__(self, environment: Environment, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        load_plugins()
        return self._dispatch(environment, *args, **kwargs)

    def registered(self, environment: Environment) -> Callable[..., Result] | None:
        """The implementation that is registered for an environment; None if its own method is called."""
        load_plugins()
        found = self._dispatch.dispatch(type(environment))
        return None if found is self._dispatch.dispatch(object) else found

    def register(
        self, environment_class: type[Environment]
    ) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
        """Decorate the implementation for a class of environments and its subclasses."""
        return self._dispatch.register(environment_class)


@Extension
def heuristics(environment: Environment) -> Mapping[str, Policy]:
    """Hand-written partners of an environment by name, such as H1, H2, ... of the built-in games."""
    return environment.heuristics()


@Extension
def describe_heuristics(environment: Environment) -> Mapping[str, str]:
    """One sentence per heuristic that says what it does, where there is one."""
    return environment.describe_heuristics()


@Extension
def best_response(environment: Environment, partner: Policy, seat: int = 0) -> Oracle | None:
    """The best expected return of an agent in `seat` that knows its `partner`; None if it is unknown."""
    return environment.best_response(partner, seat)


@Extension
def partner_draws(environment: Environment, partners: Sequence[Policy], seat: int = 0) -> PartnerDraws | None:
    """What these partners of an agent in `seat` draw at the start of an episode; None where that is not known."""
    return environment.partner_draws(partners, seat)


@Extension
def draw_board(environment: Environment) -> Board | None:
    """The static drawing of a game in the studio; None to show the text of `render`."""
    return environment.board()


@Extension
def draw_scene(environment: Environment, state: PyTree, seat: int | None = None) -> Scene | None:
    """The drawing of one state (host arrays) in the studio; None to show the text of `render`.

    For a `seat`, only what that player may know. A registered function may leave out this parameter, if players see
    everything; see `draws_by_seat`.
    """
    return scene_for(environment, state, seat)


def draws_by_seat(environment: Environment) -> bool:
    """Whether the drawing of a game can show what one player may know."""
    return takes_seat(draw_scene.registered(environment) or type(environment).scene)


def is_shown_by_seat(environment: Environment) -> bool:
    """Whether the studio can show a game as one player may know it; otherwise everybody is shown everything."""
    board = draw_board(environment)
    if board is None or not (board.grid or board.table):  # text
        return takes_seat(type(environment).render)
    return draws_by_seat(environment) or board.hides_partner


def number_heuristics(listed: Iterable[Described]) -> dict[str, Described]:
    """Name heuristics H1, H2, ... in the order of Rahman et al. 2024, Appendix A."""
    return {f"H{number}": heuristic for number, heuristic in enumerate(listed, start=1)}


def oracles(environment: Environment, seat: int = 0) -> dict[str, Oracle]:
    """Return the oracles, where known, of an agent in `seat` with each heuristic of the environment."""
    check_ego_seat(environment, seat)
    found = {name: best_response(environment, partner, seat) for name, partner in heuristics(environment).items()}
    return {name: oracle for name, oracle in found.items() if oracle is not None}
