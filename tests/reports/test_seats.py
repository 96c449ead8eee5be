"""Reports of games whose seats have rewards of their own, and of more than two players."""

import json
from pathlib import Path
from typing import Any

import pytest

from coverset.pipeline.report import report
from coverset.reports.wording import MINUS
from reports.synthetic import write_agent, write_run


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "game" / "seed-0"
    write_run(path, env="matrix", method="lbrdiv", seed=0, size=2, level=1.0)
    write_agent(path / "rl2", learner="rl2", seed=0, level=1.0)
    return path


TABLES = {
    "by player": {"payoffs": [[[3, 0], [1, 2]], [[-3, 0], [-1, -2]]], "by_player": True},
    "three players": {"payoffs": [[[3, 0], [1, 2]], [[0, 1], [2, 4]]]},
}


@pytest.mark.parametrize("parameters", TABLES.values(), ids=TABLES)
def test_appendix_b_is_about_games_of_two_with_one_table(seed: Path, parameters: dict) -> None:
    edit(seed / "config.json", env_parameters=parameters)
    page = Path(report(seed.parent)["page"]).read_text()
    assert "Appendix B" not in page
    edit(seed / "config.json", env_parameters={"payoffs": [[3, 0], [1, 2]]})
    assert "Appendix B" in Path(report(seed.parent)["page"]).read_text()


def test_returns_of_every_seat_are_listed(seed: Path) -> None:
    edit(seed / "summary.json", seat_returns=[[[1.25, -7.75], [0.0, 1.0]], [[0.0, 1.0], [2.5, -8.125]]])
    written = report(seed.parent)
    page = Path(written["page"]).read_text()
    for number in ("1.25", f"{MINUS}7.75", "2.50", f"{MINUS}8.12"):
        assert number in page
    (data,) = (Path(path) for path in written["data"] if path.endswith("returns-by-seat.csv"))
    assert len(data.read_text().splitlines()) == 1 + 2 * 2 * 2


@pytest.mark.parametrize("wrong", [3, [[1.0, 2.0]], [[["a"], ["b"]], [["c"], ["d"]]]])
def test_damaged_returns_of_seats_are_told(seed: Path, wrong: Any) -> None:
    edit(seed / "summary.json", seat_returns=wrong)
    assert "seat_returns must" in Path(report(seed.parent)["page"]).read_text()


def test_mixed_teams_are_listed_apart_from_whole_ones(seed: Path) -> None:
    record = json.loads((seed / "rl2" / "evaluation.json").read_text())
    (first, *_) = record["partners"]
    record["partners"][first]["seat_returns"] = [0.5, -1.5, 4.125]
    mixed = {f"{first} + other": {"mean_return": 0.875, "seat_returns": None}}
    edit(seed / "rl2" / "evaluation.json", partners=record["partners"], mixed_teams=mixed)
    page = Path(report(seed.parent)["page"]).read_text()
    assert f"{first} + other" in page
    assert "0.875" in page
    assert f"0.500, {MINUS}1.50, 4.12" in page
    edit(seed / "rl2" / "evaluation.json", mixed_teams=["wrong"])
    assert "mixed_teams must be a JSON object" in Path(report(seed.parent)["page"]).read_text()


def test_partners_are_called_by_their_titles_and_pooled_by_them(seed: Path) -> None:
    """`other-seeds 1` is another policy for the agents of each seed; the title tells which."""
    other = seed.parent / "seed-1"
    write_run(other, env="matrix", method="lbrdiv", seed=1, size=2, level=2.0)
    write_agent(other / "rl2", learner="rl2", seed=1, level=2.0)
    for number, path in enumerate((seed, other)):
        cells = [*json.loads((path / "rl2" / "evaluation.json").read_text())["partners"].values()][:2]
        titles = [f"seed-{1 - number} teammate {mate}" for mate in (1, 2)]
        told = {f"other-seeds {mate + 1}": cells[mate] | {"title": titles[mate]} for mate in (0, 1)}
        mixed = {"other-seeds 1 + other-seeds 2": {"mean_return": 0.875, "seat_returns": None}}
        edit(path / "rl2" / "evaluation.json", partners=told, mixed_teams=mixed)
    written = report(seed.parent)
    tables = {Path(path).name: Path(path).read_text() for path in written["data"]}
    for text in (Path(written["page"]).read_text(), tables["matrix-teams.csv"]):
        assert "seed-1 teammate 1 + seed-1 teammate 2" in text
        assert "other-seeds 1" not in text
    partners = [line.split(",")[1:4] for line in tables["matrix-partners.csv"].splitlines()[1:]]
    titles = [f"seed-{number} teammate {mate}" for number in (1, 0) for mate in (1, 2)]
    assert partners == [[title, "L-BRDiv", "1"] for title in titles]


def test_adapter_games_have_short_names_and_long_cells_break(seed: Path) -> None:
    wrapped = {"environment": "MPE_simple_speaker_listener_v4"}
    edit(seed / "config.json", env="coverset.adapters.jaxmarl:from_jaxmarl", env_parameters=wrapped)
    written = report(seed.parent)
    for path in (*written["figures"], *written["data"]):
        assert "adapters" not in path
        assert Path(path).name.startswith(("mpe-simple-speaker-listener-v4-", "overview", "runs"))
    page = Path(written["page"]).read_text()
    assert '<td class="long">MPE_simple_speaker_listener_v4</td>' in page
    assert "<td>L-BRDiv</td>" in page
