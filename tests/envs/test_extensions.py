"""What games bring besides their rules, in general: heuristics, oracles, drawings, and those that others register."""

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.base import Environment
from coverset.envs.drawing import Action, Board
from coverset.envs.extensions import (
    best_response,
    describe_heuristics,
    draw_board,
    draw_scene,
    heuristics,
    load_plugins,
    oracles,
)
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.matrix.heuristics import MixedAction
from coverset.envs.oracle import Oracle
from coverset.envs.overcooked import Overcooked
from coverset.envs.reaching import WEIGHTED, Reaching, ReachingState
from coverset.envs.registry import make
from coverset.evaluation.cross_play import cross_play
from coverset.learning.rollout import play_trial
from coverset.policies.stacked import stack
from heuristic_play import stacked_heuristics

SIGMAS = 5.0
WEIGHTED_REACHING = Reaching(payoffs=WEIGHTED, ends_apart=True)
COSTLY = Reaching(payoffs=((2.0, 0, 0, 0), (0, -1.0, 0, 0), (0, 0, 3.0, 0), (0, 0, 0, 1.0)), size=4, horizon=9)
SHORT_FORAGING = Foraging(horizon=7)
ORDERS = ["1-2-3", "1-3-2", "2-1-3", "2-3-1", "3-1-2", "3-2-1"]


def test_heuristics_are_described_and_unknown_environments_have_none() -> None:
    for environment in (
        MatrixGame(),
        Reaching(),
        WEIGHTED_REACHING,
        Foraging(),
        Foraging(objects="random", num_objects=6),
    ):
        assert describe_heuristics(environment).keys() == heuristics(environment).keys()
        assert all(sentence.endswith(".") for sentence in describe_heuristics(environment).values())
    orders = [describe_heuristics(Foraging())[f"H{number}"] for number in range(3, 9)]
    assert orders == [f"Collects the objects in the order {order}." for order in ORDERS]
    assert len(heuristics(Foraging(objects="random", num_objects=6))) == 2


class Other(Environment):
    """A game that brings nothing but its rules."""

    horizon = observation_size = 1
    num_actions = (1, 1)
    reset = step = observe = render = lambda *_: None


def test_a_game_brings_nothing_by_default() -> None:
    assert heuristics(Other()) == describe_heuristics(Other()) == oracles(Other()) == {}
    assert draw_board(Other()) is draw_scene(Other(), ()) is best_response(Other(), MixedAction(jnp.ones(1))) is None


def test_what_is_registered_for_a_class_holds_for_its_subclasses_and_for_no_other() -> None:
    class Theirs(Other):
        pass

    class Special(Theirs):
        def heuristics(self):
            raise AssertionError("a registered function must replace the method")

    only = {"only": MixedAction(jnp.ones(1))}

    @heuristics.register(Theirs)
    def _(environment: Theirs):
        return only

    @best_response.register(Theirs)
    def _(environment: Theirs, partner, seat=0):
        return Oracle(float(seat), exact=True, full_information=2.0) if partner is only["only"] else None

    @draw_board.register(Theirs)
    def _(environment: Theirs):
        return Board("Wait.", ([Action("wait")], [Action("wait")]))

    assert heuristics(Special()) == heuristics(Theirs()) == only
    assert oracles(Special(), seat=1)["only"].value == 1.0
    assert draw_board(Special()).rules == "Wait."
    assert heuristics(Other()) == {}


PLUGIN = """
import coverset
from coverset.envs.drawing import Board
from test_extensions_game import Quiet

coverset.draw_board.register(Quiet)(lambda environment: Board("Drawn by a plugin.", ([], [])))
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution with one plugin module, until the test ends."""

    def write(source: str) -> None:
        (tmp_path / "a_plugin.py").write_text(source)
        metadata = tmp_path / "a_plugin-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[coverset.plugins]\na-plugin = a_plugin\n")
        monkeypatch.syspath_prepend(tmp_path)
        load_plugins.cache_clear()

    yield write
    sys.modules.pop("a_plugin", None)
    load_plugins.cache_clear()


def test_an_installed_plugin_is_imported_before_the_first_lookup(install, monkeypatch) -> None:
    class Quiet(Other):
        pass

    monkeypatch.setitem(sys.modules, "test_extensions_game", SimpleNamespace(Quiet=Quiet))
    assert draw_board(Quiet()) is None
    install(PLUGIN)
    assert draw_board(Quiet()).rules == "Drawn by a plugin."


def test_a_plugin_that_cannot_be_imported_is_named(install) -> None:
    install("raise RuntimeError('no licence')")
    with pytest.raises(ValueError, match=r"plugin 'a-plugin' is installed but cannot be loaded: .*no licence"):
        heuristics(Other())


@pytest.mark.parametrize(
    "environment", [MatrixGame(), WEIGHTED_REACHING, Reaching(), Foraging(), Foraging(size=7), Overcooked()]
)
def test_boards_and_scenes_of_our_games_are_plain_json(environment: Environment) -> None:
    state = jax.device_get(environment.reset(jax.random.key(0)))
    for drawn in (draw_board(environment), draw_scene(environment, state)):
        assert json.loads(json.dumps(asdict(drawn)))
    assert [len(actions) for actions in draw_board(environment).actions] == list(environment.num_actions)


