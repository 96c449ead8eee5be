"""L-BRDiv guarded against sabotage, which the paper (Rahman, Cui and Stone 2024) leaves to future work.

Constraints on cross-play reward a pair for failing with strangers. Where partners are seen, a policy may meet them by
recognising a stranger and giving up: no convention of its own is needed. Two guards, `guard`:

`mixed-play`, from CoMeDi (Sarkar, Shih and Sadigh 2023): the Lagrangian of L-BRDiv plus mixed play,

    L(R, a, b) + beta sum_i w_ii M_i

where M_i is the return of pair i's self-play from states to which a mixture of pair i and its rival led, the pair with
which it is most compatible. A pair that gives up in such states loses there.

`self-play-prefix`, from ADVERSITY (Cui et al. 2023): the same Lagrangian, with cross-play after a prefix of self-play
in place of cross-play, in turns of best responses and teammates (`methods.adversity`). Up to the switch nobody can
tell that the partner will be a stranger. Presets value pairs at states of the rollout (`value_states` batch), so that
constraints compare self-play and cross-play from the same states on.

Neither is in the paper: this is coverset's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from coverset.checks import check_at_least, check_between, check_finite, check_one_of
from coverset.teammates.method import PairWeights, Prefix, Seen, World
from coverset.teammates.methods.adversity import is_best_responses_turn, self_play_prefix, weights_in_turn
from coverset.teammates.methods.comedi import AVERAGING_RATE, mixed_play
from coverset.teammates.methods.lbrdiv import LBRDiv, Multipliers, lagrangian_pair_weights
from coverset.teammates.methods.lipo_max import follow_compatibility, most_compatible
from coverset.types import PairMatrix, PRNGKey

GUARDS = ("mixed-play", "self-play-prefix")


class Guarded(NamedTuple):
    """What the method remembers."""

    multipliers: Multipliers
    compatibility: PairMatrix
    """Running mean of R_ij + R_ji."""
    updates: Int[Array, ""]


@dataclass(frozen=True)
class GuardedLBRDiv(LBRDiv):
    """L-BRDiv with mixed play, or with cross-play after a prefix of self-play."""

    preset_changes: ClassVar[Mapping[str, Any]] = MappingProxyType({"value_states": "batch"})

    guard: str = "mixed-play"
    """`mixed-play` or `self-play-prefix`."""
    mixed_play_weight: float = 1.0
    """Weight of mixed play beside self-play: beta."""
    longest_prefix: float = 0.2
    """Share of the horizon up to which the end of a prefix is drawn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("guard", self.guard, GUARDS)
        check_at_least("mixed_play_weight", self.mixed_play_weight, 0)
        check_finite("mixed_play_weight", self.mixed_play_weight)
        check_between("longest_prefix", self.longest_prefix, 0, 1)
        if self.envs_per_mixed_team:
            raise ValueError(f"envs_per_mixed_team must be 0 for lbrdiv-guarded, got {self.envs_per_mixed_team}.")

    @property
    def mixes(self) -> bool:
        """Whether mixed play is the guard."""
        return self.guard == "mixed-play"

    def init(self, key: PRNGKey, world: World) -> Guarded:  # pyright: ignore[reportIncompatibleMethodOverride]
        multipliers = super().init(key, world)
        assert isinstance(multipliers, Multipliers)
        return Guarded(multipliers, jnp.zeros((world.rows, world.columns)), jnp.int32(0))

    def weights(self, state: Guarded) -> PairMatrix | PairWeights:  # pyright: ignore[reportIncompatibleMethodOverride]
        weights = lagrangian_pair_weights(state.multipliers)
        if self.mixes:
            return weights + self.mixed_play_weight * jnp.diag(jnp.diagonal(weights))
        return weights_in_turn(weights, is_best_responses_turn(state.updates))

    def prefix(self, state: Guarded) -> Prefix:
        if self.mixes:
            rivals = most_compatible(state.compatibility)
            return mixed_play(rivals.astype(jnp.int32), self.mixed_play_weight, self.longest_prefix)
        size = state.compatibility.shape[0]
        return self_play_prefix(size, is_best_responses_turn(state.updates), self.longest_prefix)

    def update(self, state: Guarded, seen: Seen) -> Guarded:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Guarded(
            super().update(state.multipliers, seen),
            follow_compatibility(state.compatibility, seen.pair_values, AVERAGING_RATE, seen.update == 0),
            state.updates + 1,
        )

    def report(self, state: Guarded) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        rivals: dict[str, Array] = {"rival": most_compatible(state.compatibility) + 1} if self.mixes else {}
        return {**super().report(state.multipliers), **rivals}

    def summarise(self, state: Guarded) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().summarise(state.multipliers)
