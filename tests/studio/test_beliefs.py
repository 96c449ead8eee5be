"""What an agent believed: the hook of policies, its stand-in for agents without a belief, and what a trial tells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policy import Policy
from coverset.studio.resemblance import LEAST_PROBABILITY, Resemblance, keeps_belief
from coverset.types import Percept
from studio_client import move, start

LOGITS = jnp.log(jnp.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]))
"""Of three best responses that see nothing."""


class Scripted(Policy):
    """Plays 0, 1, 2, ...; its memory is the next action."""

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        return memory % 3, memory + 1


def percept(*, first: bool) -> Percept:
    return Percept(jnp.zeros(1), jnp.float32(0.0), jnp.bool_(first))


def best_responses() -> Policy:
    return dense_policy(MLP((jnp.zeros((3, 1, 3)),), (LOGITS,)))


def test_resemblance_is_the_normalised_likelihood_of_the_episodes_actions():
    policy = Resemblance(Scripted(), best_responses())
    memory, probabilities = policy.initial_memory(), np.exp(np.asarray(LOGITS))
    played: list[int] = []
    for time, first in enumerate((True, False, True, False, False)):
        action, memory = policy.act(jax.random.key(time), percept(first=first), memory)
        assert int(action) == time % 3
        played = [time % 3] if first else [*played, time % 3]
        expected = probabilities[:, played].prod(axis=1)
        np.testing.assert_allclose(policy.belief(memory), expected / expected.sum(), rtol=1e-5)


def test_an_action_that_no_best_response_plays_rules_out_none():
    impossible = dense_policy(MLP((jnp.zeros((2, 1, 3)),), (jnp.array([[90.0, 0.0, 0.0], [0.0, 90.0, 0.0]]),)))
    policy = Resemblance(Scripted(), impossible)
    _, memory = policy.act(jax.random.key(0), percept(first=True), policy.initial_memory())
    np.testing.assert_allclose(policy.belief(memory), [1.0, LEAST_PROBABILITY], rtol=1e-3, atol=1e-7)


def test_only_policies_that_say_so_keep_a_belief():
    assert not keeps_belief(Scripted())
    assert keeps_belief(Resemblance(Scripted(), best_responses()))


@pytest.fixture(scope="module")
def played(shared):
    trial = start(shared, "matrix/seed-0", "agent:plastic", episodes=3)
    return trial, [move(shared, trial, step, 1).json for step in range(3)]


def test_a_trial_tells_beliefs_once_it_is_over(shared, played):
    trial, answers = played
    assert all("beliefs" not in told for told in (trial, *answers[:-1]))
    beliefs = answers[-1]["beliefs"]
    assert (beliefs["kind"], len(beliefs["episodes"])) == ("belief", 3)
    np.testing.assert_allclose(beliefs["episodes"][0], [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(np.sum(beliefs["episodes"], axis=1), 1.0, atol=1e-5)
    assert beliefs["episodes"][1] != beliefs["episodes"][0]
    assert shared.get(f"/api/trials/{trial['trial']}").json["beliefs"] == beliefs


def test_beliefs_are_not_recorded(shared, played):
    _, answers = played
    recording = shared.get(f"/api/recordings/{answers[-1]['recording']}")
    assert b"belief" not in recording.body


def test_agents_without_a_belief_are_compared_and_other_partners_are_not(shared):
    trial = start(shared, "matrix/seed-0", "agent:copy-1", episodes=1)
    beliefs = move(shared, trial, 0, 0).json["beliefs"]
    assert beliefs["kind"] == "resemblance"
    assert sum(beliefs["episodes"][0]) == pytest.approx(1.0, abs=1e-5)
    trial = start(shared, "matrix/seed-0", "best-response:1", episodes=1)
    assert move(shared, trial, 0, 0).json["beliefs"] is None
