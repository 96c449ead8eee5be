"""The normal form of a small finite game: what every pair of pure policies earns, and the coverage regret of a set.

A pure policy chooses one action for each observation of its seat. Where no seat can meet an observation twice in an
episode, the expected return is linear in each of a policy's action probabilities, so that every policy that reads its
present observation alone earns as a mix of pure ones does. Then coverage sets and regrets of the table of returns hold
for all such policies; a matrix game is the case of a single observation.

Players with a memory may do more than that, and are not spoken of here.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from coverset.certificates.finite import FiniteGame, action_probabilities, evaluate_pair
from coverset.policies.actor import ActorPolicy
from coverset.solver.regret import CoverageRegret, coverage_regret

MAX_PAIRS = 4096
"""Most pairs of pure policies: each is evaluated by itself, in about a millisecond."""


class NormalForm(NamedTuple):
    """A game as a table."""

    game: FiniteGame
    payoffs: Float[np.ndarray, "m n"]
    """Undiscounted returns by the pure policies of both seats."""
    ego: Float[np.ndarray, "m O A"]
    """Pure policies of seat 0: action probabilities by observation."""
    teammate: Float[np.ndarray, "n O B"]

    def evaluate(self, policies: Float[np.ndarray, "k O A"]) -> Float[np.ndarray, "k n"]:
        """What policies of seat 0 earn with every pure teammate."""
        return _returns(self.game, policies, self.teammate)

    def coverage_regret(self, best_responses: ActorPolicy) -> CoverageRegret:
        """The exact coverage regret of stacked memoryless best responses over all memoryless teammates."""
        return coverage_regret(self.payoffs, self.evaluate(action_probabilities(best_responses, self.game, seat=0)))


def make_normal_form(game: FiniteGame, *, max_pairs: int = MAX_PAIRS) -> NormalForm:
    """The table of a game; raises ValueError for a game that is too large or in which observations recur."""
    for seat in (0, 1):
        if observations_recur(game, seat):
            raise ValueError(f"{game.name} has no normal form here: seat {seat} may see an observation twice.")
    sizes = [game.next_state.shape[1 + seat] ** len(_seen(game, seat)) for seat in (0, 1)]
    if sizes[0] * sizes[1] > max_pairs:
        raise ValueError(
            f"{game.name} is too large for a normal form: it has {sizes[0] * sizes[1]:,} pairs of pure policies, and "
            f"at most {max_pairs:,} are allowed."
        )
    ego, teammate = (_pure_policies(game, seat) for seat in (0, 1))
    return NormalForm(game, _returns(game, ego, teammate), ego, teammate)


def observations_recur(game: FiniteGame, seat: int) -> bool:
    """Whether a seat may see the same observation twice in an episode: its observations have a cycle."""
    views = game.observed[:, seat]
    source, *actions = np.nonzero(~game.ended)
    target = game.next_state[source, *actions]
    goes_on = game.live[target]
    before, after = views[source[goes_on]], views[target[goes_on]]
    size = len(game.observations)
    edges = sparse.csr_array((np.ones(len(before)), (before, after)), shape=(size, size))
    count, _ = sparse.csgraph.connected_components(edges, connection="strong")
    return bool((before == after).any()) or count < size


def _seen(game: FiniteGame, seat: int) -> Int[np.ndarray, "o"]:
    """Observations on which a seat acts."""
    return np.unique(game.observed[game.live, seat])


def _pure_policies(game: FiniteGame, seat: int) -> Float[np.ndarray, "m O A"]:
    """All of them; what a policy does where it never acts is of no account."""
    seen, actions = _seen(game, seat), game.next_state.shape[1 + seat]
    choices = np.array([*itertools.product(range(actions), repeat=len(seen))])
    tables = np.zeros((len(choices), len(game.observations)), int)
    tables[:, seen] = choices
    return np.eye(actions)[tables]


def _returns(
    game: FiniteGame, first: Float[np.ndarray, "m O A"], second: Float[np.ndarray, "n O B"]
) -> Float[np.ndarray, "m n"]:
    return np.array([[evaluate_pair(game, one, two, discount=1.0).returns for two in second] for one in first])
