"""`coverset inspect` from runs with known answers to its files, its table, the report and the studio."""

import json
from pathlib import Path

import pytest

import coverset
from coverset.cli import main as command_line
from coverset.cli.inspect import main
from coverset.pipeline.report import report
from coverset.studio.catalogue import Catalogue
from coverset.studio.files import SafeDirectory
from coverset.studio.records import RunRecords
from opening import WORDS, mixed_population, write_opening_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a convention, a handshake, a saboteur and an incompetent teammate, inspected."""
    root = tmp_path_factory.mktemp("runs") / "opening"
    write_opening_run(root / "seed-0", mixed_population(), 4)
    assert coverset.inspect(root)[0].words == WORDS
    return root


def test_record_and_table(run, capsys) -> None:
    assert main([str(run), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["inspections"]
    assert record == json.loads((run / "seed-0" / "inspection.json").read_text())
    assert [mate["word"] for mate in record["teammates"]] == WORDS
    assert (record["measured"], record["lowest_return"], record["highest_return"]) == ("exact", 0.0, pytest.approx(1.0))
    assert main([str(run)]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert all(word in printed for word in (*WORDS, "Exact. Returns range from 0 to 1."))


def test_the_same_policies_are_not_measured_again(run) -> None:
    started = []
    coverset.inspect(run, starting=started.append)
    assert started == []
    coverset.inspect(run, trials=7, starting=started.append)
    assert started == [run / "seed-0"]
    (run / "seed-0" / "inspection.json").write_text("{")
    coverset.inspect(run, starting=started.append)
    assert len(started) == 2
    assert "4 incompetent" in repr(coverset.inspect(run))


def test_refusals(run, tmp_path, capsys) -> None:
    def refusal(*words) -> str:
        assert command_line.run(["inspect", *map(str, words)]) == 2
        return capsys.readouterr().err

    assert "is not a directory" in refusal(tmp_path / "nowhere")
    assert "episodes must be at least 2" in refusal(run, "--episodes", "1")
    assert "steps must be at least 1" in refusal(run, "--steps", "0")
    (tmp_path / "seed-0").mkdir()
    assert "not finished" in refusal(tmp_path)


def test_report_and_studio_show_the_words(run, tmp_path) -> None:
    page = report(run, out=tmp_path / "page")
    text = (tmp_path / "page" / "index.html").read_text()
    assert "Handshakes and sabotage" in text
    assert "coverset inspect" in text
    data = next(path for path in page["data"] if path.endswith("-inspection.csv"))
    assert [line.split(",")[3] for line in Path(data).read_text().splitlines()[1:]] == WORDS
    directory = SafeDirectory(run)
    (found,) = Catalogue(directory).runs().values()
    assert RunRecords(directory).details(found)["words"] == WORDS
