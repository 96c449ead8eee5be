"""What a method may do besides weighting pairs: bonus, loss, frozen policies, its own grid, settings and report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
from coverset.cli.tables import print_summaries
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.kinds import describe_kinds
from coverset.pipeline.generate import make_plan
from coverset.policies.stacked import count_members
from coverset.presets import resolve_generation
from coverset.settings import GenerateSettings
from coverset.teammates.collect import collect
from coverset.teammates.method import Frozen, PairWeights
from coverset.teammates.methods.brdiv import BRDiv
from coverset.teammates.registry import make_method, method_class, method_name
from coverset.teammates.trainer import Trainer, TrainState
from third_party_methods import Adjustable

GAME = MatrixGame(horizon=2)
ROWS, COLUMNS = 3, 2
NAME = "third_party_methods:Adjustable"
SETTINGS = GenerateSettings(
    population_size=COLUMNS,
    total_steps=1,
    hidden_sizes=(4,),
    envs_per_pair=2,
    rollout_length=2,
    epochs=1,
    entropy=0.0,
    discount=0.0,
    gae_lambda=0.0,
    normalise_advantages=False,
)
TOY: dict[str, Any] = {
    "hidden_sizes": (4,), "envs_per_pair": 2, "rollout_length": 2, "epochs": 1, "population_size": 2,
    "total_steps": 96, "chunk_steps": 48,
}  # fmt: skip
TRAINER = Trainer(GAME, Adjustable(), SETTINGS)
update = jax.jit(TRAINER.update)


@pytest.fixture(scope="module")
def start() -> TrainState:
    return jax.jit(TRAINER.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def moved(start: TrainState):
    """What an update does with everything as it is."""
    return update(start)


def adjust(state: TrainState, **changes: Any) -> TrainState:
    return state._replace(method=state.method._replace(**changes))


def changes_of(before, after) -> np.ndarray:
    """Which members of a stack have any leaf that moved."""
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    found = [np.any(np.asarray(a != b).reshape(len(a), -1), axis=1) for a, b in pairs if jnp.ndim(a)]
    return np.any(found, axis=0)


def test_the_grid_is_the_methods_own(start: TrainState, moved) -> None:
    _, metrics = moved
    assert (TRAINER.grid.rows, TRAINER.grid.columns, TRAINER.is_square) == (ROWS, COLUMNS, False)
    assert metrics.pair_values.shape == metrics.tally.returns.shape == (ROWS, COLUMNS)
    np.testing.assert_array_equal(metrics.tally.episodes, np.full((ROWS, COLUMNS), 2))
    assert changes_of(start.optimised.networks.best_responses, moved[0].optimised.networks.best_responses).all()


def test_frozen_policies_keep_their_networks_and_moments_while_others_move(moved) -> None:
    before = moved[0]
    frozen = Frozen(jnp.array([True, False, True]), jnp.array([False, True]))
    after, _ = update(adjust(before, frozen=frozen))
    for role, stay in frozen._asdict().items():
        for part in ("networks", "moments"):
            old, new = (getattr(getattr(state.optimised, part), role) for state in (before, after))
            np.testing.assert_array_equal(changes_of(old, new), ~np.asarray(stay))
    embeddings = [state.optimised.networks.critic.teammate_embedding for state in (before, after)]
    assert changes_of(*embeddings).any(), "the critic learns all the same"


def test_rows_and_columns_follow_weights_of_their_own(start: TrainState) -> None:
    random = np.random.default_rng(0)
    first, second = (jnp.asarray(random.normal(size=(ROWS, COLUMNS)), jnp.float32) for _ in range(2))
    both, only_first, only_second = (
        update(adjust(start, weights=PairWeights(*pair)))[0].optimised.networks
        for pair in ((first, second), (first, first), (second, second))
    )
    assert not changes_of(both.best_responses, only_first.best_responses).any()
    assert changes_of(both.best_responses, only_second.best_responses).all()
    assert not changes_of(both.teammates, only_second.teammates).any()
    assert changes_of(both.teammates, only_first.teammates).all()


def test_a_bonus_is_part_of_advantages_and_targets_and_not_of_reported_returns(start: TrainState, moved) -> None:
    """Without a future, a step's target is its reward."""
    networks = start.optimised.networks
    weights = PairWeights(*(jnp.ones((ROWS, COLUMNS)),) * 2)
    steps, _, _ = jax.jit(lambda s: collect(jax.random.key(1), GAME, TRAINER.grid, networks, s.playing, length=2))(
        start
    )
    plain, with_bonus = (
        TRAINER.batch(adjust(start, bonus=jnp.float32(bonus)), steps, weights)[0] for bonus in (0.0, 5.0)
    )
    wanted = np.where(np.asarray(steps.actions[..., 1]) == 0, 5.0, 0.0)
    assert 0 < wanted.mean() < 5
    np.testing.assert_allclose(plain.critic.target, np.swapaxes(steps.reward, 0, 1), atol=1e-5)
    np.testing.assert_allclose(with_bonus.critic.target - plain.critic.target, np.swapaxes(wanted, 0, 1), atol=1e-5)
    gained = with_bonus.best_responses.weighted_advantage - plain.best_responses.weighted_advantage
    np.testing.assert_allclose(gained, np.swapaxes(wanted, 0, 1), atol=1e-5)
    other, metrics = update(adjust(start, bonus=jnp.float32(5.0)))
    np.testing.assert_array_equal(metrics.tally.returns, moved[1].tally.returns)
    assert changes_of(other.optimised.networks.teammates, moved[0].optimised.networks.teammates).all()


