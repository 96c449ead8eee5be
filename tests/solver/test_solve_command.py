"""`coverset solve` from arguments to output."""

import json
from pathlib import Path

import pytest

from coverset.cli.solve import Solve, main, run
from coverset.solver import independent


def test_json_is_the_only_thing_on_standard_output(capsys) -> None:
    assert main(["matrix", "--json"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["coverage_set"] == [0, 1, 2]
    assert answer["margins"] == [6.0, 2.0, 2.0]
    assert answer["witnesses"] == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_tables_figure_and_file(tmp_path, capsys) -> None:
    (tmp_path / "patrol.csv").write_text(",push,guard\nrush,4,0\nhold,3,2\nwait,1,3\nstall,2,2\n[red]again,3,2\n")
    figure, out = tmp_path / "patrol.svg", tmp_path / "patrol.json"
    assert run(Solve(str(tmp_path / "patrol.csv"), figure=figure, out=out)) == 0
    printed = capsys.readouterr().out
    assert "3 of 5 actions are needed: rush, hold, wait" in printed
    assert "never a best response" in printed
    assert "[red]again" in printed
    assert json.loads(out.read_text())["coverage_set_names"] == ["rush", "hold", "wait"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patrol.csv", "patrol.json", "patrol.svg"]


def test_diversity_prints_appendix_b(capsys) -> None:
    assert main(["weighted-reaching", "--diversity"]) == 0
    printed = capsys.readouterr().out
    for text in ("36 + 120 alpha", "40 + 160 alpha", "36 - 48 alpha", "40 - 40 alpha", "No alpha > 0 makes LIPO"):
        assert text in printed
    assert main(["matrix", "--diversity", "--json"]) == 0
    diversity = json.loads(capsys.readouterr().out)["diversity"]
    assert diversity["BRDiv"]["coverage_set_objective"] == "22 + 56 alpha"
    assert diversity["LIPO"]["preferred_for"] == []


def test_a_coverage_set_of_one_has_objectives_too(tmp_path, capsys) -> None:
    (tmp_path / "one.csv").write_text("1,2\n0,1\n")
    assert run(Solve(str(tmp_path / "one.csv"), diversity=True, json=True)) == 0
    assert json.loads(capsys.readouterr().out)["coverage_set"] == [0]


@pytest.mark.parametrize(
    ("rows", "exact", "played", "sentence"),
    [
        ("16777217,0\n16777216,1\n", [0, 1], [1], "rounded to it other actions are needed: 1."),
        ("1e-46,0\n0,1e-46\n", [0, 1], [0], "rounded to it other actions are needed: 0."),
        ("1e39,0\n0,1\n", [0, 1], None, "in which these payoffs overflow"),
        ("0.1,0\n0,0.1\n", [0, 1], [0, 1], None),
    ],
)
def test_what_float32_plays_is_said_where_it_differs(rows, exact, played, sentence, tmp_path, capsys) -> None:
    (tmp_path / "game.csv").write_text(rows)
    assert main([str(tmp_path / "game.csv"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["coverage_set"], answer["coverage_set_in_float32"]) == (exact, played)
    assert main([str(tmp_path / "game.csv")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert sentence in printed if sentence else "float32" not in printed


@pytest.fixture
def three_players(tmp_path) -> str:
    """Row `follow` is needed with correlated teams only; see test_independent.py."""
    path = tmp_path / "follow.json"
    payoffs = [[[3, 0], [0, 0]], [[0, 0], [0, 3]], [[2, 0], [0, 2]], [[1.2, 1.2], [1.2, 1.2]]]
    names = {"ego_actions": ["left", "right", "follow", "stay"], "teammate_actions": [["l", "r"], ["l", "r"]]}
    path.write_text(json.dumps({"payoffs": payoffs, **names}))
    return str(path)


@pytest.mark.parametrize(("options", "expected"), [([], [0, 1, 2, 3]), (["--teams", "independent"], [0, 1, 3])])
def test_teams_of_two(three_players, options, expected, capsys) -> None:
    assert main([three_players, *options, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["coverage_set"], answer["coverage_set_in_float32"]) == (expected, expected)
    assert (answer["teams"], answer["exact"], answer["players"]) == (options[-1] if options else "joint", True, 3)
    assert len(answer["witnesses"]) == len(answer["margins"]) == len(expected)
    assert main([three_players, *options]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{len(expected)} of 4 actions are needed against {answer['teams']} teams of 2: left, right" in printed
    assert ("l; r" in printed, "1/2 (l, l) + 1/2 (r, r)" in printed) == (bool(options), not options)


def test_bounds_are_named_as_bounds(three_players, capsys, monkeypatch) -> None:
    monkeypatch.setattr(independent, "MAX_PIECES", 1)
    assert main([three_players, "--teams", "independent"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 of 4 actions are proved to be needed against independent teams of 2: left, right, stay lower" in printed
    assert "Upper bound, which covers every team: left, right, follow, stay." in printed
    assert "minimum" not in printed


@pytest.mark.parametrize("options", [{"diversity": True}, {"figure": Path("a.png")}])
def test_what_needs_two_players_says_so_before_solving(three_players, options, monkeypatch) -> None:
    monkeypatch.setattr("coverset.cli.solve.solve", lambda *_, **__: pytest.fail("solved first"))
    with pytest.raises(ValueError, match="two players") as caught:
        run(Solve(three_players, **options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Solve("matri"), "Did you mean 'matrix'"),
        (Solve("matrix", figure=Path("missing/a.png")), "existing directory"),
        (Solve("matrix", figure=Path("a.doc")), "figure must end in"),
        (Solve("matrix", out=Path("missing/a.json")), "out must be a file in an existing directory"),
    ],
)
def test_mistakes_are_one_sentence(command, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        run(command)
    assert "\n" not in str(caught.value)
