"""ROTATE: weights as gradients of both objectives, who learns when, what is saved, and an ego that improves."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.ego_grid import EgoGrid
from coverset.teammates.methods.rotate import ROTATE
from coverset.teammates.trainer import Trainer
from small_world import small_world

METHOD = ROTATE(self_play_weight=2.0, ego_share=0.5)
WORLD = small_world(3, method=METHOD, total_steps=600, chunk_steps=100)


def state_of(number: int, *, ego_learns: bool):
    return METHOD.init(jax.random.key(0), WORLD)._replace(round=jnp.int32(number), ego_learns=jnp.bool_(ego_learns))


def test_the_teammate_maximises_regret_and_its_best_response_their_return() -> None:
    """The cell of best response and teammate holds 2/3 self-play and 1/3 play from the ego's states."""
    state = state_of(1, ego_learns=False)

    def regret(returns):
        together = 2.0 / 3.0 * returns[1, 1] + 1.0 / 3.0 * returns[1, 1]
        return 3.0 * together - returns[0, 1]

    weights, gradient = METHOD.weights(state), np.asarray(jax.grad(regret)(jnp.zeros((2, 3))))
    np.testing.assert_allclose(weights.teammates, gradient, rtol=1e-6)
    np.testing.assert_allclose(weights.best_responses, [[0, 0, 0], [0, 3, 0]])
    frozen = METHOD.frozen(state)
    assert frozen.best_responses.tolist() == [True, False]
    assert frozen.teammates.tolist() == [True, False, True]
    assert METHOD.prefix(state).probability == pytest.approx(1 / 3)


def test_the_ego_learns_with_the_teammates_of_all_rounds_so_far() -> None:
    state = state_of(1, ego_learns=True)
    assert METHOD.weights(state).best_responses[0].tolist() == [1, 1, 0]
    frozen = METHOD.frozen(state)
    assert frozen.best_responses.tolist() == [False, True]
    assert frozen.teammates.all()


def test_the_best_response_takes_over_from_the_ego_with_the_teammate_of_the_round_alone() -> None:
    prefix = METHOD.prefix(state_of(2, ego_learns=False))
    assert prefix.best_responses.tolist() == [[0, 0, 0], [1, 1, 0]]
    assert prefix.teammates.tolist() == [[0, 1, 2]] * 2


def test_the_row_of_the_best_response_holds_the_matched_pairs() -> None:
    grid = EgoGrid(2, 3, 2)
    np.testing.assert_array_equal(grid.in_self_play(), [[False] * 6, [True] * 6])


def test_phases_follow_one_another_and_leave_what_others_have_learned() -> None:
    """Two rounds of two phases, each of one chunk of two updates."""
    settings = GenerateSettings(
        population_size=2, total_steps=8 * 16, chunk_steps=2 * 16, hidden_sizes=(8,), envs_per_pair=2,
        rollout_length=2, epochs=1, entropy=0.0,
    )  # fmt: skip
    trainer = Trainer(MatrixGame(), METHOD, settings)
    chunk, moved, kept = jax.jit(trainer.train_chunk), [], []
    state = trainer.init(jax.random.key(0))
    for _ in range(trainer.schedule.num_chunks):
        before = jax.device_get(state.optimised.networks)
        state, _ = chunk(state)
        after = jax.device_get(state.optimised.networks)
        moved.append(
            [
                np.any(left.biases[-1] != right.biases[-1], axis=-1).tolist()
                for left, right in zip(before[:2], after[:2], strict=True)
            ]
        )
        kept.append(after.best_responses.biases[-1])
        state = trainer.next_stage(state)
    ego, first, second = [True, False], [[False, True], [True, False]], [[False, True], [False, True]]
    assert moved == [first, [ego, [False, False]], second, [ego, [False, False]]]
    saved = np.asarray(trainer.population(state).best_responses.network.biases[-1])
    np.testing.assert_array_equal(saved, [kept[0][1], kept[2][1], kept[3][0]])


def test_the_ego_learns_to_serve_the_first_rounds_teammate(tmp_path: Path) -> None:
    """Eight chunks: rows 1 and 3 are written when the teammate of the first round has learned, and when the ego has."""
    options = {"population_size": 2, "total_steps": 48_000, "chunk_steps": 6_000, "hidden_sizes": (8,), "entropy": 0.02}
    coverset.generate("matrix", method="rotate", out=tmp_path, ego_share=0.5, learning_rate=0.01, **options)
    rows = [json.loads(line)["method"] for line in (tmp_path / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["round"], row["ego_learns"]) for row in rows] == [
        (1, 0), (1, 1), (1, 1), (2, 0), (2, 0), (2, 1), (2, 1), (2, 1),
    ]  # fmt: skip
    before, after = rows[1]["ego_return"][0], rows[3]["ego_return"][0]
    assert after > before + 1.0
    assert rows[1]["regret"] > 1.0


@pytest.mark.parametrize("changes", [{"self_play_weight": 0.0}, {"ego_share": 0.0}, {"ego_share": 1.0}])
def test_settings_are_checked(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        ROTATE(**changes)
