"""Hand-written teammates: the heuristics of Rahman et al. 2024, Appendix A, as policies.

Each family of environments has one class whose members differ in arrays alone, so that all heuristics of an environment
can be stacked on a leading axis and run under `vmap`. They act on their own observations only.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from coverset.envs.base import Environment
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.policies.base import Policy
from coverset.policies.scripted import foraging, matrix, reaching
from coverset.policies.scripted.foraging import ObjectCollector
from coverset.policies.scripted.matrix import MixedAction
from coverset.policies.scripted.reaching import CornerWalker

__all__ = ["CornerWalker", "MixedAction", "ObjectCollector", "describe", "heuristics", "stack"]


def heuristics(environment: Environment) -> dict[str, Policy]:
    """The heuristics of an environment as H1, H2, ... in the order of Appendix A; none for environments not of it."""
    return {f"H{number}": policy for number, (policy, _) in enumerate(_catalogue(environment), start=1)}


def describe(environment: Environment) -> dict[str, str]:
    """One sentence for each of `heuristics`: what it does."""
    return {f"H{number}": sentence for number, (_, sentence) in enumerate(_catalogue(environment), start=1)}


def stack(policies: Sequence[Policy]) -> Policy:
    """Policies of one class as one policy whose arrays have a leading axis of members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies)


def _catalogue(environment: Environment) -> list[tuple[Policy, str]]:
    match environment:
        case MatrixGame():
            return [*matrix.catalogue(environment)]
        case Reaching():
            return [*reaching.catalogue(environment)]
        case Foraging():
            return [*foraging.catalogue(environment)]
        case _:
            return []
