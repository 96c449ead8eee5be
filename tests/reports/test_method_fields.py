"""Method-specific metrics: stacked whatever their names and shapes, and plotted by the training figure."""

import json

import numpy as np
import pytest

from coverset.reports.figures import training_figure
from coverset.reports.method_fields import stack_method_fields
from coverset.reports.records import check_run_row, read_multipliers
from reports.synthetic import write_run


def rows_with(*contents: dict | None) -> list[dict]:
    return [{} if content is None else {"method": content} for content in contents]


def test_numbers_vectors_matrices_and_objects_are_stacked_over_rows():
    first = {"beta": 0.5, "bonus": [1, 2], "weights": [[1, 2], [3, None]], "loss": {"actor": 1.0, "critic": None}}
    fields = stack_method_fields(rows_with(first, {**first, "beta": 0.25}))
    np.testing.assert_array_equal(fields["beta"][""], [0.5, 0.25])
    assert fields["bonus"][""].shape == (2, 2)
    np.testing.assert_array_equal(fields["weights"][""][1], [[1, 2], [3, np.nan]])
    np.testing.assert_array_equal(fields["loss"]["actor"], [1, 1])
    assert "critic" not in fields["loss"]


def test_rows_without_a_field_are_nan_and_other_values_are_left_out():
    fields = stack_method_fields(rows_with(None, {"beta": 1.0, "name": "mine", "size": [1]}, {"size": [1, 2]}, {}))
    assert list(fields) == ["beta"]
    np.testing.assert_array_equal(fields["beta"][""], [np.nan, 1.0, np.nan, np.nan])


def test_multipliers_have_no_diagonal():
    square = [[0.0, 0.5], [0.25, 0.0]]
    row = {"method": {"multipliers": {"other_best_response": square, "other_teammate": square}}}
    fields = stack_method_fields([row])
    np.testing.assert_array_equal(fields["multipliers"]["other_teammate"][0], [[np.nan, 0.5], [0.25, np.nan]])
    assert read_multipliers(row) == row["method"]["multipliers"]


@pytest.mark.parametrize("row", [{}, {"method": None}, {"method": {}}, {"method": {"multipliers": [0.5, 1.0]}}])
def test_methods_without_multipliers_of_constraints_have_none(row):
    assert read_multipliers(row) is None


@pytest.mark.parametrize(("method", "panels"), [({}, 4), ({"beta": 0.1}, 5), ({"beta": 0.1, "bonus": [1, 2]}, 6)])
def test_the_training_figure_plots_every_field_of_the_method(tmp_path, method, panels):
    write_run(tmp_path, env="matrix", method="mine", seed=0, size=2, level=1.0)
    summary = json.loads((tmp_path / "summary.json").read_text())
    rows = [json.loads(line) | {"method": method} for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        check_run_row(row, size=2)
    figure = training_figure(summary, rows)
    shown = [ax for ax in figure.axes if ax.axison]
    assert len(shown) == panels
    assert [ax.get_ylabel() for ax in shown[4:]] == list(method)
    assert all(ax.lines for ax in shown)


def test_every_pair_has_a_panel_for_its_gaps_and_one_for_its_multipliers(tmp_path):
    write_run(tmp_path, env="matrix", method="lbrdiv", seed=0, size=3, level=1.0)
    summary = json.loads((tmp_path / "summary.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    figure = training_figure(summary | {"game": "overcooked cramped_room"}, rows)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["", "", *["pair 1", "pair 2", "pair 3"] * 2]
    assert all(len(ax.lines) <= 2 * 3 + 1 for ax in figure.axes)  # both kinds, for each pair, and the line at 0
    assert figure.get_suptitle().startswith("overcooked cramped_room")


def test_kinds_that_are_counted_at_the_end_are_no_flat_line(tmp_path):
    """A game that names no conventions finds no member in any row: a curve would lie at 0."""
    write_run(tmp_path / "seed-0", env="matrix", method="lbrdiv", seed=0, size=3, level=1.0)
    rows = [json.loads(line) for line in (tmp_path / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((tmp_path / "seed-0" / "summary.json").read_text())
    panel = training_figure(summary | {"coverage_size": None, "coverage_found": 2}, rows).axes[1]
    assert not panel.lines
    assert panel.texts[0].get_text() == "kinds of teammates at the end: 2"
    assert training_figure(summary, rows).axes[1].lines
