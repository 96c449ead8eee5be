"""What kind of partner every teammate is: a convention, a handshake, a saboteur, or no competent partner at all.

Teammate j has an own best response o(j); all other best responses are strangers to it. With R_ij the return of best
response i with teammate j, and W the range of returns of the game:

    competence    max_b R_bj, what the best response to it earns
    rationality   regret_ij = max_c R_ic - R_ij; teammate j answers the best response i for which it is smallest
    handshake     H_j(k) = max over strangers i of what i and j earn after k steps of o(j) and j, minus R_ij
    sabotage      D_j = what o(j) earns with j from the start, minus what it earns from states to which play of
                  strangers with j led, rewards on the way included, and with as many steps as from the start

Words: `incompetent` if competence is below 0.1 W above the lowest return. `handshake` if H_j(k) reaches 0.25 W for an
opening of at most a quarter of the steps of its self-play: so short an opening tells who plays and does little else.
`saboteur` if D_j reaches 0.25 W, and so does the loss of the best response to it in the same states: an own best
response that is merely lost there says nothing of its teammate. Otherwise `convention`.

A teammate that fails with strangers because it does something else than they do is a convention: its own best response
still serves it wherever they have led it.

Source of the idea: Cui et al. 2023 (ADVERSITY) and Sarkar et al. 2023 (CoMeDi); the measures are coverset's own.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

COMPETENT = 0.1
HANDSHAKE = 0.25
SABOTAGE = 0.25
RATIONAL = 0.05
OPENING = 0.25
"""Share of the steps of self-play within which an opening is short."""
WORDS = ("convention", "handshake", "saboteur", "incompetent")
MOST_PREFIXES = 8


class MeasuredValue(NamedTuple):
    """Numbers with their standard errors, which are zero for exact ones."""

    value: Float[np.ndarray, "*s"]
    standard_error: Float[np.ndarray, "*s"]

    def at(self, *index: Any) -> dict[str, float]:
        """One of them, for a record."""
        return {"value": float(self.value[index]), "standard_error": float(self.standard_error[index])}


def exact(values: Any) -> MeasuredValue:
    """Numbers without error."""
    values = np.asarray(values, np.float64)
    return MeasuredValue(values, np.zeros_like(values))


class TakenOver(NamedTuple):
    """What a responder to each teammate earns from the start, and from states to which strangers led."""

    from_start: MeasuredValue
    from_cross_play: MeasuredValue

    @property
    def loss(self) -> MeasuredValue:
        """D_j; NaN where strangers led to no state in which play continues."""
        errors = np.hypot(self.from_start.standard_error, self.from_cross_play.standard_error)
        return MeasuredValue(self.from_start.value - self.from_cross_play.value, errors)


class Measurements(NamedTuple):
    """All that is measured, exactly or by simulation and trained probes; R best responses and C teammates."""

    own: Int[np.ndarray, "C"]
    """The best response of every teammate."""
    pair_returns: MeasuredValue
    """[R, C]."""
    lengths: Float[np.ndarray, "C"]
    """Mean steps of self-play."""
    best_responses: MeasuredValue
    """[C]: what the best response to each teammate earns, or at least."""
    best_responses_upper: Float[np.ndarray, "C"]
    """What it earns at most; infinite where only a trained one is known."""
    best_partners: MeasuredValue | None
    """[R]: what the best partner of each best response earns; None where seats have rewards of their own."""
    prefix_steps: Int[np.ndarray, "k"]
    after_prefix: MeasuredValue
    """[k, R, C]: what i and j earn after so many steps of o(j) and j, without what these earned."""
    own_response: TakenOver
    """[C]: of the teammate's own best response."""
    best_response: TakenOver
    """[C]: of the best response to it."""
    lowest: float
    highest: float
    """Ends of the range of returns."""


def own_best_responses(pair_returns: Float[np.ndarray, "R C"]) -> Int[np.ndarray, "C"]:
    """o(j) = j; where there are more teammates than best responses, the one that earns most with it."""
    rows, columns = pair_returns.shape
    return np.arange(columns) if rows >= columns else pair_returns.argmax(axis=0)


