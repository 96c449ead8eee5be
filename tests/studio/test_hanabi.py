"""A person plays mini-Hanabi: turns, legal actions and hidden cards."""

import re

from coverset.adapters.hanabi import mini_hanabi
from studio_client import Served, play_first_legal, start
from toy_run import untrained


def test_a_hanabi_player_never_receives_its_own_cards(tmp_path):
    """In both seats and every frame before the end; turns of the other player are played without asking."""
    untrained(tmp_path / "runs" / "seed-0", f"{mini_hanabi.__module__}:{mini_hanabi.__name__}")
    with Served(tmp_path / "runs") as studio:
        for partner, seat in (("teammate:1", 0), ("best-response:2", 1)):
            trial = start(studio, "seed-0", partner)
            assert trial["frames"][-1]["time"] == trial["seat"] == seat
            *frames, last = play_first_legal(studio, trial)
            for frame in frames:
                hands = {line[2:8]: line[8:] for line in frame["scene"]["text"].splitlines() if " seat " in line[:8]}
                shown = re.findall(r"(\S\S) +\[", hands.pop(f"seat {seat}"))
                assert set(shown) <= {"??"}
                (other,) = hands.values()
                assert "?? [" not in other
            assert "(you)" not in last["scene"]["text"]
            assert len(frames) > 5
