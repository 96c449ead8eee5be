"""The best response of a player that sees only its own observations (a blind responder), by HSVI.

With the teammate fixed, seat 0 faces a partially observable Markov decision process. Its belief is a weight for every
joint state that is consistent with the history H_t of its own observations and actions (Rahman et al. 2024, problem
formulation), here not normalised, so that weights sum to the probability of that history. The best value is

    V_t(w) = max_a [ w . r_a + gamma sum_o V_{t+1}(w_ao) ]        V_horizon = 0

where w_ao is the belief after action a and observation o. V_t is convex and positively homogeneous in w. The
search maintains two bounds and closes the gap along likely beliefs (heuristic search value iteration, Smith and Simmons
2005):

- below, the maximum of vectors, each the value of a policy that acts on its own history alone;
- above, the value of a responder that sees the joint state, lowered at beliefs with known smaller values.

Both bounds are always valid, so a search that runs out of trials still certifies an interval. Rewards are not part of
H_t; in the built-in games they carry no information beyond the observation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from coverset.certificates.finite import FiniteGame, Response

TRIALS = 100
"""Most trials of the search."""
BELIEFS = 100
"""Beliefs that a trial visits on average at most, so that the search in a long game ends too."""
TOLERANCE = 1e-6
"""Largest gap, in units of the largest reward, of a value that counts as exact."""


class ValueInterval(NamedTuple):
    """An interval that contains the value."""

    lower: float
    upper: float
    exact: bool
    """Whether the search closed the gap up to its tolerance."""


class _Branch(NamedTuple):
    """One observation that may follow an action."""

    view: int
    matrix: Float[np.ndarray, "_ _"]
    """From the states of the view before to those of `view`."""


@dataclass(frozen=True)
class _Model:
    """The decision process, grouped into views: the live states that share one observation of seat 0."""

    states: list[Int[np.ndarray, "_"]]
    """Numbers of the states of each view."""
    rewards: list[Float[np.ndarray, "A _"]]
    branches: list[list[list[_Branch]]]
    """By view and action."""


def blind_value(
    response: Response,
    policies: Float[np.ndarray, "P O A"],
    *,
    discount: float,
    trials: int = TRIALS,
    tolerance: float = TOLERANCE,
) -> ValueInterval:
    """Bound the best value of seat 0 over all policies that depend on its own observations and actions.

    Args:
      response: the decision process that the teammate leaves to seat 0.
      policies: memoryless policies of seat 0 to start from; the lower bound is at least the value of the best.
      discount: gamma.
      trials: most paths of beliefs to explore.
      tolerance: gap, in units of the largest reward, that counts as closed.
    """
    game = response.game
    upper = response.solve_observed(discount)
    if _is_fully_observed(game):
        value = float(game.initial @ upper[0])
        return ValueInterval(value, value, exact=True)
    model = _build_model(response)
    search = _Search(model, game.horizon, discount)
    search.start(upper, [response.evaluate_policy(policy, discount) for policy in policies])
    allowed = tolerance * max(float(np.abs(game.reward).max()), 1e-300)
    roots = [(view, game.initial[states]) for view, states in enumerate(model.states) if game.initial[states].any()]
    beliefs = trials * BELIEFS
    while trials > 0 and beliefs > 0:
        gaps = [search.upper(0, *root) - search.lower(0, *root) for root in roots]
        if sum(gaps) <= allowed:
            break
        beliefs -= search.trial(*roots[int(np.argmax(gaps))], allowed, most=beliefs)
        trials -= 1
    lower, upper_value = (sum(bound(0, *root) for root in roots) for bound in (search.lower, search.upper))
    return ValueInterval(float(lower), float(max(lower, upper_value)), exact=upper_value - lower <= allowed)


def _is_fully_observed(game: FiniteGame) -> bool:
    """Whether seat 0's observation determines the joint state."""
    return len(np.unique(game.observed[game.live, 0])) == int(game.live.sum())


def _build_model(response: Response) -> _Model:
    """Group live states by the observation of seat 0, and transitions by its next observation."""
    game, actions = response.game, response.rewards.shape[1]
    names = np.unique(game.observed[game.live, 0])
    states = [np.flatnonzero(game.live & (game.observed[:, 0] == name)) for name in names]
    view_of = np.searchsorted(names, game.observed[:, 0])
    branches = []
    for members in states:
        by_action = [response.transitions[members * actions + action] for action in range(actions)]
        branches.append([_list_branches(rows, states, view_of) for rows in by_action])
    return _Model(states, [response.rewards[members].T.copy() for members in states], branches)