def choose_prefix_steps(horizon: int) -> Int[np.ndarray, "k"]:
    """1, 2, 3, 4, 6, 8, 12, ... up to half of the horizon, at most eight."""
    steps = sorted({1, *(2**power * factor // 2 for power in range(1, 20) for factor in (2, 3))})
    return np.array([step for step in steps if step <= horizon // 2][:MOST_PREFIXES], int)


def is_stranger(own: Int[np.ndarray, "C"], rows: int) -> np.ndarray:
    """Which best responses are strangers to which teammates, bool [R, C]."""
    return np.arange(rows)[:, None] != own[None, :]


def describe_measures(measured: Measurements) -> dict[str, Any]:
    """The range of returns and the record of every teammate."""
    return {
        "lowest_return": measured.lowest,
        "highest_return": measured.highest,
        "teammates": [_describe(measured, teammate) for teammate in range(len(measured.own))],
    }


def _describe(measured: Measurements, j: int) -> dict[str, Any]:
    own, width = int(measured.own[j]), max(measured.highest - measured.lowest, 1e-12)
    competence = measured.best_responses.at(j)
    upper = float(measured.best_responses_upper[j])
    handshake = _describe_handshake(measured, j)
    sabotage = _describe_sabotage(measured, j)
    share = (competence["value"] - measured.lowest) / width
    return {
        "teammate": j + 1,
        "word": choose_word(share, handshake, sabotage, width),
        "own_best_response": own + 1,
        "own_return": measured.pair_returns.at(own, j),
        "competence": {**competence, "upper": upper if np.isfinite(upper) else None, "share": share},
        "rationality": _describe_rationality(measured, j, width),
        "handshake": handshake,
        "sabotage": sabotage,
    }


def _describe_rationality(measured: Measurements, j: int, width: float) -> dict[str, Any] | None:
    """The best response that the teammate answers best, with the smallest regret."""
    if measured.best_partners is None:
        return None
    regrets = np.maximum(measured.best_partners.value - measured.pair_returns.value[:, j], 0.0)
    answered = int(np.argmin(regrets))
    errors = (measured.best_partners.standard_error[answered], measured.pair_returns.standard_error[answered, j])
    return {
        "regret": {"value": float(regrets[answered]), "standard_error": float(np.hypot(*errors))},
        "answers": answered + 1,
        "is_rational": bool(regrets[answered] <= RATIONAL * width),
    }


def _describe_handshake(measured: Measurements, j: int) -> dict[str, Any] | None:
    """H_j(k) for all k, with the stranger who gains most; null where there are no strangers or no prefixes."""
    strangers = np.flatnonzero(is_stranger(measured.own, measured.pair_returns.value.shape[0])[:, j])
    if not strangers.size or not measured.prefix_steps.size:
        return None
    after, before = measured.after_prefix, measured.pair_returns
    gains = after.value[:, strangers, j] - before.value[strangers, j]
    errors = np.hypot(after.standard_error[:, strangers, j], before.standard_error[strangers, j])
    most, steps = gains.argmax(axis=1), np.arange(len(gains))
    by_steps = MeasuredValue(gains[steps, most], errors[steps, most])
    return {
        "steps": measured.prefix_steps.tolist(),
        "gain_by_steps": by_steps.value.tolist(),
        "standard_error_by_steps": by_steps.standard_error.tolist(),
        "stranger_by_steps": (strangers[most] + 1).tolist(),
        **_describe_opening(by_steps, measured.prefix_steps, OPENING * measured.lengths[j]),
    }


def _describe_opening(gains: MeasuredValue, steps: Int[np.ndarray, "k"], longest: float) -> dict[str, Any]:
    """The largest gain of a short opening; null where self-play is over too soon for one."""
    short = np.flatnonzero(steps <= longest)
    if not short.size:
        return {"opening": None, "gain": None}
    best = short[int(np.argmax(gains.value[short]))]
    return {"opening": int(steps[best]), "gain": gains.at(best)}


def _describe_sabotage(measured: Measurements, j: int) -> dict[str, Any] | None:
    """What both responders earn from where strangers led; null where no play continues there."""
    own, best = measured.own_response, measured.best_response
    if not np.isfinite(own.from_cross_play.value[j]):
        return None
    return {
        "from_start": own.from_start.at(j),
        "from_cross_play": own.from_cross_play.at(j),
        "loss": own.loss.at(j),
        "best_response_from_start": best.from_start.at(j),
        "best_response_from_cross_play": best.from_cross_play.at(j),
        "best_response_loss": best.loss.at(j),
    }


def choose_word(share: float, handshake: dict[str, Any] | None, sabotage: dict[str, Any] | None, width: float) -> str:
    """The word of a teammate, from its measures and the range of returns."""
    if share < COMPETENT:
        return "incompetent"
    gain = handshake and handshake["gain"]
    if gain is not None and gain["value"] >= HANDSHAKE * width:
        return "handshake"
    if sabotage is None:
        return "convention"
    loss = min(sabotage[name]["value"] for name in ("loss", "best_response_loss"))
    return "saboteur" if loss >= SABOTAGE * width else "convention"
