"""Sentences of the library become those of the command line."""

import pytest

from coverset.cli.wording import in_options


@pytest.mark.parametrize(
    ("library", "shell"),
    [
        (
            "continue it with `resume=True`, or choose another `out`.",
            "continue it with --resume, or choose another --out.",
        ),
        ("resume it with `seeds=[0, 1]`.", "resume it with --seeds 0 1."),
        ("such as `env='matrix'`.", "such as --env matrix."),
        (
            "make it with `train('runs/a b', learner='rl2', resume=True)`.",
            "make it with `coverset train 'runs/a b' --learner rl2 --resume`.",
        ),
        ("finish it with `generate(..., resume=True)`.", "finish it with `coverset generate --resume`."),
        ("a function that does not say `-> Environment`", "a function that does not say `-> Environment`"),
        ("`ray start --head` and `f(x)` and `print`", "`ray start --head` and `f(x)` and `print`"),
        ("an odd ` sign", "an odd ` sign"),
    ],
)
def test_parameters_become_options(library: str, shell: str) -> None:
    assert in_options(library) == shell
