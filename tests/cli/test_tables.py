"""Tables of commands keep to 80 columns, and cut no number."""

import numpy as np
import pytest

from coverset import heuristics, make
from coverset.cli.crossplay import _show
from coverset.cli.main import run
from coverset.cli.tables import fit_columns, print_rows, print_summaries
from coverset.partners import Group
from coverset.pipeline.crossplay import CrossPlay


@pytest.fixture(autouse=True)
def terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys) -> list[str]:
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    return lines


def test_only_the_text_is_shortened(capsys) -> None:
    assert print_rows("t", ("name", "a", "b"), [("x" * 100, "-0.00123", "0.1 to 0.2")], keep_end=True)
    row = next(line for line in printed(capsys) if "…" in line)
    assert row.split()[1:] == ["-0.00123", "0.1", "to", "0.2"]
    assert not print_rows("t", ("name", "a"), [("short", "1")])
    assert "short  1" in "\n".join(printed(capsys))


def test_columns_are_cut_into_groups_that_fit() -> None:
    assert fit_columns([3, 3, 3], 15) == [slice(0, 3)]
    assert fit_columns([3, 3, 3], 10) == [slice(0, 2), slice(2, 3)]
    assert fit_columns([30, 3], 10) == [slice(0, 1), slice(1, 2)]


def test_cross_play_of_many_policies_is_printed_in_parts(capsys) -> None:
    names = tuple(f"H{n}" for n in range(1, 16))
    group = Group("heuristics", policies=heuristics(make("reaching"))["H1"], titles=names)
    returns = np.random.default_rng(0).normal(size=(15, 15, 4, 2))
    _show(CrossPlay("reaching", group, group, returns, game="reaching"))
    lines = printed(capsys)
    assert not any("…" in line for line in lines)
    rows = [line.split() for line in lines if line.split()[:1] == ["H7"] and "H1" not in line.split()]
    assert len(rows) == 2, "each row is printed once for every group of columns"
    assert [value for row in rows for value in row[1:]] == [f"{mean:.3g}" for mean in returns[6].mean(axis=(1, 2))]


def test_long_names_of_actions_fit(capsys, tmp_path) -> None:
    table = tmp_path / "gates.csv"
    names = ["meet at the north gate", "meet at the south gate", "wait in the harbour office"]
    rows = [[name, *map(str, row)] for name, row in zip(names, np.eye(3).tolist(), strict=True)]
    table.write_text("\n".join(map(",".join, [["", *names], *rows])))
    assert run(["solve", str(table), "--diversity"]) == 0
    assert any("meet at the north gate" in line for line in printed(capsys))


def test_teammates_that_do_not_fit_point_to_details(capsys) -> None:
    summary = {
        "env": "a:B", "game": "B", "method": "lbrdiv", "preset": "fast", "seed": 0, "coverage_found": 2,
        "coverage_size": None, "cross_play": [[1.0, 0.0], [0.0, 1.0]], "constraints_violated": 0, "train_seconds": 3.0,
        "conventions": [f"kind {kind}: plays action 0 in 28% of steps when observation[3] is high" for kind in "AB"],
    }  # fmt: skip
    print_summaries([summary])
    assert "What every teammate does: --details." in printed(capsys)
    print_summaries([summary], details=True)
    assert sum("teammate 2" in line for line in printed(capsys)) == 1
