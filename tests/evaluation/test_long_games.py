"""Games of very long episodes are measured in bounded time: by the steps that are played, not by the clock."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countdown import Countdown
from coverset.adhoc.learner import World, agent_spec
from coverset.adhoc.learners import plastic
from coverset.adhoc.pool import PartnerPool
from coverset.envs.conformance import MAX_STEPS as MOST_CHECKED
from coverset.envs.conformance import check_environment
from coverset.envs.registry import make
from coverset.evaluation import cross_play as module
from coverset.evaluation import summary as measuring
from coverset.evaluation.cross_play import MIN_TRIALS, cross_play, limit_trials
from coverset.evaluation.summary import TRIALS, measure_population
from coverset.pipeline.evaluate import default_trials
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population

HORIZON = 100_000


@dataclass(frozen=True)
class Marathon(Countdown):
    """Pays 1 in its last step."""

    horizon: int = HORIZON

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(reward=jnp.float32(outcome.terminated))


class Steps:
    """Plays as `cross_play` does, and counts."""

    def __init__(self) -> None:
        self.played = 0

    def __call__(self, *arguments, **options):
        episodes = cross_play(*arguments, **options)
        self.played += int(np.asarray(episodes.length, np.int64).sum())
        return episodes


def population(environment: Countdown) -> Population:
    def policies(seat: int) -> ActorPolicy:
        sizes = (environment.observation_size, 2, environment.num_actions[seat])
        return dense_policy(jax.vmap(lambda key: MLP.create(key, sizes))(jax.random.split(jax.random.key(seat), 2)))

    return Population(policies(0), policies(1))


def test_a_population_and_a_library_of_a_long_game(monkeypatch) -> None:
    budget, steps = 2**21, Steps()
    monkeypatch.setattr(module, "MAX_STEPS", budget)
    monkeypatch.setattr(measuring, "cross_play", steps)
    monkeypatch.setattr(plastic, "cross_play", steps)
    game = Marathon()
    found = measure_population(jax.random.key(0), game, population(game), margin=1.0, discount=0.99)
    assert found["episodes_per_pair"] == MIN_TRIALS
    assert found["cross_play"] == [[1.0, 1.0], [1.0, 1.0]]
    assert steps.played == 4 * FEWEST_TRIALS * HORIZON
    learner, pairs = plastic.Plastic(), population(game)
    spec = agent_spec(learner, game, TrainSettings(total_steps=1), 0, pairs)
    learner.fit(jax.random.key(0), World(game, pairs, PartnerPool((pairs.teammates,)), 0, spec))
    assert steps.played == 2 * 4 * FEWEST_TRIALS * HORIZON


@pytest.mark.parametrize("name", ["matrix", "reaching", "weighted-reaching", "foraging"])
def test_the_built_in_games_are_measured_as_ever(name: str) -> None:
    game = make(name)
    for size in (3, 4, 6, 16):
        assert affordable_trials(TRIALS, game.horizon, pairs=size**2) == TRIALS
        simulated = plastic.Plastic().simulated_episodes
        assert affordable_trials(simulated, game.horizon, pairs=size**2) == simulated
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
