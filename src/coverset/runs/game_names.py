"""Names of games as people say them, from what files record. Nothing is imported."""

from collections.abc import Mapping
from typing import Any

ADAPTERS = "coverset.adapters."
OWN_NAMES = {
    "coverset.adapters.hanabi:Hanabi": "Hanabi",
    "coverset.adapters.hanabi:mini_hanabi": "mini-Hanabi",
    "coverset.adapters.jumanji:JumanjiForaging": "Jumanji foraging",
    "coverset.adapters.jaxmarl:overcooked": "overcooked",
    "coverset.adapters.jaxmarl:make_overcooked": "overcooked",
}
MAKERS = ("parallel_env", "raw_env", "env", "make")
"""Functions that are called alike in many modules, which then name the game."""
MOST_CHARACTERS = 60


def game_title(env: str, parameters: Mapping[str, Any] | None = None) -> str:
    """A short name: `matrix`, `Lamps` for `lamps:Lamps`, `mpe2.simple_spread_v3` or `overcooked cramped_room`.

    Args:
      env: the environment as files record it, a name or `module:name`.
      parameters: its parameters; those of adapters name the game that they wrap.
    """
    given = dict(parameters or {})
    inner = given.get("environment")
    if env.startswith(ADAPTERS) and isinstance(inner, str):
        arguments = given.get("arguments")
        named = dict(arguments) if isinstance(arguments, list | tuple) and all(map(_is_pair, arguments)) else {}
        return game_title(inner, {**given, "environment": None, **named})
    details = [
        given[name] for name in ("layout", "id") if env.startswith(ADAPTERS) and isinstance(given.get(name), str)
    ]
    title = OWN_NAMES.get(env) or _shorten_path(env)
    return " ".join([title, *details])[:MOST_CHARACTERS]


def _is_pair(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)


def _shorten_path(env: str) -> str:
    module, _, name = env.rpartition(":")
    return (module if name in MAKERS else name) or env
