"""The constraints of L-BRDiv, in one place: for estimates inside of a training and for measured returns alike."""

from typing import Any


def constraint_slack(pair_returns: Any, margin: float) -> tuple[Any, Any]:
    """Slack of both sets of constraints (paper, under the constrained objective): they hold where it is >= 0.

        other_best_response_ij = R_ii - R_ji - margin        other_teammate_ij = R_ii - R_ij - margin

    Works on arrays of numpy and of JAX. The diagonals mean nothing.
    """
    own = pair_returns.diagonal()[:, None]
    return own - pair_returns.T - margin, own - pair_returns - margin
