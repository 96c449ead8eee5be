"""The parts of an update that are timed apart are those of the update, and what is subtracted adds up."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from coverset.bench import parts
from coverset.bench.parts import PARTS, compile_pieces, measure_parts
from coverset.bench.settings import QUICK
from coverset.pipeline.generate import make_plan
from toy_run import SETTINGS

SMALL = {**SETTINGS, "rollout_length": 4, "minibatches": 2, "epochs": 3, "chunk_steps": 1}


@pytest.fixture(scope="module")
def results():
    """What each program gives."""
    plan = make_plan("matrix", **SMALL)
    return plan.trainer, {name: run() for name, run in compile_pieces(plan.trainer).items()}


def test_every_program_does_what_its_name_says(results) -> None:
    trainer, found = results
    state = jax.jit(trainer.init)(jax.random.key(0))
    indifferent, acted = found["environment"][0], found["collect"][0]
    assert indifferent.actions.shape == acted.actions.shape
    np.testing.assert_allclose(indifferent.log_p, np.log(1 / 3), rtol=1e-5)
    assert np.unique(acted.log_p).size > 2
    advantage, _, _ = found["estimate"]
    assert advantage.shape == acted.reward.shape
    assert found["batch"][0].critic.target.shape == np.swapaxes(advantage, 0, 1).shape
    (_, pair_values) = found["multipliers"]
    assert pair_values.shape == (trainer.grid.rows, trainer.grid.columns)
    networks = jax.tree.leaves(state.optimised.networks)
    for name in ("losses", "gradients"):
        for before, after in zip(networks, jax.tree.leaves(found[name]), strict=True):
            np.testing.assert_array_equal(before, after)
    learned = jax.tree.leaves(found["improve"][0].networks)
    assert all((before != after).any() for before, after in zip(networks, learned, strict=True))


@pytest.mark.parametrize(("name", "least"), [("losses", 2), ("gradients", 5)])
def test_nothing_is_left_out_as_unneeded(name: str, least: int) -> None:
    """Products of the compiled program, which would throw away what nobody asks for: those of three networks."""
    plan = make_plan("matrix", **SMALL)
    piece = compile_pieces(plan.trainer)[name]
    text = piece.func.lower(*piece.args).compile().as_text()
    layers = len(plan.settings.hidden_sizes) + 1
    assert text.count(" dot(") + text.count("custom-call") >= least * layers


def test_shares_are_of_the_whole_and_a_dispatch_is_paid_once(monkeypatch) -> None:
    told = {
        "chunk": [80.0], "dispatch": [2.0], "environment": [8.0], "collect": [18.0], "estimate": [6.0], "batch": [10.0],
        "losses": [12.0], "gradients": [32.0], "improve": [36.0], "multipliers": [4.0],
    }  # fmt: skip
    monkeypatch.setattr(parts, "time_interleaved", lambda work, **_: {name: told[name] for name in work})
    row = measure_parts("matrix", "fast", replace(QUICK, generation=SMALL), iter(()).__next__)
    updates = row["updates_per_dispatch"]
    assert row["update_seconds"] == 80 / updates
    assert row["dispatch"] == pytest.approx(2 / 80 / updates)
    expected = [6, 10, 4, 4, 10, 20, 4, 2]
    assert [row[part] for part in PARTS[1:]] == pytest.approx([seconds / 80 for seconds in expected])
