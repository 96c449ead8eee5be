"""`coverset train` and `coverset evaluate` from end to end at toy size, resumed, and misused."""

import json
import shutil

import pytest

import toy_run
from coverset.cli.main import run
from coverset.pipeline import train
from coverset.pipeline.generate import generate

TOY = ["--total-steps", "600", "--hidden-sizes", "4", "--memory-size", "4", "--envs-per-partner", "4"]
TOY += ["--rollout-length", "5", "--chunk-steps", "120", "--evaluations", "2", "--parallel-seeds", "1"]
GENERATED = {"total_steps": 500, "hidden_sizes": (4,), "chunk_steps": 500, "envs_per_pair": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two seeds of teammates and their agents, and what `train --json` printed."""
    root = tmp_path_factory.mktemp("runs") / "matrix"
    generate("matrix", seeds=(0, 1), out=root, **GENERATED)
    assert run(["train", str(root), *TOY, "--json"]) == 0
    return root


def refused(capsys, *arguments: str) -> str:
    """The one sentence with which a command is refused."""
    capsys.readouterr()
    assert run(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_agents_are_complete_and_their_log_has_held_out_returns(trained):
    agent = trained / "seed-0" / "rl2"
    rows = [json.loads(line) for line in (agent / "metrics.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows] == [120, 240, 360, 480, 600]
    measured = [row["env_steps"] for row in rows if row["held_out"]]
    assert measured == [360, 600]
    assert set(rows[-1]["held_out"]) == {"H1", "H2", "H3", "H4", "H5", "H6"}
    assert json.loads((agent / "summary.json").read_text())["env_steps"] == 600


def test_evaluate_prints_the_contract_of_scripts(trained, capsys):
    capsys.readouterr()
    assert run(["evaluate", str(trained), "--trials", "8", "--json"]) == 0
    agents = json.loads(capsys.readouterr().out)["agents"]
    assert [agent["seed"] for agent in agents] == [0, 1]
    assert agents[0]["partners"]["H1"]["oracle"] == 10.0
    means = [partner["mean_return"] for partner in agents[0]["partners"].values()]
    assert agents[0]["mean_return"] == pytest.approx(sum(means) / 6, rel=1e-4)
    assert len(agents[0]["curve"]) == 20


def test_agents_of_several_names_stand_side_by_side(trained, tmp_path, capsys):
    """Two seats of one learner, evaluated and compared together; the second needs a name of its own."""
    root = tmp_path / "matrix"
    shutil.copytree(trained, root)
    shutil.rmtree(root / "seed-1")
    words = ["train", str(root), *TOY, "--learner", "plastic"]
    assert run([*words, "--name", "library"]) == 0
    assert f"coverset evaluate {root} --agents library" in capsys.readouterr().out
    sentence = refused(capsys, *words, "--name", "library", "--seat", "1")
    assert sentence.endswith("library holds another run (its seat is 0, not 1): choose another --name.\n")
    assert run([*words, "--name", "library-1", "--seat", "1"]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(root), "--trials", "2", "--episodes", "1", "--json"]) == 0
    agents = json.loads(capsys.readouterr().out)["agents"]
    assert [(agent["agent"], agent["learner"], agent["seat"]) for agent in agents] == [
        ("rl2", "rl2", 0),
        ("library", "plastic", 0),
        ("library-1", "plastic", 1),
    ]
    assert run(["evaluate", str(root), "--learner", "plastic", "--trials", "2", "--episodes", "1"]) == 0
    shown = capsys.readouterr().out
    assert "minus library" in shown
    assert "rl2 " not in shown
    partner = ["evaluate", str(root), "--agents", "rl2", "--partners", str(root / "seed-0" / "library-1"), "--json"]
    assert run([*partner, "--trials", "1", "--episodes", "1"]) == 0
    (agent,) = json.loads(capsys.readouterr().out)["agents"]
    assert [cell["title"] for cell in agent["partners"].values()] == ["library-1"]


@pytest.mark.parametrize("name", ["checkpoints", "../x", ".hidden", "", "a b", "x" * 65])
def test_a_bad_name_is_refused(trained, capsys, name):
    assert "name must consist of up to 64 letters" in refused(capsys, "train", str(trained), "--name", name, *TOY)


@pytest.mark.slow
def test_other_learners_partners_and_seats(trained, capsys):
    for learner in ("feedforward", "plastic"):
        assert run(["train", str(trained), "--learner", learner, "--seeds", "0", *TOY, "--json"]) == 0
        assert run(["evaluate", str(trained), "--learner", learner, "--seeds", "0", "--trials", "4"]) == 0
    assert "H6" in capsys.readouterr().out
    partners = ["--partners", "teammates", str(trained / "seed-1"), str(trained / "seed-0" / "rl2")]
    assert run(["evaluate", str(trained), "--seeds", "0", "--trials", "2", *partners, "--json"]) == 0
    met = json.loads(capsys.readouterr().out)["agents"][0]["partners"]
    assert len(met) == 3 + 3 + 1


def test_a_resumed_agent_has_the_same_bytes(trained, tmp_path, capsys):
    """Training again from the newest checkpoint but one ends where the undisturbed training ended."""
    root = tmp_path / "matrix"
    shutil.copytree(trained, root)
    agent = root / "seed-0" / "rl2"
    before = {name: (agent / name).read_bytes() for name in ("agent.safetensors", "metrics.jsonl")}
    (agent / "summary.json").unlink()
    (agent / "agent.safetensors").unlink()
    newest = max((agent / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert "--resume" in refused(capsys, "train", str(root), "--seeds", "0", *TOY)
    assert run(["train", str(root), "--seeds", "0", *TOY, "--resume", "--json"]) == 0
    assert {name: (agent / name).read_bytes() for name in before} == before


def test_agents_that_train_together_are_resumed_together(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(train, "train_seeds", lambda *arguments, **options: None)
    for seed in (0, 1, 2):
        toy_run.untrained(tmp_path / f"seed-{seed}", "matrix")
    train.train(tmp_path, parallel_seeds=2)
    found = [json.loads((tmp_path / f"seed-{seed}" / "rl2" / "config.json").read_text()) for seed in (0, 1, 2)]
    assert [config["trained_with"] for config in found] == [[0, 1], [0, 1], [2]]
    with pytest.raises(ValueError, match=r"resume it with `seeds=\[0, 1\]`\."):
        train.train(tmp_path, seeds=(1, 2), parallel_seeds=2, resume=True)
    train.train(tmp_path, seeds=(1, 0), parallel_seeds=2, resume=True)


def test_mistakes_are_named(trained, tmp_path, capsys):
    assert "directory" in refused(capsys, "train", str(tmp_path / "nowhere"))
    assert "'rl3'" in refused(capsys, "train", str(trained), "--learner", "rl3", *TOY)
    assert "'H9'" in refused(capsys, "train", str(trained), "--partners", "H9", *TOY)
    assert "seat must be 0 or 1, got 2" in refused(capsys, "train", str(trained), "--seat", "2", *TOY)
    assert "no seed 7" in refused(capsys, "train", str(trained), "--seeds", "7", *TOY)
    assert "partners must name" in refused(capsys, "train", str(trained), "--partners", *TOY)
    assert "reward_scale" in refused(capsys, "train", str(trained), "--reward-scale", "0")
    assert "trials" in refused(capsys, "evaluate", str(trained), "--trials", "0")
    assert "has no agent 'other'" in refused(capsys, "evaluate", str(trained), "--learner", "other")


def test_seeds_of_two_games_or_sizes_train_no_agents_together(tmp_path, capsys):
    toy_run.untrained(tmp_path / "seed-0", "matrix")
    toy_run.untrained(tmp_path / "seed-1", "matrix", horizon=2)
    toy_run.untrained(tmp_path / "seed-2", "matrix", width=9)
    assert "All seeds must be of one game, but env_parameters" in refused(capsys, "train", str(tmp_path), *TOY)
    sentence = refused(capsys, "train", str(tmp_path), "--seeds", "0", "2", *TOY)
    assert "those of seeds 0 and 2 differ" in sentence
    assert not [*tmp_path.glob("seed-*/rl2")]


def test_an_agent_of_another_environment_is_refused(trained, tmp_path, capsys):
    root = tmp_path / "reaching"
    toy_run.untrained(root / "seed-0", "reaching", size=3, horizon=4)
    shutil.copytree(trained / "seed-0" / "rl2", root / "seed-0" / "rl2")
    assert "was made for environment 'matrix'" in refused(capsys, "evaluate", str(root))
    sentence = refused(capsys, "train", str(root), "--partners", str(trained / "seed-0"), *TOY)
    assert "was made for environment 'matrix'" in sentence


def test_partners_of_the_same_shapes_but_another_game_are_refused(tmp_path, capsys):
    """Both reaching games have the same observations and actions, and pay for other things."""
    small = {"size": 3, "horizon": 4}
    for environment in ("reaching", "weighted-reaching"):
        toy_run.untrained(tmp_path / environment / "seed-0", environment, **small)
    other = str(tmp_path / "weighted-reaching" / "seed-0")
    sentence = refused(capsys, "train", str(tmp_path / "reaching"), "--partners", other, *TOY)
    assert "was made for environment 'weighted-reaching' with ends_apart True, but here it is False" in sentence
