"""The table that `coverset evaluate` prints."""

from coverset.cli.evaluate import _show

RECORD = {"env": "matrix", "learner": "rl2", "method": "lbrdiv"}


def record(mean: float) -> dict:
    cell = {"mean_return": mean, "oracle_fraction": mean / 4, "curve": [mean] * 5}
    partner = {**cell, "oracle": 4.0, "oracle_exact": True, "seat_returns": None}
    return {**RECORD, **cell, "partners": {"H1": partner}, "mixed_teams": {}}


def test_one_seed_has_no_interval(capsys) -> None:
    _show([record(2.0)], "an agent")
    shown = capsys.readouterr().out
    assert "one seed" in shown
    assert "inf" not in shown


def test_several_seeds_have_one(capsys) -> None:
    _show([record(2.0), record(3.0)], "an agent")
    shown = capsys.readouterr().out
    assert "one seed" not in shown
    assert "2.5" in shown
