"""Somebody else's agent as a partner, wherever partners are named."""

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
from coverset.policies.guests import load_guest
from coverset.policies.stacked import count_members, stack
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


def actions(guest, percepts) -> list[int]:
    """What the one member of a stack does, step by step."""
    (policy,) = [jax.tree.map(lambda x: x[0], guest)]
    chosen, memory = [], policy.initial_memory()
    for percept in percepts:
        action, memory = policy.act(jax.random.key(0), percept, memory)
        chosen.append(int(action))
    return chosen


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("guest_agents:Counting", [0, 1, 2, 0]),
        ("guest_agents:Fixed", [0, 0, 0, 0]),
        ("guest_agents:second", [1, 1, 1, 1]),
        ("guest_agents:made", [2, 2, 2, 2]),
        ("guest_agents:made_for", [2, 2, 2, 2]),
        ("guest_agents:plain", [1, 0, 0, 1]),
        ("guest_agents:make_plain", [1, 0, 0, 1]),
        ("guest_agents:Object", [1, 1, 1, 1]),
        (f"{__name__}:in_an_array", [1, 1, 1, 1]),
        (f"{__name__}:in_an_array_of_jax", [2, 2, 2, 2]),
    ],
)
def test_guests_do_what_they_were_written_to_do(name: str, chosen: list[int]) -> None:
    guest = load_guest(name, GAME, seat=1)
    assert count_members(guest) == 1
    heard = [(0.0, True), (0.0, False), (6.0, True), (4.0, True)]
    percepts = [Percept(jnp.ones(1), jnp.float32(reward), jnp.bool_(first)) for reward, first in heard]
    assert actions(guest, percepts) == chosen


def test_a_plain_function_hears_the_reward_and_where_an_episode_starts() -> None:
    """It plays action 2 first and action 1 next; the 0 that this earns is all it hears when an episode starts."""
    second_action = stack([heuristics(GAME)["H2"]])
    guest = load_guest("guest_agents:plain", GAME, seat=1)
    played = cross_play(jax.random.key(0), MatrixGame(horizon=2), second_action, guest, trials=2, episodes=2)
    np.testing.assert_array_equal(played.returns[0, 0], [[6 + 0, 6 + 0]] * 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("guest_agents:too_far", r"'guest_agents:too_far' must choose an action from 0 to 2, got 3"),
        ("guest_agents:not_a_number", "must choose an action from 0 to 2, got 'left'"),
        ("guest_agents:of_two", "got a function of 2 parameters"),
        ("guest_agents:Wrong", "'guest_agents:Wrong' does not fit the environment"),
        ("guest_agents:nothing", "got int"),
        ("guest_agents:nobody", "partner 'guest_agents:nobody' must name an importable module:function"),
        ("guest_agents:raises", r"partner 'guest_agents:raises' failed: KeyError: 'left'\.$"),
        ("guest_agents:maker_raises", r"partner 'guest_agents:maker_raises' cannot be made: KeyError: 'agent'\.$"),
        ("builtins:min", "partner 'builtins:min' does not tell its parameters"),
        ("guest_agents:Memoryless", "'guest_agents:Memoryless' does not fit the environment: RuntimeError: no memory"),
        ("guest_agents:Branching", "'guest_agents:Branching' does not fit the environment: TracerBool"),
        ("guest_agents:Growing", r"'guest_agents:Growing' .*, float32\[1\] at \['seen'\], got float32\[2\]\.$"),
        (f"{__name__}:endless", r"endless' must name a Policy, .* got makers of makers, more than 8 deep\.$"),
        (f"{__name__}:of_any", r"of_any' must write its parameters out, as \(obs.*, done\), got \*arguments\.$"),
        (f"{__name__}:of_two_elements", r"must choose an action from 0 to 2, got array\(\[1, 1\]\)\.$"),
        ("guest_agents:Turning", r"'guest_agents:Turning' must hand on .*, int32\[\], got float32\[\]\.$"),
    ],
)
def test_what_is_no_agent_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as failure:
        load_guest(name, GAME, seat=1)
    assert "\n" not in str(failure.value)


@pytest.mark.slow
def test_agents_train_and_are_evaluated_with_guests(run: Path) -> None:
    partners = ("guest_agents:plain", "guest_agents:Counting", "teammates", "H1")
    summaries = coverset.train(run, partners=partners, seeds=(0, 1), parallel_seeds=2, **SMALL, **BRIEF)
    assert summaries[0]["partners"] == list(partners)
    records = coverset.evaluate(run, seeds=(0,), partners=("guest_agents:second", "H2"), trials=64, episodes=3)
    means = {name: partner["mean_return"] for name, partner in records[0]["partners"].items()}
    error = sum(partner["standard_error"] ** 2 for partner in records[0]["partners"].values()) ** 0.5
    assert means["guest_agents:second"] == pytest.approx(means["H2"], abs=5 * error), "both always play action 2"


@pytest.mark.parametrize(
    ("partner", "fault"),
    [
        ("guest_agents:fails_later", "must choose an action from 0 to 2, got 9."),
        (f"{__name__}:Straying", "must choose an action from 0 to 2, got 9."),
        ("guest_agents:raises_later", r"failed: KeyError: 'corner\nsecond line'."),
    ],
)
def test_a_guest_that_fails_while_playing_is_named(run: Path, capsys, partner: str, fault: str) -> None:
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
    wanted = [read_run(run / f"seed-{number}").population.teammates.mlp.weights[0] for number in (0, 2)]
    np.testing.assert_array_equal(pool.kinds[0].mlp.weights[0], np.concatenate(wanted))  # pyright: ignore


def test_names_that_are_no_partner_are_told_what_there_is(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"teammates, best-responses, other-seeds, heuristics, H1, .* got 'nobody'"):
        find_partners(read_run(run / "seed-0"), ("nobody",), seat=1)
    shutil.copytree(run / "seed-0", tmp_path / "seed-0")
    with pytest.raises(ValueError, match=r"teammates, best-responses, heuristics, H1, .* got 'other-seeds'"):
        find_partners(read_run(tmp_path / "seed-0"), ("other-seeds",), seat=1)
