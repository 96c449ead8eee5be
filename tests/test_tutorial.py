"""The tutorial on one's own environment, block by block, as somebody would follow it in an empty directory."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tutorials" / "bring-your-own-game.md"
BLOCK = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


def follow(directory: Path) -> list[str]:
    """Write the files and run the commands; gives the output of every command block.

    pip installs into `site` and fetches nothing: it builds with what is installed here. It reads the variable for that
    the other way round, so 0 stands for no isolation.
    """
    site = directory / "site"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    search = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    offline = {"PIP_TARGET": str(site), "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    environ = {**os.environ, "PATH": path, "PYTHONPATH": search, **offline}
    printed = []
    for block in BLOCK.finditer(PAGE.read_text()):
        if block["file"]:
            place = directory / block["file"]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block["text"])
            continue
        assert block["kind"] == "sh", "what is neither a file nor a command cannot be checked"
        done = subprocess.run(
            ["bash", "-e", "-c", block["text"]], cwd=directory, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block['text']}\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    return printed


def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    printed = follow(tmp_path)
    assert "corridor keeps the contract: 2 players" in printed[0]
    assert "parameter length = 5" in printed[0]
    assert "harbour:Harbour keeps the contract: 2 players, actions (4, 3)." in " ".join("".join(printed).split())
    assert "minus plastic" in printed[2], "agents of two names are compared"
    assert (tmp_path / "site" / "corridor_game.py").is_file()
    run = tmp_path / "runs" / "corridor"
    for seed in (0, 1):
        summary = json.loads((run / f"seed-{seed}" / "summary.json").read_text())
        assert summary["env"] == "corridor"
        assert summary["coverage_found"] == 2, "one kind goes left, one goes right"
        assert {words.rpartition(" ")[0] for words in summary["conventions"]} <= {
            f"kind {kind}: goes {side}" for kind in "AB" for side in ("left", "right")
        }
        assert min(summary["cross_play"][pair][pair] for pair in (0, 1)) > 0.8
        evaluation = json.loads((run / f"seed-{seed}" / "plastic" / "evaluation.json").read_text())
        assert set(evaluation["partners"]) == {"walker:walks_left", "other-seeds 1", "other-seeds 2"}
        assert evaluation["mean_return"] > 0.8, "it finds out where its partner goes"
    certificate = json.loads((run / "seed-0" / "certificate.json").read_text())
    assert certificate["env"] == "corridor"
    assert (run / "report" / "index.html").is_file()
    evaluation = json.loads((tmp_path / "runs" / "lit" / "seed-0" / "plastic" / "evaluation.json").read_text())
    assert set(evaluation["partners"]) == {"left", "right"}
    assert evaluation["oracle_partners"] == 2
    evaluation = json.loads((tmp_path / "runs" / "prizes" / "seed-0" / "plastic" / "evaluation.json").read_text())
    assert [*evaluation["mixed_teams"]] == ["greedy + modest", "modest + greedy"]
    seats = evaluation["partners"]["greedy"]["seat_returns"]
    assert seats[0] > 2.5, "it takes the best prize first"
    assert sum(seats) == pytest.approx(6.0, abs=1e-3)
    assert "'left': Walker(" in printed[-1]
