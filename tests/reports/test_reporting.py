"""The report of a study: a toy one made by the real commands, and hand-written ones that are large or damaged."""

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from coverset.cli.main import run
from coverset.envs import registry
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.statistics import bootstrap_interval, paired_difference, student_interval
from coverset.pipeline.certify import certify_runs
from coverset.pipeline.evaluate import evaluate
from coverset.pipeline.generate import generate
from coverset.pipeline.report import read_study, write_report
from coverset.pipeline.train import train
from reports.synthetic import STEPS, write_agent, write_run, write_study

GENERATED = {"total_steps": 500, "hidden_sizes": (4,), "chunk_steps": 100, "envs_per_pair": 2}
TRAINED = {"total_steps": 600, "hidden_sizes": (4,), "memory_size": 4, "envs_per_partner": 4, "rollout_length": 5}
SECTIONS = ("robustness", "adaptation", "partners", "coverage", "cross-play", "training", "certificates", "diversity")


class Page(HTMLParser):
    """What a page holds: tags with their attributes, ids, text, and whether every element is closed."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(path.read_text())
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def table(page: Path, name: str) -> list[dict[str, str]]:
    with (page.parent / "data" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def refusal(capsys, *arguments) -> str:
    capsys.readouterr()
    assert run(["report", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two methods with two seeds each, made by the real commands."""
    root = tmp_path_factory.mktemp("study")
    for method in ("brdiv", "lbrdiv"):
        directory = root / f"matrix-{method}-fast"
        generate("matrix", method=method, seeds=(0, 1), out=directory, **GENERATED)
        certify_runs(directory, trials=1)
        train(directory, seeds=(0, 1), chunk_steps=120, evaluations=2, parallel_seeds=2, **TRAINED)
        evaluate(directory, trials=4)
    return root


@pytest.fixture(scope="module")
def page(study):
    return write_report(study)


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def test_the_page_has_every_section_and_stands_alone(page):
    parsed = Page(page)
    assert page.parts[-2:] == ("report", "index.html")
    assert {"overview", "matrix", "runs", "words"} <= set(parsed.ids)
    assert {f"matrix--{section}" for section in (*SECTIONS, "settings")} <= set(parsed.ids)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "http" not in re.sub(r"http-equiv", "", page.read_text())
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in parsed.tags}
    assert "prefers-color-scheme: dark" in page.read_text()


def test_every_reference_leads_somewhere(page):
    parsed = Page(page)
    targets = [attributes.get("href") for _, attributes in parsed.tags if attributes.get("href")]
    for target in targets:
        assert target.removeprefix("#") in parsed.ids if target.startswith("#") else (page.parent / target).is_file()
    used = re.findall(r"url\(#([^)]+)\)", page.read_text())
    assert used
    assert set(used) <= set(parsed.ids)


def test_figures_keep_their_text_and_follow_the_colour_scheme(page):
    parsed = Page(page)
    assert "episode with the same partner" in parsed.words
    assert "var(--lbrdiv)" in page.read_text()
    for figure in (page.parent / "figures").iterdir():
        content = figure.read_bytes()
        assert content.startswith(b"\x89PNG" if figure.suffix == ".png" else b"<?xml"), figure


def test_final_returns_are_those_of_the_records(study, page):
    means = [read(study / f"matrix-lbrdiv-fast/seed-{n}/rl2/evaluation.json")["mean_return"] for n in (0, 1)]
    others = [read(study / f"matrix-brdiv-fast/seed-{n}/rl2/evaluation.json")["mean_return"] for n in (0, 1)]
    first, second = table(page, "matrix-final-returns")
    assert (first["method"], second["method"]) == ("L-BRDiv", "BRDiv")
    student, bootstrap = student_interval(means), bootstrap_interval(means)
    assert float(first["mean_return"]) == pytest.approx(student.mean, rel=1e-5)
    assert float(first["student_high"]) == pytest.approx(student.high, rel=1e-5)
    assert float(first["bootstrap_low"]) == pytest.approx(bootstrap.low, rel=1e-5)
    (difference,) = table(page, "matrix-differences")
    expected = paired_difference(dict(enumerate(means)), dict(enumerate(others))).student
    assert float(difference["difference"]) == pytest.approx(expected.mean, rel=1e-4)
    assert float(difference["student_low"]) == pytest.approx(expected.low, rel=1e-4)
    by_seed = [float(row["mean_return"]) for row in table(page, "matrix-final-returns-by-seed")]
    assert by_seed == [*means, *others]


