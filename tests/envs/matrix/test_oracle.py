"""Oracles of the repeated matrix game against loops, and the values of the paper's table."""

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


def test_matrix_of_the_paper() -> None:
    values = [oracle.value for oracle in oracles(MatrixGame()).values()]
    assert values == pytest.approx([10.0, 6.0, 6.0, 7.6, 4.8, 5.4])
