"""BRDiv (Rahman et al. 2023): the Lagrangian of L-BRDiv with every multiplier held at one constant alpha.

Rahman, Cui and Stone 2024, Appendix B: sum_i R_ii + alpha sum_{i != j} (2 R_ii - R_ji - R_ij).
"""

from dataclasses import dataclass

from coverset.checks import check_at_least, check_finite
from coverset.teammates.method import ConstantWeights


@dataclass(frozen=True)
class BRDiv(ConstantWeights):
    """w_ii = 1 + 2 alpha (K - 1), w_ij = -2 alpha."""

    alpha: float = 1.0
    """Weight of cross-play."""

    def __post_init__(self) -> None:
        check_at_least("alpha", self.alpha, 0)
        check_finite("alpha", self.alpha)

    def self_play_weight(self, population_size: int) -> float:
        return 1.0 + 2.0 * self.alpha * (population_size - 1)

    def cross_play_weight(self, population_size: int) -> float:
        del population_size
        return -2.0 * self.alpha