def _list_branches(
    rows: sparse.csr_array, states: list[Int[np.ndarray, "_"]], view_of: Int[np.ndarray, "S"]
) -> list[_Branch]:
    reached = np.unique(view_of[np.unique(rows.indices)])
    return [_Branch(int(view), rows[:, states[view]].toarray()) for view in reached]


class _Node(NamedTuple):
    """A belief on the path of a trial."""

    time: int
    view: int
    weights: Float[np.ndarray, "_"]


class _Options(NamedTuple):
    """Upper bound and successor beliefs of each action at a belief."""

    upper: Float[np.ndarray, "A"]
    children: list[list[_Node]]


class _Search:
    """Both bounds at every time and view, and the trials that tighten them."""

    def __init__(self, model: _Model, horizon: int, discount: float) -> None:
        self.model, self.horizon, self.discount = model, horizon, discount

    def start(self, upper: Float[np.ndarray, "T S"], policies: list[Float[np.ndarray, "T S"]]) -> None:
        """Initialise the upper bound with the fully observed value, the lower bound with known policies."""
        views, times = self.model.states, range(self.horizon + 1)
        stacked = np.stack(policies)
        self._base = [[upper[time, states] for states in views] for time in times]
        self._vectors = [[stacked[:, time, states] for states in views] for time in times]
        self._points: list[list[tuple[np.ndarray, np.ndarray] | None]] = [[None] * len(views) for _ in times]

    def lower(self, time: int, view: int, weights: Float[np.ndarray, "n"]) -> float:
        """Return the value of the best known policy at a belief."""
        return float((self._vectors[time][view] @ weights).max())

    def upper(self, time: int, view: int, weights: Float[np.ndarray, "n"]) -> float:
        """Return the fully observed value, lowered by the known point b of which the belief contains most."""
        base = float(self._base[time][view] @ weights)
        known = self._points[time][view]
        if known is None:
            return base
        beliefs, drops = known
        shares = np.divide(weights, beliefs, out=np.full(beliefs.shape, np.inf), where=beliefs > 0).min(axis=1)
        return base + min(0.0, float((shares * drops).min()))

    def trial(self, view: int, weights: Float[np.ndarray, "n"], allowed: float, *, most: int) -> int:
        """Follow the beliefs with the widest bounds from an initial belief, and tighten the bounds on the way back.

        Returns how many beliefs were visited, `most` at most.
        """
        path, node = [], _Node(0, view, weights)
        while True:
            path.append(node)
            options = self._options(node)
            children = options.children[int(np.argmax(options.upper))]
            excess = [self._excess(child, allowed) for child in children]
            if not children or max(excess) <= 0 or len(path) == most:
                break
            node = children[int(np.argmax(excess))]
        for node in reversed(path):
            self._lower_upper_bound(node)
            self._raise_lower_bound(node)
        return len(path)

    def _excess(self, node: _Node, allowed: float) -> float:
        """Return the excess of the gap over the allowed one, which is divided among beliefs by probability."""
        if node.time == self.horizon:
            return 0.0
        return self.discount**node.time * (self.upper(*node) - self.lower(*node)) - allowed * float(node.weights.sum())

    def _options(self, node: _Node) -> _Options:
        children = [
            [_Node(node.time + 1, branch.view, node.weights @ branch.matrix) for branch in branches]
            for branches in self.model.branches[node.view]
        ]
        children = [[child for child in after if child.weights.any()] for after in children]
        future = np.array([sum(self.upper(*child) for child in after) for after in children])
        return _Options(self.model.rewards[node.view] @ node.weights + self.discount * future, children)

    def _lower_upper_bound(self, node: _Node) -> None:
        value, total = self._options(node).upper.max(), node.weights.sum()
        if value >= self.upper(*node):
            return
        drop = np.array([(value - self._base[node.time][node.view] @ node.weights) / total])
        belief, known = node.weights[None] / total, self._points[node.time][node.view]
        if known is not None:
            belief, drop = np.concatenate([known[0], belief]), np.concatenate([known[1], drop])
        self._points[node.time][node.view] = (belief, drop)

    def _raise_lower_bound(self, node: _Node) -> None:
        """Add the policy that takes the best action here and continues with the best known policy."""
        after, candidates = self._vectors[node.time + 1], []
        for reward, branches in zip(self.model.rewards[node.view], self.model.branches[node.view], strict=True):
            vector = reward.copy()
            for branch in branches:
                best = after[branch.view][int(np.argmax(after[branch.view] @ (node.weights @ branch.matrix)))]
                vector += self.discount * (branch.matrix @ best)
            candidates.append(vector)
        best = max(candidates, key=lambda vector: float(vector @ node.weights))
        if best @ node.weights > self.lower(*node):
            known = self._vectors[node.time][node.view]
            self._vectors[node.time][node.view] = np.concatenate([known, best[None]])
