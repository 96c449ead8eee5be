"""Check that what a game lists as its symmetries leaves the game as it is.

Shapes are checked always; rewards, ends and observations where the initial distribution is known, and observations tell
its states apart: from an initial state and its relabelled one the same random actions, relabelled, are played.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from coverset.envs.base import Environment
from coverset.types import PyTree, Symmetry

PLAYS = 256
"""Random plays of each symmetry, from as many initial states or from all of them in turn."""
MOST_STEPS = 16
"""Steps that are played."""
TOLERANCE = 1e-4
"""Distance of observations and rewards that counts as none."""


def check_symmetries(environment: Environment) -> None:
    """Raise ValueError for the first listed symmetry that is none."""
    name, listed = type(environment).__name__, environment.symmetries
    if not (isinstance(listed, tuple) and all(isinstance(each, Symmetry) for each in listed)):
        raise ValueError(f"{name}.symmetries must be a tuple of Symmetry, got {listed!r}.")
    if not listed:
        return
    if len(set(environment.num_actions)) > 1 or len(set(environment.observation_shapes)) > 1:
        raise ValueError(f"{name}.symmetries must be empty where seats see or do different things.")
    sizes = {"observations": environment.observation_size, "actions": environment.num_actions[0]}
    for number, symmetry in enumerate(listed):
        for field, size in sizes.items():
            if sorted(getattr(symmetry, field)) != list(range(size)):
                raise ValueError(
                    f"{name}.symmetries[{number}].{field} must be a permutation of {size} numbers, "
                    f"got {getattr(symmetry, field)}."
                )
    if Symmetry(*(tuple(range(size)) for size in sizes.values())) not in listed:
        raise ValueError(f"{name}.symmetries must contain the identity.")
    known = environment.initial_states()
    if known is not None:
        _check_dynamics(environment, jax.tree.map(jnp.asarray, known[0]))


def _check_dynamics(environment: Environment, states: PyTree) -> None:
    observations = np.asarray(jax.vmap(environment.observe)(states))
    places = {each.tobytes(): place for place, each in enumerate(observations)}
    if len(places) < len(observations):
        return
    chosen, distance = np.arange(PLAYS) % len(observations), jax.jit(partial(_play_distance, environment))
    for number, symmetry in enumerate(environment.symmetries):
        relabelled = observations[chosen][..., list(symmetry.observations)]
        found = [places.get(np.ascontiguousarray(each).tobytes()) for each in relabelled]
        if None not in found:
            starts = tuple(jax.tree.map(lambda x, at=at: x[at], states) for at in (chosen, np.array(found)))
            if float(distance(tuple(map(jnp.array, symmetry)), starts)) < TOLERANCE:
                continue
        raise ValueError(
            f"{type(environment).__name__}.symmetries[{number}] must leave the game as it is, got other "
            "observations, rewards or ends from a relabelled initial state."
        )


def _play_distance(
    environment: Environment, symmetry: tuple[Array, Array], starts: tuple[PyTree, PyTree]
) -> Float[Array, ""]:
    """How far random play from some states is from relabelled play from their relabelled states, at most."""
    entries, order = symmetry
    shape = (PLAYS, environment.num_seats)

    def play(both: tuple[PyTree, PyTree], key: Array):
        action_key, step_key = jax.random.split(key)
        chosen = jax.random.randint(action_key, shape, 0, environment.num_actions[0])
        keys = jax.random.split(step_key, PLAYS)
        first = jax.vmap(environment.step)(keys, both[0], order[chosen])
        second = jax.vmap(environment.step)(keys, both[1], chosen)
        seen = jax.vmap(environment.observe)(first.state)[..., entries]
        apart = [_distance(seen, jax.vmap(environment.observe)(second.state))]
        paid = (jax.tree.leaves(outcome._replace(state=())) for outcome in (first, second))
        apart += [_distance(left, right) for left, right in zip(*paid, strict=True)]
        return (first.state, second.state), jnp.max(jnp.stack(apart))

    keys = jax.random.split(jax.random.key(0), min(environment.horizon, MOST_STEPS))
    return jnp.max(jax.lax.scan(play, starts, keys)[1])


def _distance(left: Array, right: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(left.astype(jnp.float32) - right.astype(jnp.float32)))
