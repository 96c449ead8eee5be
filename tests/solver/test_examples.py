"""The examples of the solver's page and docstrings do what they say."""

import doctest
from pathlib import Path

import pytest

from coverset.solver import coverage, diversity

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "exact-solver.md"


def test_page() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.parametrize("module", [coverage, diversity])
def test_docstrings(module) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 1
    assert result.failed == 0
