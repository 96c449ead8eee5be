"""Learned coverage sets of random general-sum games against exact ones, with K told.

    python benchmarks/bimatrix_games.py --games 1000 50 --out docs/appendix/results/data/bimatrix.csv

Games of two players with integer payoffs from -9 to 9, drawn by number from the first on; those whose exact set has one
member are passed over, since a population has at least two pairs. All games whose sets have the same size train side by
side in one compiled program: their payoffs are an argument.
"""

import argparse
import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bimatrix import random_bimatrix
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.conventions import find_members
from coverset.presets import resolve_generation
from coverset.solver import solve
from coverset.teammates.networks import Networks
from coverset.teammates.trainer import Trainer

SETTINGS: dict[str, Any] = {"anneal": True, "total_steps": 300_000}
"""What replaces the preset of `matrix`."""


@dataclass(frozen=True, eq=False)
class ArgumentGame(MatrixGame):
    """A game by player whose payoffs are an array, so that one program trains many games."""

    table: Float[Array, "2 m n"] | None = None

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(reward=self.table[:, actions[0], actions[1]])


def draw_games(first: int, count: int, actions: int) -> dict[int, np.ndarray]:
    """Payoffs [2, m, n] by number of the game."""
    games: dict[int, np.ndarray] = {}
    number = first
    while len(games) < count:
        game = random_bimatrix(number, actions, actions)
        if len(solve(game).coverage_set) > 1:
            games[number] = np.array([game.ego, game.teammate], np.float32)
        number += 1
    return games


def learn(tables: np.ndarray, seeds: list[int], size: int, **changes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Action probabilities of all best responses [G, K, m] and teammates [G, K, n] after training."""
    settings, method = resolve_generation("matrix", "lbrdiv", "fast", population_size=size, **SETTINGS, **changes)

    def train(table: Float[Array, "2 m n"], key: Array) -> tuple[Array, Array]:
        game = ArgumentGame(np.zeros(tables.shape[1:]).tolist(), by_player=True, table=table)
        trainer = Trainer(game, method, settings)
        advance = lambda state, _: (trainer.train_chunk(state)[0], None)  # noqa: E731
        state, _ = jax.lax.scan(advance, trainer.init(key), length=trainer.schedule.num_chunks)
        return read_policies(state.optimised.networks)

    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    rows, columns = jax.jit(jax.vmap(train))(jnp.asarray(tables), keys)
    return np.asarray(rows), np.asarray(columns)


def read_policies(networks: Networks) -> tuple[Array, Array]:
    """Action probabilities of policies that observe the constant 1."""
    act = jax.vmap(lambda network: jax.nn.softmax(network.step(jnp.ones(1), ())[0]))
    return act(networks.best_responses), act(networks.teammates)


def count_found(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> int:
    """Members of the exact coverage set that the pairs of a population hold."""
    game = MatrixGame(np.asarray(table, float).tolist(), by_player=True)
    none = lambda shares: np.pad(shares, ((0, 0), (0, 1)))  # noqa: E731
    return len(set(find_members(game, none(rows), none(columns))) - {None})


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """One line for each game, in the order of their numbers."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(lines, key=lambda line: line["game"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs=2, type=int, default=(1000, 50), metavar=("FIRST", "COUNT"))
    parser.add_argument("--actions", type=int, default=4)
    parser.add_argument("--ego-reward-share", type=float, default=0.0)
    parser.add_argument("--own-reward-scale", type=float, default=0.1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    games = draw_games(*options.games, options.actions)
    solved = {number: solve(table[0]) for number, table in games.items()}
    lines = []
    for size in sorted({len(each.coverage_set) for each in solved.values()}):
        group = [number for number in games if len(solved[number].coverage_set) == size]
        changes = {"ego_reward_share": options.ego_reward_share, "own_reward_scale": options.own_reward_scale}
        rows, columns = learn(np.stack([games[number] for number in group]), group, size, **changes)
        for place, number in enumerate(group):
            margin = min(map(float, solved[number].margins))
            found = count_found(games[number], rows[place], columns[place])
            lines.append({"game": number, "coverage_size": size, "found": found, "smallest_margin": round(margin, 3)})
        whole = sum(line["found"] == size for line in lines if line["coverage_size"] == size)
        print(f"coverage sets of {size}: all found in {whole} of {len(group)} games", flush=True)
    whole = sum(line["found"] == line["coverage_size"] for line in lines)
    members = sum(line["found"] for line in lines), sum(line["coverage_size"] for line in lines)
    print(f"whole set in {whole} of {len(lines)} games, {members[0]} of {members[1]} members")
    if options.out:
        write_lines(options.out, lines)


if __name__ == "__main__":
    main()
