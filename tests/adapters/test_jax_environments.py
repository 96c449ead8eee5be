"""Environments that other packages have written in JAX: the contract, and the documented commands at toy size."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
import pages
import toy_run
from coverset.adapters.jaxmarl import JaxMarl, overcooked
from coverset.adapters.jumanji import JumanjiForaging
from coverset.cli.main import run
from coverset.envs.conformance import check_environment

SMALL = toy_run.words(minibatches=1, total_steps=2 * 80)
BRIEF = {"total_steps": 64, "chunk_steps": 64, "envs_per_partner": 2, "rollout_length": 4, "episodes_per_trial": 2}
TINY = {"hidden_sizes": (4,), "memory_size": 4, "minibatches": 1}


def pipeline(word: str, out: Path, monkeypatch) -> np.ndarray:
    """Run the page's command that holds `word`, which checks the contract, and train, all in small; its cross-play."""
    monkeypatch.setattr("coverset.evaluation.summary.TRIALS", 2)
    assert run([*pages.command("docs/how-to/integrations.md", word), *SMALL, "--out", str(out)]) == 0
    (agent,) = coverset.train(out, **BRIEF, **TINY)
    assert agent["env_steps"] == 64
    return np.array(json.loads((out / "seed-0" / "summary.json").read_text())["cross_play"])


def test_jumanji_foraging_keeps_its_own_rules() -> None:
    environment = JumanjiForaging(size=5, num_objects=1, horizon=6, sight=5)
    check_environment(environment, quick=True)
    state = jax.jit(environment.reset)(jax.random.key(0))
    text = environment.render(state)
    assert {"X", "O"} <= set(text)
    place = state.inner.food_items.position[0]
    beside = jnp.stack([place + jnp.array([0, 1]), place - jnp.array([0, 1])])
    inner = state.inner.replace(agents=state.inner.agents.replace(position=beside))
    reached = jax.jit(environment.step)(jax.random.key(0), state._replace(inner=inner), jnp.array([5, 5]))
    assert bool(reached.terminated)
    assert float(reached.reward) == pytest.approx(1.0), "both load the only object"
    assert not bool(reached.truncated)


def test_jumanji_foraging_is_trained_and_crossed(tmp_path: Path, monkeypatch) -> None:
    returns = pipeline("size=6", tmp_path, monkeypatch)
    assert returns.shape == (2, 2)
    assert np.all((returns >= 0) & (returns <= 1))


def test_overcooked_keeps_its_own_rules() -> None:
    environment = overcooked("cramped_room", horizon=8)
    check_environment(environment, quick=True)
    assert environment.num_actions == (6, 6)
    assert environment.observation_size == 4 * 5 * 26
    step = jax.jit(environment.step)
    state = jax.jit(environment.reset)(jax.random.key(0))
    for _ in range(8):
        reached = step(jax.random.key(0), state, jnp.array([4, 4]))
        assert (bool(reached.terminated), bool(reached.truncated)) == (False, int(reached.state.time) == 8)
        state = reached.state


def test_overcooked_pays_for_steps_on_the_way_if_asked_to() -> None:
    """In 30 random steps nobody delivers a soup, but somebody puts an onion into the pot."""
    plain, shaped = (overcooked("cramped_room", horizon=30, shaping=weight) for weight in (0.0, 1.0))

    def returns(environment, key):
        def step(state, key):
            actions_key, step_key = jax.random.split(key)
            reached = environment.step(step_key, state, jax.random.randint(actions_key, (2,), 0, 6))
            return reached.state, reached.reward

        return jnp.sum(jax.lax.scan(step, environment.reset(key), jax.random.split(key, 30))[1])

    keys = jax.random.split(jax.random.key(0), 64)
    earned = [np.asarray(jax.jit(jax.vmap(lambda key, e=game: returns(e, key)))(keys)) for game in (plain, shaped)]
    assert np.all(earned[0] == 0)
    assert np.any(earned[1] > 0)


@pytest.mark.slow
def test_overcooked_is_trained_and_crossed(tmp_path: Path, monkeypatch) -> None:
    returns = pipeline("coverset.adapters.jaxmarl:overcooked", tmp_path, monkeypatch)
    assert returns.shape == (2, 2)
    assert np.all(returns >= 0)


def test_what_is_no_such_environment_is_named() -> None:
    with pytest.raises(ValueError, match=r"layout must be one of .*, got 'kitchen'"):
        overcooked("kitchen")
    with pytest.raises(ValueError, match="must make a JaxMARL environment, got MatrixGame"):
        JaxMarl("coverset.envs.matrix:MatrixGame", horizon=3)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("size", 4, "be at least 5 as Jumanji requires"),
        ("num_objects", 0, "lie between 1 and 6"),
        ("num_objects", 7, "lie between 1 and 6"),
        ("num_objects", 50, "lie between 1 and 6"),
        ("sight", 0, "be at least 1"),
        ("max_level", 0, "be at least 2 as Jumanji requires"),
        ("max_level", 1, "be at least 2 as Jumanji requires"),
        ("penalty", float("nan"), "be a finite number"),
    ],
)
def test_what_jumanji_cannot_make_is_named(field: str, value: float, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} must {allowed}, got {value}"):
        JumanjiForaging(**{field: value})


@pytest.mark.parametrize(("size", "most"), [(5, 1), (6, 2), (8, 6)])
def test_jumanji_makes_as_many_objects_as_we_allow(size: int, most: int) -> None:
    assert JumanjiForaging(size=size, num_objects=most).observation_size == 3 * (most + 2)
