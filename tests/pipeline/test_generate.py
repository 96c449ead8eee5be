"""Generation from end to end at toy size: what a run leaves behind, and that nothing but its seed decides it."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import coverset
import toy_run
from coverset.pipeline.generate import make_plan
from coverset.pipeline.loop import Clock, Stopped
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import load_tensors
from coverset.settings import GenerateSettings, build_checked
from coverset.teammates.method import Method, Seen, World
from coverset.types import PairMatrix, PRNGKey
from toy_run import CHUNKS, Witness, outcome

STEPS_PER_CHUNK = 80
PROMISED = (
    "env", "method", "preset", "seed", "population_size", "env_steps", "train_seconds", "steps_per_second",
    "cross_play", "conventions", "coverage_found", "coverage_size", "constraints_satisfied",
)  # fmt: skip


def generate(out: Path, **changes):
    """The toy run, with a checkpoint at its end alone unless a test wants more."""
    return coverset.generate("matrix", out=out, **{"checkpoint_seconds": 1e9, **toy_run.SETTINGS, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, list[dict]]:
    """Two seeds, given out of order, that nobody interrupted."""
    out = tmp_path_factory.mktemp("whole")
    return out, generate(out, seeds=(3, 1))


@pytest.fixture(scope="module")
def rows(finished) -> list[dict]:
    return [json.loads(line) for line in (finished[0] / "seed-1" / "metrics.jsonl").read_text().splitlines()]


def test_summaries_come_in_the_order_of_the_seeds_and_are_those_on_disk(finished) -> None:
    out, summaries = finished
    assert [summary["seed"] for summary in summaries] == [3, 1]
    for summary in summaries:
        assert json.loads((out / f"seed-{summary['seed']}" / "summary.json").read_text()) == summary


def test_a_summary_holds_what_the_design_promises_and_agrees_with_itself(finished) -> None:
    for summary in finished[1]:
        assert set(PROMISED) <= set(summary)
        assert (summary["env"], summary["method"], summary["preset"]) == ("matrix", "lbrdiv", "fast")
        assert summary["env_steps"] == CHUNKS * STEPS_PER_CHUNK
        assert summary["steps_per_second"] == pytest.approx(summary["env_steps"] / summary["train_seconds"], rel=0.05)
        for name in ("cross_play", "cross_play_standard_error", "cross_play_seats_swapped", "discounted_cross_play"):
            assert np.shape(summary[name]) == (2, 2)
        assert len(summary["conventions"]) == len(summary["covers"]) == summary["population_size"] == 2
        assert summary["coverage_found"] == len(set(summary["covers"]) - {None})
        assert summary["coverage_size"] == 3
        returns = np.array(summary["discounted_cross_play"])
        for i, j in ((0, 1), (1, 0)):
            gaps = (summary["gaps"][name][i][j] for name in ("other_best_response", "other_teammate"))
            wanted = returns[i, i] - np.array([returns[j, i], returns[i, j]]) - summary["margin"]
            np.testing.assert_allclose(list(gaps), wanted, atol=1e-4)
        all_gaps = np.array([summary["gaps"][name] for name in summary["gaps"]], float)
        assert summary["constraints_violated"] == np.sum(all_gaps < 0)
        assert summary["constraints_satisfied"] == (summary["constraints_violated"] == 0)


def test_seats_swapped_is_an_independent_measurement_of_the_same_returns(finished) -> None:
    for summary in finished[1]:
        difference = np.abs(np.subtract(summary["cross_play"], summary["cross_play_seats_swapped"]))
        assert np.all(difference < 6 * np.array(summary["cross_play_standard_error"]) + 1e-6)


def test_the_log_has_a_row_per_chunk(rows) -> None:
    assert [row["chunk"] for row in rows] == list(range(1, CHUNKS + 1))
    assert [row["env_steps"] for row in rows] == [STEPS_PER_CHUNK * n for n in range(1, CHUNKS + 1)]
    assert [row["update"] for row in rows] == [5 * n for n in range(1, CHUNKS + 1)]


def test_a_row_agrees_with_itself(rows) -> None:
    for row in rows:
        returns, values = np.array(row["pair_returns"]), np.array(row["pair_values"])
        assert row["self_play_return"] == pytest.approx(np.mean(np.diagonal(returns)), rel=1e-4)
        assert row["cross_play_return"] == pytest.approx((returns[0, 1] + returns[1, 0]) / 2, rel=1e-4)
        assert row["gaps"]["other_best_response"][0][1] == pytest.approx(values[0, 0] - values[1, 0] - 1.0, abs=1e-4)
        assert row["gaps"]["other_teammate"][0][1] == pytest.approx(values[0, 0] - values[0, 1] - 1.0, abs=1e-4)
        assert np.min(list(row["method"]["multipliers"].values())) >= 0
        assert np.shape(row["entropy"]["teammates"]) == (2,)
        assert not {"seconds", "time", "train_seconds"} & set(row)
    assert np.max(rows[-1]["method"]["multipliers"]["other_teammate"]) > 0


def test_the_config_is_enough_to_run_it_again(finished, tmp_path: Path) -> None:
    config = json.loads((finished[0] / "seed-1" / "config.json").read_text())
    own = config["method_settings"]
    own["max_multiplier"] = float(own["max_multiplier"])
    plan = make_plan(
        config["env"], method=config["method"], preset=config["preset"], env_parameters=config["env_parameters"],
        settings=build_checked(GenerateSettings, config["settings"]), **own,
    )  # fmt: skip
    RunDirectory(finished[0] / "seed-1").check_claim(plan.config(1), resume=True)
    assert {"jax", "jaxlib", "coverset"} <= set(config["versions"])


def test_policies_are_those_of_the_last_checkpoint(finished) -> None:
    population, metadata = coverset.load_population(finished[0] / "seed-3" / "policies.safetensors")
    assert (metadata["env"], metadata["seed"]) == ("matrix", 3)
    newest = finished[0] / "seed-3" / "checkpoints" / f"{CHUNKS:08d}.safetensors"
    tensors, _ = load_tensors(newest)
    for role, policies in population._asdict().items():
        wanted = tensors[f".optimised.networks.{role}.weights[0]"]
        np.testing.assert_array_equal(policies.network.weights[0], wanted)


def test_the_same_seed_gives_the_same_bytes_whatever_else_runs(finished, tmp_path: Path) -> None:
    generate(tmp_path, seeds=(1,))
    assert outcome(tmp_path / "seed-1") == outcome(finished[0] / "seed-1")
    assert outcome(tmp_path / "seed-1") != outcome(finished[0] / "seed-3")


def test_a_stopped_run_goes_on_where_it_was_and_ends_with_the_same_bytes(finished, tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="Stopped after 400 steps"):
        generate(tmp_path, seeds=(3, 1), reporter=Witness(stop_after=5))
    assert (tmp_path / "seed-1" / "config.json").is_file()
    witness = Witness()
    generate(tmp_path, seeds=(3, 1), resume=True, reporter=witness)
    assert witness.started == [((3,), 5 * STEPS_PER_CHUNK), ((1,), 0)]
    assert witness.warnings == []
    for seed in (1, 3):
        assert outcome(tmp_path / f"seed-{seed}") == outcome(finished[0] / f"seed-{seed}")


@pytest.mark.parametrize("damaged", [1, 3])
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damaged_checkpoints_are_named_and_passed_over(finished, tmp_path: Path, damage: str, damaged: int) -> None:
    """The newest of three, or all of them: then the run starts over."""
    with pytest.raises(Stopped):
        generate(tmp_path, seeds=(1,), reporter=Witness(stop_after=5), checkpoint_seconds=0)
    checkpoints = sorted((tmp_path / "seed-1" / "checkpoints").iterdir())
    assert [int(path.stem) for path in checkpoints] == [3, 4, 5]
    for path in checkpoints[-damaged:]:
        whole = bytearray(path.read_bytes())
        whole[-5] ^= 16
        path.write_bytes(whole if damage == "flip" else whole[:-5])
    witness = Witness()
    generate(tmp_path, seeds=(1,), resume=True, reporter=witness)
    assert witness.started == [((1,), 4 * STEPS_PER_CHUNK if damaged == 1 else 0)]
    assert len(witness.warnings) == damaged
    for path, warning in zip(checkpoints[-damaged:], witness.warnings, strict=True):
        assert path.name in warning
    assert outcome(tmp_path / "seed-1") == outcome(finished[0] / "seed-1")


@pytest.mark.parametrize(("lost", "goes_on_from"), [(2, CHUNKS - 2), (9, 0)])
def test_a_log_that_lost_rows_goes_on_from_the_newest_checkpoint_that_fits(
    finished, tmp_path: Path, lost: int, goes_on_from: int
) -> None:
    """Also at the end of a run, where nothing would be left to train. The last of the rows that are left is torn."""
    generate(tmp_path, seeds=(1,), checkpoint_seconds=0)
    run = tmp_path / "seed-1"
    (run / "summary.json").unlink()
    rows = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join(rows[:-lost]) + rows[-lost][:9])
    witness = Witness()
    generate(tmp_path, seeds=(1,), resume=True, reporter=witness)
    assert witness.started == [((1,), goes_on_from * STEPS_PER_CHUNK)]
    assert len(witness.warnings) == min(lost, 3)
    wanted = f"metrics.jsonl holds {CHUNKS - lost} of the {CHUNKS} rows that were logged by the checkpoint of chunk"
    assert wanted in witness.warnings[0]
    assert outcome(run) == outcome(finished[0] / "seed-1")


def test_seeds_that_train_together_go_on_from_their_newest_common_checkpoint(tmp_path: Path) -> None:
    chosen = {"seeds": (3, 1), "parallel_seeds": 2}
    generate(tmp_path / "whole", **chosen)
    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        generate(stopped, **chosen, reporter=Witness(stop_after=5), checkpoint_seconds=0)
    (stopped / "seed-1" / "checkpoints" / "00000005.safetensors").write_bytes(b"")
    witness = Witness()
    generate(stopped, **chosen, resume=True, reporter=witness)
    assert witness.started == [((3, 1), 4 * STEPS_PER_CHUNK)]
    assert len(witness.warnings) == 1
    for seed in (1, 3):
        assert outcome(stopped / f"seed-{seed}") == outcome(tmp_path / "whole" / f"seed-{seed}")


def test_seeds_whose_constraints_hold_end_while_others_go_on(tmp_path: Path) -> None:
    """Stopped when one has ended and others have not, and resumed. The game is easy and the constraints are too."""
    chosen = {
        "seeds": range(4),
        "parallel_seeds": 4,
        "margin": 0.0,
        "stop_patience": 3,
        "learning_rate": 0.03,
        "critic_learning_rate": 0.03,
        "env_parameters": {"payoffs": [[1.0, 0.0], [0.0, 1.0]]},
    }
    summaries = generate(tmp_path / "whole", **chosen)
    ends = [summary["env_steps"] // STEPS_PER_CHUNK for summary in summaries]
    assert len(set(ends)) > 1
    assert min(ends) < CHUNKS
    for seed, end in enumerate(ends):
        rows = RunDirectory(tmp_path / "whole" / f"seed-{seed}").rows()
        assert [row["chunk"] for row in rows] == list(range(1, end + 1))
    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        generate(stopped, **chosen, reporter=Witness(stop_after=min(ends) + 1))
    lost = tmp_path / "lost"
    shutil.copytree(stopped, lost)
    first = RunDirectory(lost / f"seed-{ends.index(min(ends))}")
    assert len(first.rows()) == min(ends)
    first.metrics_path.write_bytes(first.metrics_path.read_bytes()[:-1])
    for out, warnings in ((stopped, []), (lost, [f"holds {min(ends) - 1} of the {min(ends)} rows"])):
        witness = Witness()
        generate(out, **chosen, resume=True, reporter=witness)
        assert len(witness.warnings) == len(warnings)
        assert all(words in sentence for words, sentence in zip(warnings, witness.warnings, strict=True))
        for seed in chosen["seeds"]:
            assert outcome(out / f"seed-{seed}") == outcome(tmp_path / "whole" / f"seed-{seed}")


def test_finished_runs_are_skipped_and_their_files_left_alone(finished) -> None:
    out, summaries = finished
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.rglob("*") if path.is_file()}
    witness = Witness()
    assert generate(out, seeds=(1, 3), resume=True, reporter=witness) == summaries[::-1]
    assert witness.started == []
    assert before == {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.rglob("*") if path.is_file()}


def test_seeds_may_be_added_to_a_run(tmp_path: Path) -> None:
    """Also with what else a directory may hold: agents, reports, another version's runs."""
    generate(tmp_path, seeds=(1,))
    path = tmp_path / "seed-1" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "versions": {"jax": "0.1"}}))
    for other in ("seed-1/rl2", "report", "seed-one"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "config.json").write_text('{"env": "reaching"}')
    generate(tmp_path, seeds=(3,))
    assert [summary["seed"] for summary in generate(tmp_path, seeds=(3, 1), resume=True)] == [3, 1]