def test_curves_are_those_of_the_records(study, page):
    seed = study / "matrix-brdiv-fast" / "seed-1"
    rows = [json.loads(line) for line in (seed / "rl2" / "metrics.jsonl").read_text().splitlines()]
    expected = [(row["env_steps"], row["held_out_return"]) for row in rows if row["held_out_return"] is not None]
    assert expected
    drawn = [row for row in table(page, "matrix-robustness") if (row["method"], row["seed"]) == ("BRDiv", "1")]
    assert [(int(row["env_steps"]), float(row["return"])) for row in drawn] == expected
    curve = [row for row in table(page, "matrix-adaptation") if (row["method"], row["seed"]) == ("BRDiv", "1")]
    assert [float(row["return"]) for row in curve] == read(seed / "rl2" / "evaluation.json")["curve"]
    generation = [json.loads(line) for line in (seed / "metrics.jsonl").read_text().splitlines()]
    gaps = generation[-1]["gaps"]
    smallest = min(value for kind in gaps.values() for row in kind for value in row if value is not None)
    written = [row for row in table(page, "matrix-generation") if (row["method"], row["seed"]) == ("BRDiv", "1")]
    assert float(written[-1]["smallest_gap"]) == smallest
    assert written[-1]["largest_multiplier"] == ""


def test_populations_and_certificates_are_those_of_the_records(study, page):
    summary = read(study / "matrix-lbrdiv-fast" / "seed-0" / "summary.json")
    certificate = read(study / "matrix-lbrdiv-fast" / "seed-0" / "certificate.json")
    pairs = [row for row in table(page, "matrix-coverage") if (row["method"], row["seed"]) == ("L-BRDiv", "0")]
    assert [row["covers"] or None for row in pairs] == summary["covers"]
    assert [row["teammate"] for row in pairs] == summary["conventions"]
    cells = [row for row in table(page, "matrix-cross-play") if (row["method"], row["seed"]) == ("L-BRDiv", "0")]
    found = {(int(row["best_response"]), int(row["teammate"])): float(row["mean_return"]) for row in cells}
    assert found[1, 3] == summary["cross_play"][0][2]
    verdict = table(page, "matrix-certificates")[0]
    assert int(verdict["violated"]) == certificate["constraints_violated"]
    assert float(verdict["smallest_gap"]) == certificate["smallest_gap"]
    exact = table(page, "matrix-exact-best-responses")[0]
    assert float(exact["own"]) == certificate["discounted"]["best_responses"][0]["own"]


def test_appendix_b_and_the_commands_are_told(page):
    assert {"objective": "22 + 56 alpha", "population": "the coverage set"}.items() <= table(page, "matrix-diversity")[
        0
    ].items()
    words = Page(page).words
    assert "No alpha > 0 makes BRDiv prefer the coverage set" in words
    command = "coverset generate matrix --method lbrdiv --preset fast --seeds 0 1 --out matrix-lbrdiv-fast"
    assert f"{command} --total-steps 500 --hidden-sizes 4" in words
    assert "coverset evaluate matrix-brdiv-fast --learner rl2 --trials 4 --episodes 20" in words
    assert "--partners" not in words


def test_an_environment_that_must_be_given_parameters_is_reported_with_them(tmp_path, monkeypatch):
    def demanding(horizon: int) -> MatrixGame:
        return MatrixGame(horizon=horizon)

    monkeypatch.setitem(registry._BUILT_IN, "demanding", demanding)
    path = tmp_path / "runs" / "seed-0"
    write_run(path, env="demanding", method="lbrdiv", seed=0, size=3, level=1.0)
    (path / "config.json").write_text(json.dumps({**read(path / "config.json"), "env_parameters": {"horizon": 2}}))
    assert "--env-args horizon=2" in Page(write_report(tmp_path)).words


