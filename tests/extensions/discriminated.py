"""A method in one file, as somebody outside of coverset would write it: a bonus, a loss with parameters, settings.

Self-play with a discriminator (Eysenbach et al. 2019, "Diversity is all you need", reduced to one step): a linear
classifier guesses from a teammate's action which teammate it is. Teammates earn a bonus where the guess is right, the
classifier descends its cross-entropy.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from coverset import Method


@dataclass(frozen=True)
class Discriminated(Method):
    """w_ii = 1, w_ij = 0, and a bonus of log q(j | a) + log K for the actions of teammate j in its self-play."""

    bonus_weight: float = 0.1
    """Weight of the bonus."""

    def init(self, key, world):
        return {"identity": jnp.eye(world.rows), "best_guess": jnp.float32(0.0)}

    def init_parameters(self, key, world):
        return 0.01 * jax.random.normal(key, (world.environment.num_actions[1], world.columns))

    def weights(self, state):
        return state["identity"]

    def bonus(self, parameters, state, rollout):
        guesses = jax.nn.log_softmax(parameters)[rollout.steps.actions[..., 1]]
        teammates = jax.nn.one_hot(rollout.grid.teammates(), rollout.grid.columns)
        right = jnp.sum(guesses * teammates[None], axis=-1)
        return self.bonus_weight * (right + jnp.log(float(rollout.grid.columns)))

    def loss(self, parameters, state, batch, logits):
        own = jax.nn.one_hot(batch.teammates.actions, parameters.shape[0]) @ jax.nn.log_softmax(parameters)
        correct = jnp.stack([own[j, ..., j].mean() for j in range(own.shape[0])])
        return -correct.mean(), {"discriminator_loss": -correct.mean()}

    def update(self, state, seen):
        guess = jax.nn.softmax(seen.networks.method, axis=-1).max()
        return {**state, "best_guess": guess}

    def report(self, state):
        return {"best_guess": state["best_guess"]}
