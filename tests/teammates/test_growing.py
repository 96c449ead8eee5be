"""Growing a coverage set: the grid of probes, the choice of members, the length of rounds, and whole runs."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coverset
from coverset.envs.matrix import MatrixGame
from coverset.pipeline.loop import Reporter, Stopped
from coverset.presets import resolve_generation
from coverset.teammates.method import Seen
from coverset.teammates.methods.growing import (
    PATIENCE,
    RELATIVE_PATIENCE,
    WINDOW,
    Growing,
    choose_members,
    follow_rise,
    measure_regrets,
    settling_progress,
    start_rise,
)
from coverset.teammates.probe_grid import ProbeGrid
from coverset.teammates.trainer import Trainer

GRID = ProbeGrid(rows=5, columns=3, per_pair=1, extra_self_play=3)  # two members, three probes
TABLE = np.array(MatrixGame().payoffs)
SMALL = {
    "total_steps": 1_500_000, "hidden_sizes": (32, 32), "rollout_length": 4, "epochs": 4, "chunk_steps": 50_000,
    "probes": 8, "population_size": 4, "extra_self_play": 8,
}  # fmt: skip


def test_members_and_probes_play_with_every_probe_and_probes_mostly_with_themselves() -> None:
    assert GRID.row_size == 6
    counts = GRID.cell_sums(jnp.ones((5, GRID.row_size)))
    assert counts.tolist() == [[2, 2, 2], [2, 2, 2], [4, 1, 1], [1, 4, 1], [1, 1, 4]]
    pairs = zip(np.ravel(GRID.best_responses()).tolist(), np.ravel(GRID.teammates()).tolist(), strict=True)
    counted = np.zeros((5, 3))
    for pair in pairs:
        counted[pair] += 1
    assert counted.tolist() == counts.tolist()
    assert GRID.in_self_play().sum(axis=1).tolist() == [0, 0, 4, 4, 4]


def test_environments_are_enough_for_any_number_of_probes() -> None:
    settings, _ = resolve_generation("matrix", "growing", "fast", extra_self_play=16)
    assert [Growing(probes=count).grid(settings).extra_self_play for count in (1, 5, 16, 24)] == [16, 20, 16, 24]


def test_grouping_by_teammate_keeps_every_environment() -> None:
    environments = jnp.arange(5 * 6).reshape(5, 6)
    grouped = GRID.by_teammate(environments)
    assert grouped.shape == (3, GRID.column_size)
    assert (GRID.by_best_response(grouped) == environments).all()
    teammates = GRID.by_teammate(GRID.teammates())
    assert (teammates == jnp.arange(3)[:, None]).all(), "a row of the view is one teammate's"


def test_cells_of_unequal_size_weigh_alike_after_the_correction() -> None:
    """A teammate's objective is the mean of self-play plus the means of the members' cells, up to one factor."""
    values = jax.random.normal(jax.random.key(0), (5, 6))
    own = GRID.per_pair + GRID.extra_self_play
    corrected = GRID.by_teammate(values * GRID.importance(1)).mean(axis=1) * GRID.column_size / own
    sums, counts = GRID.cell_sums(values), np.maximum(GRID.cell_sums(jnp.ones((5, 6))), 1)
    np.testing.assert_allclose(corrected, (sums / counts).sum(axis=0), rtol=1e-5)


def grown_state(size: int, probes: int = 4):
    """A method with room for two members, and what it remembers when it has `size` of them."""
    method = Growing(probes=probes)
    settings, _ = resolve_generation("matrix", method, "fast", population_size=2, extra_self_play=probes)
    state = Trainer(MatrixGame(), method, settings).init(jax.random.key(0)).method
    return method, state._replace(size=jnp.int32(size))


def seen_values(values):
    return Seen(*[None] * 3, jnp.asarray(values, jnp.float32), *[None] * 3)  # pyright: ignore[reportArgumentType]


def test_weights_are_the_gradient_of_the_probes_objective() -> None:
    method, state = grown_state(2)
    values = 10.0 * jax.random.normal(jax.random.key(1), (6, 4))
    rivals = method.update(state, seen_values(values)).rivals

    def objective(returns):
        return jnp.trace(returns[2:]) - jnp.sum(rivals * returns)

    weights = method.weights(state._replace(rivals=rivals))
    np.testing.assert_allclose(weights.teammates, jax.grad(objective)(jnp.zeros((6, 4))))
    np.testing.assert_allclose(weights.best_responses, np.vstack([np.zeros((2, 4)), np.eye(4)]))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_rivals_of_a_probe_are_the_members_and_the_probes_before_it(size: int) -> None:
    method, state = grown_state(size)
    values = np.ones((6, 4)) + np.eye(6, 4, -2)
    rivals = np.asarray(method.update(state, seen_values(values)).rivals)
    expected = np.zeros((6, 4), bool)
    expected[:size] = True
    expected[2:] = np.triu(np.ones((4, 4), bool), 1)
    assert ((rivals > 0.0) == expected).all()
    np.testing.assert_allclose(rivals.sum(axis=0), expected.any(axis=0), rtol=1e-5)


def test_rivals_that_earn_most_count_and_less_for_a_patient_probe_that_earns_less() -> None:
    method, state = grown_state(2)
    values = np.zeros((6, 4))
    values[1] = 8.0
    values[2, 0], values[3, 1], values[5, 3] = 8.0, 2.0, 16.0
    rivals = np.asarray(method.update(state, seen_values(values)).rivals)
    np.testing.assert_allclose(rivals[1], [1.0, 0.25, 1.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(rivals[[0, 2, 3, 4, 5]], 0.0, atol=1e-3)


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 5.0), (1e3, -7.0)])
def test_rivals_do_not_depend_on_the_scale_of_returns(scale: float, shift: float) -> None:
    method, state = grown_state(2)
    values = np.random.default_rng(0).random((6, 4))
    plain, scaled = (method.update(state, seen_values(v)).rivals for v in (values, scale * values + shift))
    np.testing.assert_allclose(plain, scaled, rtol=0.1, atol=0.01)


def test_teammates_start_with_preferences_of_their_own() -> None:
    method = Growing(probes=64, initial_preference=2.0)
    settings, _ = resolve_generation("matrix", method, "fast", population_size=2, extra_self_play=64)
    networks = Trainer(MatrixGame(), method, settings).init(jax.random.key(0)).optimised.networks
    read = jax.vmap(lambda network: network.step(jnp.ones(1), ())[0])
    # Weights and offset of the last layer both have the standard deviation that was asked for.
    assert np.std(read(networks.teammates)) == pytest.approx(2.0 * 2.0**0.5, rel=0.25)
    assert np.std(read(networks.best_responses)) < 0.1


def test_the_set_of_the_papers_game_is_chosen_whatever_the_order_and_the_duplicates() -> None:
    for actions in itertools.permutations((0, 1, 2, 0, 2)):
        returns = TABLE[np.ix_(actions, actions)]
        members = choose_members(returns, margin=1.0, most=8)
        assert sorted(actions[member] for member in members) == [0, 1, 2]
        assert actions[members[0]] == 0, "the pair that earns most comes first"


def test_a_pair_is_taken_only_if_its_regret_exceeds_the_margin() -> None:
    assert len(choose_members(TABLE, margin=1.999, most=8)) == 3
    assert len(choose_members(TABLE, margin=2.0, most=8)) == 2
    assert len(choose_members(TABLE, margin=0.0, most=1)) == 1
    assert choose_members(np.zeros((4, 4)), margin=0.1, most=8) == [0], "a set is never empty"


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 1e3]), st.sampled_from([-5.0, 0.0, 7.0]))
def test_the_choice_covers_all_pairs_and_ignores_scale_and_shift(seed: int, scale: float, shift: float) -> None:
    returns = np.random.default_rng(seed).random((6, 6))
    members = choose_members(returns, margin=0.1, most=6)
    assert (np.diagonal(returns) - returns[members].max(axis=0) <= 0.1).all()
    assert choose_members(scale * returns + shift, margin=0.1 * scale, most=6) == members


def test_regrets_of_probes_are_against_the_members_alone() -> None:
    np.testing.assert_allclose(measure_regrets(TABLE, 1, floor=0.0), [6.0, 2.0])
    np.testing.assert_allclose(measure_regrets(TABLE, 2, floor=0.0), [2.0])
    np.testing.assert_allclose(measure_regrets(TABLE, 0, floor=4.0), [6.0, 2.0, 2.0])


def follow(values, longest: int = 1000):
    rise = start_rise(longest)
    progress = []
    for value in values:
        rise = follow_rise(rise, jnp.float32(value))
        progress.append(float(settling_progress(rise)))
    return np.array(progress)


def noise(count: int):
    return 0.01 * np.random.default_rng(0).standard_normal(count)


def test_a_round_goes_on_while_returns_rise_and_settles_when_they_do_not() -> None:
    rising = np.linspace(0.0, 1.0, 200)
    progress = follow(np.concatenate([rising, np.ones(300)]) + noise(500))
    assert (progress[:200] < 0.5).all()
    settled = int(np.argmax(progress >= 0.5)) + 1
    assert 200 + PATIENCE * WINDOW <= settled <= (1.0 + RELATIVE_PATIENCE) * 200 + PATIENCE * WINDOW
    assert int(np.argmax(progress >= 1.0)) + 1 == pytest.approx(1.5 * settled, abs=1)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_length_of_a_round_does_not_depend_on_the_scale_of_returns(scale: float) -> None:
    values = np.concatenate([np.linspace(0.0, 1.0, 60), np.ones(90)]) + noise(150)
    np.testing.assert_array_equal(follow(values) >= 0.5, follow(scale * values + scale) >= 0.5)


def test_noise_without_a_rise_does_not_end_a_round_before_its_longest() -> None:
    progress = follow(noise(300), longest=250)
    assert (progress[:249] < 0.5).all()
    assert progress[249] == 0.5


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A run of the paper's game with K not given."""
    out = tmp_path_factory.mktemp("growing")
    return coverset.generate("matrix", method="growing", seeds=[0], out=out, **SMALL)[0], out


