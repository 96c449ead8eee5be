"""Oracles of both reaching games, by dynamic programming over what the agent can know.

The partner's hidden start and corner are one of finitely many *hypotheses* whose chances are known. Given one, the
partner's way is determined: vertically, then horizontally, then it stays; on no other corner does it step before.

An agent that does not see its partner learns nothing but that the episode goes on. Given its start, the best it can do
is therefore a fixed plan, and all that a plan needs to know of the partner is C[t, c], the chance that it has reached
corner c by time t. What an episode that goes on has ruled out is kept as a small *memory*, see `_last_corner` and
`_paid_corners`; values below are weighted by the chance that the episode gets so far.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.oracle import Oracle, chances_as_written
from coverset.envs.reaching.dynamics import MOVES, Reaching
from coverset.envs.reaching.heuristics import ANY, CornerWalker
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

Values: TypeAlias = Float[np.ndarray, "cells memories"]
Landing: TypeAlias = Callable[[int, Values], tuple[Values, Int[np.ndarray, "cells memories"]]]
"""Of a time and the values from then on: values of stepping on each cell then, and the memory with which to go on."""


class Hypotheses(NamedTuple):
    """What the agent may be playing with: each way that the partner can go."""

    starts: Int[np.ndarray, "h 2"]
    targets: Int[np.ndarray, "h"]
    """The corner to which it walks."""
    chances: Float[np.ndarray, "h"]
    arrivals: Int[np.ndarray, "h"]
    """The time at which it gets there."""


class Played(NamedTuple):
    """Memory of `PlannedWalk`."""

    start: Int[Array, ""]
    time: Int[Array, ""]


@final
class PlannedWalk(Policy):
    """Walk by a fixed plan for each cell of the start, whatever happens."""

    environment: Reaching = eqx.field(static=True)
    actions: Int[Array, "cells T"]

    def initial_memory(self) -> Played:
        return Played(jnp.int32(0), jnp.int32(0))

    def act(self, key: PRNGKey, percept: Percept, memory: Played) -> tuple[Int[Array, ""], Played]:
        del key
        row, column = self.environment.own_position(percept.observation)
        start = jnp.where(percept.first, row * self.environment.size + column, memory.start).astype(jnp.int32)
        time = jnp.where(percept.first, 0, memory.time)
        return self.actions[start, time], Played(start, time + 1)


def solve(environment: Reaching, partner: CornerWalker, seat: int) -> Oracle:
    """Answer one corner walker; `seat` is the agent's. Always exact."""
    payoffs = np.asarray(environment.payoffs)
    if seat == 1:
        payoffs = payoffs.T
    hypotheses = _hypotheses(environment, partner)
    apart = np.arange(len(hypotheses.targets))
    full_information = _seeing(environment, payoffs, hypotheses, np.tile(apart, (environment.horizon, 1)))
    if environment.sees_teammate:
        value = _seeing(environment, payoffs, hypotheses, _told_apart(environment, hypotheses))
        return Oracle(value, exact=True, full_information=full_information)
    value, policy = _unseeing(environment, payoffs, hypotheses)
    return Oracle(value, exact=True, full_information=full_information, policy=policy)


def _starts(environment: Reaching) -> Int[np.ndarray, "n 2"]:
    """The cells off the border, all equally likely for either player."""
    inner = range(1, environment.size - 1)
    return np.array([(row, column) for row in inner for column in inner])


def _numbers(environment: Reaching, cells: Int[np.ndarray, "*n 2"]) -> Int[np.ndarray, "*n"]:
    """Cells by their number in row-major order."""
    return cells[..., 0] * environment.size + cells[..., 1]


def _corners(environment: Reaching) -> Int[np.ndarray, "4"]:
    """The numbers of A, B, C and D."""
    return _numbers(environment, np.asarray(environment.corners()))


def _moved(environment: Reaching) -> Int[np.ndarray, "cells 5"]:
    """The cell to which each action leads from each cell."""
    size = environment.size
    cells = np.stack(np.divmod(np.arange(size**2), size), axis=-1)
    return _numbers(environment, np.clip(cells[:, None] + np.asarray(MOVES), 0, size - 1))


