"""How well an agent serves the partners that it was trained with, and a sentence where it does not.

    share_j = mean return with teammate j in the second half of a trial / what the best response to j earns with it

The first half is the agent's to find out whom it plays with. Returns are those of the last chunk of training.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coverset.partners import GenerationRun
from coverset.pipeline.held_out import find_held_out
from coverset.runs.storage import round_floats

ADVICE = "try more --total-steps, a higher --entropy, or --learner plastic."
ENOUGH = 0.95
"""Share of its best response's return from which a teammate counts as served."""


def served_partners(
    run: GenerationRun, names: Sequence[str], agent_seat: int, late_returns: Sequence[float | None]
) -> dict[str, dict[str, Any]]:
    """By training partner: what the agent earns late in a trial, what the best response earns, and the share.

    Args:
      run: where the partners come from.
      names: as given to `train`.
      agent_seat: the agent's.
      late_returns: mean return with each partner, in the order of the pool.
    """
    partners = find_held_out(run, names, agent_seat=agent_seat)
    return {
        name: {"return": earned, "reference": partner.reference, "share": _share(earned, partner.reference)}
        for (name, partner), earned in zip(partners.items(), late_returns, strict=False)
    }


def _share(earned: float | None, reference: float | None) -> float | None:
    """A share of a positive return; None where there is none."""
    if earned is None or reference is None or reference <= 0:
        return None
    return round_floats(earned / reference)


def describe_unserved(served: Mapping[str, Mapping[str, Any]]) -> str | None:
    """One sentence about the partners that are served below `ENOUGH`, with what to try; None if there are none."""
    shares = {name: cell["share"] for name, cell in served.items()}
    lacking = {name: share for name, share in shares.items() if share is not None and share < ENOUGH}
    if not lacking:
        return None
    told = ", ".join(f"{name} {share:.0%}" for name, share in lacking.items())
    return (
        f"The agent does not serve all of its training partners: it earns less than {ENOUGH:.0%} of what their own "
        f"best responses do with {told}; {ADVICE}"
    )