def test_a_run_killed_after_training_only_finishes(finished, tmp_path: Path) -> None:
    generate(tmp_path, seeds=(1,))
    (tmp_path / "seed-1" / "summary.json").unlink()
    (tmp_path / "seed-1" / "policies.safetensors").unlink()
    witness = Witness()
    generate(tmp_path, seeds=(1,), resume=True, reporter=witness)
    assert (witness.started, witness.chunks) == ([((1,), CHUNKS * STEPS_PER_CHUNK)], 0)
    assert outcome(tmp_path / "seed-1") == outcome(finished[0] / "seed-1")


@pytest.mark.parametrize("content", ["", "[]", '{"train_seconds": "long"}'])
def test_a_damaged_clock_stops_no_run(tmp_path: Path, content: str) -> None:
    (tmp_path / "timing.json").write_text(content)
    (tmp_path / "whole.json").write_text('{"train_seconds": 7.5}')
    warnings: list[str] = []
    paths = [tmp_path / "timing.json", tmp_path / "none.json"]
    assert Clock(paths, 1.0, warnings.append).noted == 0.0
    assert warnings == [f"{paths[0]} is damaged: it must hold train_seconds, a number. Its time is counted from 0."]
    assert Clock([*paths, tmp_path / "whole.json"], 1.0, warnings.append).noted == 7.5


