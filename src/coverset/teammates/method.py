"""What a teammate generation method is.

Every method maximises sum_ij w_ij R_ij over best responses (rows i) and teammates (columns j) on the pair grid, where
R_ij is the expected return of best response i with teammate j (the paper's R_{i,-j}). Many methods are no more than
their weights and how those move with the returns: `init`, `weights`, `update`. The other methods of the interface have
defaults that do nothing: a bonus per step, a loss per batch with parameters of its own, frozen policies, episodes that
begin with another pair, a grid that is not square.
"""

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.learning.constraints import constraint_slack, mixed_team_slack
from coverset.settings import Schedule
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PairMatrix, PRNGKey, PyTree, Scalar

if TYPE_CHECKING:
    from coverset.envs.base import Environment
    from coverset.policies.population import Population
    from coverset.settings import GenerateSettings
    from coverset.teammates.batches import Batch
    from coverset.teammates.collect import Steps
    from coverset.teammates.networks import Networks
    from coverset.teammates.ppo import Logits


class World(NamedTuple):
    """What stays the same for a whole run."""

    environment: "Environment"
    settings: "GenerateSettings"
    rows: int
    """Number of best responses."""
    columns: int
    """Number of teammates."""


class Rollout(NamedTuple):
    """What a method may look at before advantages are estimated."""

    world: World
    grid: PairGrid
    """Who plays with whom in which environment."""
    steps: "Steps"
    networks: "Networks"
    """All networks that took part."""
    progress: Scalar
    """How far the run has come, from 0 to 1."""


class Seen(NamedTuple):
    """What a method may look at after an update."""

    world: World
    update: Int[Array, ""]
    """Number of this update, from 0."""
    progress: Scalar
    """How far the run has come, from 0 to 1."""
    pair_values: Float[Array, "R C"]
    """The critic's estimate of every pair's discounted return."""
    steps: "Steps"
    """The rollout that the update has learned from."""
    networks: "Networks"
    """All networks after it."""
    restarted: Bool[Array, "K"]
    """Pairs that restart with fresh networks; none on a grid that is not square."""
    mixed_values: Float[Array, "S K K"] | None = None
    """The same estimate for mixed teams, by seat s, best response i and teammate k: `Method.mixed_team_envs`."""


class PairWeights(NamedTuple):
    """Weights of the pairs' returns in the objective of best responses and, if they differ, of teammates."""

    best_responses: Float[Array, "R C"]
    teammates: Float[Array, "R C"]
    mixed_teams: Float[Array, "S K K"] | None = None
    """Weights of the mixed teams' returns, for everybody who plays in them; None for zero."""


class Frozen(NamedTuple):
    """Policies that do not learn."""

    best_responses: Bool[Array, "R"]
    teammates: Bool[Array, "C"]


class Prefix(NamedTuple):
    """Episodes whose first steps are played by another pair; only what follows the switch is data.

    An episode of cell (i, j) begins with best response `best_responses[i, j]` and teammate `teammates[i, j]`, and
    switches to i and j before a step that is drawn uniformly from those up to the horizon. A cell whose entries are i
    and j themselves has no prefix. `extra_self_play` environments never have one.
    """

    best_responses: Int[Array, "R C"]
    teammates: Int[Array, "R C"]
    own_action_probability: Float[Array, ""] | float = 0.0
    """Chance that a seat's action before the switch is the cell's own after all, drawn for every step: the mixed play
    of CoMeDi has 1/2."""
    probability: Float[Array, ""] | float = 1.0
    """Chance that an episode of such a cell has a prefix at all."""
    longest_share: Float[Array, ""] | float = 1.0
    """Share of the horizon up to which the switch is drawn. Where episodes usually end long before the horizon it
    should be small: an episode that ends before its switch is no data."""


class Stage(NamedTuple):
    """Where a run stands that trains in stages."""

    progress: Scalar
    """Of the stage, from 0 to 1."""
    is_over: Bool[Array, ""]
    """Whether the next stage should begin."""
    is_last: Bool[Array, ""]
    """Whether the run is finished: no further stage begins, and it ends before its last step."""