def test_the_command_of_an_evaluation_names_other_partners_than_the_heuristics(tmp_path):
    path = tmp_path / "runs" / "seed-0"
    write_run(path, env="matrix", method="lbrdiv", seed=0, size=3, level=1.0)
    write_agent(path / "rl2", learner="rl2", seed=0, level=1.0)
    evaluation = read(path / "rl2" / "evaluation.json")
    (partner, *_) = evaluation["partners"].values()
    met = ("H1", "teammates 1", "teammates 2", "teammates 3", "runs/no 7")
    (path / "rl2" / "evaluation.json").write_text(json.dumps({**evaluation, "partners": dict.fromkeys(met, partner)}))
    command = "coverset evaluate runs --learner rl2 --trials 8 --episodes 5 --partners H1 teammates 'runs/no 7'"
    assert command in Page(write_report(tmp_path)).words


def test_the_command_prints_what_it_wrote(study, tmp_path, capsys):
    assert (
        run(["report", str(study / "matrix-lbrdiv-fast" / "seed-1"), "--out", str(tmp_path / "one.html"), "--json"])
        == 0
    )
    written = json.loads(capsys.readouterr().out)
    assert written["page"] == str(tmp_path / "one.html")
    assert all(Path(path).is_file() for path in (*written["figures"], *written["data"]))
    assert {Path(path).suffix for path in written["figures"]} == {".png", ".svg"}
    assert not list(tmp_path.rglob(".*.tmp"))
    words = Page(tmp_path / "one.html").words
    assert "one seed, so no interval" in words
    (row,) = table(tmp_path / "one.html", "matrix-final-returns")
    assert row["seeds"] == "1"
    assert row["student_low"] == ""


def test_the_same_study_gives_the_same_bytes(study, page, tmp_path):
    again = write_report(study, tmp_path)
    assert again == tmp_path / "index.html"
    assert again.read_bytes() == page.read_bytes()


def test_damaged_and_unfinished_runs_are_named_and_the_rest_is_reported(study, tmp_path):
    root = tmp_path / "study"
    shutil.copytree(study, root, ignore=shutil.ignore_patterns("report", "checkpoints"))
    baseline = root / "matrix-brdiv-fast"
    (baseline / "seed-0" / "summary.json").unlink()
    (baseline / "seed-1" / "summary.json").write_text('{"cross_play": [[NaN')
    ours = root / "matrix-lbrdiv-fast"
    (ours / "seed-0" / "config.json").write_text("null and void")
    metrics = ours / "seed-1" / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"env_steps": ')
    agent = ours / "seed-1" / "rl2"
    (agent / "evaluation.json").write_text(json.dumps({**read(agent / "evaluation.json"), "mean_return": "lots"}))
    page = write_report(root)
    states = {row["path"]: row["state"] for row in table(page, "runs")}
    assert states["matrix-brdiv-fast/seed-0"].startswith("unfinished: 5")
    assert (
        states["matrix-brdiv-fast/seed-1"] == "damaged: summary.json is not valid JSON: the number 'NaN' is not finite."
    )
    assert states["matrix-lbrdiv-fast/seed-0"].startswith("damaged: config.json is not valid JSON: Extra data")
    assert "cannot be read" in states["matrix-lbrdiv-fast/seed-0/rl2"]
    assert states["matrix-lbrdiv-fast/seed-1"] == "finished"
    assert "mean_return must be a number, got 'lots'" in states["matrix-lbrdiv-fast/seed-1/rl2"]
    words = Page(page).words
    assert "2 of 2 seeds of BRDiv" in words
    assert "matrix-lbrdiv-fast/seed-0" in words
    (row,) = [row for row in table(page, "matrix-populations") if row["method"] == "L-BRDiv"]
    assert row["seed"] == "1"


def test_nothing_finished_is_a_page_too(tmp_path):
    root = write_study(tmp_path, seeds=1, methods=("lbrdiv",), learners=())
    for summary in root.rglob("summary.json"):
        summary.unlink()
    page = write_report(root)
    assert "No run of this environment is finished yet" in Page(page).words
    assert table(page, "runs")[0]["state"] == "unfinished: 3,000 of 3,000 steps"