def test_a_group_killed_while_its_seeds_are_finished_is_the_same_group_again(tmp_path: Path) -> None:
    """One of four seeds had its summary; no other seed may take its place, and the time that training took is known."""
    chosen = {"seeds": range(4), "parallel_seeds": 2}
    generate(tmp_path, **chosen)
    bytes_before = {seed: outcome(tmp_path / f"seed-{seed}") for seed in range(4)}
    (tmp_path / "seed-1" / "summary.json").unlink()
    seconds = json.loads((tmp_path / "seed-1" / "timing.json").read_text())["train_seconds"]
    for seed in (2, 3):
        for name in ("summary.json", "policies.safetensors", "metrics.jsonl", "timing.json"):
            (tmp_path / f"seed-{seed}" / name).unlink()
        shutil.rmtree(tmp_path / f"seed-{seed}" / "checkpoints")
    witness = Witness()
    summaries = generate(tmp_path, **chosen, resume=True, reporter=witness)
    assert witness.started == [((1,), CHUNKS * STEPS_PER_CHUNK), ((2, 3), 0)]
    assert summaries[1]["train_seconds"] == round(seconds, 3), "as long as it was waited for"
    speed = 2 * summaries[1]["env_steps"] / seconds
    assert summaries[1]["steps_per_second"] == pytest.approx(speed, abs=1), "both seeds' steps"
    for seed in range(4):
        assert outcome(tmp_path / f"seed-{seed}") == bytes_before[seed]


