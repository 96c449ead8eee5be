"""Figures: the right kind for each size, regions where they belong, files whole or not at all."""

import numpy as np
import pytest

from coverset.solver import game_from_table, solve
from coverset.solver.drawing import draw, region_polygon, save


@pytest.mark.parametrize(
    "payoffs",
    [
        [[1, 1]],
        [[2, 0], [1, 1], [0, 2], [0, 2]],
        [[1, 1, 1]],
        [[10, 0, 4], [0, 6, 4], [4, 4, 6]],
        [[2, 0, 0], [1 + 1e-15, 1 + 1e-15, 0], [0, 2, 0]],
        [[3], [4]],
        np.eye(5),
        np.random.default_rng(0).random((45, 12)),
    ],
    ids=lambda payoffs: "x".join(map(str, np.shape(payoffs))),
)
def test_every_size_draws_and_saves(tmp_path, payoffs) -> None:
    path = tmp_path / "figure.png"
    save(draw(solve(payoffs)), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]


def test_regions_hold_their_best_responses_and_fill_the_triangle() -> None:
    payoffs = solve("matrix").game.floats()
    rng, inside = np.random.default_rng(0), 0.0
    for action in range(3):
        corners = region_polygon(payoffs, action)
        np.testing.assert_allclose(corners.sum(axis=1), 1.0)
        for mix in rng.dirichlet(np.ones(len(corners)), 50) @ corners:
            assert (payoffs @ mix)[action] >= (payoffs @ mix).max() - 1e-12
        x, y = corners[:, 0], corners[:, 1]
        inside += abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2.0
    assert inside == pytest.approx(0.5)


def test_names_with_dollar_signs_are_text_not_formulas(tmp_path) -> None:
    game = game_from_table([[1, 0, 0], [0, 1, 0]], ego_actions=["$x", "y$_{"], name="$")
    save(draw(solve(game)), tmp_path / "figure.svg")


def test_there_is_no_drawing_of_three_players() -> None:
    with pytest.raises(ValueError, match=r"no drawing of games with more than two players, and this one has 3\."):
        draw(solve(np.eye(4).reshape(4, 2, 2)))


def test_unwritable_figures_are_refused(tmp_path) -> None:
    figure = draw(solve("matrix"))
    with pytest.raises(ValueError, match=r"figure must end in one of .*\.png"):
        save(figure, tmp_path / "figure.xyz")
    with pytest.raises(ValueError, match="existing directory"):
        save(figure, tmp_path / "missing" / "figure.png")
    assert list(tmp_path.iterdir()) == []
