"""PettingZoo both ways: its own tests on our environments, and its environments under our contract."""

import json
import re
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import coverset
import pages
import toy_run
from coverset.adapters.pettingzoo import PROBE_STEPS, _episode_cache, from_parallel, to_parallel
from coverset.adapters.replay import EpisodeCache, EpisodeStep, check_reproducible
from coverset.cli.main import run
from coverset.envs.base import autoreset
from coverset.envs.conformance import check_environment
from coverset.envs.registry import make
from coverset.pipeline.loop import Stopped
from parallel_games import Guessing
from toy_run import Witness, outcome

OURS = [
    ("matrix", {}),
    *(
        (name, {"sees_teammate": seen})
        for name in ("reaching", "weighted-reaching", "foraging")
        for seen in (False, True)
    ),
]
OLD_API = pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")
"""PettingZoo's tests import a game of theirs in a way that they have deprecated."""
LOW_PRECISION = pytest.mark.filterwarnings("ignore:.*Box.*precision lowered:UserWarning")
FROM_PARALLEL = "coverset.adapters.pettingzoo:from_parallel"
LBF = {"id": "lbforaging:Foraging-5x5-2p-1f-coop-v3"}


@OLD_API
@pytest.mark.parametrize(("name", "parameters"), OURS)
def test_our_environments_pass_their_tests(name: str, parameters: dict) -> None:
    from pettingzoo.test import parallel_api_test
    from pettingzoo.test.seed_test import parallel_seed_test

    environment = make(name, **parameters)
    parallel_api_test(to_parallel(environment), num_cycles=120)
    parallel_seed_test(lambda: to_parallel(environment), num_cycles=120)


def test_an_episode_there_is_the_episode_here() -> None:
    environment = make("weighted-reaching", sees_teammate=True)
    there = to_parallel(environment)
    observations, _ = there.reset(seed=5)
    key, reset_key = jax.random.split(jax.random.key(5))
    state = environment.reset(reset_key)
    for number in range(50):
        np.testing.assert_array_equal(list(observations.values()), environment.observe(state))
        assert there.render() == environment.render(state)
        actions = np.random.default_rng(number).integers(0, 5, 2)
        observations, rewards, terminated, truncated, _ = there.step(dict(zip(there.agents, actions, strict=True)))
        key, step_key = jax.random.split(key)
        reached = environment.step(step_key, state, jnp.asarray(actions, jnp.int32))
        assert rewards == {"seat_0": float(reached.reward), "seat_1": float(reached.reward)}
        assert (terminated["seat_0"], truncated["seat_1"]) == (bool(reached.terminated), bool(reached.truncated))
        state = reached.state
        if not there.agents:
            break
    assert there.agents == []


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"seat_0": 99, "seat_1": 0}, "Action of 'seat_0' must be a whole number from 0 to 2, got 99."),
        ({"seat_0": 0, "seat_1": -5}, "Action of 'seat_1' must be a whole number from 0 to 2, got -5."),
        ({"seat_0": 0, "seat_1": 1.5}, "Action of 'seat_1' must be a whole number from 0 to 2, got 1.5."),
        ({"seat_0": 0}, "actions must hold one action for each of seat_0, seat_1, got seat_0."),
        ({}, "actions must hold one action for each of seat_0, seat_1, got none."),
    ],
)
def test_what_is_no_joint_action_is_named_and_changes_nothing(actions: dict, message: str) -> None:
    game, other = (to_parallel(make("matrix")) for _ in range(2))
    game.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        game.step(actions)
    fine = {"seat_0": np.int64(1), "seat_1": jnp.int32(2)}
    jax.tree.map(np.testing.assert_array_equal, game.step(fine), other.step(fine))


def test_an_episode_starts_with_reset_and_ends() -> None:
    game, actions = to_parallel(make("matrix", horizon=1)), {"seat_0": 0, "seat_1": 0}
    with pytest.raises(ValueError, match=r"^render needs an episode: call reset first\.$"):
        game.render()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^step needs a running episode: call reset first\.$"):
            game.step(actions)
        game.reset()
        game.step(actions)
        assert game.render(), "the end can still be seen"


