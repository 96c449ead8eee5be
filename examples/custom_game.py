"""Generate teammates for a game of your own, in thirty lines.

Two players each open one of three doors without seeing the other's choice. If they open the same door, both earn its
prize. The game names no conventions, so coverset counts the kinds of teammates that it finds: one for each door.
"""

from dataclasses import dataclass
from tempfile import TemporaryDirectory

import jax.numpy as jnp

import coverset
from coverset.types import Outcome


@dataclass(frozen=True)
class Doors(coverset.Environment):
    """Open the same door."""

    prizes: tuple[float, ...] = (1.0, 1.0, 1.0)
    horizon: int = 1
    observation_size = 1
    num_actions = (3, 3)

    def reset(self, key):
        return jnp.full(2, -1, jnp.int32)

    def step(self, key, state, actions):
        reward = jnp.where(actions[0] == actions[1], jnp.asarray(self.prizes, jnp.float32)[actions[0]], 0.0)
        return Outcome(actions.astype(jnp.int32), reward, jnp.bool_(True), jnp.bool_(False))

    def observe(self, state):
        return jnp.ones((2, 1), jnp.float32)

    def render(self, state):
        return f"doors {state.tolist()}"


def main() -> None:
    coverset.check_environment(Doors())
    settings = {
        "population_size": 3,
        "margin": 0.2,
        "entropy": 0.15,
        "multiplier_learning_rate": 0.3,
        "normalise_advantages": False,
        "total_steps": 100_000,
        "hidden_sizes": (16,),
    }
    with TemporaryDirectory() as out:
        (run,) = coverset.generate(Doors(), seeds=[0], out=out, **settings)
    print("kinds of teammates:", run["coverage_found"])
    for row in run["cross_play"]:
        print("  ".join(f"{value:5.2f}" for value in row))


if __name__ == "__main__":
    main()
