"""The table of methods: a new one is one file that says its pair weights, and one line here."""

from collections.abc import Callable

from coverset.checks import one_of
from coverset.config import GenerateSettings
from coverset.teammates.brdiv import BRDiv
from coverset.teammates.independent import Independent
from coverset.teammates.lbrdiv import LBRDiv
from coverset.teammates.lipo import LIPO
from coverset.teammates.pair_weights import PairWeightRule

RENEWED = 0.5
"""Multipliers of a pair that starts anew, unless the ceiling is lower."""
FADING = 2.5
"""With `multiplier_ripeness`, they fade to exp(-2.5) of that in its time of grace: one in twelve."""


def _lbrdiv(s: GenerateSettings) -> LBRDiv:
    return LBRDiv(
        margin=s.margin,
        rate=s.multiplier_rate,
        ceiling=s.multiplier_ceiling,
        ripeness=s.multiplier_ripeness,
        fading=FADING / s.restart_patience if s.restart_patience else 0.0,
        renewed=min(RENEWED, s.multiplier_ceiling) if s.restart_patience else 0.0,
    )


METHODS: dict[str, Callable[[GenerateSettings], PairWeightRule]] = {
    "lbrdiv": _lbrdiv,
    "brdiv": lambda s: BRDiv(alpha=s.alpha),
    "lipo": lambda s: LIPO(alpha=s.alpha),
    "independent": lambda s: Independent(),
}


def make_rule(method: str, settings: GenerateSettings) -> PairWeightRule:
    """The pair-weight rule of a method by its name."""
    one_of("method", method, METHODS)
    return METHODS[method](settings)