def test_sixteen_seeds_stay_readable(tmp_path):
    root = write_study(tmp_path, seeds=16, methods=("lbrdiv", "brdiv", "mine"), learners=("rl2",))
    page = write_report(root)
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "L-BRDiv in 16 of 16 seeds" in parsed.words
    assert "BRDiv in 0 of 16 seeds (on average 3.00)" in parsed.words
    assert "(95% interval 1.00 to 1.00, 16 seeds paired), so L-BRDiv is ahead" in parsed.words
    assert "≥ 83" in parsed.words
    assert "at most 6.00" in parsed.words
    methods = {row["method"] for row in table(page, "my-games-kitchen-final-returns")}
    assert methods == {"L-BRDiv", "BRDiv", "mine"}
    assert page.stat().st_size < 6_000_000


def test_agents_measured_otherwise_are_set_aside(tmp_path):
    root = write_study(tmp_path, seeds=3, methods=("lbrdiv",))
    odd = root / "my_games-kitchen-lbrdiv-fast" / "seed-2" / "rl2"
    write_agent(odd, learner="rl2", seed=2, level=50.0, partners=5)
    (chapter,), _, _ = read_study(root)
    assert sorted(chapter.methods[0].evaluations["rl2"]) == [0, 1]
    (sentence,) = chapter.left_out
    assert "seed-2/rl2 was measured with other partners" in sentence


def test_environments_and_settings_are_not_mixed(tmp_path):
    for name, size in (("small", 2), ("large", 3)):
        write_run(tmp_path / name / "seed-0", env="matrix", method="lbrdiv", seed=0, size=size, level=1.0)
    write_run(tmp_path / "other" / "seed-0", env="reaching", method="lbrdiv", seed=0, size=2, level=1.0)
    chapters, _, _ = read_study(tmp_path)
    assert [chapter.title for chapter in chapters] == ["matrix", "reaching"]
    assert sorted(method.label for method in chapters[0].methods) == ["L-BRDiv (large)", "L-BRDiv (small)"]


def test_hostile_text_is_escaped_and_nothing_of_a_study_is_run(tmp_path):
    hostile = '<script>alert("$\\frac{")</script>&\'"'
    path = tmp_path / "runs" / "seed-0"
    write_run(path, env="antigravity:fly", method=hostile, seed=0, size=3, level=1.0)
    write_agent(path / "rl2", learner=hostile, seed=0, level=1.0)
    config = read(path / "config.json")
    config["env_parameters"] = {hostile: hostile}
    (path / "config.json").write_text(json.dumps(config))
    summary = read(path / "summary.json")
    summary["covers"] = summary["conventions"] = [hostile] * 3
    (path / "summary.json").write_text(json.dumps(summary))
    page = write_report(tmp_path)
    parsed = Page(page)
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert hostile in parsed.words
    assert all(".." not in path.name and "/" not in path.name for path in page.parent.rglob("*"))
    assert table(page, "antigravity-fly-coverage")[0]["covers"] == hostile


def test_bad_input_is_one_sentence(tmp_path, capsys):
    assert "is not a directory" in refusal(capsys, tmp_path / "nowhere")
    assert "holds no run of `coverset generate`" in refusal(capsys, tmp_path)
    (tmp_path / "config.json").write_text("[1, 2]")
    assert "holds no run of `coverset generate`" in refusal(capsys, tmp_path)
    write_study(tmp_path / "study", seeds=1, methods=("lbrdiv",))
    (tmp_path / "file").write_text("")
    assert "out must be" in refusal(capsys, tmp_path / "study", "--out", tmp_path / "file" / "page.html")
    assert not list(tmp_path.rglob("index.html"))


def test_python_gives_the_same(tmp_path):
    import coverset

    write_study(tmp_path, seeds=2, methods=("lbrdiv", "lipo"))
    written = coverset.report(tmp_path, out=tmp_path / "out")
    assert Path(written["page"]) == tmp_path / "out" / "index.html"
    bands = table(Path(written["page"]), "my-games-kitchen-robustness-mean")
    assert [int(row["env_steps"]) for row in bands if row["method"] == "LIPO"] == list(STEPS[1:])