def test_a_way_of_rendering_that_is_not_listed_is_refused() -> None:
    assert to_parallel(make("matrix"), "ansi").render_mode == "ansi"
    with pytest.raises(ValueError, match=r"^render_mode must be one of ansi, got 'human'\.$"):
        to_parallel(make("matrix"), "human")


def guessing(**changes):
    return from_parallel("parallel_games:Guessing", **{"horizon": 4, **changes})


def test_their_environment_keeps_our_contract() -> None:
    environment = guessing()
    check_environment(environment)
    assert (environment.num_actions, environment.observation_size) == ((3, 3), 2)
    assert not environment.seats_alike
    assert guessing(seats_swap=True).seats_alike
    assert guessing(numbers=5).num_actions == (5, 5)
    assert "step 0" in environment.render(environment.reset(jax.random.key(0)))


def by_hand(environment, seed: int, joint: np.ndarray) -> tuple[list, list, list]:
    """Observations, rewards and ends of an episode, played without us."""
    game = Guessing()
    seen, _ = game.reset(seed=seed)
    observations, rewards, ends = [seen], [], []
    for first, second in joint:
        seen, reward, terminated, truncated, _ = game.step({"seer": first + 1, "guesser": second + 1})
        observations.append(seen)
        rewards.append([reward["seer"], reward["guesser"]])
        ends.append((terminated["seer"], not terminated["seer"] and (truncated["seer"] or game.time >= 4)))
        if any(ends[-1]):
            break
    vectors = [[[*o["seer"].ravel()], [*o["guesser"], 0]] for o in observations]
    return vectors, rewards, ends


COMBINED = {"by-agent": lambda rewards: rewards, "mean": lambda rewards: rewards.mean(1), "sum": lambda r: r.sum(1)}


@pytest.mark.parametrize("reward", list(COMBINED))
def test_side_by_side_they_play_the_episodes_that_they_would_play_alone(reward: str) -> None:
    environment = guessing(reward=reward)
    keys = jax.random.split(jax.random.key(1), (3, 4))
    states = jax.vmap(jax.vmap(environment.reset))(keys)
    joint = jax.random.randint(jax.random.key(2), (4, 3, 4, 2), 0, 3)

    def step(states, actions):
        reached = jax.vmap(jax.vmap(environment.step))(keys, states, actions)
        return reached.state, (jax.vmap(jax.vmap(environment.observe))(reached.state), *reached[1:4])

    _, (observations, rewards, terminated, truncated) = jax.jit(lambda s: jax.lax.scan(step, s, joint))(states)
    for cell in np.ndindex(3, 4):
        vectors, earned, ends = by_hand(environment, int(states.seed[cell]), np.asarray(joint)[(slice(None), *cell)])
        length = len(earned)
        at = (slice(length), *cell)
        np.testing.assert_array_equal(observations[at], vectors[1:])
        np.testing.assert_allclose(rewards[at], COMBINED[reward](np.array(earned)))
        np.testing.assert_array_equal(np.stack([terminated[at], truncated[at]], axis=-1), ends)
        np.testing.assert_array_equal(rewards[(slice(length, None), *cell)], 0), "nothing is earned after the end"


def test_a_state_goes_on_the_same_wherever_it_is_picked_up() -> None:
    """From the table; from a table that has forgotten it, as after a resume; and twice."""
    environment = guessing()
    state = environment.reset(jax.random.key(3))
    for action in (0, 2):
        state = environment.step(jax.random.key(0), state, jnp.array([action, 1])).state
        assert not state.over, "the key above must draw an episode that goes on"

    def go_on():
        reached = environment.step(jax.random.key(0), state, jnp.array([2, 2]))
        return jax.tree.map(np.asarray, (reached[1:], environment.observe(reached.state)))

    once, again = go_on(), go_on()
    _episode_cache.cache_clear()
    jax.tree.map(np.testing.assert_array_equal, once, again)
    jax.tree.map(np.testing.assert_array_equal, once, go_on())


