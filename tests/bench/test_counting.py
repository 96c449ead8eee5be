"""Counts of arithmetic against networks and against the compiler's own count; medians and turns."""

import subprocess
import sys
from dataclasses import replace
from itertools import count
from math import prod

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import jaxprs_in_params

from coverset.bench.arithmetic import (
    PEAK_OPERATIONS,
    generation_operations,
    layer_operations,
    learning_operations,
    training_operations,
)
from coverset.bench.baseline import GATHER_AND_MASK
from coverset.bench.throughput import share_of_peak
from coverset.bench.timing import find_clock, median_ratio, time_interleaved
from coverset.envs.reaching import Reaching
from coverset.pipeline.generate import make_plan
from coverset.policies.networks.dense import MLP
from coverset.settings import GenerateSettings, TrainSettings
from coverset.teammates.trainer import ON_THE_GRID, Arithmetic

SIZES = (25, 64, 32, 5)


def test_a_forward_pass_is_two_operations_for_every_weight() -> None:
    network = MLP.create(jax.random.key(0), SIZES)
    assert layer_operations(network.sizes) == 2 * sum(weight.size for weight in network.weights)


def test_the_count_agrees_with_the_compiler() -> None:
    network, samples = MLP.create(jax.random.key(0), SIZES), 1000
    analysis = jax.jit(MLP.__call__).lower(network, jnp.zeros((samples, SIZES[0]))).compile().cost_analysis()
    assert analysis is not None
    assert analysis["flops"] == pytest.approx(samples * layer_operations(SIZES), rel=0.05)


def test_the_count_of_learning_agrees_with_the_compiler() -> None:
    """The compiler counts activations too, which are negligible at these sizes."""
    sizes, samples = (100, 300, 200), 1000
    network = MLP.create(jax.random.key(0), sizes)
    gradient = jax.jit(jax.grad(lambda mlp, x: jnp.sum(mlp(x) ** 2)))
    analysis = gradient.lower(network, jnp.zeros((samples, sizes[0]))).compile().cost_analysis()
    assert analysis is not None
    assert analysis["flops"] == pytest.approx(samples * learning_operations(sizes), rel=0.05)


def test_generation_counts_acting_valuing_learning_and_weighing() -> None:
    settings = GenerateSettings(
        population_size=4,
        total_steps=1,
        hidden_sizes=(10,),
        epochs=3,
        envs_per_pair=2,
        rollout_length=5,
        value_samples=7,
    )
    policies, critic = 2 * 2 * (25 * 10 + 10 * 5), 2 * (50 * 10 + 10)
    weighing = 7 * (2 * 50 * 10 + 16 * 2 * 10) / (32 * 5)
    inputs = 2 * 2 * 25 * 10, 2 * 50 * 10
    learning = 3 * policies - inputs[0]
    own = policies + 2 * critic + 3 * (learning + 3 * critic - inputs[1]) + weighing
    assert generation_operations(Reaching(), settings) == own
    assert generation_operations(Reaching(), settings, masked=True) == own + 3 * 3 * learning


def products(jaxpr) -> int:
    """Operations of all matrix products of a traced program, those inside of loops as often as they run."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            ((summed, _), _), left = equation.params["dimension_numbers"], equation.invars[0].aval
            total += 2 * equation.outvars[0].aval.size * prod(left.shape[axis] for axis in summed)
        for inner in jaxprs_in_params(equation.params):
            total += equation.params.get("length", 1) * products(inner)
    return total


@pytest.mark.parametrize("arithmetic", [ON_THE_GRID, GATHER_AND_MASK], ids=["grid", "gathered"])
@pytest.mark.parametrize(("name", "preset"), [("foraging", "fast"), ("foraging", "paper"), ("reaching", "paper")])
def test_the_count_of_a_whole_update_is_that_of_its_products(name: str, preset: str, arithmetic: Arithmetic) -> None:
    plan = make_plan(name, preset=preset, chunk_steps=1)
    trainer = replace(plan.trainer, arithmetic=arithmetic)
    traced = jax.make_jaxpr(lambda key: trainer.update(trainer.init(key)))(jax.random.key(0))
    counted = generation_operations(plan.environment, plan.settings, masked=arithmetic is GATHER_AND_MASK)
    assert products(traced.jaxpr) == pytest.approx(counted * trainer.schedule.steps_per_update, rel=0.01)


def test_training_counts_both_networks_and_the_partner() -> None:
    settings = TrainSettings(total_steps=1, hidden_sizes=(10,), memory_size=6, epochs=2)
    gates = 2 * ((25 + 5 + 2) * 10 + 10 * 24 + 6 * 24)
    both = 2 * gates + 2 * 6 * 5 + 2 * 6 * 1
    inputs = 2 * 2 * (25 + 5 + 2) * 10
    assert training_operations(Reaching(), settings, (25, 8, 5)) == both * 7 - 2 * inputs + 2 * (25 * 8 + 8 * 5)


def test_work_takes_turns_and_warms_up_first() -> None:
    order: list[str] = []
    ticks = count()
    seconds = time_interleaved(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=2, clock=lambda: float(next(ticks))
    )
    assert order == ["a", "b"] * 3
    assert seconds == {"a": [1.0, 1.0], "b": [1.0, 1.0]}


def test_ratios_are_taken_within_a_repeat() -> None:
    assert median_ratio([2.0, 20.0, 6.0], [1.0, 10.0, 1.0]) == 2.0
    assert share_of_peak(PEAK_OPERATIONS / 4, [1.0, 10.0], [2.0, 20.0]) == 0.5


def test_an_unknown_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="wall"):
        find_clock("sundial")


def test_the_peak_of_a_process_is_its_own() -> None:
    """Not that of whoever started it, which holds far more here."""
    hold = "x = bytearray(500_000_000)"
    start = "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', sys.argv[1]], text=True))"
    look = "from coverset.bench.startup_probe import peak_bytes; print(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", f"{hold}; {start}", look], capture_output=True, text=True, check=True)
    assert 1_000_000 < int(done.stdout) < 400_000_000
