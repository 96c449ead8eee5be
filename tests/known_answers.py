"""Small games with their solved coverage sets, each with its source."""

from fractions import Fraction
from typing import Any, NamedTuple


class Known(NamedTuple):
    """A payoff table, its minimum coverage set (the first of equal rows), and where the answer comes from."""

    name: str
    payoffs: Any
    coverage_set: tuple[int, ...]
    margins: tuple[Any, ...]
    source: str


MATRIX = ((10, 0, 4), (0, 6, 4), (4, 4, 6))
WEIGHTED = ((10, 0, 6, 6), (0, 10, 6, 6), (6, 6, 8, 0), (6, 6, 0, 8))

KNOWN = (
    Known("matrix", MATRIX, (0, 1, 2), (6, 2, 2), "Rahman et al. 2024, Appendix B.1; margins by hand"),
    Known("weighted corners", WEIGHTED, (0, 1, 2, 3), (4, 4, 2, 2), "Rahman et al. 2024, Appendix B.2: A, B, C, D"),
    Known("identity", ((1, 0), (0, 1)), (0, 1), (1, 1), "each action answers its own mirror image"),
    Known("one action", ((3, -1, 2),), (0,), (None,), "a coverage set is never empty"),
    Known("one cell", ((7,),), (0,), (None,), "a coverage set is never empty"),
    Known("one teammate", ((1,), (5,), (3,)), (1,), (2,), "only the largest payoff answers the only teammate"),
    Known("all equal", ((2, 2), (2, 2), (2, 2)), (0,), (None,), "one of equal rows covers everything"),
    Known("duplicates", ((1, 0), (0, 1), (1, 0), (0, 1)), (0, 1), (1, 1), "identity with each row twice"),
    Known("tied mean", ((2, 0), (1, 1), (0, 2)), (0, 2), (1, 1), "row 1 is the mean of the others"),
    Known("raised mean", ((2, 0), (Fraction(4, 3), Fraction(4, 3)), (0, 2)), (0, 1, 2),
          (Fraction(2, 3), Fraction(1, 3), Fraction(2, 3)), "row 1 beats max(2p, 2 - 2p) by 1/3 at p = 1/2"),
    Known("sunk mean", ((2, 0), (Fraction(2, 3), Fraction(2, 3)), (0, 2)), (0, 2),
          (Fraction(4, 3), Fraction(4, 3)), "row 1 stays below max(2p, 2 - 2p) everywhere"),
    Known("weakly dominated", ((1, 0), (1, 1)), (1,), (1,), "row 0 is tied in column 0 and worse in column 1"),
    Known("tied at a vertex", ((1, 1, 0), (1, 0, 1), (1, 0, 0)), (0, 1), (1, 1), "row 2 ties in column 0 only"),
    Known("staircase", ((0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)), (3,), (1,), "the last row is never worse"),
    Known("large integers", ((10**9 + 1, 10**9), (10**9, 10**9 + 1)), (0, 1), (1, 1), "identity moved by 1e9"),
    Known("large integers, tied", ((10**9 + 2, 10**9), (10**9 + 1, 10**9 + 1), (10**9, 10**9 + 2)), (0, 2), (1, 1),
          "tied mean moved by 1e9"),
    Known("tiny", ((1e-9, 0.0), (0.0, 1e-9)), (0, 1), (Fraction(1e-9), Fraction(1e-9)), "identity scaled by 1e-9"),
    Known("tiny, tied", ((2e-9, 0.0), (1e-9, 1e-9), (0.0, 2e-9)), (0, 2), (Fraction(1e-9), Fraction(1e-9)),
          "tied mean scaled: 2e-9 is exactly twice 1e-9 in binary"),
    Known("sliver", ((2, 0), (1 + Fraction(1, 10**30), 1 + Fraction(1, 10**30)), (0, 2)), (0, 1, 2),
          (1 - Fraction(1, 10**30), Fraction(1, 10**30), 1 - Fraction(1, 10**30)), "raised mean, too thin for floats"),
    Known("sunk sliver", ((2, 0), (1 - Fraction(1, 10**30), 1 - Fraction(1, 10**30)), (0, 2)), (0, 2),
          (1 + Fraction(1, 10**30), 1 + Fraction(1, 10**30)), "sunk mean, too thin for floats"),
)  # fmt: skip
