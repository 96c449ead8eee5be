"""Settings of teammate generation and of agent training: frozen, checked when built; derived sizes are properties.

What only one method or learner needs is a field of that method or learner, in its own file.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, get_type_hints

from coverset.checks import check_at_least, check_between, check_finite, check_one_of, check_positive, check_type

TEAM_NETWORKS = ("shared", "separate")
VALUE_STATES = ("initial", "batch")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """Hyperparameters that both kinds of training share. The paper's symbol stands behind each, where it has one."""

    total_steps: int
    """Environment steps to train for, over all environments: T."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the dense hidden layers of every network."""
    memory_size: int = 64
    """State size of recurrent networks: L_rep."""
    fourier_bandwidth: float = 0.0
    """Bandwidth of Fourier features in every network's first dense layer, which separate observations that differ in
    little; 0 for ReLU as in the other layers."""
    learning_rate: float = 1e-3
    """Adam's step size for the policies: lambda_pi."""
    critic_learning_rate: float = 1e-3
    """Adam's step size for the critic: lambda_V."""
    anneal: bool = False
    """Whether both learning rates fall linearly to zero over the run."""
    discount: float = 0.99
    """Discount rate: gamma."""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation; 0 gives the one-step advantage of Algorithm 1."""
    rollout_length: int = 16
    """Steps between two updates, and the reach of back-propagation through time: T_update."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 1
    """Parts of a rollout that each take an optimiser step of their own: along time for memoryless networks, over
    environments for recurrent ones."""
    clip: float = 0.2
    """Clipping range of the probability ratio."""
    max_grad_norm: float = 0.5
    """Bound of the gradient norm of each policy, and of the critic."""
    entropy: float = 0.01
    """Entropy bonus: w_ent."""
    entropy_final: float | None = None
    """Entropy bonus at the end of the run, reached linearly over its second half; constant if not given."""
    shaping_share: float = 0.5
    """Share of the run over which the weight of the game's shaped reward falls linearly from 1 to 0, in games that have
    one; 0 to learn from the reward alone. Returns never include it."""
    chunk_steps: int = 50_000
    """Environment steps between two rows of metrics; they run as one compiled dispatch."""
    parallel_seeds: int = 1
    """Seeds that train side by side in one compiled program: faster where networks are small."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("learning_rate", "critic_learning_rate", "clip", "max_grad_norm"):
            check_positive(name, getattr(self, name))
        for name in ("entropy", "entropy_final", "fourier_bandwidth"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 0)
                check_finite(name, getattr(self, name))
        for name in (
            *("total_steps", "memory_size", "rollout_length", "epochs", "minibatches"),
            *("chunk_steps", "parallel_seeds"),
        ):
            check_at_least(name, getattr(self, name), 1)
        for name in ("discount", "gae_lambda", "shaping_share"):
            check_between(name, getattr(self, name), 0, 1)
        if not self.hidden_sizes or min(self.hidden_sizes) < 1:
            raise ValueError(f"hidden_sizes must list at least one width above 0, got {self.hidden_sizes}.")


@dataclass(frozen=True, kw_only=True)
class GenerateSettings(LearningSettings):
    """Hyperparameters of teammate generation, whatever the method."""

    population_size: int
    """Number of pairs (best response, teammate) to train: K."""
    margin: float = 0.5
    """By how much a pair's self-play must exceed its cross-play: tau."""
    network: str = "dense"
    """Network of best responses and teammates: dense, conv, gru, lstm or module:Class."""
    critic_network: str = "dense"
    """Network of the centralised critic: dense, conv, gru, lstm or module:Class."""
    settled_margin_factor: float = 1.0
    """By how many margins a pair's self-play must exceed its cross-play for the pair to count as settled, for the next
    two settings. Above 1, a pair that has learned only the beginning of a convention does not count."""
    restart_patience: int = 0
    """Updates after which a pair that is not settled restarts with fresh networks; 0 for never."""
    stop_patience: int = 0
    """Updates for which all pairs must be settled for the run to end early; 0 to use all its steps. Over the second
    half of them both learning rates fall to zero."""
    envs_per_pair: int = 16
    """Environments in each cell of the pair grid."""
    max_rollout_episodes: int = 0
    """Most episodes of full length that a rollout may span, 0 for any number: `rollout_length` is shortened for games
    of few steps, so that policies do not commit themselves before the method has seen what they do."""
    extra_self_play: int = 0
    """Further environments in each self-play cell; they sharpen its estimates and leave the objective as it is."""
    share_pair_parameters: bool = False
    """Whether best response i and teammate i are one policy: for games in which both seats see and do alike."""
    team_networks: str = "shared"
    """How a teammate plays all seats but the ego's in games of three or more: one `shared` network, which knows its
    seat, or `separate` ones. Policies of which a pair shares one do not know their seat."""
    ego_reward_share: float = 0.0
    """What teammates maximise in self-play where seats have rewards of their own: 0 for their own return, 1 for the
    ego's, and between them a weighted sum."""
    own_reward_scale: float = 0.1
    """Scale of teammates' own returns in that sum. What they may do is up to the constraints, whatever the scale; a
    small one leaves the lead to the constraints while multipliers are learned."""
    normalise_advantages: bool = True
    """Whether each policy's advantages are divided by their root mean square in the rollout."""
    advantage_scale_memory: float = 0.0
    """How much of that root mean square remains after an update as the least that later advantages are divided by. Near
    1, rollouts in which nothing is earned do not amplify noise; 0 to normalise every rollout by itself."""
    normalise_values: bool = False
    """Whether the critic learns values in units of their running mean and standard deviation (PopArt)."""
    scale_free: bool = False
    """Whether `margin` and the method's multipliers are in units of the range of pair returns that the run has seen."""
    normalise_pair_weights: bool = True
    """Whether each policy's loss is divided by its largest pair weight, w_ii in the paper's methods."""
    value_states: str = "initial"
    """States at which the critic estimates pair returns for the method: fresh `initial` states (the expectation over
    p_0 in the Lagrange dual) or states of the `batch` (Algorithm 1)."""
    value_samples: int = 64
    """Number of such states."""
    target_update_rate: float = 1.0
    """Share of the critic that its target network takes over after each update; 1 means no separate target."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("population_size", self.population_size, 2, "so that cross-play pairs exist")
        for name in ("margin", "settled_margin_factor"):
            check_at_least(name, getattr(self, name), 0)
            check_finite(name, getattr(self, name))
        for name in ("extra_self_play", "restart_patience", "stop_patience", "max_rollout_episodes"):
            check_at_least(name, getattr(self, name), 0)
        for name in ("envs_per_pair", "value_samples"):
            check_at_least(name, getattr(self, name), 1)
        check_positive("target_update_rate", self.target_update_rate)
        check_between("target_update_rate", self.target_update_rate, 0, 1)
        check_one_of("value_states", self.value_states, VALUE_STATES)
        check_one_of("team_networks", self.team_networks, TEAM_NETWORKS)
        for name in ("ego_reward_share", "advantage_scale_memory"):
            check_between(name, getattr(self, name), 0, 1)
        check_at_least("own_reward_scale", self.own_reward_scale, 0)
        check_finite("own_reward_scale", self.own_reward_scale)

    def for_horizon(self, horizon: int) -> "GenerateSettings":
        """The same settings with rollouts of at most `max_rollout_episodes` episodes, a multiple of `minibatches`."""
        if not self.max_rollout_episodes:
            return self
        longest = math.ceil(self.max_rollout_episodes * horizon / self.minibatches) * self.minibatches
        return replace(self, rollout_length=min(self.rollout_length, longest))

    @property
    def settled_margin(self) -> float:
        """By how much a pair's self-play must exceed its cross-play for the pair to count as settled."""
        return self.settled_margin_factor * self.margin


