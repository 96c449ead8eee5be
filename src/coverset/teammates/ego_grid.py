"""The grid of an ad hoc agent: the ego and one best response are the rows, teammates the columns.

The best response plays with teammate j for whom it is trained at the time, so that its row holds the matched pairs.
"""

from dataclasses import dataclass

import numpy as np

from coverset.teammates.pair_grid import PairGrid

EGO, BEST_RESPONSE = 0, 1
"""The rows."""


@dataclass(frozen=True)
class EgoGrid(PairGrid):
    """Two rows."""

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self.columns, BEST_RESPONSE), np.arange(self.columns)
