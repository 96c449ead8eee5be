"""Coverage sets found by `growing` in random matrix games, whose size it is not told, against exact ones.

    python benchmarks/growing_matrix_games.py --games 1000 24 --out docs/appendix/results/data/growing-matrix-games.csv

Games of two players with integer payoffs from -9 to 9 for the ego, drawn by number from the first on, 3 to 5 actions a
player. All games of one size train side by side in one compiled program: their payoffs are an argument. Pairs are
measured by their action probabilities, which gives exact returns.

A member of the exact set counts as due if its exact margin is at least the margin of the run, a tenth of the range of
returns that the run has measured; sizes are compared with the number of such members.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from bimatrix_games import ArgumentGame, random_bimatrix, write_lines

from coverset.policies.population import Population
from coverset.presets import resolve_generation
from coverset.solver import solve
from coverset.teammates.method import World
from coverset.teammates.methods.growing import Growing, Growth
from coverset.teammates.trainer import Trainer, TrainState

SETTINGS: dict[str, Any] = {"rollout_length": 4, "hidden_sizes": (32, 32), "total_steps": 6_000_000}
"""What replaces the method's default settings in games of one step."""
UPDATES = 10
"""Updates between two looks at whether a round is over."""


@dataclass(frozen=True)
class ExactlyMeasured(Growing):
    """Growing whose pairs are measured by the payoffs of their mixed actions."""

    def _measure(self, key: Any, world: World, pairs: Population) -> np.ndarray:
        rows, columns = (
            np.asarray(jax.vmap(lambda network: jax.nn.softmax(network.step(jnp.ones(1), ())[0]))(policy.network))
            for policy in pairs
        )
        assert isinstance(world.environment, ArgumentGame)
        return rows @ np.asarray(world.environment.table)[0] @ columns.T


def make_trainer(table: Any, shape: tuple[int, ...], method: Growing) -> Trainer:
    """The trainer of one game."""
    game = ArgumentGame(np.zeros(shape).tolist(), by_player=True, table=table)
    settings, method = resolve_generation("matrix", method, "fast", **SETTINGS)  # pyright: ignore[reportAssignmentType]
    return Trainer(game, method, settings)


def grow(tables: np.ndarray, seeds: list[int]) -> list[tuple[TrainState, Trainer]]:
    """Train all games, each until its method has finished or its steps are used up."""
    shape, method = tables.shape[1:], ExactlyMeasured()
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    trainers = [make_trainer(jnp.asarray(table), shape, method) for table in tables]

    @jax.jit
    def start(tables, keys):
        return jax.vmap(lambda table, key: make_trainer(table, shape, method).init(key))(tables, keys)

    @jax.jit
    def advance(tables, states):
        def some_updates(table, state):
            trainer = make_trainer(table, shape, method)
            after, _ = jax.lax.scan(lambda s, _: (trainer.update(s)[0], None), state, length=UPDATES)
            over = trainer.progress(state) >= 1.0
            return jax.tree.map(lambda old, new: jnp.where(over, old, new), state, after)

        return jax.vmap(some_updates)(tables, states)

    tables, states = jnp.asarray(tables), start(jnp.asarray(tables), keys)
    while not all(float(trainers[0].progress(state)) >= 1.0 for state in apart(states, len(seeds))):
        states = advance(tables, states)
        following = [
            trainer.next_stage(state) for trainer, state in zip(trainers, apart(states, len(seeds)), strict=True)
        ]
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *following)
    return list(zip(apart(states, len(seeds)), trainers, strict=True))


def apart(states: TrainState, count: int) -> list[TrainState]:
    """One state for each game."""
    return [jax.tree.map(lambda x, i=index: x[i], states) for index in range(count)]


def judge(state: TrainState, trainer: Trainer) -> dict[str, Any]:
    """Compare the set that was found with the exact one."""
    growth: Growth = state.method
    assert isinstance(trainer.environment, ArgumentGame)
    table = np.asarray(trainer.environment.table)[0]
    exact, margin = solve(table), trainer.margin(state)
    due = {
        row
        for row, room in zip(exact.coverage_set, exact.margins, strict=True)
        if room is None or float(room) >= margin
    }
    population = trainer.population(state)
    read = jax.vmap(lambda network: jax.nn.softmax(network.step(jnp.ones(1), ())[0]))
    found = set(np.asarray(read(population.best_responses.network)).argmax(axis=1).tolist())
    return {
        "exact_size": len(exact.coverage_set),
        "due": len(due),
        "size_found": int(growth.size),
        "due_found": len(due & found),
        "margin": round(margin, 3),
        "exact_regret": round(exact_regret(table, sorted(found)), 3),
        "complete": bool(growth.complete),
        "rounds": int(growth.round),
        "updates": int(state.update),
    }


def exact_regret(table: np.ndarray, rows: list[int]) -> float:
    """Coverage regret of a set of pure actions: the largest gain of an action over the set, at any mix of columns."""
    from scipy.optimize import linprog

    worst = 0.0
    for row in range(len(table)):
        if row in rows:
            continue
        # maximise t subject to (table[row] - table[member]) @ mix >= t for all members
        size = table.shape[1]
        bounds = np.hstack([table[rows] - table[row], np.ones((len(rows), 1))])
        solved = linprog(
            [0.0] * size + [-1.0], A_ub=bounds, b_ub=np.zeros(len(rows)), A_eq=[[1.0] * size + [0.0]], b_eq=[1.0],
            bounds=[(0, None)] * size + [(None, None)],
        )  # fmt: skip
        worst = max(worst, -solved.fun)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs=2, type=int, default=(1000, 24), metavar=("FIRST", "COUNT"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    first, count = options.games
    lines, began = [], time.process_time()
    for actions in (3, 4, 5):
        numbers = [number for number in range(first, first + count) if number % 3 == actions % 3]
        tables = [random_bimatrix(number, actions, actions) for number in numbers]
        stacked = np.stack([np.array([game.ego, game.ego], np.float32) for game in tables])
        for number, outcome in zip(numbers, grow(stacked, numbers), strict=True):
            lines.append({"game": number, "actions": actions, **judge(*outcome)})
            print(lines[-1], flush=True)
    whole = sum(line["due_found"] == line["due"] for line in lines)
    sizes = sum(line["size_found"] == line["due"] for line in lines)
    print(
        f"all due members in {whole} of {len(lines)} games, size as due in {sizes}, {time.process_time() - began:.0f} s"
    )
    if options.out:
        write_lines(options.out, lines)


if __name__ == "__main__":
    main()
