"""The tables that `coverset evaluate` prints."""

from typing import Any

from coverset.cli.evaluation_tables import show_evaluation


def record(mean: float, *, seed: int = 0, agent: str = "rl2", **partner: Any) -> dict[str, Any]:
    cell = {"mean_return": mean, "oracle_fraction": mean / 4, "reference_fraction": None, "curve": [mean] * 5}
    met = {**cell, "title": "H1", "oracle": 4.0, "oracle_exact": True, "reference": None, "seat_returns": None}
    about = {"game": "matrix", "learner": "rl2", "method": "lbrdiv", "agent": agent, "seed": seed, "seat": 0}
    return {**about, **cell, "episodes": 5, "partners": {"H1": met | partner}, "mixed_teams": {}}


def lines(capsys, *records: dict[str, Any], **options: bool) -> list[str]:
    show_evaluation(records, **options)
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, shown)) <= 80
    return shown


def test_one_seed_has_no_interval(capsys) -> None:
    shown = "\n".join(lines(capsys, record(2.0)))
    assert "one seed" in shown
    assert "inf" not in shown


def test_of_two_seeds_both_are_shown(capsys) -> None:
    """Student's interval of 0 and 4 would be -23 to 27, in a game that pays 0 to 4."""
    shown = lines(capsys, record(0.0), record(4.0, seed=1))
    (row,) = (line for line in shown if line.startswith("H1"))
    assert any("both seeds" in line for line in shown)
    assert "0, 4" in row
    assert "-23" not in row
    agents = [record(0.0, agent=name) for name in "ab"] + [record(4.0, agent=name, seed=1) for name in "ab"]
    assert "two seeds: 0, 4" in "\n".join(lines(capsys, *agents))


def test_numbers_are_never_cut(capsys) -> None:
    long = {"oracle": None, "oracle_exact": None, "oracle_fraction": None, "reference": 0.12345, "title": "t" * 50}
    records = [record(-0.0123456 * (1 + seed), seed=seed, reference_fraction=-1.2, **long) for seed in (0, 1)]
    for options in ({}, {"details": True}):
        shown = lines(capsys, *records, **options)
        assert all("…" not in line.partition("  ")[2] for line in shown), "only names may be shortened"
        (row,) = (line for line in shown if line.startswith("…"))
        assert row.split()[1:] == ["-0.0185", "-0.0247,", "-0.0123", "0.123", "-1.20", "-0.0185", "-0.0185"]


def test_more_seeds_have_an_interval(capsys) -> None:
    (row,) = (line for line in lines(capsys, *(record(1.0 + n, seed=n) for n in range(3))) if line.startswith("H1"))
    assert "-0.484 to 4.48" in row


def test_several_agents_are_compared_line_by_line(capsys) -> None:
    records = [record(n + better, seed=n, agent=name) for name, better in (("a", 0), ("b", 1.0)) for n in range(3)]
    shown = lines(capsys, *records)
    (first,) = (line for line in shown if line.startswith("a "))
    (second,) = (line for line in shown if line.startswith("b "))
    assert "minus a" in "\n".join(shown)
    assert second.rstrip().endswith("+1 ± 0")
    assert "H1" not in "\n".join(shown)
    assert first.split()[2] == "1"
    detailed = "\n".join(lines(capsys, *records, details=True))
    assert detailed.count("H1") == 2 + 6


def test_teammates_of_other_seeds_are_named_and_have_a_reference(capsys) -> None:
    """Seed 0 meets the teammates of seed 1, and seed 1 those of seed 0: they are not one partner."""
    plain = {"oracle": None, "oracle_exact": None, "oracle_fraction": None}
    known = {**plain, "reference": 2.0, "reference_fraction": 0.5}
    shown = lines(
        capsys,
        record(1.0, seed=0, title="seed-1 teammate 1", **known),
        record(1.0, seed=1, title="seed-0 teammate 1", **known),
    )
    rows = [line for line in shown if "teammate 1" in line]
    assert [row.split()[0] for row in rows] == ["seed-1", "seed-0"]
    assert all("0.50" in row for row in rows)
    assert "best responses of the partner's own seed" in "\n".join(shown)


def test_a_long_name_keeps_its_line(capsys) -> None:
    (row,) = (line for line in lines(capsys, record(1.0, title="package." * 20 + "agent:walks")) if "…" in line)
    assert row.startswith("…")
    assert "package.agent:walks " in row


def test_heuristics_are_explained_below_their_rows(capsys) -> None:
    walks = "Walks to corner A."
    assert f"H1: {walks}" in lines(capsys, record(1.0, description=walks))
    several = [record(1.0, agent=name, description=walks) for name in ("a", "b")]
    assert walks not in "\n".join(lines(capsys, *several))
    assert f"H1: {walks}" in lines(capsys, *several, details=True)
