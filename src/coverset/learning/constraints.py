"""The constraints of L-BRDiv, in one place: for estimates inside of a training and for measured returns alike.

Functions work on arrays of numpy and of JAX. The diagonals mean nothing.
"""

from typing import Any


def constraint_slack(pair_returns: Any, margin: float) -> tuple[Any, Any]:
    """Slack of both sets of constraints (paper, under the constrained objective): they hold where it is >= 0.

    other_best_response_ij = R_ii - R_ji - margin        other_teammate_ij = R_ii - R_ij - margin
    """
    own = pair_returns.diagonal()[:, None]
    return own - pair_returns.T - margin, own - pair_returns - margin


def mixed_team_slack(pair_returns: Any, mixed_returns: Any, margin: float) -> Any:
    """Slack of the constraints on mixed teams, which are coverset's own; axes [S, K, K].

        mixed_team_sik = R_ii - R_i(s <- k) - margin

    R_i(s <- k), `mixed_returns[s, i, k]`, is the return of best response i with a team of teammate i of which teammate
    k takes seat s.
    """
    return pair_returns.diagonal()[None, :, None] - mixed_returns - margin
