"""Heuristics H1 to H6 of the repeated matrix game (Rahman et al. 2024, Appendix A), for tables of any size.

In a team of several teammates each plays the heuristic, with draws of its own.
"""

from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.envs.extensions import number_heuristics
from coverset.envs.matrix.dynamics import MatrixGame
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

FAVOURED = 0.7
"""Probability of a mixed heuristic's main action; the others share the rest equally."""


@final
class MixedAction(Policy):
    """Draw the action of each round from fixed probabilities, without memory."""

    probabilities: Float[Array, "actions"]

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        del percept
        return jax.random.categorical(key, jnp.log(self.probabilities)), memory


def list_heuristics(environment: MatrixGame) -> dict[str, tuple[MixedAction, str]]:
    """Return every pure action of the teammates, then each with 70% and 30% shared by the others, with a sentence each.

    Teammates with different numbers of actions play those that all of them have.
    """
    actions = min(environment.num_actions[1:])
    pure = [
        (_make_mixed_action(action, actions, 1.0), f"Always plays action {action + 1}.") for action in range(actions)
    ]
    if actions == 1:
        return number_heuristics(pure)
    rest = f"{100 * (1 - FAVOURED) / (actions - 1):g}%"
    mixed = [
        (
            _make_mixed_action(action, actions, FAVOURED),
            f"Plays action {action + 1} with 70%, each other action with {rest}.",
        )
        for action in range(actions)
    ]
    return number_heuristics(pure + mixed)


def _make_mixed_action(action: int, actions: int, probability: float) -> MixedAction:
    others = (1.0 - probability) / max(actions - 1, 1)
    return MixedAction(jnp.full(actions, others, jnp.float32).at[action].set(probability))