def test_a_loss_moves_its_own_parameters_and_reaches_policies_through_logits(start: TrainState) -> None:
    """No pair has a weight, so that nothing but the method's loss moves policies; it reads logits of rows alone."""
    zeros = PairWeights(*(jnp.zeros((ROWS, COLUMNS)),) * 2)
    still, _ = update(adjust(start, weights=zeros))
    assert not changes_of(still.optimised.networks.best_responses, start.optimised.networks.best_responses).any()
    np.testing.assert_array_equal(*(state.optimised.networks.method["centre"] for state in (start, still)))
    state, distances = adjust(start, weights=zeros, loss=jnp.float32(1.0)), []
    for _ in range(3):
        state, metrics = update(state)
        distances.append(float(metrics.losses.method["distance"]))
    assert distances[0] > distances[1] > distances[2] > 0.0
    before, after = start.optimised.networks, state.optimised.networks
    assert changes_of(before.best_responses, after.best_responses).all()
    assert not changes_of(before.teammates, after.teammates).any()
    assert np.all(np.asarray(after.method["centre"]) < np.asarray(before.method["centre"]))
    assert int(state.optimised.moments.method.count) == 3


def test_a_method_sees_the_update_and_reports_what_it_likes(moved) -> None:
    state, metrics = moved
    reported = TRAINER.report(state)
    assert int(reported["updates"]) == 1
    np.testing.assert_array_equal(reported["seen_values"], metrics.pair_values)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("adjustable")
    summaries = coverset.generate("matrix", method=NAME, novelty=0.5, centring=2.0, out=out, **TOY)
    return out / "seed-0", summaries[0]


def test_a_method_by_its_place_trains_on_its_own_grid_with_its_own_settings(run) -> None:
    directory, summary = run
    config = json.loads((directory / "config.json").read_text())
    assert config["method"] == summary["method"] == NAME
    assert config["method_settings"] == {"num_best_responses": 3, "novelty": 0.5, "centring": 2.0}
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [row["method"]["updates"] for row in rows] == [2, 4]
    assert all(row["method"]["distance"] > 0 for row in rows)
    assert np.shape(rows[0]["method"]["seen_values"]) == np.shape(rows[0]["pair_returns"]) == (3, 2)
    assert rows[0]["gaps"] is None
    assert rows[0]["cross_play_return"] is not None


def test_populations_of_unequal_sizes_are_saved_and_measured(run) -> None:
    directory, summary = run
    population, _ = coverset.load_population(directory / "policies.safetensors")
    assert [count_members(policies) for policies in population] == [3, 2]
    for name in ("cross_play", "cross_play_standard_error", "cross_play_seats_swapped", "discounted_cross_play"):
        assert np.shape(summary[name]) == (3, 2)
    assert summary["gaps"] is summary["constraints_satisfied"] is summary["constraints_violated"] is None
    difference = np.abs(np.subtract(summary["cross_play"], summary["cross_play_seats_swapped"]))
    assert np.all(difference < 6 * np.array(summary["cross_play_standard_error"]) + 1e-6)
    assert (directory / "figures" / "cross-play.png").is_file()


def test_a_method_may_save_fewer_pairs_than_it_trains(tmp_path: Path) -> None:
    options = {**TOY, "population_size": 3}
    (summary,) = coverset.generate("matrix", method="third_party_methods:Selecting", out=tmp_path, **options)
    assert (summary["population_size"], np.shape(summary["cross_play"])) == (2, (2, 2))
    assert (tmp_path / "seed-0" / "figures" / "training.png").is_file()
    assert "damaged" not in Path(coverset.report(tmp_path)["page"]).read_text()


def test_a_run_of_unequal_sizes_has_a_report_and_a_row_in_the_table(run, tmp_path: Path, capsys) -> None:
    directory, summary = run
    page = Path(coverset.report(directory, out=tmp_path / "report.html")["page"])
    assert "damaged" not in page.read_text()
    print_summaries([summary])
    assert "violated" not in capsys.readouterr().out


