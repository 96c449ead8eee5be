"""A saved text episode of every built-in environment replays exactly.

A change of what an environment does shows here first; it must raise the environment's version. To write the files anew
run this file as a script and read the difference.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from coverset.envs.registry import make

EPISODES = Path(__file__).parent / "episodes"
ACTIONS = {
    "matrix": "20",
    "reaching": "14 41 31 14 31 34 40 44 40 40",
    "weighted-reaching": "12 13 43 34 34 04 04",
    "foraging": "54 04 04 22 55 24 14 11 51 04 55 33 53 21 35 55",
    "overcooked": "32 55 23 00 55 30 50 21 01 55 35 55 20 04 54 31 54 24 01 51 15 53",
}
"""Joint actions, seat 0 first; they show walls, partners and objects in the way, swaps, loads alone and together."""


def replay(name: str) -> str:
    """The episode as text: version, then every state with the actions that led to it, reward and end."""
    environment = make(name)
    state, step = environment.reset(jax.random.key(0)), jax.jit(environment.step)
    blocks = [f"version {environment.version}\n{environment.render(state)}"]
    for actions in ACTIONS[name].split():
        outcome = step(jax.random.key(1), state, jnp.array([int(action) for action in actions]))
        state = outcome.state
        end = "terminated" if outcome.terminated else "truncated" if outcome.truncated else "goes on"
        blocks.append(f"{actions[0]} {actions[1]}: {float(outcome.reward):.4f}, {end}\n{environment.render(state)}")
        if end != "goes on":
            break
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("name", ACTIONS)
def test_saved_episode_replays_exactly(name: str) -> None:
    assert replay(name) == (EPISODES / f"{name}.txt").read_text()


if __name__ == "__main__":
    for each in ACTIONS:
        EPISODES.mkdir(exist_ok=True)
        (EPISODES / f"{each}.txt").write_text(replay(each))