def _hypotheses(environment: Reaching, partner: CornerWalker) -> Hypotheses:
    """Every start with every corner that the partner may choose there."""
    chances = chances_as_written(partner.chances)
    starts, corners = _starts(environment), np.asarray(environment.corners())
    distances = np.abs(starts[:, None] - corners).sum(axis=-1)
    if int(partner.nearness) == ANY:
        choices = np.tile(chances, (len(starts), 1))
    else:
        ranked = np.where(chances > 0, int(partner.nearness) * distances, np.inf)
        choices = np.eye(len(corners))[np.argmin(ranked, axis=1)]  # the first of equals
    start, target = np.nonzero(choices)
    return Hypotheses(starts[start], target, choices[start, target] / len(starts), distances[start, target])


def _unseeing(
    environment: Reaching, payoffs: Float[np.ndarray, "4 4"], hypotheses: Hypotheses
) -> tuple[float, PlannedWalk]:
    """Value and plan of an agent that does not see its partner.

        V_t(x, m) = max_a L_{t+1}(x', m),  x' the cell to which a leads from x,  V_T = 0,

    where L_t(x', m) is the value of stepping on x' at time t with memory m, from `_last_corner` or `_paid_corners`.
    """
    arrived = _arrived(environment, hypotheses)
    rule = _last_corner if environment.ends_apart else _paid_corners
    memories, landing = rule(payoffs, arrived, _corners(environment))
    moved = _moved(environment)
    values, landings = np.zeros((len(moved), memories)), []
    for time in range(environment.horizon, 0, -1):
        landings.insert(0, landing(time, values))
        values = landings[0][0][moved].max(axis=1)
    starts = _numbers(environment, _starts(environment))
    plans = np.zeros((len(moved), environment.horizon), np.int32)
    plans[starts] = [_plan(moved, landings, int(start)) for start in starts]
    return float(values[starts, 0].mean()), PlannedWalk(environment, jnp.asarray(plans))


def _arrived(environment: Reaching, hypotheses: Hypotheses) -> Float[np.ndarray, "times 4"]:
    """C[t, c]: the chance that the partner stands on corner c at time t, once there it stays."""
    in_time = hypotheses.arrivals <= np.arange(environment.horizon + 1)[:, None]
    return (in_time * hypotheses.chances) @ np.eye(4)[hypotheses.targets]


def _last_corner(
    payoffs: Float[np.ndarray, "4 4"], arrived: Float[np.ndarray, "times 4"], corners: Int[np.ndarray, "4"]
) -> tuple[int, Landing]:
    """Any two corners end the episode. Memory is the time m at which the agent last stood on a corner, at first 0.

    The partner was on no corner then. So on corner k at time t the episode ends if the partner came in between:

        L_t(k, m) = sum_c payoff[k, c] (C[t, c] - C[m, c]) + V_t(k, t)

    Times after the last arrival make no difference, and are all taken for it.
    """
    last = int(np.argmax(np.all(arrived == arrived[-1], axis=1)))

    def landing(time: int, values: Values) -> tuple[Values, Int[np.ndarray, "cells memories"]]:
        now = min(time, last)
        landed, memory = values.copy(), np.tile(np.arange(last + 1), (len(values), 1))
        gains = payoffs @ (arrived[now] - arrived[: last + 1]).T
        landed[corners] = gains + values[corners, now][:, None]
        memory[corners] = now
        return landed, memory

    return last + 1, landing


