"""Self-play only: K pairs trained apart from each other, the control that has no diversity term."""

from dataclasses import dataclass

from coverset.teammates.method import ConstantWeights


@dataclass(frozen=True)
class Independent(ConstantWeights):
    """w_ii = 1, w_ij = 0."""

    def self_play_weight(self, population_size: int) -> float:
        del population_size
        return 1.0

    def cross_play_weight(self, population_size: int) -> float:
        del population_size
        return 0.0