def test_all_members_of_the_papers_game_are_found_and_no_more(grown) -> None:
    summary, _ = grown
    assert summary["coverage_found"] == summary["coverage_size"] == summary["population_size"] == 3
    regret = summary["coverage_regret"]
    assert regret["complete"]
    assert regret["largest"] < regret["margin"] == pytest.approx(1.0, abs=0.1)
    assert summary["env_steps"] < SMALL["total_steps"], "it ends when a round finds nothing"


def test_the_saved_population_holds_the_members(grown) -> None:
    summary, out = grown
    population, _ = coverset.load_population(out / "seed-0" / "policies.safetensors")
    assert len(summary["cross_play"]) == len(jax.tree.leaves(population.teammates)[0]) == 3
    rows = [json.loads(line) for line in (out / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["method"]["members"] == 3
    assert len(rows[-1]["method"]["regret"]) == SMALL["probes"]


class StopAfter(Reporter):
    """Asks to stop after some chunks."""

    def __init__(self, chunks: int) -> None:
        self.left = chunks

    def chunk(self, env_steps: int, status: str) -> None:
        self.left -= 1

    def should_stop(self) -> bool:
        return self.left <= 0


def test_stopped_within_and_between_rounds_a_run_ends_with_the_same_bytes(tmp_path) -> None:
    chosen: dict = {
        "method": "growing",
        "seeds": [5],
        "rounds": 3,
        **SMALL,
        "total_steps": 200_000,
        "chunk_steps": 20_000,
    }
    coverset.generate("matrix", out=tmp_path / "whole", **chosen)
    with pytest.raises(Stopped):
        coverset.generate("matrix", out=tmp_path / "stopped", reporter=StopAfter(2), **chosen)
    with pytest.raises(Stopped):
        coverset.generate("matrix", out=tmp_path / "stopped", reporter=StopAfter(3), resume=True, **chosen)
    coverset.generate("matrix", out=tmp_path / "stopped", resume=True, **chosen)
    for name in ("policies.safetensors", "metrics.jsonl"):
        whole, stopped = ((tmp_path / run / "seed-5" / name).read_bytes() for run in ("whole", "stopped"))
        assert whole == stopped, name
    rows = [json.loads(line) for line in (tmp_path / "whole" / "seed-5" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["method"]["round"] >= 2, "a stop may fall between two rounds"


def test_other_settings_of_the_grid_are_refused() -> None:
    for name, value in (("restart_patience", 10), ("share_pair_parameters", True)):
        with pytest.raises(ValueError, match=name):
            coverset.generate("matrix", method="growing", **{name: value})
