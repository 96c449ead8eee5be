"""Oracles of both reaching games, by dynamic programming over the agent's information.

The partner's hidden start and corner form one of finitely many *hypotheses* with known probabilities. Each determines
the partner's path: vertically, then horizontally, then it stays; it passes no other corner.

An agent that does not see its partner observes only that the episode continues. Given its start, its best policy is
therefore a fixed plan, whose value depends on the partner only through C[t, c], the probability that the partner has
reached corner c by time t. What a continuing episode rules out is kept in a small *memory*, see `_track_last_corner`
and `_track_closed_corners`; values are weighted by the probability that the episode continues.

Teammates of a team walk independently of each other, and the episode cannot end before the last of them arrives. A team
is therefore a single partner whose *target* is the combination of its members' corners, and who arrives with the last.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.oracle import Oracle, PartnerDraws, to_double_precision
from coverset.envs.reaching.dynamics import MOVES, Reaching
from coverset.envs.reaching.heuristics import ANY, CornerWalker
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

Values: TypeAlias = Float[np.ndarray, "cells memories"]
Landing: TypeAlias = Callable[[int, Values], tuple[Values, Int[np.ndarray, "cells memories"]]]
"""From a time and the values after it to the values of entering each cell at that time and the next memory."""


MAX_HYPOTHESES = 6_000
"""Most hypotheses for an agent that sees its team; a few seconds."""
MAX_PLAYERS = 6
"""Most players for whom values are computed; the combinations of corners multiply by four with each."""


class Hypotheses(NamedTuple):
    """Every path that the partner or the team may take, with its probability."""

    targets: Int[np.ndarray, "h"]
    """The target corner of each path; of a team, the digits of this number to base 4 are the corners of its members."""
    probabilities: Float[np.ndarray, "h"]
    arrivals: Int[np.ndarray, "h"]
    """The time of arrival; of a team, of the last arrival."""


class PlanMemory(NamedTuple):
    """Memory of `PlannedWalk`."""

    start: Int[Array, ""]
    time: Int[Array, ""]


@final
class PlannedWalk(Policy):
    """Follow a fixed plan for each start cell."""

    environment: Reaching = eqx.field(static=True)
    actions: Int[Array, "cells T"]

    def initial_memory(self) -> PlanMemory:
        return PlanMemory(jnp.int32(0), jnp.int32(0))

    def act(self, key: PRNGKey, percept: Percept, memory: PlanMemory) -> tuple[Int[Array, ""], PlanMemory]:
        del key
        row, column = self.environment.own_position(percept.observation)
        start = jnp.where(percept.first, row * self.environment.size + column, memory.start).astype(jnp.int32)
        time = jnp.where(percept.first, 0, memory.time)
        return self.actions[start, time], PlanMemory(start, time + 1)


def solve(environment: Reaching, partner: CornerWalker, seat: int) -> Oracle | None:
    """Compute the best response of an agent in `seat` to a corner walker, or to a team in which each is one.

    Exact, but for large teams in sight of the agent, where the value is the bound of full information.
    """
    if environment.players > MAX_PLAYERS:
        return None
    payoffs, members = _tabulate_payoffs(environment, seat), environment.players - 1
    starts, walker = _list_hypotheses(environment, partner)
    team = walker if members == 1 else _form_team(_merge_alike(walker), members)
    apart = np.arange(len(team.targets))
    full_information = _solve_observed(environment, payoffs, team, np.tile(apart, (environment.horizon, 1)))
    if not environment.sees_teammate:
        value, policy = _solve_unobserved(environment, payoffs, team)
        return Oracle(value, exact=True, full_information=full_information, policy=policy)
    if len(walker.targets) ** members > MAX_HYPOTHESES:
        return Oracle(full_information, exact=False, full_information=full_information)
    paths = _group_by_path(environment, starts, walker)
    value = _solve_observed(environment, payoffs, *_combine_members(walker, paths, members))
    return Oracle(value, exact=True, full_information=full_information)


def list_draws(environment: Reaching, partners: Sequence[CornerWalker], seat: int) -> PartnerDraws | None:
    """The starts and corners of walkers whom the agent does not see, in games of two players; None in others."""
    if environment.players > 2 or environment.sees_teammate:
        return None
    payoffs, corners = _tabulate_payoffs(environment, seat), np.asarray(environment.corners())
    everywhere = _list_starts(environment)
    targets = np.tile(np.arange(len(corners)), len(everywhere))
    arrivals = np.abs(everywhere[:, None] - corners).sum(axis=-1).reshape(-1)
    probabilities = np.zeros((len(partners), len(targets)))
    for row, partner in zip(probabilities, partners, strict=True):
        starts, walker = _list_hypotheses(environment, partner)
        place = np.searchsorted(_number_cells(environment, everywhere), _number_cells(environment, starts))
        row[len(corners) * place + walker.targets] = walker.probabilities

    def best_value(drawn: Float[np.ndarray, "H"]) -> float:
        return _solve_unobserved(environment, payoffs, Hypotheses(targets, drawn, arrivals))[0]

    return PartnerDraws(probabilities, best_value)


def _tabulate_payoffs(environment: Reaching, seat: int) -> Float[np.ndarray, "4 targets"]:
    """Rewards by the corner of `seat` and the corners of all others: the smallest of all pairs of seats."""
    table, seats = np.asarray(environment.payoffs), range(environment.players)
    corners = np.indices((4,) * environment.players)
    rewards = np.min([table[corners[one], corners[other]] for one, other in itertools.combinations(seats, 2)], axis=0)
    return np.moveaxis(rewards, seat, 0).reshape(4, -1)


def _number_meetings(payoffs: Float[np.ndarray, "4 targets"]) -> Int[np.ndarray, "4"]:
    """The targets of teams that all walk to A, to B, to C, or to D: 0, 1, 2, 3 times 1 + 4 + 16 + ..."""
    return np.arange(4) * ((payoffs.shape[1] - 1) // 3)


def _form_team(walker: Hypotheses, members: int) -> Hypotheses:
    """Hypotheses about a team of independent walkers, merged where targets and arrival are the same."""
    team = walker
    for _ in range(members - 1):
        team = _merge_alike(_add_member(team, walker))
    return team


def _add_member(team: Hypotheses, walker: Hypotheses) -> Hypotheses:
    """All combinations, those of one hypothesis about the team side by side."""
    return Hypotheses(
        np.add.outer(4 * team.targets, walker.targets).reshape(-1),
        np.multiply.outer(team.probabilities, walker.probabilities).reshape(-1),
        np.maximum.outer(team.arrivals, walker.arrivals).reshape(-1),
    )


def _merge_alike(hypotheses: Hypotheses) -> Hypotheses:
    """Add the probabilities of hypotheses with the same targets and arrival."""
    ways = np.column_stack([hypotheses.targets, hypotheses.arrivals])
    (targets, arrivals), number = (part.T for part in np.unique(ways, axis=0, return_inverse=True))
    return Hypotheses(targets, np.bincount(number.reshape(-1), hypotheses.probabilities), arrivals)


def _combine_members(
    walker: Hypotheses, paths: Int[np.ndarray, "T h"], members: int
) -> tuple[Hypotheses, Int[np.ndarray, "T combinations"]]:
    """All combinations of paths, with groups of equal paths so far: one group for each combination of groups."""
    team, groups = walker, paths
    for _ in range(members - 1):
        team = _add_member(team, walker)
        groups = (groups[:, :, None] * (paths.max() + 1) + paths[:, None]).reshape(len(paths), -1)
    return team, groups


def _list_starts(environment: Reaching) -> Int[np.ndarray, "n 2"]:
    """Return the cells off the border, from which both players start uniformly."""
    inner = range(1, environment.size - 1)
    return np.array([(row, column) for row in inner for column in inner])


def _number_cells(environment: Reaching, cells: Int[np.ndarray, "*n 2"]) -> Int[np.ndarray, "*n"]:
    """Return the row-major index of each cell."""
    return cells[..., 0] * environment.size + cells[..., 1]


def _number_corners(environment: Reaching) -> Int[np.ndarray, "4"]:
    """Return the row-major indices of A, B, C and D."""
    return _number_cells(environment, np.asarray(environment.corners()))


def _list_successors(environment: Reaching) -> Int[np.ndarray, "cells 5"]:
    """Return the successor of each cell under each action."""
    size = environment.size
    cells = np.stack(np.divmod(np.arange(size**2), size), axis=-1)
    return _number_cells(environment, np.clip(cells[:, None] + np.asarray(MOVES), 0, size - 1))


def _list_hypotheses(environment: Reaching, partner: CornerWalker) -> tuple[Int[np.ndarray, "h 2"], Hypotheses]:
    """Return every start with every corner that one walker may choose there."""
    probabilities = to_double_precision(partner.probabilities)
    starts, corners = _list_starts(environment), np.asarray(environment.corners())
    distances = np.abs(starts[:, None] - corners).sum(axis=-1)
    if int(partner.nearness) == ANY:
        choices = np.tile(probabilities, (len(starts), 1))
    else:
        ranked = np.where(probabilities > 0, int(partner.nearness) * distances, np.inf)
        choices = np.eye(len(corners))[np.argmin(ranked, axis=1)]  # the first minimum
    start, target = np.nonzero(choices)
    return starts[start], Hypotheses(target, choices[start, target] / len(starts), distances[start, target])


def _solve_unobserved(
    environment: Reaching, payoffs: Float[np.ndarray, "4 targets"], hypotheses: Hypotheses
) -> tuple[float, PlannedWalk]:
    """Value and plan of an agent that does not see its partner.

        V_t(x, m) = max_a L_{t+1}(x', m),  x' the successor of x under a,  V_T = 0,

    where L_t(x', m) is the value of entering x' at time t with memory m: `_track_last_corner`, `_track_closed_corners`.
    """
    arrived = _compute_arrival_probabilities(environment, hypotheses, payoffs.shape[1])
    rule = _track_last_corner if environment.ends_apart else _track_closed_corners
    memories, landing = rule(payoffs, arrived, _number_corners(environment))
    moved = _list_successors(environment)
    values, landings = np.zeros((len(moved), memories)), []
    for time in range(environment.horizon, 0, -1):
        landings.insert(0, landing(time, values))
        values = landings[0][0][moved].max(axis=1)
    starts = _number_cells(environment, _list_starts(environment))
    plans = np.zeros((len(moved), environment.horizon), np.int32)
    plans[starts] = [_extract_plan(moved, landings, int(start)) for start in starts]
    return float(values[starts, 0].mean()), PlannedWalk(environment, jnp.asarray(plans))


def _compute_arrival_probabilities(
    environment: Reaching, hypotheses: Hypotheses, num_targets: int
) -> Float[np.ndarray, "times targets"]:
    """C[t, c]: the probability that the partner is on corner c at time t; it stays there once it arrives."""
    in_time = hypotheses.arrivals <= np.arange(environment.horizon + 1)[:, None]
    return (in_time * hypotheses.probabilities) @ np.eye(num_targets)[hypotheses.targets]


def _track_last_corner(
    payoffs: Float[np.ndarray, "4 targets"], arrived: Float[np.ndarray, "times targets"], corners: Int[np.ndarray, "4"]
) -> tuple[int, Landing]:
    """Any two corners end the episode. Memory is the time m of the agent's last visit to a corner, initially 0.

    The partner was on no corner at time m. On corner k at time t the episode ends if the partner has arrived since:

        L_t(k, m) = sum_c payoff[k, c] (C[t, c] - C[m, c]) + V_t(k, t)

    Times after the last possible arrival are equivalent and are merged.
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


def _track_closed_corners(
    payoffs: Float[np.ndarray, "4 targets"], arrived: Float[np.ndarray, "times targets"], corners: Int[np.ndarray, "4"]
) -> tuple[int, Landing]:
    """Only the same corner ends the episode. The agent meets a partner bound for k iff the partner arrives by the
    agent's last visit to k, whatever it does elsewhere; a plan is worth sum_k payoff[k, k] C[last visit to k, k].

    Memory is the bit set m of corners whose last visit is in the past. The agent may declare any visit the last:

        L_t(k, m) = max(V_t(k, m), payoff[k, k] C[t, k] + V_t(k, m + k) if k is not in m)

    Corners with negative payoffs are closed. This loses nothing: the agent can wait next to a corner instead of on it,
    and walk around it in the same time.
    """
    everything, met = np.arange(2 ** len(corners)), _number_meetings(payoffs)

    def landing(time: int, values: Values) -> tuple[Values, Int[np.ndarray, "cells memories"]]:
        landed, memory = values.copy(), np.tile(everything, (len(values), 1))
        for number, cell in enumerate(corners):
            pay, after = payoffs[number, met[number]], everything | 2**number
            paid = np.where(after == everything, -np.inf, pay * arrived[time, met[number]] + values[cell, after])
            landed[cell] = np.maximum(values[cell], paid) if pay >= 0 else -np.inf
            memory[cell] = np.where(paid >= values[cell], after, everything)
        return landed, memory

    return len(everything), landing


def _extract_plan(moved: Int[np.ndarray, "cells 5"], landings: list, start: int) -> list[int]:
    """Return the actions of the best plan from a cell, following the values of `_solve_unobserved` forwards."""
    cell, memory, actions = start, 0, []
    for landed, remembered in landings:
        actions.append(int(np.argmax(landed[moved[cell], memory])))
        cell = int(moved[cell, actions[-1]])
        memory = int(remembered[cell, memory])
    return actions


def _solve_observed(
    environment: Reaching,
    payoffs: Float[np.ndarray, "4 targets"],
    hypotheses: Hypotheses,
    groups: Int[np.ndarray, "T h"],
) -> float:
    """Value of an agent that at time t distinguishes two hypotheses iff their `groups[t]` differ.

    U_t(h, x) is the future return of an agent on cell x under hypothesis h; it acts for the whole group of h:

        U_t(h, x) = Q_{t+1}(h, x'),  x' by the action that maximises  sum_{h' in group of h} p[h'] Q_{t+1}(h', x')

    where p is the probability and Q_t the payoff if the episode ends on x' at time t, else U_t.
    """
    moved = _list_successors(environment)
    pays, ends = _find_endings(environment, payoffs, hypotheses)
    values = np.zeros(pays.shape)
    for time in range(environment.horizon, 0, -1):
        over = ends & (hypotheses.arrivals <= time)[:, None]
        after = np.where(over, pays, values)[:, moved]  # [h, cells, 5]
        group = groups[time - 1]
        totals = np.zeros((group.max() + 1, *moved.shape))
        np.add.at(totals, group, hypotheses.probabilities[:, None, None] * after)
        best = totals.argmax(axis=-1)[group]
        values = np.take_along_axis(after, best[..., None], axis=-1)[..., 0]
    starts = _number_cells(environment, _list_starts(environment))
    return float(hypotheses.probabilities @ values[:, starts].mean(axis=1))


def _find_endings(
    environment: Reaching, payoffs: Float[np.ndarray, "4 targets"], hypotheses: Hypotheses
) -> tuple[Float[np.ndarray, "h cells"], Bool[np.ndarray, "h cells"]]:
    """Return the payoff of each cell once the partner has arrived, and whether entering it ends the episode."""
    shape, corners = (len(hypotheses.targets), environment.size**2), _number_corners(environment)
    pays, ends = np.zeros(shape), np.zeros(shape, bool)
    pays[:, corners] = payoffs[:, hypotheses.targets].T
    ends[:, corners] = environment.ends_apart | (_number_meetings(payoffs) == hypotheses.targets[:, None])
    return pays, ends


def _group_by_path(environment: Reaching, starts: Int[np.ndarray, "h 2"], walker: Hypotheses) -> Int[np.ndarray, "T h"]:
    """Return, for each time, a group per hypothesis: equal for partners that have taken the same path so far."""
    corners = np.asarray(environment.corners())[walker.targets]
    position, group, groups = starts, np.zeros(len(corners), np.int64), []
    for _ in range(environment.horizon):
        _, group = np.unique(np.column_stack([group, position]), axis=0, return_inverse=True)
        group = group.reshape(-1)
        groups.append(group)
        away = corners - position
        sideways = np.where(away[:, :1] == 0, away[:, 1:], 0)
        position = position + np.sign(np.column_stack([away[:, :1], sideways]))
    return np.stack(groups)
