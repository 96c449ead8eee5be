"""Runs and agents as later commands find them: which directory is which seed, and who is refused as a partner."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from coverset.cli.main import run
from coverset.partners import (
    PartnerGame,
    find_group,
    find_member,
    find_partner,
    other_seeds,
    read_run,
    seed_directories,
)
from coverset.pipeline.export import export_agent
from coverset.policies.stacked import count_members
from saved_agents import make_spec, write_untrained
from toy_run import untrained

ONE_SIDED = {"payoffs": [[3.0, 0.0], [1.0, 2.0]]}
"""Payoffs whose seats are not alike."""
EVALUATE = ("--trials", "2", "--episodes", "1")


def write_agent(path: Path, *, seat: int = 0, env_version: int = 1) -> Path:
    """An untrained agent of the game of a run two directories above."""
    config = json.loads((path.parent / "config.json").read_text())
    about = {name: config[name] for name in ("env", "env_parameters")}
    num_actions = len(about["env_parameters"]["payoffs"])
    write_untrained(path / "agent.safetensors", {**about, "seat": seat}, make_spec(1, num_actions))
    (path / "config.json").write_text(json.dumps({**config, "command": "train", "env_version": env_version}))
    return path


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """Two seeds that have learned nothing, the first with an agent."""
    for seed in (0, 1):
        untrained(tmp_path / "matrix" / f"seed-{seed}", "matrix")
    write_agent(tmp_path / "matrix" / "seed-0" / "rl2")
    return tmp_path / "matrix"


def edit(path: Path, **changes) -> None:
    """Change fields of a JSON file; None removes one."""
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def refusal(capsys, *arguments) -> str:
    capsys.readouterr()
    assert run([*map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_one_seed_is_known_by_its_name_wherever_one_stands(matrix: Path, monkeypatch) -> None:
    assert seed_directories(matrix / "seed-1") == {1: matrix / "seed-1"}
    assert list(seed_directories(matrix)) == [0, 1]
    monkeypatch.chdir(matrix / "seed-1")
    assert seed_directories(Path()) == {1: matrix / "seed-1"}
    (found,) = seed_directories(Path(".")).values()
    assert other_seeds(found) == [matrix / "seed-0"]


def test_an_unfinished_seed_and_one_of_another_name_are_told(matrix: Path, capsys) -> None:
    shutil.copytree(matrix / "seed-1", matrix.parent / "seed-x")
    assert "seed-x must be called seed-N" in refusal(capsys, "evaluate", matrix.parent / "seed-x")
    (matrix / "seed-1" / "policies.safetensors").unlink()
    assert "seed-1 has no policies yet: finish it" in refusal(capsys, "train", matrix / "seed-1")
    (matrix.parent / "seed-5").mkdir()
    assert "it is not a run of `coverset generate`" in refusal(capsys, "evaluate", matrix.parent / "seed-5")


def test_train_tells_where_the_agent_of_one_seed_is(matrix: Path, capsys) -> None:
    assert run(["train", str(matrix / "seed-1"), "--learner", "plastic"]) == 0
    place = matrix / "seed-1" / "plastic"
    assert f" -> {place}\n" in capsys.readouterr().out
    assert (place / "agent.safetensors").is_file()
    edit(place / "summary.json", env_steps=None)
    words = ("train", matrix / "seed-1", "--learner", "plastic", "--resume")
    assert f"{place / 'summary.json'} is damaged: it does not hold env_steps." in refusal(capsys, *words)


@pytest.mark.parametrize("name", ["env", "env_parameters", "env_version", "method"])
def test_a_config_that_lacks_something_is_damaged(matrix: Path, capsys, name: str) -> None:
    config = matrix / "seed-0" / "config.json"
    edit(config, **{name: None})
    for command in ("train", "evaluate"):
        assert f"{config} is damaged: it does not hold {name}." in refusal(capsys, command, matrix)


def test_a_config_with_something_of_another_kind_is_damaged(matrix: Path, capsys) -> None:
    edit(matrix / "seed-0" / "config.json", env_parameters=[1])
    assert "env_parameters must be a JSON object, got [1]" in refusal(capsys, "train", matrix)
    edit(matrix / "seed-0" / "config.json", env=3)
    assert "env must be text, got 3" in refusal(capsys, "train", matrix)


def test_an_agent_keeps_to_its_seat_where_seats_differ(tmp_path: Path) -> None:
    untrained(tmp_path / "seed-0", "matrix", **ONE_SIDED)
    here, agent = read_run(tmp_path / "seed-0"), str(write_agent(tmp_path / "seed-0" / "rl2"))
    find_partner(here, agent, seat=0)
    with pytest.raises(ValueError, match="was trained for seat 0, and the seats of 'matrix' are not alike"):
        find_partner(here, agent, seat=1)
    with pytest.raises(ValueError, match="was trained for seat 0, and the seats of 'matrix' are not alike"):
        find_group(agent, PartnerGame(here.environment, here.config), seat=1)


def test_an_agent_takes_the_other_seat_where_seats_are_alike(matrix: Path) -> None:
    find_partner(read_run(matrix / "seed-0"), str(matrix / "seed-0" / "rl2"), seat=1)


def test_runs_of_an_environment_that_has_changed_since_are_refused(matrix: Path, capsys) -> None:
    words = "was made with version 7 of matrix, which is now at version 1"
    edit(matrix / "seed-1" / "config.json", env_version=7)
    assert words in refusal(capsys, "evaluate", matrix, "--seeds", "0", "--partners", matrix / "seed-1", *EVALUATE)
    assert words in refusal(capsys, "evaluate", matrix, "--seeds", "0", "--partners", "other-seeds", *EVALUATE)
    assert words in refusal(capsys, "crossplay", matrix / "seed-1", "H1")
    for command in ("train", "evaluate"):
        assert words in refusal(capsys, command, matrix / "seed-1")
    edit(matrix / "seed-0" / "rl2" / "config.json", env_version=7)
    assert words in refusal(capsys, "evaluate", matrix, "--seeds", "0", *EVALUATE)


def test_heuristics_are_met_by_their_names_and_with_their_oracles(matrix: Path, capsys) -> None:
    def met(*words: str) -> dict:
        assert run(["evaluate", str(matrix), "--seeds", "0", "--json", *EVALUATE, *words]) == 0
        return json.loads(capsys.readouterr().out)["agents"][0]

    default = met()
    assert default["partners"]["H1"]["oracle"] == 10.0
    assert met("--partners", "heuristics") == default
    some = met("--partners", "teammates", "H1")["partners"]
    assert [*some] == ["teammates 1", "teammates 2", "H1"]
    assert some["H1"] == default["partners"]["H1"]
    assert some["teammates 1"]["oracle"] is None


def test_an_unknown_learner_is_told_the_known(matrix: Path, capsys) -> None:
    sentence = refusal(capsys, "evaluate", matrix, "--learner", "rl3")
    assert "planner, liam, e3t, upd, gpl, odits, meliba or module:Class, got 'rl3'. Did you mean 'rl2'?" in sentence
    assert f"coverset train {matrix} --learner plastic" in refusal(capsys, "evaluate", matrix, "--learner", "plastic")


MISFITS = {"observations": (2, 3), "actions": (1, 4)}
"""Numbers read and actions of agents that say they are for the matrix game, which has one and three."""


@pytest.fixture(scope="module")
def misfits(tmp_path_factory) -> dict[tuple[str, str], Path]:
    """Agents of other shapes than the game they name, exported and saved."""
    root, found = tmp_path_factory.mktemp("misfits"), {}
    for wrong, (reads, chooses) in MISFITS.items():
        file = root / wrong / "agent.safetensors"
        write_untrained(file, {"env": "matrix", "env_parameters": {}}, make_spec(reads, chooses))
        found[wrong, "saved"], found[wrong, "exported"] = file, export_agent(file)
    return found


@pytest.mark.parametrize("wrong", MISFITS)
@pytest.mark.parametrize("kind", ["exported", "saved"])
@pytest.mark.parametrize("command", ["evaluate", "train", "crossplay"])
def test_agents_of_another_shape_are_refused(
    matrix: Path, misfits: dict[tuple[str, str], Path], capsys, command: str, kind: str, wrong: str
) -> None:
    agent, run_of_two = misfits[wrong, kind], matrix / "seed-0"
    words = {
        "evaluate": (run_of_two, "--partners", agent, *EVALUATE),
        "train": (run_of_two, "--partners", "teammates", agent, "--learner", "feedforward"),
        "crossplay": (agent, "H1", "--trials", "2", "--episodes", "1", "--out", matrix / "returns.png"),
    }
    before = sorted(matrix.rglob("*"))
    reads, chooses = MISFITS[wrong]
    sentence = refusal(capsys, command, *words[command])
    assert f"{agent} must read " in sentence
    assert f", got {reads} and {chooses}." in sentence
    assert sorted(matrix.rglob("*")) == before


def test_files_of_policies_are_known_by_what_is_in_them(matrix: Path) -> None:
    here = read_run(matrix / "seed-0")
    population = shutil.copy(matrix / "seed-1" / "policies.safetensors", matrix / "pop.bin")
    assert count_members(find_partner(here, str(population), seat=1)) == 2
    agent = shutil.copy(matrix / "seed-0" / "rl2" / "agent.safetensors", matrix / "policies.safetensors")
    assert count_members(find_partner(here, str(agent), seat=1)) == 1
    exported = export_agent(matrix / "seed-0" / "rl2", matrix / "other" / "policies.safetensors")
    assert count_members(find_partner(here, str(exported), seat=1)) == 1


def test_files_that_are_cut_off_or_missing_are_told(matrix: Path, misfits, capsys) -> None:
    whole = misfits["actions", "exported"].read_bytes()
    cut = matrix / "cut.zip"
    cut.write_bytes(whole[: len(whole) // 2])
    sentence = f"{cut} is damaged or not an exported agent: it does not end as a zip file."
    missing = matrix / "missing.zip"
    words = ("evaluate", matrix, "--seeds", "0", *EVALUATE, "--partners")
    assert sentence in refusal(capsys, *words, cut)
    assert sentence in refusal(capsys, "crossplay", "H1", cut)
    assert f"{missing} does not exist." in refusal(capsys, *words, missing)
    assert "missing.zip does not exist." in refusal(capsys, *words, "missing.zip")


def test_an_agent_of_another_shape_is_not_evaluated(matrix: Path, misfits: dict[tuple[str, str], Path], capsys) -> None:
    shutil.copy(misfits["actions", "saved"], matrix / "seed-0" / "rl2")
    assert "choose among 3 actions to play in seat 0, got 1 and 4" in refusal(
        capsys, "evaluate", matrix, "--seeds", "0"
    )


def test_members_are_counted_from_1_wherever_they_are_named(matrix: Path) -> None:
    here = read_run(matrix / "seed-0")
    title, policy = find_member(here.population, "best-responses", 2)
    assert title == "best response 2"
    for one, stacked in zip(jax.tree.leaves(policy), jax.tree.leaves(here.population.best_responses), strict=True):
        np.testing.assert_array_equal(one, stacked[1])
    group = find_group("teammates", PartnerGame(here.environment, here.config, here), seat=1)
    assert group.titles == ("teammate 1", "teammate 2")
    everybody = find_group(str(matrix), PartnerGame(here.environment, here.config), seat=1)
    assert everybody.titles[::3] == ("seed-0 teammate 1", "seed-1 teammate 2")
    for number in (0, 3):
        with pytest.raises(ValueError, match=f"teammate must lie between 1 and 2, got {number}"):
            find_member(here.population, "teammates", number)


def test_an_unknown_name_is_told_all_that_the_game_knows(matrix: Path) -> None:
    here = read_run(matrix / "seed-0")
    with pytest.raises(ValueError, match=r"teammates, best-responses, other-seeds, heuristics, H1, .*, a path or"):
        find_partner(here, "nobody", seat=1)
    with pytest.raises(ValueError, match=r"got 'teammate'\. Did you mean 'teammates'"):
        find_partner(here, "teammate", seat=1)
    with pytest.raises(ValueError, match=r"A policy must be heuristics, H1, .*, got 'teammates'"):
        find_group("teammates", PartnerGame(here.environment, here.config), seat=1)
