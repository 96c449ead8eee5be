"""The measures of `evaluation.inspection` by simulation and by trained probes, for games that are not solved exactly.

What a probe earns is at most what a best response could: it is trained for as long as it is told to. Where a policy of
the population earns more than the probe, that is the best that is known.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from coverset.envs.base import Environment
from coverset.envs.seats import has_common_reward
from coverset.evaluation.cross_play import limit_trials
from coverset.evaluation.inspection import (
    MeasuredValue,
    Measurements,
    TakenOver,
    choose_prefix_steps,
    is_stranger,
    own_best_responses,
)
from coverset.evaluation.switched_play import SwitchedEpisode, SwitchedPlay, play_switched
from coverset.policies.actor import ActorPolicy
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.settings import GenerateSettings
from coverset.teammates.probes import Probed, train_probes
from coverset.types import PRNGKey


class _Pairs(NamedTuple):
    """Everything that plays: of both seats the population's policies first, then the probes."""

    environment: Environment
    first: ActorPolicy
    second: ActorPolicy
    rows: int
    columns: int
    episodes: int
    """Of every pair."""


class Estimated(NamedTuple):
    """Measurements and how much they rest on."""

    measured: Measurements
    episodes: int
    steps: int


def estimate_measures(
    key: PRNGKey,
    environment: Environment,
    population: Population,
    settings: GenerateSettings,
    *,
    steps: int,
    episodes: int,
) -> Estimated:
    """Measure a population by probes and simulation.

    Args:
      key: of the random numbers.
      environment: a game of two players.
      population: what is measured.
      settings: with which it was trained, and with which probes are.
      steps: environment steps of all probes together.
      episodes: simulated for every pair, prefix and switch; fewer in long games.
    """
    rows, columns = count_members(population.best_responses), count_members(population.teammates)
    prefixes = choose_prefix_steps(environment.horizon)
    pairs = rows * columns * (1 + len(prefixes))
    episodes = limit_trials(episodes, environment.horizon, pairs=pairs)
    play_key, probe_key, start_key, take_key = jax.random.split(key, 4)
    alone = _Pairs(environment, *population, rows, columns, episodes)
    own = _find_own(play_key, alone)
    probed = train_probes(probe_key, environment, population, tuple(own.tolist()), settings, steps=steps)
    everybody = _join_probes(alone, probed)
    played = _play_all(play_key, everybody, own, prefixes)
    returns = _mean(played.returns - played.earned_before)
    pair_returns = MeasuredValue(returns.value[0], returns.standard_error[0])
    best, partners = _measure_best(start_key, everybody, pair_returns)
    own_response, best_response = _measure_sabotage(take_key, everybody, own)
    found = np.concatenate([pair_returns.value.ravel(), best.value, partners.value])
    measured = Measurements(
        own=own,
        pair_returns=pair_returns,
        lengths=np.asarray(played.length, np.float64)[0].mean(axis=-1)[own, np.arange(columns)],
        best_responses=best,
        best_responses_upper=np.full(columns, np.inf),
        best_partners=partners if has_common_reward(environment) else None,
        prefix_steps=prefixes,
        after_prefix=MeasuredValue(returns.value[1:], returns.standard_error[1:]),
        own_response=own_response,
        best_response=best_response,
        lowest=float(found.min()),
        highest=float(found.max()),
    )
    return Estimated(measured, episodes, probed.steps)


def _find_own(key: PRNGKey, pairs: _Pairs) -> Int[np.ndarray, "C"]:
    """o(j), for which cross-play counts only where there are fewer best responses than teammates."""
    if pairs.rows >= pairs.columns:
        return own_best_responses(np.zeros((pairs.rows, pairs.columns)))
    played = _play_all(key, pairs, np.zeros(pairs.columns, int), np.zeros(0, int))
    return own_best_responses(_mean(played.returns).value[0])


def _join_probes(pairs: _Pairs, probed: Probed) -> _Pairs:
    def join(known: ActorPolicy, fresh: ActorPolicy) -> ActorPolicy:
        network = jax.tree.map(lambda *x: jnp.concatenate(x), known.network, fresh.network)
        return ActorPolicy(network, known.kind, known.spec)

    return pairs._replace(first=join(pairs.first, probed.best_responses), second=join(pairs.second, probed.partners))


def _mean(returns: Any) -> MeasuredValue:
    """Over the last axis."""
    values = np.asarray(returns, np.float64)
    return MeasuredValue(values.mean(axis=-1), values.std(axis=-1, ddof=1) / values.shape[-1] ** 0.5)


def _play(
    key: PRNGKey, pairs: _Pairs, indices: list[np.ndarray], switch: np.ndarray, limit: np.ndarray
) -> SwitchedEpisode:
    """Play pairs of broadcast indices (before, before, after, after); results have their shape and one of episodes."""
    shape = np.broadcast_shapes(*(index.shape for index in indices), switch.shape[:-1])
    flat = [jnp.asarray(np.broadcast_to(index, shape).reshape(-1), jnp.int32) for index in indices]
    timed = [
        jnp.asarray(np.broadcast_to(x, (*shape, pairs.episodes)).reshape(-1, pairs.episodes), jnp.int32)
        for x in (switch, limit)
    ]
    play = SwitchedPlay((flat[0], flat[1]), (flat[2], flat[3]), timed[0], timed[1])
    played = play_switched(key, pairs.environment, pairs.first, pairs.second, play)
    return jax.tree.map(lambda x: np.asarray(x).reshape(*shape, pairs.episodes), played)