def test_starts_that_nobody_uses_make_no_environment() -> None:
    environment = guessing()
    before = Guessing.made
    states = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), 100))
    assert Guessing.made == before
    reached = jax.vmap(environment.step, in_axes=(None, 0, None))(jax.random.key(0), states, jnp.array([0, 0]))
    jax.vmap(autoreset)(reached, states)
    assert Guessing.made == before + 100


def test_a_small_table_forgets_but_gives_the_same() -> None:
    environment = guessing(limit=10)
    small, large = (EpisodeCache(_episode_cache(environment).make, capacity) for capacity in (2, 100))
    actions = np.zeros((3, 2), np.int32)
    for time in range(4):
        for seed in range(5):
            one, other = (table.find_step(seed, actions[:time]) for table in (small, large))
            jax.tree.map(np.testing.assert_array_equal, one, other)
    assert large.replayed == 0
    assert small.replayed > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("parallel_games:Continuous", "Actions of 'seer' must be Discrete, got Box"),
        ("parallel_games:Labelled", "Observations of 'seer' must be arrays, or dictionaries of .*, got Dict"),
        ("parallel_games:no_environment", "must make a PettingZoo ParallelEnv or AECEnv, got object"),
        ("parallel_games:nobody", "must name an importable module:function"),
        ("parallel_games:Homeless", "must have two or more agents, got 0: no possible_agents"),
    ],
)
def test_what_cannot_be_adapted_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_parallel(name, horizon=4)


def test_an_environment_in_place_of_its_name_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as it is outside of tests
    with pytest.raises(ValueError, match=r"^environment must be text, .* got an object of type Guessing\.$"):
        from_parallel(cast(Any, Guessing()), horizon=4)


def test_an_argument_that_cannot_be_kept_is_named() -> None:
    with pytest.raises(ValueError, match=r"^numbers must be hashable, as tuples are and lists are not, got \[3\]\.$"):
        guessing(numbers=[3])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no start", "failed in reset: RuntimeError: no start."),
        ("no space", "failed in observation_space: KeyError: 'seer'."),
        ("bare", "must return 2 values from reset, got dict."),
        ("four", "must return 5 values from step, got 4."),
        ("long", "must return an observation of 1 numbers, as in its space, for agent 'guesser' from reset, got 7."),
        ("short", "must return an observation of 2 numbers, as in its space, for agent 'seer' from reset, got 1."),
        ("missing", "must return an observation for agent 'guesser' from reset, got one for seer."),
        ("blind", "must return an observation of finite numbers for agent 'guesser' from reset, got nan."),
        ("below", "must return an observation for agent 'guesser' in Discrete(9) from reset, got -1."),
        ("unpaid", "must return a finite reward for agent 'guesser' from step, got nan."),
        ("paid in words", "must return a finite reward for agent 'guesser' from step, got 'much'."),
        ("not all rewards", "must return a reward for agent 'guesser' from step, got one for seer."),
        ("one end", "must return a termination for agent 'seer' from step, got bool for a dict."),
    ],
)
def test_an_environment_that_breaks_its_own_rules_is_named(fault: str, message: str) -> None:
    sentence = f"environment 'parallel_games:Broken' {message}"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make(FROM_PARALLEL, environment="parallel_games:Broken", horizon=4, fault=fault)


@pytest.mark.parametrize(
    ("fault", "agent", "cause"),
    [("text", "guesser", "ValueError: could not convert"), ("no whole number", "seer", "FloatingPointError: invalid")],
)
def test_an_observation_that_is_no_array_of_its_space_is_named(fault: str, agent: str, cause: str) -> None:
    with pytest.raises(ValueError, match=rf"an observation for agent '{agent}' in Box.* from reset, but {cause}"):
        from_parallel("parallel_games:Broken", 4, fault=fault)