@dataclass(frozen=True, kw_only=True)
class TrainSettings(LearningSettings):
    """Hyperparameters of ad hoc agent training, whatever the learner."""

    hidden_sizes: tuple[int, ...] = (64,)
    anneal: bool = True
    rollout_length: int = 20
    minibatches: int = 4
    envs_per_partner: int = 32
    """Environments in which each partner of the pool plays."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this before the agent reads them or learns from them; returns are reported unscaled."""
    episodes_per_trial: int = 20
    """Episodes with one partner before memory is cleared."""
    mixed_teams: float = 0.25
    """Share of the environments of each partner in which, in games of three or more players, other partners take the
    seats after its first."""
    evaluations: int = 10
    """How often, evenly over the run, the agent is measured with held-out partners."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("reward_scale", self.reward_scale)
        check_at_least("evaluations", self.evaluations, 0)
        check_between("mixed_teams", self.mixed_teams, 0, 1)
        for name in ("envs_per_partner", "episodes_per_trial"):
            check_at_least(name, getattr(self, name), 1)
        if self.envs_per_partner % self.minibatches:
            raise ValueError(
                f"minibatches must divide envs_per_partner, got {self.minibatches} for {self.envs_per_partner}."
            )

    @property
    def value_scale(self) -> float:
        """Values are learned in units of scaled reward a step, so that a far horizon does not make them large."""
        return self.reward_scale * (1.0 - self.discount if self.discount < 1.0 else 1.0)


MOST_EXCESS = 0.05
"""By how much a run may exceed its steps, as a fraction, before its chunks are made shorter."""


@dataclass(frozen=True)
class Schedule:
    """How a run of updates is cut into compiled dispatches."""

    total_steps: int
    chunk_steps: int
    steps_per_update: int
    """Environment steps of one rollout over all environments."""

    @property
    def updates_per_chunk(self) -> int:
        """Updates of one compiled dispatch: all of them where `chunk_steps` allows for the whole run.

        About `chunk_steps` of environment steps; less where whole chunks would train far beyond `total_steps`.
        """
        needed = math.ceil(self.total_steps / self.steps_per_update)
        if self.chunk_steps >= self.total_steps:
            return needed
        updates = max(1, round(self.chunk_steps / self.steps_per_update))
        chunks = math.ceil(needed / updates)
        return updates if chunks * updates <= needed * (1 + MOST_EXCESS) else math.ceil(needed / chunks)

    @property
    def steps_per_chunk(self) -> int:
        """Environment steps of one dispatch."""
        return self.updates_per_chunk * self.steps_per_update

    @property
    def num_chunks(self) -> int:
        """Dispatches of the whole run; together they may train a little beyond `total_steps`."""
        return math.ceil(self.total_steps / self.steps_per_chunk)

    @property
    def num_updates(self) -> int:
        """Updates of the whole run."""
        return self.num_chunks * self.updates_per_chunk


def check_types(settings: Any) -> None:
    """Raise unless every setting has its type; lists, as JSON gives them, become tuples."""
    for name, annotation in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        check_type(name, value, annotation)
        if isinstance(value, list):
            object.__setattr__(settings, name, tuple(value))


def build_checked(cls: type[T], values: Mapping[str, Any]) -> T:
    """A method's or learner's frozen record of settings from plain values, as JSON gives them, checked one by one."""
    hints = {field.name: get_type_hints(cls)[field.name] for field in fields(cls)}  # pyright: ignore[reportArgumentType]
    for name, value in values.items():
        check_one_of(f"a setting of {cls.__name__}", name, hints)
        check_type(name, value, hints[name])
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
