"""Oracles of the repeated matrix game against loops, and the values of the paper's table."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.envs.extensions import heuristics, oracles
from coverset.envs.matrix import MatrixGame

payoff = st.one_of(st.integers(-9, 9).map(float), st.floats(-10, 10, width=32))


def tables(rows: int, columns: int):
    return st.tuples(*[st.tuples(*[payoff] * columns)] * rows)


@settings(max_examples=15, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_matrix_by_loops(data, rows: int, columns: int, rounds: int) -> None:
    table = data.draw(tables(rows, columns))
    environment = MatrixGame(payoffs=table, horizon=rounds)
    for name, oracle in oracles(environment).items():
        mix = np.asarray(heuristics(environment)[name].probabilities).tolist()
        values = [sum(p * pay for p, pay in zip(mix, row, strict=True)) for row in table]
        best_answers = [max(row[column] for row in table) for column in range(columns)]
        assert oracle.exact
        assert oracle.value == pytest.approx(rounds * max(values), abs=1e-4)
        full_information = rounds * sum(p * pay for p, pay in zip(mix, best_answers, strict=True))
        assert oracle.full_information == pytest.approx(full_information, abs=1e-4)


@settings(max_examples=8, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(2, 3), st.sampled_from([0, 1, 2]), st.booleans())
def test_matrix_of_three_by_loops(data, rows: int, columns: int, seat: int, by_player: bool) -> None:
    """The team's draws are independent; an agent in another seat needs an equal number of actions."""
    rows = rows if seat == 0 else columns
    parts = [tuple(data.draw(tables(columns, columns)) for _ in range(rows)) for _ in range(3)]
    environment = MatrixGame(payoffs=tuple(parts) if by_player else parts[0], by_player=by_player)
    table = np.array(parts[seat if by_player else 0])
    for partner in heuristics(environment).values():
        oracle = environment.best_response(partner, seat)
        mix = np.asarray(partner.probabilities).tolist()
        values, best = np.zeros(rows), 0.0
        for one, other in itertools.product(range(columns), repeat=2):
            pays = [table[[(a, one, other), (one, a, other), (one, other, a)][seat]] for a in range(rows)]
            values += mix[one] * mix[other] * np.array(pays)
            best += mix[one] * mix[other] * max(pays)
        assert oracle.value == pytest.approx(values.max(), abs=1e-4)
        assert oracle.full_information == pytest.approx(best, abs=1e-4)


def test_teammates_of_different_sizes_play_the_actions_that_all_have() -> None:
    table = np.zeros((2, 3, 2))
    table[0, 1, 1], table[1, 2, 1] = 4.0, 9.0
    environment = MatrixGame(payoffs=tuple(tuple(map(tuple, rows)) for rows in table.tolist()))
    found = oracles(environment)
    assert [len(policy.probabilities) for policy in heuristics(environment).values()] == [2] * 4
    assert [found[name].value for name in ("H1", "H2", "H3", "H4")] == pytest.approx([0.0, 4.0, 0.36, 1.96])


def test_matrix_of_the_paper() -> None:
    values = [oracle.value for oracle in oracles(MatrixGame()).values()]
    assert values == pytest.approx([10.0, 6.0, 6.0, 7.6, 4.8, 5.4])
