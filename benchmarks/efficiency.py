"""How near teammate generation runs to this machine's matrix-product peak.

Counted arithmetic: two floating-point operations per weight and sample forward, twice that backward. The peak is the
best of several 2048 x 2048 single-precision products, taken between the chunks, so that both see the same machine.

    python benchmarks/efficiency.py reaching paper
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp

from coverset.generation import Plan, make_plan

PEAK_SIZE = 2048
FORWARD_AND_BACKWARD = 3


def layer_operations(sizes: Sequence[int]) -> int:
    """Operations of one forward pass of one sample."""
    return 2 * sum(fan_in * fan_out for fan_in, fan_out in pairwise(sizes))


def operations_per_step(plan: Plan) -> int:
    """Arithmetic that one environment step asks for: act, value before and after, learn."""
    s, env = plan.settings, plan.environment
    policies = sum(layer_operations((env.observation_size, *s.hidden_sizes, count)) for count in env.num_actions)
    critic = layer_operations((2 * env.observation_size, *s.hidden_sizes, 1))
    critics = 1 if s.target_rate == 1.0 else 2
    return policies + 2 * critics * critic + s.epochs * FORWARD_AND_BACKWARD * (policies + critic)


def peak_product() -> float:
    """Operations a second of a large matrix product."""
    matrix = jnp.ones((PEAK_SIZE, PEAK_SIZE))
    multiply = jax.jit(jnp.matmul)
    multiply(matrix, matrix).block_until_ready()
    started = time.perf_counter()
    multiply(matrix, matrix).block_until_ready()
    return 2 * PEAK_SIZE**3 / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="?", default="reaching")
    parser.add_argument("preset", nargs="?", default="paper")
    parser.add_argument("--seeds", type=int, default=1, help="seeds in one compiled program")
    parser.add_argument("--chunks", type=int, default=5)
    options = parser.parse_args()
    plan = make_plan(options.environment, preset=options.preset)
    keys = jax.vmap(jax.random.key)(jnp.arange(options.seeds))
    state = jax.jit(jax.vmap(plan.trainer.init))(keys)
    started = time.perf_counter()
    train_chunk = jax.jit(jax.vmap(plan.trainer.train_chunk), donate_argnums=0).lower(state).compile()
    compiled = time.perf_counter() - started
    state, _ = jax.block_until_ready(train_chunk(state))
    speeds, shares = [], []
    for _ in range(options.chunks):
        before = peak_product()
        started = time.perf_counter()
        state, _ = jax.block_until_ready(train_chunk(state))
        speed = options.seeds * plan.settings.steps_per_chunk / (time.perf_counter() - started)
        speeds.append(speed)
        shares.append(speed * operations_per_step(plan) / max(before, peak_product()))
    print(
        f"{options.environment} {options.preset}, {options.seeds} seed(s): compiled in {compiled:.1f} s, "
        f"{statistics.median(speeds):,.0f} steps/s, {operations_per_step(plan):,} operations a step, "
        f"share of the matrix-product peak: median {statistics.median(shares):.2f}, "
        f"from {min(shares):.2f} to {max(shares):.2f}"
    )


if __name__ == "__main__":
    main()
