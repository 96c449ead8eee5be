"""CoMeDi (Sarkar, Shih and Sadigh 2023): conventions one after another, each unlike those before, and in good faith.

With the pairs before n frozen, pair n maximises

    R_nn - alpha (R_nr + R_rn) + beta M_nr        r = argmax_{j < n} (R_nj + R_jn)

where M_nr is the return of mixed play: up to a random step every seat's action comes from pair n or from pair r, with
probability 1/2 each, and from then on both seats are pair n's. Only these later steps are data. A pair that gives up
when it notices that its partner is a stranger loses in mixed play, where such states occur in its own self-play.

The rival r is chosen after every update, by a running mean of the critic's estimates. Pair 1 learns by self-play alone.
Each pair has the K-th part of the run. Mixed play and self-play share one cell of the grid: its episodes are mixed with
probability beta / (1 + beta), and w_nn = 1 + beta.

Differs from the source: a convention is a pair of policies, one for each seat, where the paper has one policy for both;
all members of the grid play at every update, which keeps the estimates for the choice of r.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.checks import check_at_least, check_between, check_finite
from coverset.policies.population import Population
from coverset.teammates.method import Frozen, Method, PairWeights, Prefix, Seen, Stage, World
from coverset.teammates.methods.lipo_max import follow_compatibility
from coverset.types import PairMatrix, PRNGKey

AVERAGING_RATE = 0.1
"""Share of the latest estimates in the running mean by which the rival is chosen."""


class Sequence(NamedTuple):
    """What the method remembers."""

    learner: Int[Array, ""]
    """n, the pair that learns, from 0; those before it are frozen conventions."""
    updates: Int[Array, ""]
    """Of the run so far."""
    start: Int[Array, ""]
    end: Int[Array, ""]
    """Updates between which the present pair learns."""
    compatibility: PairMatrix
    """Running mean of R_ij + R_ji."""

    @property
    def rival(self) -> Int[Array, ""]:
        """r, the convention before n with which pair n earns most; n itself for the first."""
        size = self.compatibility.shape[0]
        known = jnp.arange(size) < self.learner
        best = jnp.argmax(jnp.where(known, self.compatibility[self.learner], -jnp.inf)).astype(jnp.int32)
        return jnp.where(self.learner == 0, self.learner, best)


@dataclass(frozen=True)
class CoMeDi(Method):
    """Sequential self-play against the most compatible convention so far, with mixed play."""

    preset_changes: ClassVar[Mapping[str, Any]] = MappingProxyType({"restart_patience": 0, "stop_patience": 0})
    """Both are about constraints that this method has not."""

    cross_play_weight: float = 0.5
    """Weight of cross-play with the rival: alpha."""
    mixed_play_weight: float = 1.0
    """Weight of mixed play with the rival: beta."""
    longest_prefix: float = 1.0
    """Share of the horizon up to which the start of self-play in mixed play is drawn."""

    def __post_init__(self) -> None:
        for name in ("cross_play_weight", "mixed_play_weight"):
            check_at_least(name, getattr(self, name), 0)
            check_finite(name, getattr(self, name))
        check_between("longest_prefix", self.longest_prefix, 0, 1)

    def check(self, world: World) -> None:
        s = world.settings
        for name in ("restart_patience", "stop_patience"):
            if value := getattr(s, name):
                raise ValueError(f"{name} must be 0 for comedi, whose pairs learn one after another, got {value}.")
        check_stages(self, world, world.rows)

    def init(self, key: PRNGKey, world: World) -> Sequence:
        del key
        nothing = jnp.int32(0)
        return Sequence(nothing, nothing, nothing, self._end(world, 0), jnp.zeros((world.rows, world.columns)))

    def _end(self, world: World, learner: int) -> Int[Array, ""]:
        return stage_end(self, world, (learner + 1) / world.rows)

    def weights(self, state: Sequence) -> PairWeights:
        size = state.compatibility.shape[0]
        own, rival = jax.nn.one_hot(state.learner, size), jax.nn.one_hot(state.rival, size)
        repelled = jnp.where(state.learner == 0, 0.0, self.cross_play_weight) * rival
        objective = (1.0 + self.mixed_play_weight) * own - repelled
        return PairWeights(jnp.outer(own, objective), jnp.outer(objective, own))

    def frozen(self, state: Sequence) -> Frozen:
        others = jnp.arange(state.compatibility.shape[0]) != state.learner
        return Frozen(others, others)

    def prefix(self, state: Sequence) -> Prefix:
        size = state.compatibility.shape[0]
        is_learner = jnp.arange(size) == state.learner
        return mixed_play(
            jnp.where(is_learner, state.rival, jnp.arange(size)), self.mixed_play_weight, self.longest_prefix
        )

    def update(self, state: Sequence, seen: Seen) -> Sequence:
        compatibility = follow_compatibility(
            state.compatibility, seen.pair_values, AVERAGING_RATE, state.updates == state.start
        )
        return state._replace(updates=state.updates + 1, compatibility=compatibility)

    def stage(self, state: Sequence) -> Stage:
        return timed_stage(state.updates, state.start, state.end, state.learner == state.compatibility.shape[0] - 1)

    def next_stage(
        self, key: PRNGKey, world: World, state: Sequence, trained: Population, drawn: Population
    ) -> tuple[Sequence, Population]:
        """The next pair, which is untrained so far, begins to learn."""
        del key, drawn
        learner = int(state.learner) + 1
        return state._replace(learner=jnp.int32(learner), start=state.updates, end=self._end(world, learner)), trained

    def report(self, state: Sequence) -> dict[str, Array]:
        return {"learner": state.learner + 1, "rival": state.rival + 1}


def mixed_play(rivals: Int[Array, "K"], weight: float, longest_share: float) -> Prefix:
    """Self-play of pair i begins, in a part of its episodes, with steps in which pair `rivals[i]` mixes.

    The part is weight / (1 + weight), so that w_ii = 1 + weight gives self-play the weight 1 and mixed play `weight`.
    A pair whose rival is itself has no mixed play.
    """
    size = rivals.shape[0]
    rows, columns = jnp.meshgrid(jnp.arange(size), jnp.arange(size), indexing="ij")
    return Prefix(
        jnp.where(rows == columns, rivals[:, None], rows),
        jnp.where(rows == columns, rivals[:, None], columns),
        own_action_probability=0.5,
        probability=weight / (1.0 + weight),
        longest_share=longest_share,
    )


def stage_end(method: Method, world: World, share: float) -> Int[Array, ""]:
    """Number of the update at which a stage ends that lasts up to a share of the run."""
    return jnp.int32(round(share * method.schedule(world.settings).num_updates))


def timed_stage(updates: Int[Array, ""], start: Int[Array, ""], end: Int[Array, ""], is_last: Bool[Array, ""]) -> Stage:
    """Where a run stands whose stages have given lengths."""
    progress = jnp.minimum((updates - start) / jnp.maximum(end - start, 1), 1.0)
    is_over = updates >= end
    return Stage(progress, is_over, is_over & is_last)


def check_stages(method: Method, world: World, stages: float) -> None:
    """Raise unless every stage, of an equal share of the run, has a chunk of its own: stages change between chunks."""
    s, schedule = world.settings, method.schedule(world.settings)
    if schedule.num_chunks < stages:
        most = int(s.total_steps // stages)
        raise ValueError(
            f"chunk_steps must be at most {most:,} so that each of the stages has a chunk of its own, "
            f"got {s.chunk_steps:,} for {s.total_steps:,} steps."
        )
