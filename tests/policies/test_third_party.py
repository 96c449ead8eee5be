"""Third-party agents as partners, wherever partners are named."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
import toy_run
from coverset import Policy
from coverset.cli.main import run as command
from coverset.envs.extensions import heuristics
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.cross_play import cross_play
from coverset.partners import find_partners, read_run
from coverset.policies.stacked import count_members, stack
from coverset.policies.third_party import load_third_party
from coverset.types import Percept

GAME = MatrixGame()
"""Payoffs of action 1 with actions 1, 2 and 3 are 10, 0 and 4."""
SMALL = {"hidden_sizes": (4,), "memory_size": 4, "minibatches": 1, "epochs": 1, "evaluations": 0}
BRIEF = {"total_steps": 64, "chunk_steps": 64, "envs_per_partner": 2, "rollout_length": 4}


class Straying(Policy):
    """An action that there is at the start, none once something was earned."""

    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return jnp.where(percept.reward > 0, 9, 0), memory


def endless():
    return endless


def of_any(*arguments):
    return 0


def in_an_array(observation, reward, done):
    return np.array([1])


def in_an_array_of_jax(observation, reward, done):
    return jnp.array([[2]])


def of_two_elements(observation, reward, done):
    return np.array([1, 1])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run")
    coverset.generate("matrix", out=out, seeds=(0, 1, 2), **toy_run.SETTINGS)
    return out


def actions(loaded, percepts) -> list[int]:
    """What the one member of a stack does, step by step."""
    (policy,) = [jax.tree.map(lambda x: x[0], loaded)]
    chosen, memory = [], policy.initial_memory()
    for percept in percepts:
        action, memory = policy.act(jax.random.key(0), percept, memory)
        chosen.append(int(action))
    return chosen


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("third_party_agents:Counting", [0, 1, 2, 0]),
        ("third_party_agents:Fixed", [0, 0, 0, 0]),
        ("third_party_agents:second", [1, 1, 1, 1]),
        ("third_party_agents:made", [2, 2, 2, 2]),
        ("third_party_agents:made_for", [2, 2, 2, 2]),
        ("third_party_agents:plain", [1, 0, 0, 1]),
        ("third_party_agents:make_plain", [1, 0, 0, 1]),
        ("third_party_agents:Object", [1, 1, 1, 1]),
        (f"{__name__}:in_an_array", [1, 1, 1, 1]),
        (f"{__name__}:in_an_array_of_jax", [2, 2, 2, 2]),
    ],
)
def test_third_party_agents_do_what_they_were_written_to_do(name: str, chosen: list[int]) -> None:
    loaded = load_third_party(name, GAME, seat=1)
    assert count_members(loaded) == 1
    heard = [(0.0, True), (0.0, False), (6.0, True), (4.0, True)]
    percepts = [Percept(jnp.ones(1), jnp.float32(reward), jnp.bool_(first)) for reward, first in heard]
    assert actions(loaded, percepts) == chosen


def test_a_plain_function_hears_the_reward_and_where_an_episode_starts() -> None:
    """It plays action 2 first and action 1 next; the 0 that this earns is all it hears when an episode starts."""
    second_action = stack([heuristics(GAME)["H2"]])
    loaded = load_third_party("third_party_agents:plain", GAME, seat=1)
    played = cross_play(jax.random.key(0), MatrixGame(horizon=2), second_action, loaded, trials=2, episodes=2)
    np.testing.assert_array_equal(played.returns[0, 0], [[6 + 0, 6 + 0]] * 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("third_party_agents:too_far", r"'third_party_agents:too_far' must choose an action from 0 to 2, got 3"),
        ("third_party_agents:not_a_number", "must choose an action from 0 to 2, got 'left'"),
        ("third_party_agents:of_two", "got a function of 2 parameters"),
        ("third_party_agents:Wrong", "'third_party_agents:Wrong' does not fit the environment"),
        ("third_party_agents:nothing", "got int"),
        ("third_party_agents:nobody", "partner 'third_party_agents:nobody' must name an importable module:function"),
        ("third_party_agents:raises", r"partner 'third_party_agents:raises' failed: KeyError: 'left'\.$"),
        (
            "third_party_agents:maker_raises",
            r"partner 'third_party_agents:maker_raises' cannot be made: KeyError: 'agent'\.$",
        ),
        ("builtins:min", "partner 'builtins:min' must have a signature"),
        (
            "third_party_agents:Memoryless",
            "'third_party_agents:Memoryless' does not fit the environment: RuntimeError: no memory",
        ),
        ("third_party_agents:Branching", "'third_party_agents:Branching' does not fit the environment: TracerBool"),
        (
            "third_party_agents:Growing",
            r"'third_party_agents:Growing' .*, float32\[1\] at \['seen'\], got float32\[2\]\.$",
        ),
        (f"{__name__}:endless", r"endless' must name a Policy, .* got makers nested more than 8 deep\.$"),
        (f"{__name__}:of_any", r"of_any' must name its parameters, as \(obs.*, done\), got \*arguments\.$"),
        (f"{__name__}:of_two_elements", r"must choose an action from 0 to 2, got array\(\[1, 1\]\)\.$"),
        ("third_party_agents:Turning", r"'third_party_agents:Turning' must hand on .*, int32\[\], got float32\[\]\.$"),
    ],
)
def test_what_is_no_agent_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as failure:
        load_third_party(name, GAME, seat=1)
    assert "\n" not in str(failure.value)


@pytest.mark.slow
def test_agents_train_and_are_evaluated_with_third_party_agents(run: Path) -> None:
    partners = ("third_party_agents:plain", "third_party_agents:Counting", "teammates", "H1")
    summaries = coverset.train(run, partners=partners, seeds=(0, 1), parallel_seeds=2, **SMALL, **BRIEF)
    assert summaries[0]["partners"] == list(partners)
    records = coverset.evaluate(run, seeds=(0,), partners=("third_party_agents:second", "H2"), trials=64, episodes=3)
    means = {name: partner["mean_return"] for name, partner in records[0]["partners"].items()}
    error = sum(partner["standard_error"] ** 2 for partner in records[0]["partners"].values()) ** 0.5
    assert means["third_party_agents:second"] == pytest.approx(means["H2"], abs=5 * error), "both always play action 2"


@pytest.mark.parametrize(
    ("partner", "fault"),
    [
        ("third_party_agents:fails_later", "must choose an action from 0 to 2, got 9."),
        (f"{__name__}:Straying", "must choose an action from 0 to 2, got 9."),
        ("third_party_agents:raises_later", r"failed: KeyError: 'corner\nsecond line'."),
    ],
)
def test_a_third_party_agent_that_fails_while_playing_is_named(run: Path, capsys, partner: str, fault: str) -> None:
    words = ["crossplay", str(run / "seed-0"), partner, "--trials", "2", "--episodes", "40"]
    assert command(words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"coverset: partner '{partner}' {fault}"


def test_training_with_a_policy_that_strays_is_refused(run: Path, capsys) -> None:
    partner = f"{__name__}:Straying"
    words = ["--partners", partner, "teammates", "--total-steps", "64", "--chunk-steps", "64", "--evaluations", "0"]
    assert command(["train", str(run / "seed-0"), "--learner", "feedforward", *words]) == 2
    sentence = f"coverset: partner '{partner}' must choose an action from 0 to 2, got 9."
    assert capsys.readouterr().err.splitlines()[-1] == sentence


def test_other_seeds_and_whole_runs_are_partners(run: Path) -> None:
    seed = read_run(run / "seed-1")
    pool = find_partners(seed, ("other-seeds", str(run)), seat=1)
    assert pool.sizes == (4, 6)
    wanted = [read_run(run / f"seed-{number}").population.teammates.network.weights[0] for number in (0, 2)]
    np.testing.assert_array_equal(pool.kinds[0].network.weights[0], np.concatenate(wanted))  # pyright: ignore


def test_names_that_are_no_partner_are_told_what_there_is(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"teammates, best-responses, other-seeds, heuristics, H1, .* got 'nobody'"):
        find_partners(read_run(run / "seed-0"), ("nobody",), seat=1)
    shutil.copytree(run / "seed-0", tmp_path / "seed-0")
    with pytest.raises(ValueError, match=r"teammates, best-responses, heuristics, H1, .* got 'other-seeds'"):
        find_partners(read_run(tmp_path / "seed-0"), ("other-seeds",), seat=1)
