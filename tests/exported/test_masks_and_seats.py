"""Exported policies of games with illegal actions and several seats: alike in every action, and never illegal."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.exported.archive import read_archive
from coverset.exported.file import export_policy, load_exported
from coverset.policies.actor import ActorPolicy
from coverset.policies.network import NetworkSpec
from coverset.policies.team import SharedSeats, build_network
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile
from coverset.types import Percept
from hostile_exports import entries, write
from picking import ITEMS, Greedy

SIZE, STEPS = ITEMS + 3, 64


def team_policy(*, separate: bool, kind: str = "dense") -> ActorPolicy:
    """An untrained teammate for two seats, which matter a lot to it."""
    spec = NetworkSpec((SIZE,), ITEMS, (8,), memory_size=4, num_seats=2, separate_seats=separate)
    network = build_network(kind, jax.random.key(0), spec)
    if isinstance(network, SharedSeats):
        network = eqx.tree_at(lambda shared: shared.embedding, network, replace_fn=lambda x: 20.0 * x)
    return ActorPolicy(network, kind, spec)


def percepts(*, seat: bool) -> Percept:
    """Random observations with random masks, of which each allows an action."""
    keys = jax.random.split(jax.random.key(1), 3)
    legal = jax.random.bernoulli(keys[1], 0.4, (STEPS, ITEMS)).at[:, 1].set(True)
    return Percept(
        jax.random.normal(keys[0], (STEPS, SIZE)),
        jnp.zeros(STEPS),
        jnp.zeros(STEPS, bool),
        legal,
        1 + jnp.arange(STEPS, dtype=jnp.int32) % 2 if seat else None,
    )


def actions_of(policy: Policy, seen: Percept) -> np.ndarray:
    """What a policy does in one trial."""

    def step(memory, given):
        key, percept = given
        action, memory = policy.act(key, percept, memory)
        return memory, action

    first = seen._replace(first=seen.first.at[0].set(True))
    keys = jax.random.split(jax.random.key(2), STEPS)
    return np.asarray(jax.lax.scan(step, policy.initial_memory(), (keys, first))[1])


@pytest.mark.parametrize(("separate", "kind"), [(False, "dense"), (True, "gru")])
def test_a_teammate_plays_its_seats_alike_and_legally(separate: bool, kind: str, tmp_path: Path) -> None:
    policy, seen = team_policy(separate=separate, kind=kind), percepts(seat=True)
    loaded = load_exported(export_policy(policy, "picking:trio", 1, tmp_path / "team.zip"))
    chosen = actions_of(loaded, seen)
    np.testing.assert_array_equal(chosen, actions_of(policy, seen))
    assert np.asarray(seen.legal)[np.arange(STEPS), chosen].all()
    elsewhere = actions_of(loaded, seen._replace(seat=3 - seen.seat))
    assert (chosen != elsewhere).any()
    assert read_archive(tmp_path / "team.zip")[0]["further_inputs"] == ["legal", "seat"]


def test_an_ego_is_told_the_legal_actions_alone(tmp_path: Path) -> None:
    file = export_policy(Greedy(jnp.float32(1.0)), "picking:trio", 0, tmp_path / "ego.zip")
    about = read_archive(file)[0]
    assert (about["further_inputs"], about["num_seats"], about["seat"]) == (["legal"], 3, 0)
    seen = percepts(seat=False)
    chosen = actions_of(load_exported(file), seen)
    np.testing.assert_array_equal(chosen, [np.flatnonzero(row)[-1] for row in np.asarray(seen.legal)])


def test_a_game_of_two_without_masks_adds_nothing(tmp_path: Path) -> None:
    from hostile_exports import Remembering

    about = read_archive(export_policy(Remembering(), "matrix", 1, tmp_path / "plain.zip"))[0]
    assert "further_inputs" not in about


def test_what_an_exported_policy_is_not_told_is_named(tmp_path: Path) -> None:
    loaded = load_exported(export_policy(team_policy(separate=False), "picking:trio", 1, tmp_path / "team.zip"))
    bare = Percept(jnp.zeros(SIZE), jnp.float32(0.0), jnp.bool_(True))
    with pytest.raises(ValueError, match="must be told which actions are legal: its percept has no legal"):
        loaded.act(jax.random.key(0), bare, loaded.initial_memory())
    with pytest.raises(ValueError, match="must be told which seat it plays: its percept has no seat"):
        loaded.act(jax.random.key(0), bare._replace(legal=jnp.ones(ITEMS, bool)), loaded.initial_memory())


@pytest.mark.parametrize("names", [["seat", "legal"], ["legal", "legal"], ["key"], "legal", [0]])
def test_files_with_other_inputs_are_refused(names, tmp_path: Path) -> None:
    source = export_policy(team_policy(separate=False), "picking:trio", 1, tmp_path / "team.zip")
    content = entries(source)
    about = json.loads(content["about.json"]) | {"further_inputs": names}
    damaged = write(tmp_path / "damaged.zip", content | {"about.json": json.dumps(about).encode()})
    with pytest.raises(DamagedFile, match=r"must give further_inputs in about\.json as a list of legal and seat, got"):
        load_exported(damaged)


def test_a_program_with_fewer_inputs_than_it_says_is_refused(tmp_path: Path) -> None:
    source = export_policy(team_policy(separate=False), "picking:trio", 1, tmp_path / "team.zip")
    content = entries(source)
    about = json.loads(content["about.json"]) | {"further_inputs": ["legal"]}
    damaged = write(tmp_path / "damaged.zip", content | {"about.json": json.dumps(about).encode()})
    with pytest.raises(DamagedFile, match=r"step\.bin"):
        load_exported(damaged)