@pytest.mark.parametrize(
    ("environment", "cells", "played"),
    [
        (WEIGHTED_REACHING, [(0, 0), (4, 4)], (0, 2)),
        (WEIGHTED_REACHING, [(0, 4), (4, 0)], (1, 3)),
        (WEIGHTED_REACHING, [(0, 0), (4, 3)], None),
        (Reaching(), [(0, 0), (4, 4)], None),
        (Reaching(), [(4, 4), (4, 4)], (2, 2)),
        (Reaching(), [(2, 2), (2, 2)], None),
    ],
)
def test_a_reaching_scene_marks_the_corners_that_end_the_episode(environment: Reaching, cells, played) -> None:
    state = ReachingState(np.array(cells, np.int32), np.int32(3))
    scene = draw_scene(environment, state)
    assert scene.positions == tuple(cells)
    assert scene.played == played
    assert bool(environment._reward(jnp.array(cells))[1]) == (played is not None)


def as_tuples(table: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.astype(float).tolist())


def test_seats_swap_with_the_table() -> None:
    payoffs = as_tuples(np.random.default_rng(0).integers(-3, 9, (4, 4)))
    transposed = tuple(zip(*payoffs, strict=True))
    for kind in (partial(Reaching, ends_apart=True, horizon=12), Reaching, MatrixGame):
        assert oracles(kind(payoffs=payoffs), seat=1) == oracles(kind(payoffs=transposed), seat=0)


def played_returns(environment: Environment, agents, partners, seat: int, trials: int, episodes: int) -> np.ndarray:
    """Agent n with partner n, [n, trials * episodes]."""

    def trial(key, agent, partner):
        policies = (agent, partner) if seat == 0 else (partner, agent)
        return play_trial(key, environment, policies, episodes=episodes).returns

    def pair(key, agent, partner):
        return jax.vmap(trial, (0, None, None))(jax.random.split(key, trials), agent, partner).reshape(-1)

    keys = jax.random.split(jax.random.key(1), len(jax.tree.leaves(partners)[0]))
    return np.asarray(jax.jit(jax.vmap(pair))(keys, agents, partners))


@pytest.mark.parametrize("name", ["matrix", "reaching", "weighted-reaching", "foraging"])
def test_the_documentation_has_the_values(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "concepts" / "oracles.md").read_text()
    section = text.split(f"### `{name}`")[1].split("###")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| H")]
    written = {heuristic: (oracle, full_information) for heuristic, _, oracle, full_information in rows}
    wanted = {}
    for heuristic, oracle in oracles(make(name)).items():
        label = "" if oracle.exact else "at most "
        wanted[heuristic] = (f"{label}{oracle.value:.4f}", f"{label}{oracle.full_information:.4f}")
    assert written == wanted


@pytest.mark.parametrize(("environment", "seat"), [(MatrixGame(horizon=3), 1), (WEIGHTED_REACHING, 0)])
def test_the_oracles_policy_earns_what_it_says(environment: Environment, seat: int) -> None:
    found = oracles(environment, seat).values()
    agents = stack([oracle.policy for oracle in found])
    partners = stacked_heuristics(environment)
    returns = played_returns(environment, agents, partners, seat, trials=300, episodes=4)
    error = returns.std(axis=1) / np.sqrt(returns.shape[1])
    assert (abs(returns.mean(axis=1) - [oracle.value for oracle in found]) <= SIGMAS * error + 1e-4).all()


@pytest.mark.parametrize(
    ("environment", "seat", "at_random"),
    [(WEIGHTED_REACHING, 0, False), (COSTLY, 1, True), (SHORT_FORAGING, 1, False)],
    ids=["weighted", "costly", "foraging"],
)
def test_nobody_beats_the_oracle(environment: Environment, seat: int, at_random: bool) -> None:
    """Every heuristic as the agent (among them a walk to each corner), or one that acts at random."""
    partners, bounds = stacked_heuristics(environment), oracles(environment, seat).values()
    actions = environment.num_actions[seat]
    agents = stack([MixedAction(jnp.full(actions, 1.0 / actions))]) if at_random else partners
    pair = (agents, partners) if seat == 0 else (partners, agents)
    returns = np.asarray(cross_play(jax.random.key(3), environment, *pair, trials=100).returns)[..., 0]
    returns = returns if seat == 0 else returns.swapaxes(0, 1)
    error = returns.std(axis=-1) / np.sqrt(returns.shape[-1])
    for kind in ("value", "full_information"):
        bound = np.array([getattr(oracle, kind) for oracle in bounds])
        assert (returns.mean(axis=-1) <= bound + SIGMAS * error + 1e-4).all()


def test_what_has_no_oracle() -> None:
    assert best_response(Reaching(), MixedAction(jnp.ones(5) / 5)) is None
    with pytest.raises(ValueError, match="seat must be 0 or 1, got 2"):
        oracles(MatrixGame(), seat=2)
    with pytest.raises(ValueError, match="seat must be 0 in a game where"):
        oracles(MatrixGame(payoffs=((1.0, 2.0, 3.0),)), seat=1)
