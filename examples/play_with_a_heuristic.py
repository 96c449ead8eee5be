"""Load a generated population and play each of its best responses with hand-written heuristics.

`coverset.crossplay` takes paths and names. The second part plays single steps instead, as a program that embeds a
policy would.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp

import coverset
from coverset.types import Percept


def main() -> None:
    with TemporaryDirectory() as out:
        coverset.generate("matrix", seeds=[0], total_steps=60_000, out=out)
        table = coverset.crossplay(Path(out) / "seed-0", "heuristics", trials=32, episodes=5)
        population, about = coverset.load_population(Path(out) / "seed-0" / "policies.safetensors")
    for row in table.means:
        print("  ".join(f"{value:6.2f}" for value in row))

    game = coverset.make(about["env"], **about["env_parameters"])
    players = (jax.tree.map(lambda x: x[0], population.best_responses), coverset.heuristics(game)["H1"])
    keys = jax.random.split(jax.random.key(0), 4)
    state = game.reset(keys[0])
    observations = game.observe(state)
    actions = [
        player.act(key, Percept(observation, jnp.float32(0.0), jnp.bool_(True)), player.initial_memory())[0]
        for player, key, observation in zip(players, keys[1:3], observations, strict=True)
    ]
    outcome = game.step(keys[3], state, jnp.array(actions))
    print("best response 1 and H1 play", [int(action) + 1 for action in actions], "for", float(outcome.reward))


if __name__ == "__main__":
    main()