def test_an_environment_that_fails_while_training_is_named(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(
        "coverset.pipeline.generate.check_environment", lambda *_, **__: None
    )  # it fails later than that
    parameters = ["environment=parallel_games:Broken", "horizon=4", "reward=mean", "fault=late"]
    words = toy_run.words(minibatches=1, total_steps=4 * 80)
    assert run(["generate", FROM_PARALLEL, "--env-args", *parameters, *words, "--out", str(tmp_path)]) == 2
    told = "coverset: environment 'parallel_games:Broken' failed in step: RuntimeError: no move."
    shown = capsys.readouterr().err
    assert shown.splitlines()[-1] == told
    assert "Traceback" not in shown


def test_what_is_no_number_is_not_taken_for_chance() -> None:
    class Blind:
        def reset(self, seed: int) -> EpisodeStep:
            return EpisodeStep(np.full((2, 1), np.nan), np.zeros(2), np.ones((2, 2), bool))

        def step(self, actions: np.ndarray) -> EpisodeStep:
            return EpisodeStep(np.zeros((2, 1)), np.full(2, np.nan), np.ones((2, 2), bool))

    check_reproducible("blind", Blind, steps=2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoSuchGame-v0", r"id 'NoSuchGame-v0' must name an environment that Gymnasium can make, but NameNotFound: .*"),
        ("nowhere:Game-v0", r"id 'nowhere:Game-v0' must name .*, but ModuleNotFoundError: .*"),
    ],
)
def test_an_id_that_gymnasium_does_not_know_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^{message}\.$"):
        from_parallel("coverset.adapters.gymnasium:parallel_env", horizon=4, id=name)


@pytest.mark.parametrize("name", ["Forgetful", "Lottery"])
def test_an_environment_whose_seed_does_not_decide_everything_is_found_out(name: str) -> None:
    with pytest.raises(ValueError, match=rf"reset\(seed\) of 'parallel_games:{name}' must determine the whole episode"):
        from_parallel(f"parallel_games:{name}", horizon=PROBE_STEPS, numbers=99, limit=PROBE_STEPS)


SMALL = {**toy_run.SETTINGS, "minibatches": 1, "total_steps": 4 * 80}


@LOW_PRECISION
@pytest.mark.slow
def test_lbforaging_trains_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    adapted = {"horizon": 4, "reward": "sum"}
    parameters = {"environment": "coverset.adapters.gymnasium:parallel_env", **LBF, **adapted}

    def generate(out: Path, **changes):
        return coverset.generate(FROM_PARALLEL, env_parameters=parameters, out=out, **SMALL, **changes)

    (summary,) = generate(tmp_path / "whole")
    assert summary["coverage_found"] >= 1
    with pytest.raises(Stopped):
        generate(tmp_path / "stopped", reporter=Witness(stop_after=2), checkpoint_seconds=0)
    _episode_cache.cache_clear()
    generate(tmp_path / "stopped", resume=True)
    assert outcome(tmp_path / "stopped" / "seed-0") == outcome(tmp_path / "whole" / "seed-0")


@pytest.mark.slow
def test_a_speaker_and_a_listener_are_trained_and_measured(tmp_path: Path, monkeypatch) -> None:
    """Seats with other observations and other actions, from the package `mpe2`; the documented command in small."""
    monkeypatch.setattr("coverset.evaluation.summary.TRIALS", 4)
    words = pages.command("docs/how-to/integrations.md", "environment=mpe2.simple_speaker_listener_v4:parallel_env")
    small = toy_run.words(minibatches=1, total_steps=4 * 80)
    assert run([*words, *small, "--seeds", "0", "1", "--out", str(tmp_path)]) == 0
    summaries = [json.loads((tmp_path / f"seed-{seed}" / "summary.json").read_text()) for seed in (0, 1)]
    assert np.max([summary["cross_play"] for summary in summaries]) < 0, "the reward is a distance"
    brief = {"total_steps": 64, "chunk_steps": 64, "envs_per_partner": 2, "rollout_length": 4, "episodes_per_trial": 2}
    coverset.train(tmp_path, minibatches=1, hidden_sizes=(4,), memory_size=4, **brief)
    records = coverset.evaluate(tmp_path, trials=4, episodes=2)
    assert list(records[0]["partners"]) == ["other-seeds 1", "other-seeds 2"]
    assert records[0]["mean_return"] < 0