def test_a_run_is_not_resumed_in_another_group(tmp_path: Path) -> None:
    """Its bytes would be others. The sentence names the seeds; in any order they are the same group."""
    chosen = {"parallel_seeds": 2}
    generate(tmp_path / "whole", **chosen, seeds=(3, 1))
    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        generate(stopped, **chosen, seeds=(3, 1), reporter=Witness(stop_after=2))
    for seed in (1, 3):
        assert json.loads((stopped / f"seed-{seed}" / "config.json").read_text())["trained_with"] == [3, 1]
    with pytest.raises(ValueError, match=r"seed-1 trains in one program .* resume it with `seeds=\[3, 1\]`\."):
        generate(stopped, **chosen, seeds=(1, 2), resume=True)
    assert not (stopped / "seed-2").exists()
    witness = Witness()
    generate(stopped, **chosen, seeds=(0, 1, 3), resume=True, reporter=witness)
    assert witness.started == [((0,), 0), ((3, 1), 2 * STEPS_PER_CHUNK)]
    for seed in (1, 3):
        assert outcome(stopped / f"seed-{seed}") == outcome(tmp_path / "whole" / f"seed-{seed}")
    assert generate(stopped, **chosen, seeds=(1,), resume=True)[0]["seed"] == 1


def test_a_run_that_another_process_trains_is_left_to_it(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        generate(tmp_path, reporter=Witness(stop_after=1))
    rows = RunDirectory(tmp_path / "seed-0").rows()
    with (
        RunDirectory(tmp_path / "seed-0").hold_lock(),
        pytest.raises(ValueError, match="seed-0 is in use by another process"),
    ):
        generate(tmp_path, resume=True)
    assert RunDirectory(tmp_path / "seed-0").rows() == rows


def test_who_goes_on_under_other_versions_is_told(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        generate(tmp_path, reporter=Witness(stop_after=1))
    path = tmp_path / "seed-0" / "config.json"
    config = json.loads(path.read_text())
    config["versions"] |= {"jax": "0.1", "threads": "64"}
    path.write_text(json.dumps(config))
    witness = Witness()
    generate(tmp_path, resume=True, reporter=witness)
    assert len(witness.warnings) == 1
    assert "seed-0 was begun with jax 0.1 instead of" in witness.warnings[0]
    assert "threads 64 instead of" in witness.warnings[0]


def test_settings_of_another_type_are_named_and_lists_pass_for_tuples() -> None:
    """In a process of its own: here, types are enforced by other means."""
    program = """if True:
        from coverset.settings import GenerateSettings, build_checked, TrainSettings
        for change in ({"total_steps": 1e6}, {"learning_rate": "fast"}, {"hidden_sizes": 64}, {"anneal": 1}):
            for settings in (GenerateSettings, TrainSettings):
                needed = {"population_size": 2} if settings is GenerateSettings else {}
                try:
                    settings(**{"total_steps": 1, **needed, **change})
                except ValueError as error:
                    print(error)
        print(GenerateSettings(population_size=2, total_steps=1, hidden_sizes=[8, 8]).hidden_sizes)
    """
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    wanted = ("total_steps must be a whole number", "learning_rate must be a number", "hidden_sizes must be a list of")
    sentences = printed.splitlines()
    assert len(sentences) == 9
    for two, beginning in enumerate((*wanted, "anneal must be true or false")):
        assert all(sentence.startswith(beginning) for sentence in sentences[2 * two : 2 * two + 2])
    assert sentences[-1] == "(8, 8)"


@dataclass(frozen=True)
class Counting(Method):
    """A method that remembers how often it was updated, and nothing about constraints."""

    def init(self, key: PRNGKey, world: World) -> dict:
        return {"times": jnp.zeros(())}

    def weights(self, state: dict) -> PairMatrix:
        return jnp.eye(2) + 0.0 * state["times"]

    def update(self, state: dict, seen: Seen) -> dict:
        return {"times": state["times"] + 1.0}


def test_a_method_may_remember_what_it_likes(tmp_path: Path) -> None:
    generate(tmp_path, method=Counting())
    assert [row["method"] for row in RunDirectory(tmp_path / "seed-0").rows()] == [{}] * CHUNKS
    assert (tmp_path / "seed-0" / "figures" / "training.png").is_file()


def test_nothing_is_left_behind_but_what_a_run_is_made_of(finished) -> None:
    found = {str(path.relative_to(finished[0] / "seed-1")) for path in (finished[0] / "seed-1").rglob("*.*")}
    assert found == {
        "config.json", "metrics.jsonl", "policies.safetensors", "summary.json", "timing.json",
        "figures/cross-play.png", "figures/training.png", f"checkpoints/{CHUNKS:08d}.safetensors",
    }  # fmt: skip


def test_lbrdiv_finds_all_three_conventions_of_the_papers_matrix_game(tmp_path: Path) -> None:
    """The fast preset, cut to 300,000 of its 500,000 steps; stopped once on the way.

    Arithmetic differs between machines, and so does the moment at which a seed gets there: the slowest known takes
    175,000 steps.
    """
    chosen = {"seeds": range(4), "parallel_seeds": 4, "total_steps": 300_000, "out": tmp_path}
    with pytest.raises(Stopped):
        coverset.generate("matrix", reporter=Witness(stop_after=2), **chosen)
    summaries = coverset.generate("matrix", resume=True, **chosen)
    for summary in summaries:
        assert sorted(summary["covers"]) == ["action 1", "action 2", "action 3"]
        assert summary["coverage_found"] == summary["coverage_size"] == 3
        assert summary["constraints_satisfied"]
        np.testing.assert_allclose(sorted(np.diagonal(summary["cross_play"])), [6, 6, 10], atol=1.0)
        last = (tmp_path / f"seed-{summary['seed']}" / "metrics.jsonl").read_text().splitlines()[-1]
        assert np.max(list(json.loads(last)["method"]["multipliers"].values())) < 0.1


def test_a_run_of_three_players_with_rewards_of_their_own_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    table = np.arange(8.0).reshape(2, 2, 2)
    payoffs = [table.tolist(), (-table).tolist(), (table % 3).tolist()]
    chosen = {"seeds": (1,), "team_networks": "separate", "env_parameters": {"payoffs": payoffs, "by_player": True}}
    generate(tmp_path / "whole", **chosen)
    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        generate(stopped, **chosen, reporter=Witness(stop_after=5))
    generate(stopped, **chosen, resume=True)
    assert outcome(stopped / "seed-1") == outcome(tmp_path / "whole" / "seed-1")
    generate(tmp_path / "shared", **{**chosen, "team_networks": "shared"})
    assert outcome(tmp_path / "shared" / "seed-1") != outcome(tmp_path / "whole" / "seed-1")


@pytest.mark.parametrize("networks", ["shared", pytest.param("separate", marks=pytest.mark.slow)])
def test_a_run_with_mixed_teams_is_resumed_to_the_same_bytes_and_reports_their_multipliers(
    tmp_path: Path, networks: str
) -> None:
    payoffs = np.arange(8.0).reshape(2, 2, 2).tolist()
    chosen = {
        "seeds": (1,), "team_networks": networks, "env_parameters": {"payoffs": payoffs}, "margin": 1.0,
        "envs_per_mixed_team": 1,
    }  # fmt: skip
    (summary,) = generate(tmp_path / "whole", **chosen)
    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        generate(stopped, **chosen, reporter=Witness(stop_after=5))
    generate(stopped, **chosen, resume=True)
    assert outcome(stopped / "seed-1") == outcome(tmp_path / "whole" / "seed-1")
    rows = [json.loads(line) for line in (stopped / "seed-1" / "metrics.jsonl").read_text().splitlines()]
    reported = rows[-1]["method"]["mixed_team_multipliers"]
    np.testing.assert_allclose(reported, summary["mixed_team_multipliers"], rtol=1e-4, atol=1e-5)
    assert np.max(reported) > 0.0
    assert np.shape(summary["mixed_team_multipliers"]) == (2, 2, 2)
    gaps = np.array(rows[-1]["mixed_teams"]["gaps"], float)
    values, own = np.array(rows[-1]["mixed_teams"]["values"], float), np.diagonal(rows[-1]["pair_values"])
    np.testing.assert_allclose(gaps, own[None, :, None] - values - 1.0, atol=1e-4)
    measured = summary["mixed_teams"]
    own = np.diagonal(summary["discounted_cross_play"])
    wanted = own[None, :, None] - np.array(measured["discounted_returns"], float) - 1.0
    np.testing.assert_allclose(np.array(measured["gaps"], float), wanted, atol=1e-4)
    assert measured["constraints_violated"] == np.sum(wanted < 0)
    assert set(rows[-1]["method"]["multipliers"]) == {"other_best_response", "other_teammate"}


def test_mixed_teams_need_three_players() -> None:
    with pytest.raises(ValueError, match=r"^envs_per_mixed_team must be 0 in games of two players, where"):
        make_plan("matrix", envs_per_mixed_team=1)
