"""The table of methods: a new one is one file that says its pair weights, and one line here."""

from collections.abc import Callable

from coverset.checks import check_one_of
from coverset.settings import GenerateSettings
from coverset.teammates.method import PairWeightRule
from coverset.teammates.methods.brdiv import BRDiv
from coverset.teammates.methods.independent import Independent
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.methods.lipo import LIPO

RENEWED = 0.5
"""Multipliers of a pair that starts anew, unless the ceiling is lower."""
FADING = 2.5
"""With `multiplier_growth_exponent`, they fade to exp(-2.5) of that in its time of grace: one in twelve."""


def _lbrdiv(s: GenerateSettings) -> LBRDiv:
    return LBRDiv(
        margin=s.margin,
        rate=s.multiplier_learning_rate,
        ceiling=s.max_multiplier,
        ripeness=s.multiplier_growth_exponent,
        fading=FADING / s.restart_patience if s.restart_patience else 0.0,
        renewed=min(RENEWED, s.max_multiplier) if s.restart_patience else 0.0,
    )


METHODS: dict[str, Callable[[GenerateSettings], PairWeightRule]] = {
    "lbrdiv": _lbrdiv,
    "brdiv": lambda s: BRDiv(alpha=s.alpha),
    "lipo": lambda s: LIPO(alpha=s.alpha),
    "independent": lambda s: Independent(),
}


def make_rule(method: str, settings: GenerateSettings) -> PairWeightRule:
    """The pair-weight rule of a method by its name."""
    check_one_of("method", method, METHODS)
    return METHODS[method](settings)
