"""Handshakes and sabotage in a game with known answers."""

import pytest

from coverset.certificates.inspection import measure_exactly
from coverset.evaluation.inspection import choose_prefix_steps, describe_measures
from opening import WORDS, Opening, honest_population, mixed_population


def describe(population):
    return describe_measures(measure_exactly(Opening(), population, trials=20))["teammates"]


def value(teammate, *names):
    for name in names:
        teammate = teammate[name]
    return pytest.approx(teammate["value"], abs=1e-4)


def test_honest_conventions_are_not_flagged() -> None:
    for number, teammate in enumerate(describe(honest_population()), start=1):
        assert teammate["word"] == "convention"
        assert value(teammate, "competence") == 1.0
        assert value(teammate, "handshake", "gain") == 0.0
        assert value(teammate, "sabotage", "loss") == -1 / 7  # strangers have played the opening already
        assert teammate["rationality"]["answers"] == number
        assert teammate["rationality"]["is_rational"]


def test_a_handshake_a_saboteur_and_an_incompetent_partner_are_found() -> None:
    found = describe(mixed_population())
    assert [teammate["word"] for teammate in found] == WORDS
    _, shaking, saboteur, idle = found
    assert (shaking["handshake"]["opening"], shaking["handshake"]["stranger_by_steps"][0]) == (1, 1)
    assert value(shaking, "handshake", "gain") == 1.0
    assert value(saboteur, "competence") == 1.0
    assert value(saboteur, "handshake", "gain") == 0.0
    assert value(saboteur, "sabotage", "from_start") == 1.0
    assert value(saboteur, "sabotage", "from_cross_play") == 0.0
    assert value(saboteur, "sabotage", "best_response_loss") == 1.0
    assert saboteur["rationality"]["is_rational"]  # with its own best response there is nothing to refuse
    assert value(idle, "competence") == 0.0
    assert value(idle, "rationality", "regret") == 1.0
    assert not idle["rationality"]["is_rational"]


def test_prefixes_end_before_half_of_the_horizon() -> None:
    assert choose_prefix_steps(1).tolist() == []
    assert choose_prefix_steps(8).tolist() == [1, 2, 3, 4]
    assert choose_prefix_steps(50).tolist() == [1, 2, 3, 4, 6, 8, 12, 16]
