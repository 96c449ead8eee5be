"""The report's section on what populations leave uncovered."""

import json

from coverset.pipeline.report import read_study
from coverset.reports.blocks import BulletList, HtmlTable
from coverset.reports.findings import describe_findings
from coverset.reports.uncovered_sections import uncovered_section
from reports import synthetic

PROBE = {
    "coverage_regret": 1.98,
    "standard_error": 0.01,
    "margin": 0.5,
    "probes": 16,
    "exact": {"over_all": [2.0, 2.0], "with_teammate": None, "because": None},
    "teammate": "action 3 100%",
    "sentence": "",
}


def note(path, **fields) -> None:
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | fields))


def study(tmp_path, **fields):
    root = synthetic.write_study(tmp_path, seeds=1, methods=("lbrdiv", "brdiv"), learners=())
    note(next(root.glob("*-brdiv-*/seed-0")), **fields)
    chapters, runs, _ = read_study(root)
    return chapters[0], runs


def test_regrets_and_advice_have_a_section_and_a_sentence(tmp_path) -> None:
    chapter, _ = study(tmp_path, probe=PROBE, advice="Pair 3 earns nothing.")
    section = uncovered_section(chapter)
    assert section is not None
    table, advice = section.blocks
    assert isinstance(table, HtmlTable)
    assert isinstance(advice, BulletList)
    assert table.rows == [("BRDiv", "0", "16", "1.98 ± 0.0200", "0.500", "2.00", "action 3 100%")]
    assert advice.items == ["BRDiv, seed 0: Pair 3 earns nothing."]
    told = describe_findings(chapter)[-1]
    assert told == "Probes found a coverage regret above the margin in 1 of 1 population of BRDiv (at most 1.98)."


def test_without_either_there_is_no_section(tmp_path) -> None:
    chapter, _ = study(tmp_path)
    assert uncovered_section(chapter) is None


def test_a_damaged_note_of_probes_is_told(tmp_path) -> None:
    _, runs = study(tmp_path, probe={**PROBE, "probes": "many"})
    assert any("probes must be" in problem for run in runs for problem in run.problems)
