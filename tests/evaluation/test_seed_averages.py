"""Averages for tables, against the same sums by hand."""

import numpy as np
import pytest

from coverset.evaluation.seed_averages import average_over_seeds, mean_self_and_cross_play


def test_self_play_is_the_diagonal_and_cross_play_the_rest() -> None:
    assert mean_self_and_cross_play(np.array([[1.0, 4.0], [6.0, 3.0]])) == (2.0, 5.0)


def test_seeds_are_averaged() -> None:
    cells = [
        {"mean_return": 1.0, "oracle": 4.0, "oracle_exact": False, "oracle_fraction": 0.25, "curve": [0.0, 2.0]},
        {"mean_return": 2.0, "oracle": 4.0, "oracle_exact": False, "oracle_fraction": 0.5, "curve": [1.0, 3.0]},
    ]
    average = average_over_seeds(cells)
    assert average.interval.mean == 1.5
    assert average.interval.n == 2
    assert (average.oracle, average.oracle_exact) == (4.0, False)
    assert average.oracle_fraction == pytest.approx(0.375)
    assert average.curve == (0.5, 2.5)


def test_a_partner_without_an_oracle_has_no_fraction() -> None:
    average = average_over_seeds([{"mean_return": 1.0, "oracle_fraction": None, "curve": [1.0]}])
    assert average.oracle is None
    assert average.oracle_fraction is None