def _play_all(
    key: PRNGKey, pairs: _Pairs, own: Int[np.ndarray, "C"], prefixes: Int[np.ndarray, "k"]
) -> SwitchedEpisode:
    """Every best response with every teammate, without a prefix and then after every one: [1 + k, R, C, episodes]."""
    steps = np.array([0, *prefixes])[:, None, None]
    i, j = np.arange(pairs.rows)[None, :, None], np.arange(pairs.columns)[None, None, :]
    horizon = pairs.environment.horizon
    return _play(key, pairs, [own[j], j, i, j], steps[..., None], (horizon - steps)[..., None])


def _measure_best(key: PRNGKey, pairs: _Pairs, known: MeasuredValue) -> tuple[MeasuredValue, MeasuredValue]:
    """What probes earn with every teammate and with every best response, or the population's policies if it is more."""
    teammates, rows = np.arange(pairs.columns), np.arange(pairs.rows)
    first = np.concatenate([pairs.rows + teammates, rows])
    second = np.concatenate([teammates, pairs.columns + rows])
    now, horizon = np.zeros((1, 1), int), np.full((1, 1), pairs.environment.horizon)
    probed = _mean(_play(key, pairs, [first, second, first, second], now, horizon).returns)
    parts = [
        MeasuredValue(*(x[part] for x in probed)) for part in (slice(0, pairs.columns), slice(pairs.columns, None))
    ]
    return _larger(parts[0], known, axis=0), _larger(parts[1], known, axis=1)


def _larger(probed: MeasuredValue, known: MeasuredValue, *, axis: int) -> MeasuredValue:
    """The probe's, or the largest along an axis of the known ones."""
    value, error = (np.concatenate([x[None], np.moveaxis(y, axis, 0)]) for x, y in zip(probed, known, strict=True))
    best = value.argmax(axis=0)[None]
    return MeasuredValue(np.take_along_axis(value, best, 0)[0], np.take_along_axis(error, best, 0)[0])


def _measure_sabotage(key: PRNGKey, pairs: _Pairs, own: Int[np.ndarray, "C"]) -> tuple[TakenOver, TakenOver]:
    """Of the own best response to every teammate, and of the fresh one."""
    horizon, longer = pairs.environment.horizon, _with_horizon(pairs.environment, 2 * pairs.environment.horizon)
    switch_key, own_key, best_key = jax.random.split(key, 3)
    if horizon < 2:
        nothing = TakenOver(*(MeasuredValue(np.full(pairs.columns, x), np.zeros(pairs.columns)) for x in (0.0, np.nan)))
        return nothing, nothing
    shape = (pairs.rows, pairs.columns, pairs.episodes)
    switch = np.asarray(jax.random.randint(switch_key, shape, 1, horizon // 2 + 1))
    limit = horizon - switch if longer is None else np.full_like(switch, horizon)
    pairs = pairs if longer is None else pairs._replace(environment=longer)
    fresh = pairs.rows + np.arange(pairs.columns)
    return (
        _take_over(own_key, pairs, own, own, switch, limit),
        _take_over(best_key, pairs, own, fresh, switch, limit),
    )


def _take_over(
    key: PRNGKey,
    pairs: _Pairs,
    own: Int[np.ndarray, "C"],
    responders: Int[np.ndarray, "C"],
    switch: Int[np.ndarray, "R C n"],
    limit: Int[np.ndarray, "R C n"],
) -> TakenOver:
    """Mean returns of responders from the start, and from strangers' states in which play continues.

    Args:
      key: of the random numbers.
      pairs: everything that plays.
      own: the best response that is no stranger to each teammate.
      responders: who takes over.
      switch: when.
      limit: for how many steps.
    """
    i, j = np.arange(pairs.rows)[:, None], np.arange(pairs.columns)[None, :]
    start_key, switch_key = jax.random.split(key)
    chosen = np.broadcast_to(responders[j], (pairs.rows, pairs.columns))
    started = _play(start_key, pairs, [chosen, j, chosen, j], np.zeros_like(switch), limit)
    taken = _play(switch_key, pairs, [i, j, chosen, j], switch, limit)
    counts = is_stranger(own, pairs.rows)[..., None] & taken.reached
    return TakenOver(*(_masked_mean(played.returns, counts) for played in (started, taken)))


def _masked_mean(returns: Any, counts: np.ndarray) -> MeasuredValue:
    """Mean for every teammate over the episodes that count; NaN with fewer than two."""
    found = [np.asarray(returns[:, j][counts[:, j]], np.float64) for j in range(returns.shape[1])]
    known = [values if values.size > 1 else np.full(2, np.nan) for values in found]
    return MeasuredValue(
        np.array([values.mean() for values in known]),
        np.array([values.std(ddof=1) / values.size**0.5 for values in known]),
    )


def _with_horizon(environment: Environment, horizon: int) -> Environment | None:
    """The same game for longer; None where its horizon is no parameter."""
    if not is_dataclass(environment) or "horizon" not in {field.name for field in fields(environment)}:
        return None
    return replace(environment, horizon=horizon)
