"""Our policies earn in the real `lbforaging` what they earn in ours."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
from coverset.adapters.lbforaging import RealForaging, play
from coverset.adhoc.saved import Agent, load_agent_policy
from coverset.envs.extensions import heuristics
from coverset.envs.foraging import Foraging
from coverset.evaluation.cross_play import cross_play
from coverset.policy import Policy

pytestmark = pytest.mark.filterwarnings("ignore:.*Box.*precision lowered:UserWarning")
EPISODES = 3
"""Of a trial, through which memories last; they are fresh at its start, there as here."""
THERE, HERE = 80, 1024
"""Trials. They are the unit of the standard errors: episodes of one trial are not independent."""
SIGMAS = 4.5


def agree(environment: Foraging, policies: tuple[Policy, Policy]) -> tuple[float, float]:
    """Mean returns of a trial's episodes there and here; they must lie within sampling error of each other."""
    there = trials_there(environment, policies)
    seats = [jax.tree.map(lambda x: x[None], policy) for policy in policies]
    played = cross_play(jax.random.key(1), environment, *seats, trials=HERE, episodes=EPISODES)
    here = np.asarray(played.returns)[0, 0].mean(axis=1)
    error = np.hypot(there.std(ddof=1) / THERE**0.5, here.std(ddof=1) / HERE**0.5)
    assert abs(there.mean() - here.mean()) < SIGMAS * error + 1e-6
    return float(there.mean()), float(here.mean())


def trials_there(environment: Foraging, policies: tuple[Policy, Policy]) -> np.ndarray:
    """Mean returns of trials in the real environment, each with episodes of its own."""
    first, second = (Agent(policy, {}, seed) for seed, policy in enumerate(policies))
    means = []
    for trial in range(THERE):
        for agent in (first, second):
            agent.reset()
        means.append(play(environment, (first, second), episodes=EPISODES, seed=trial * EPISODES).mean())
    return np.array(means)


@pytest.mark.slow
def test_two_that_want_the_nearest_object_earn_the_same_in_both() -> None:
    """Now and then both are nearest to different objects, and earn less: the mean lies well between nothing and all."""
    nearest = heuristics(environment := Foraging(objects="random", num_objects=2, horizon=12))["H1"]
    there, _ = agree(environment, (nearest, nearest))
    assert 0.1 < there < 0.9


@pytest.mark.slow
def test_orders_on_fixed_cells_earn_the_same_in_both() -> None:
    environment = Foraging(horizon=14)
    known = heuristics(environment)
    there, _ = agree(environment, (known["H3"], known["H4"]))
    assert 0.05 < there < 0.34, "they agree on the first object alone"


def test_observations_are_those_of_our_environment() -> None:
    environment = Foraging(sees_teammate=True, encoding="coordinates")
    real = RealForaging(environment)
    view = environment.view(jnp.asarray(real.reset(seed=3)[0]))
    np.testing.assert_array_equal(view.position, real.peer.players[0].position)
    np.testing.assert_array_equal(view.cells, environment.cells)
    assert real.peer.players[0].position not in environment.cells


def test_three_of_one_order_collect_everything_in_the_real_environment() -> None:
    environment = Foraging(players=3, horizon=150)
    agents = [Agent(heuristics(environment)["H5"], {}, seed) for seed in range(3)]
    np.testing.assert_allclose(play(environment, agents, episodes=3), 1.0)
    real = RealForaging(environment)
    observations = real.reset(seed=1)
    assert observations.shape == (3, environment.observation_size)
    assert {int(level) for level in real.peer.field[real.peer.field > 0]} == {3}


def test_a_trained_agent_earns_the_same_in_both(tmp_path: Path) -> None:
    """On a small field, with little training: an agent that is far from perfect, and so can differ."""
    parameters = {"size": 4, "cells": [[1, 1]], "num_objects": 1, "horizon": 15}
    small = {"hidden_sizes": (8,), "envs_per_pair": 2, "rollout_length": 4, "minibatches": 1, "population_size": 2}
    coverset.generate("foraging", env_parameters=parameters, out=tmp_path, total_steps=32, **small)
    brief = {"total_steps": 60_000, "chunk_steps": 20_000, "hidden_sizes": (32,), "memory_size": 16, "evaluations": 0}
    coverset.train(tmp_path, partners=("H1",), envs_per_partner=64, rollout_length=15, **brief)
    agent, _ = load_agent_policy(tmp_path / "seed-0" / "rl2" / "agent.safetensors")
    environment = coverset.make("foraging", **parameters)
    assert isinstance(environment, Foraging)
    there, here = agree(environment, (agent, heuristics(environment)["H1"]))
    assert 0.1 < here <= 1
    assert 0.1 < there <= 1