def test_kinds_of_teammates_are_told_where_best_responses_are_more_or_fewer() -> None:
    """Best responses 1 and 3 serve one teammate each; the second serves none."""
    returns = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    assert describe_kinds(returns, 0.5)["conventions"] == ["kind A", "kind B"]
    assert describe_kinds(returns, 0.5)["covers"] == ["kind A", None, "kind B"]
    fewer = describe_kinds(returns.T, 0.5)
    assert fewer["coverage_found"] == len(fewer["covers"]) == 2
    assert len(fewer["conventions"]) == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"extra_self_play": 4}, "extra_self_play must be 0 where best responses and teammates differ in number"),
        ({"restart_patience": 4}, "restart_patience must be 0 where best responses and teammates differ in number"),
        ({"stop_patience": 4}, "stop_patience must be 0 where best responses and teammates differ in number"),
        ({"share_pair_parameters": True}, "share_pair_parameters must be"),
        ({"network": "gru", "minibatches": 2}, "minibatches must be 1 for recurrent networks on a grid that is not"),
        ({"minibatches": 3}, "minibatches must divide the 2 steps of a rollout, got 3"),
    ],
)
def test_settings_that_need_a_square_grid_are_refused_on_another(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Trainer(GAME, Adjustable(), replace(SETTINGS, **changes))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "third_party_methods:NotAMethod",
            r"must be a class that inherits from coverset\.teammates\.method\.Method\.$",
        ),
        ("third_party_methods:jnp", r"must be a class that inherits from coverset\.teammates\.method\.Method\.$"),
        ("third_party_methods:Adjustabel", r"method 'third_party_methods:Adjustabel' cannot be imported: .*\.$"),
        (
            "no_such_module:Method",
            r"method 'no_such_module:Method' cannot be imported: ModuleNotFoundError: No module named .*\.$",
        ),
        ("third_party_methods:", "cannot be imported|must be a class"),
        (":Adjustable", "cannot be imported"),
        ("brdvi", r"method must be lbrdiv, .* or module:Class, got 'brdvi'\. Did you mean 'brdiv'\?$"),
    ],
)
def test_what_is_no_method_is_told_in_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        method_class(name)
    assert "\n" not in str(refused.value)


def test_a_methods_name_finds_it_again() -> None:
    for method in (Adjustable(novelty=2.0), BRDiv(alpha=3.0)):
        assert method_class(method_name(method)) is type(method)
    assert method_name(BRDiv()) == "brdiv"
    assert method_name(Adjustable()) == NAME


def test_a_method_and_settings_may_be_given_as_objects_and_single_fields_replaced() -> None:
    settings = GenerateSettings(**TOY)
    plan = make_plan("matrix", method=Adjustable(novelty=2.0), settings=settings, margin=0.25, centring=3.0)
    assert plan.settings == replace(settings, margin=0.25)
    assert plan.method_settings == Adjustable(novelty=2.0, centring=3.0)
    assert plan.method == NAME
    by_name = make_plan("matrix", method=NAME, settings=settings, novelty=2.0, margin=0.25, centring=3.0)
    assert by_name.config(0) == plan.config(0)


def test_a_methods_object_keeps_its_settings_whatever_the_preset_says() -> None:
    settings, method = resolve_generation("reaching", BRDiv(alpha=3.0), "paper")
    assert method == BRDiv(alpha=3.0)
    assert settings == resolve_generation("reaching", "brdiv", "paper")[0]


@pytest.mark.parametrize(
    ("method", "changes", "sentence"),
    [
        ("lbrdiv", {"margn": 1.0}, r"setting must be one of .*, got 'margn'\. Did you mean 'margin'\?$"),
        ("brdiv", {"alpah": 1.0}, r"setting must be one of .*, got 'alpah'\. Did you mean 'alpha'\?$"),
        ("brdiv", {"max_multiplier": 1.0}, r"setting must be one of .*, got 'max_multiplier'\."),
        ("brdiv", {"alpha": "much"}, r"alpha must be a number, got 'much'\.$"),
        ("brdiv", {"alpha": -1.0}, r"alpha must be at least 0, got -1\.0\.$"),
        ("lbrdiv", {"multiplier_interval": 0}, r"multiplier_interval must be at least 1, got 0\.$"),
        (NAME, {"novelity": 1.0}, r"Did you mean 'novelty'\?$"),
    ],
)
def test_overrides_that_do_not_fit_are_told_in_one_sentence(method: str, changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        make_plan("matrix", method=method, **changes)
    assert "\n" not in str(refused.value)


def test_settings_of_a_method_are_checked_when_it_is_made() -> None:
    with pytest.raises(ValueError, match=r"a setting of BRDiv must be one of alpha, got 'beta'"):
        make_method("brdiv", beta=1.0)
