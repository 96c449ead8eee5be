"""LIPO (Charakorn et al. 2023): self-play minus alpha times cross-play.

The sum over ordered pairs in Rahman, Cui and Stone 2024, Appendix B, would count each cross-play return twice; the
tables of that appendix count it once, and so do we.
"""

from dataclasses import dataclass

from coverset.checks import check_at_least, check_finite
from coverset.teammates.method import ConstantWeights


@dataclass(frozen=True)
class LIPO(ConstantWeights):
    """w_ii = 1, w_ij = -alpha."""

    alpha: float = 1.0
    """Weight of cross-play."""

    def __post_init__(self) -> None:
        check_at_least("alpha", self.alpha, 0)
        check_finite("alpha", self.alpha)

    def self_play_weight(self, population_size: int) -> float:
        del population_size
        return 1.0

    def cross_play_weight(self, population_size: int) -> float:
        del population_size
        return -self.alpha
