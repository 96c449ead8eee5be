"""Games of very long episodes are measured in bounded time: by the steps that are played, not by the clock."""

import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import coverset
import toy_run
from countdown import Countdown
from coverset.adhoc.learners import plastic
from coverset.certificates import finite
from coverset.certificates.certificate import certify
from coverset.envs.conformance import MAX_STEPS as MOST_CHECKED
from coverset.envs.conformance import check_environment
from coverset.envs.registry import make
from coverset.evaluation import cross_play as module
from coverset.evaluation.cross_play import MIN_TRIALS, limit_trials
from coverset.evaluation.summary import TRIALS
from coverset.pipeline.evaluate import default_episodes, default_trials
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population

HORIZON = 100_000
SMALLEST = {
    "population_size": 2,
    "hidden_sizes": (2,),
    "total_steps": 16,
    "envs_per_pair": 1,
    "rollout_length": 4,
    "minibatches": 4,
}


@dataclass(frozen=True)
class Marathon(Countdown):
    """Pays 1 in its last step."""

    horizon: int = HORIZON

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(reward=jnp.float32(outcome.terminated))


def population(environment: Countdown) -> Population:
    def policies(seat: int) -> ActorPolicy:
        sizes = (environment.observation_size, 2, environment.num_actions[seat])
        return dense_policy(jax.vmap(lambda key: MLP.create(key, sizes))(jax.random.split(jax.random.key(seat), 2)))

    return Population(policies(0), policies(1))


def test_generation_and_a_library_of_a_long_game(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 3 * 4 * HORIZON)
    (summary,) = coverset.generate(Marathon(), out=tmp_path, **SMALLEST)
    assert summary["episodes_per_pair"] == 3
    assert summary["cross_play"] == [[1.0, 1.0], [1.0, 1.0]]
    coverset.train(tmp_path, learner="plastic")
    assert (tmp_path / "seed-0" / "plastic" / "agent.safetensors").is_file()


@pytest.mark.slow
def test_the_whole_command_takes_less_than_a_minute_of_one_core(tmp_path) -> None:
    words = ["generate", "test_long_games:Marathon", "--total-steps", "20000", "--out", str(tmp_path), "--json"]
    code = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]}\n"
    code += f"from coverset.cli.main import main; main({words})"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert spent.ru_utime + spent.ru_stime < 60


def test_cross_play_has_fewer_trials_of_fewer_episodes(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 5 * 4 * 2 * 100)
    monkeypatch.setattr(module, "MAX_TRIAL_STEPS", 2 * 100)
    toy_run.untrained(tmp_path, "matrix", horizon=100)
    assert coverset.crossplay(tmp_path, tmp_path).returns.shape == (2, 2, 5, 2)
    assert coverset.crossplay(tmp_path, tmp_path, trials=7, episodes=3).returns.shape == (2, 2, 7, 3)


def test_an_evaluation_has_fewer_trials_of_fewer_episodes() -> None:
    game = make("matrix", horizon=HORIZON)
    assert default_episodes(game) == 2
    assert default_trials(game, 2, partners=4) == 41


def test_a_certificate_of_a_long_game_is_refused(monkeypatch) -> None:
    with pytest.raises(ValueError, match=r"Laps is too long to be solved exactly: its horizon is 100,000 steps, and"):
        certify(Laps(horizon=HORIZON), population(Laps()), margin=1.0, discount=0.99)
    monkeypatch.setattr(finite, "MAX_ENTRIES", 40 * 3)
    with pytest.raises(ValueError, match=r"its horizon is 50 steps, and at most 40 are allowed; choose a shorter"):
        certify(Laps(horizon=50), population(Laps()), margin=1.0, discount=0.99)


def test_a_certificate_is_checked_by_as_many_episodes_as_the_budget_allows(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 20 * 4 * 50)
    found = certify(Laps(horizon=50), population(Laps()), margin=1.0, discount=0.99, trials=1)
    assert found.simulation.episodes == 20 * 8


@pytest.mark.parametrize("name", ["matrix", "reaching", "weighted-reaching", "foraging"])
def test_the_built_in_games_are_measured_as_ever(name: str) -> None:
    game = make(name)
    for size in (3, 4, 6, 16, 32):
        assert limit_trials(TRIALS, game.horizon, pairs=size**2) == TRIALS
    for size in (3, 4, 6, 16):
        simulated = plastic.Plastic().simulated_episodes
        assert limit_trials(simulated, game.horizon, pairs=size**2) == simulated
    assert default_episodes(game) == 20
    assert default_trials(game, 20, 8) == 128


@pytest.mark.parametrize("horizon", [10**3, 10**5, 10**7])
def test_no_measurement_takes_more_steps_than_its_budget_or_its_fewest_trials(horizon: int) -> None:
    for pairs in (1, 9, 64):
        trials = limit_trials(TRIALS, horizon, pairs=pairs)
        assert 1 <= trials <= TRIALS
        assert trials * horizon * pairs <= max(module.MAX_STEPS, MIN_TRIALS * horizon * pairs)


def test_the_check_of_a_long_game_looks_at_it_in_pieces_to_the_end() -> None:
    check_environment(Marathon(horizon=25_000), quick=True)
    with pytest.raises(ValueError, match=r"horizon must end every episode by its last step, got 15000 steps"):
        check_environment(Endless(horizon=15_000), quick=True)
    assert MOST_CHECKED >= HORIZON


class Endless(Marathon):
    """Lasts a step longer than it says."""

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(terminated=outcome.state.time > self.horizon)


@dataclass(frozen=True)
class Laps(Countdown):
    """Three places in a circle; both seats may move on; the clock is no part of what is seen or paid."""

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        place = (state.seen + actions[0]) % 3
        return outcome._replace(state=outcome.state._replace(seen=place), reward=jnp.float32(place[0] == 2))

    def observe(self, state):
        return state.seen[:, None].astype(jnp.float32)

    def initial_states(self):
        return jax.tree.map(lambda leaf: leaf[None], self.reset(None)), jnp.ones(1)
