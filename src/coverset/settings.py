"""Settings of teammate generation and of agent training: frozen, checked when built; derived sizes are properties."""

import math
from dataclasses import dataclass
from typing import Any, get_type_hints

from coverset.checks import check_at_least, check_between, check_finite, check_one_of, check_positive, check_type

VALUE_STATES = ("initial", "batch")


@dataclass(frozen=True)
class GenerateSettings:
    """Hyperparameters of teammate generation. The paper's symbol stands behind each, where it has one."""

    population_size: int
    """Number of pairs (best response, teammate) to train: K."""
    total_steps: int
    """Environment steps to train for, over all environments: T."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of every policy and of the critic."""
    learning_rate: float = 1e-3
    """Adam's step size for the policies: lambda_pi."""
    critic_learning_rate: float = 1e-3
    """Adam's step size for the critic: lambda_V."""
    anneal: bool = False
    """Whether both learning rates fall linearly to zero over the run."""
    margin: float = 0.5
    """By how much a pair must beat its cross-play: tau."""
    multiplier_learning_rate: float = 0.05
    """Step size of L-BRDiv's Lagrange multipliers: lambda_alpha."""
    multiplier_interval: int = 1
    """Updates between two steps of the multipliers: T_lagrange."""
    max_multiplier: float = math.inf
    """Upper bound of every multiplier."""
    multiplier_growth_exponent: float = 0.0
    """How much slower multipliers grow for a pair that earns less than the best one: the power of that share."""
    settled_margin_factor: float = 1.0
    """By how many times the margin a pair must beat its cross-play to count as settled for the next two. Above 1, one
    that has learned no more than the beginning of a convention does not."""
    restart_patience: int = 0
    """Updates after which a pair that is not settled starts anew with fresh networks; 0 for never."""
    stop_patience: int = 0
    """Updates for which all pairs must be settled for the run to end early; 0 to use all its steps. Over the second
    half of them both learning rates fall to zero."""
    alpha: float = 1.0
    """Weight of cross-play in BRDiv and LIPO."""
    discount: float = 0.99
    """Discount rate: gamma."""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation; 0 gives the one-step advantage of Algorithm 1."""
    envs_per_pair: int = 16
    """Environments in each cell of the pair grid."""
    extra_self_play: int = 0
    """Further environments in each self-play cell; they sharpen its estimates and leave the objective as it is."""
    rollout_length: int = 16
    """Steps between two updates: T_update."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 1
    """Parts of a rollout, along time, that each take an optimiser step of their own."""
    clip: float = 0.2
    """Clipping range of the probability ratio."""
    max_grad_norm: float = 0.5
    """Bound of the gradient norm of each policy, and of the critic."""
    entropy: float = 0.01
    """Entropy bonus in units of the self-play weight: w_ent."""
    entropy_final: float | None = None
    """Entropy bonus at the end of the run, reached linearly over its second half; constant if not given."""
    fourier_bandwidth: float = 0.0
    """Bandwidth of waves in every network's first layer, which tell observations apart that differ in little; 0 for
    rectifiers as in the other layers."""
    share_pair_parameters: bool = False
    """Whether best response i and teammate i are one policy: for games in which both seats see and do alike."""
    normalise_advantages: bool = True
    """Whether each policy's advantages are measured in units of their root mean square in the rollout."""
    normalise_pair_weights: bool = True
    """Whether each policy's loss is measured in units of its self-play weight w_ii."""
    value_states: str = "initial"
    """States at which the critic estimates pair returns for the multipliers: fresh `initial` states (the expectation
    over p_0 in the Lagrange dual) or states of the `batch` (Algorithm 1)."""
    value_samples: int = 64
    """Number of such states."""
    target_update_rate: float = 1.0
    """Share of the critic that its target network takes over after each update; 1 means no separate target."""
    chunk_steps: int = 50_000
    """Environment steps between two rows of metrics; they run as one compiled dispatch."""
    parallel_seeds: int = 1
    """Seeds that train side by side in one compiled program: faster where networks are small."""

    def __post_init__(self) -> None:
        _check_types(self)
        check_at_least("population_size", self.population_size, 2, "so that cross-play pairs exist")
        for name in ("learning_rate", "critic_learning_rate", "clip", "max_grad_norm", "target_update_rate"):
            check_positive(name, getattr(self, name))
        for name in (
            "multiplier_learning_rate",
            "max_multiplier",
            "alpha",
            "entropy",
            "margin",
            "settled_margin_factor",
        ):
            check_at_least(name, getattr(self, name), 0)
        for name in (
            "multiplier_learning_rate",
            "alpha",
            "entropy",
            "margin",
            "settled_margin_factor",
            "multiplier_growth_exponent",
            "fourier_bandwidth",
        ):
            check_finite(name, getattr(self, name))
        for name in (
            "extra_self_play",
            "multiplier_growth_exponent",
            "fourier_bandwidth",
            "restart_patience",
            "stop_patience",
        ):
            check_at_least(name, getattr(self, name), 0)
        for name in ("total_steps", "multiplier_interval", "envs_per_pair", "rollout_length", "epochs", "minibatches"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("value_samples", "chunk_steps", "parallel_seeds"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("discount", "gae_lambda", "target_update_rate"):
            check_between(name, getattr(self, name), 0, 1)
        if self.entropy_final is not None:
            check_at_least("entropy_final", self.entropy_final, 0)
            check_finite("entropy_final", self.entropy_final)
        if not self.hidden_sizes or min(self.hidden_sizes) < 1:
            raise ValueError(f"hidden_sizes must list at least one width above 0, got {self.hidden_sizes}.")
        if self.rollout_length % self.minibatches:
            raise ValueError(
                f"minibatches must divide rollout_length, got {self.minibatches} for {self.rollout_length} steps."
            )
        check_one_of("value_states", self.value_states, VALUE_STATES)

    @property
    def settled_margin(self) -> float:
        """By how much a pair must beat its cross-play to count as settled."""
        return self.settled_margin_factor * self.margin

    @property
    def num_envs(self) -> int:
        """Environments of the whole pair grid."""
        return self.population_size * (self.population_size * self.envs_per_pair + self.extra_self_play)

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout over the grid."""
        return self.num_envs * self.rollout_length

    @property
    def num_updates(self) -> int:
        """Rollouts of the whole run."""
        return math.ceil(self.total_steps / self.steps_per_update)

    @property
    def updates_per_chunk(self) -> int:
        """Updates of one compiled dispatch."""
        return max(1, min(self.num_updates, round(self.chunk_steps / self.steps_per_update)))

    @property
    def num_chunks(self) -> int:
        """Dispatches of the whole run; the last may train a little beyond `total_steps`."""
        return math.ceil(self.num_updates / self.updates_per_chunk)

    @property
    def steps_per_chunk(self) -> int:
        """Environment steps of one dispatch."""
        return self.updates_per_chunk * self.steps_per_update


@dataclass(frozen=True)
class TrainSettings:
    """Hyperparameters of ad hoc agent training. The paper's symbol stands behind each, where it has one."""

    total_steps: int
    """Environment steps to train for, over all environments: T."""
    hidden_sizes: tuple[int, ...] = (64,)
    """Widths of the dense layers before the LSTM."""
    fourier_bandwidth: float = 0.0
    """Bandwidth of waves in the first layer, as for teammates; 0 for rectifiers."""
    memory_size: int = 64
    """Size of the LSTM: L_rep."""
    learning_rate: float = 1e-3
    """Adam's step size for the policy: lambda_pi."""
    critic_learning_rate: float = 1e-3
    """Adam's step size for the critic: lambda_V."""
    anneal: bool = True
    """Whether both learning rates fall linearly to zero over the run."""
    discount: float = 0.99
    """Discount rate: gamma."""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation."""
    envs_per_partner: int = 32
    """Environments in which each partner of the pool plays."""
    rollout_length: int = 20
    """Steps between two updates, and the reach of back-propagation: T_update."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 4
    """Parts of a rollout, over environments, that each take an optimiser step of their own."""
    clip: float = 0.2
    """Clipping range of the probability ratio."""
    max_grad_norm: float = 0.5
    """Bound of the gradient norm of policy and critic."""
    entropy: float = 0.01
    """Entropy bonus: w_ent."""
    entropy_final: float | None = None
    """Entropy bonus at the end of the run, reached linearly over its second half; constant if not given."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this before the agent reads them or learns from them; returns are reported unscaled."""
    episodes_per_trial: int = 20
    """Episodes with one partner before memory is cleared."""
    chunk_steps: int = 50_000
    """Environment steps between two rows of metrics; they run as one compiled dispatch."""
    evaluations: int = 10
    """How often, evenly over the run, the agent is measured with held-out partners."""
    parallel_seeds: int = 1
    """Seeds that train side by side in one compiled program: faster where networks are small."""

    def __post_init__(self) -> None:
        _check_types(self)
        for name in ("learning_rate", "critic_learning_rate", "clip", "max_grad_norm", "reward_scale"):
            check_positive(name, getattr(self, name))
        for name in ("entropy", "evaluations", "fourier_bandwidth"):
            check_at_least(name, getattr(self, name), 0)
            check_finite(name, getattr(self, name))
        for name in (
            *("total_steps", "memory_size", "envs_per_partner", "rollout_length", "epochs", "minibatches"),
            *("episodes_per_trial", "chunk_steps", "parallel_seeds"),
        ):
            check_at_least(name, getattr(self, name), 1)
        for name in ("discount", "gae_lambda"):
            check_between(name, getattr(self, name), 0, 1)
        if self.entropy_final is not None:
            check_at_least("entropy_final", self.entropy_final, 0)
            check_finite("entropy_final", self.entropy_final)
        if not self.hidden_sizes or min(self.hidden_sizes) < 1:
            raise ValueError(f"hidden_sizes must list at least one width above 0, got {self.hidden_sizes}.")
        if self.envs_per_partner % self.minibatches:
            raise ValueError(
                f"minibatches must divide envs_per_partner, got {self.minibatches} for {self.envs_per_partner}."
            )

    @property
    def value_scale(self) -> float:
        """Values are learned in units of scaled reward a step, so that a far horizon does not make them large."""
        return self.reward_scale * (1.0 - self.discount if self.discount < 1.0 else 1.0)

    def steps_per_update(self, num_partners: int) -> int:
        """Environment steps of one rollout with a pool of that size."""
        return num_partners * self.envs_per_partner * self.rollout_length

    def updates_per_chunk(self, num_partners: int) -> int:
        """Updates of one compiled dispatch."""
        steps = self.steps_per_update(num_partners)
        return max(1, min(math.ceil(self.total_steps / steps), round(self.chunk_steps / steps)))

    def steps_per_chunk(self, num_partners: int) -> int:
        """Environment steps of one dispatch."""
        return self.updates_per_chunk(num_partners) * self.steps_per_update(num_partners)

    def num_chunks(self, num_partners: int) -> int:
        """Dispatches of the whole run; the last may train a little beyond `total_steps`."""
        return math.ceil(self.total_steps / self.steps_per_chunk(num_partners))


def _check_types(settings: Any) -> None:
    """Raise unless every setting has its type; lists, as JSON gives them, become tuples."""
    for name, annotation in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        check_type(name, value, annotation)
        if isinstance(value, list):
            object.__setattr__(settings, name, tuple(value))