def _paid_corners(
    payoffs: Float[np.ndarray, "4 4"], arrived: Float[np.ndarray, "times 4"], corners: Int[np.ndarray, "4"]
) -> tuple[int, Landing]:
    """Only the same corner ends the episode. Then a partner bound for k is met there iff it comes by the agent's last
    visit to k, whatever the agent does elsewhere; a plan is worth sum_k payoff[k, k] C[last visit to k, k].

    Memory is the set m of corners whose last visit is behind, as bits. The agent may declare any visit the last:

        L_t(k, m) = max(V_t(k, m), payoff[k, k] C[t, k] + V_t(k, m + k) if k is not in m)

    Corners that cost something are closed. That loses nothing: one can wait beside a corner instead of on it, and pass
    it diagonally, in the same time.
    """
    everything = np.arange(2 ** len(corners))

    def landing(time: int, values: Values) -> tuple[Values, Int[np.ndarray, "cells memories"]]:
        landed, memory = values.copy(), np.tile(everything, (len(values), 1))
        for number, cell in enumerate(corners):
            pay, after = payoffs[number, number], everything | 2**number
            paid = np.where(after == everything, -np.inf, pay * arrived[time, number] + values[cell, after])
            landed[cell] = np.maximum(values[cell], paid) if pay >= 0 else -np.inf
            memory[cell] = np.where(paid >= values[cell], after, everything)
        return landed, memory

    return len(everything), landing


def _plan(moved: Int[np.ndarray, "cells 5"], landings: list, start: int) -> list[int]:
    """The actions of the best plan from a cell, by walking forth through the values of `_unseeing`."""
    cell, memory, actions = start, 0, []
    for landed, remembered in landings:
        actions.append(int(np.argmax(landed[moved[cell], memory])))
        cell = int(moved[cell, actions[-1]])
        memory = int(remembered[cell, memory])
    return actions


def _seeing(
    environment: Reaching,
    payoffs: Float[np.ndarray, "4 4"],
    hypotheses: Hypotheses,
    groups: Int[np.ndarray, "T h"],
) -> float:
    """Value for an agent that at time t can tell two hypotheses apart iff their `groups[t]` differ.

    U_t(h, x) is what hypothesis h goes on to pay the agent on cell x, who acts for the whole of its group:

        U_t(h, x) = Q_{t+1}(h, x'),  x' by the action that maximises  sum_{h' in group of h} chance[h'] Q_{t+1}(h', x')

    where Q_t is the payoff if the episode ends on x' at time t, and else U_t.
    """
    moved = _moved(environment)
    pays, ends = _endings(environment, payoffs, hypotheses)
    values = np.zeros(pays.shape)
    for time in range(environment.horizon, 0, -1):
        over = ends & (hypotheses.arrivals <= time)[:, None]
        after = np.where(over, pays, values)[:, moved]  # [h, cells, 5]
        group = groups[time - 1]
        totals = np.zeros((group.max() + 1, *moved.shape))
        np.add.at(totals, group, hypotheses.chances[:, None, None] * after)
        best = totals.argmax(axis=-1)[group]
        values = np.take_along_axis(after, best[..., None], axis=-1)[..., 0]
    starts = _numbers(environment, _starts(environment))
    return float(hypotheses.chances @ values[:, starts].mean(axis=1))


def _endings(
    environment: Reaching, payoffs: Float[np.ndarray, "4 4"], hypotheses: Hypotheses
) -> tuple[Float[np.ndarray, "h cells"], Bool[np.ndarray, "h cells"]]:
    """What each cell pays the agent once the partner has arrived, and whether that ends the episode."""
    shape, corners = (len(hypotheses.targets), environment.size**2), _corners(environment)
    pays, ends = np.zeros(shape), np.zeros(shape, bool)
    pays[:, corners] = payoffs[:, hypotheses.targets].T
    ends[:, corners] = environment.ends_apart | (np.arange(4) == hypotheses.targets[:, None])
    return pays, ends


def _told_apart(environment: Reaching, hypotheses: Hypotheses) -> Int[np.ndarray, "T h"]:
    """For each time a number per hypothesis, the same for those whose partners have gone the same way so far."""
    corners = np.asarray(environment.corners())[hypotheses.targets]
    position, group, groups = hypotheses.starts, np.zeros(len(corners), np.int64), []
    for _ in range(environment.horizon):
        _, group = np.unique(np.column_stack([group, position]), axis=0, return_inverse=True)
        group = group.reshape(-1)
        groups.append(group)
        away = corners - position
        sideways = np.where(away[:, :1] == 0, away[:, 1:], 0)
        position = position + np.sign(np.column_stack([away[:, :1], sideways]))
    return np.stack(groups)