class Method(abc.ABC):
    """A method. Implementations are frozen dataclasses of their own settings, so they are static under `jit`."""

    default_settings: ClassVar[Mapping[str, Any] | None] = None
    """Shared settings with which the method is run in every game; None for those of the preset."""
    finds_size: ClassVar[bool] = False
    """Whether the method finds the number of pairs itself; `population_size` is then the most that it may find."""
    preset_changes: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Shared settings that replace those of every preset."""

    def grid_size(self, settings: "GenerateSettings") -> tuple[int, int]:
        """Numbers of best responses and of teammates."""
        return settings.population_size, settings.population_size

    def grid(self, settings: "GenerateSettings") -> PairGrid:
        """Who plays with whom in how many environments."""
        return PairGrid(*self.grid_size(settings), settings.envs_per_pair, settings.extra_self_play)

    def mixed_team_envs(self) -> int:
        """Environments of every mixed team in games of three or more players; 0 where only whole teams play.

        The mixed team (s, i, k) plays with best response i: teammate k in seat s, teammate i in all other seats.
        """
        return 0

    def schedule(self, settings: "GenerateSettings") -> Schedule:
        """How a run is cut into dispatches."""
        steps_per_update = self.grid(settings).num_envs * settings.rollout_length
        return Schedule(settings.total_steps, settings.chunk_steps, steps_per_update)

    def training_environment(self, environment: "Environment") -> "Environment":
        """The game that is played in training, with the same observations and actions; policies are measured in
        `environment` itself."""
        return environment

    def check(self, world: World) -> None:
        """Raise ValueError, in one sentence, if the method cannot work with this game or these settings."""
        del world

    @abc.abstractmethod
    def init(self, key: PRNGKey, world: World) -> PyTree:
        """What the method remembers before training, such as its multipliers."""

    def init_parameters(self, key: PRNGKey, world: World) -> PyTree:
        """Networks of the method's own that `loss` trains, such as a discriminator."""
        del key, world
        return ()

    def prepare(self, key: PRNGKey, world: World, networks: "Networks") -> "Networks":
        """What untrained networks become before they play, at the start of a run, of a stage or of a restarted pair."""
        del key, world
        return networks

    @abc.abstractmethod
    def weights(self, state: PyTree) -> Float[Array, "R C"] | PairWeights:
        """The weight of every pair's return in the objective."""

    def bonus(self, parameters: PyTree, state: PyTree, rollout: Rollout) -> Float[Array, "T R B"] | None:
        """What is added to every step's reward before advantages are estimated; reported returns leave it out."""
        del parameters, state, rollout

    def loss(
        self, parameters: PyTree, state: PyTree, batch: "Batch", logits: "Logits"
    ) -> tuple[Scalar, dict[str, Scalar]] | None:
        """What is added to the loss of every minibatch, and numbers to log.

        Args:
          parameters: the method's own, which get an optimiser with the critic's learning rate.
          state: what the method remembers.
          batch: each policy's own data.
          logits: of all best responses and teammates on their own data; gradients reach the policies through them.
        """
        del parameters, state, batch, logits

    def frozen(self, state: PyTree) -> Frozen | None:
        """Policies that do not learn now; None where all do."""
        del state

    def prefix(self, state: PyTree) -> Prefix | None:
        """Who plays the first steps of episodes; None where everybody plays from the start."""
        del state

    def update(self, state: PyTree, seen: Seen) -> PyTree:
        """What the method remembers after an update; a method with constant weights remembers the same."""
        del seen
        return state

    def stage(self, state: PyTree) -> Stage | None:
        """Where the run stands, for methods that train in stages; None for all others.

        Entropy bonus and learning rates follow the progress of the stage. Between two chunks a stage that is over gives
        way to the next one: `next_stage`.
        """
        del state

    def next_stage(
        self, key: PRNGKey, world: World, state: PyTree, trained: "Population", drawn: "Population"
    ) -> "tuple[PyTree, Population]":
        """What the method remembers at the start of the next stage, and the policies that play in it.

        It is called outside of compiled code; `trained` and `drawn` are the policies of the grid after the stage, and
        untrained ones. Optimisers, the critic and all episodes start afresh.
        """
        raise NotImplementedError(f"{type(self).__name__} has stages and must define next_stage.")

    def report(self, state: PyTree) -> dict[str, Any]:
        """Arrays that go into `metrics.jsonl`, under `method`."""
        del state
        return {}

    def summarise(self, state: PyTree) -> dict[str, Any]:
        """Fields that the method adds to `summary.json`."""
        del state
        return {}

    def margin(self, state: PyTree, settings: "GenerateSettings") -> float:
        """The margin tau by which the saved policies are judged."""
        del state
        return settings.margin

    def population(self, state: PyTree, trained: "Population") -> "Population":
        """What is saved; best responses and teammates may differ in number."""
        del state
        return trained


class ConstantWeights(Method):
    """A method whose weights never move: one number for self-play, one for cross-play, and how many pairs there are."""

    @abc.abstractmethod
    def self_play_weight(self, population_size: int) -> float:
        """w_ii."""

    @abc.abstractmethod
    def cross_play_weight(self, population_size: int) -> float:
        """w_ij for i != j."""

    def init(self, key: PRNGKey, world: World) -> PairMatrix:
        del key
        return jnp.where(
            jnp.eye(world.rows, dtype=bool),
            jnp.float32(self.self_play_weight(world.rows)),
            jnp.float32(self.cross_play_weight(world.rows)),
        )

    def weights(self, state: PairMatrix) -> PairMatrix:
        return state


def as_pair_weights(weights: Float[Array, "R C"] | PairWeights) -> PairWeights:
    """One matrix stands for both populations."""
    return weights if isinstance(weights, PairWeights) else PairWeights(weights, weights)


def gaps(pair_returns: PairMatrix, margin: float) -> tuple[PairMatrix, PairMatrix]:
    """Slack of both sets of constraints, zero on the diagonals."""
    off_diagonal = 1.0 - jnp.eye(pair_returns.shape[0])
    first, second = constraint_slack(pair_returns, margin)
    return first * off_diagonal, second * off_diagonal


def mixed_gaps(pair_returns: PairMatrix, mixed_returns: Float[Array, "S K K"], margin: float) -> Float[Array, "S K K"]:
    """Slack of the constraints on mixed teams, zero on the diagonals."""
    off_diagonal = 1.0 - jnp.eye(pair_returns.shape[0])
    return mixed_team_slack(pair_returns, mixed_returns, margin) * off_diagonal[None]


def violates_constraints(
    pair_returns: PairMatrix, margin: float, mixed_returns: Float[Array, "S K K"] | None = None
) -> Bool[Array, "K"]:
    """Which pairs have a constraint that does not hold, on mixed teams too where they play."""
    violated = jnp.any(jnp.minimum(*gaps(pair_returns, margin)) < 0.0, axis=1)
    if mixed_returns is None:
        return violated
    return violated | jnp.any(mixed_gaps(pair_returns, mixed_returns, margin) < 0.0, axis=(0, 2))
