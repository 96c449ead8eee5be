"""Readable names of games."""

import pytest

from coverset.runs.game_names import game_title

SPREAD = "mpe2.simple_spread_v3:parallel_env"


@pytest.mark.parametrize(
    ("env", "parameters", "title"),
    [
        ("matrix", {}, "matrix"),
        ("lamps:Lamps", {"horizon": 2}, "Lamps"),
        ("my_games.kitchen:make", {}, "my_games.kitchen"),
        ("coverset.adapters.pettingzoo:from_parallel", {"environment": SPREAD}, "mpe2.simple_spread_v3"),
        ("coverset.adapters.jaxmarl:from_jaxmarl", {"environment": "MPE_simple_spread_v3"}, "MPE_simple_spread_v3"),
        ("coverset.adapters.jaxmarl:overcooked", {"layout": "cramped_room"}, "overcooked cramped_room"),
        (
            "coverset.adapters.jaxmarl:JaxMarl",
            {"environment": "coverset.adapters.jaxmarl:make_overcooked", "arguments": [["layout", "coord_ring"]]},
            "overcooked coord_ring",
        ),
        ("coverset.adapters.hanabi:mini_hanabi", {}, "mini-Hanabi"),
        ("coverset.adapters.jaxmarl:JaxMarl", {"environment": 3, "arguments": "damaged"}, "JaxMarl"),
    ],
)
def test_games_are_called_by_short_names(env, parameters, title):
    assert game_title(env, parameters) == title
