"""Named settings per environment: `paper` follows the appendix tables, `fast` is tuned for two CPU cores."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from coverset.adhoc.registry import learner_class, learner_name, make_learner
from coverset.checks import check_one_of
from coverset.settings import GenerateSettings, TrainSettings
from coverset.teammates.method import Method
from coverset.teammates.registry import make_method, method_class, method_name

if TYPE_CHECKING:
    from coverset.adhoc.learner import Learner

PRESETS = ("fast", "paper")
AUTO = "auto"
"""A population size that the method finds itself."""

_PAPER_COMMON: dict[str, Any] = {
    # Algorithm 1: one-step advantages, a target critic, multipliers by critic estimates on the batch.
    "gae_lambda": 0.0,
    "target_update_rate": 0.05,
    "value_states": "batch",
    "multiplier_interval": 10,
}

_PAPER_REACHING: dict[str, Any] = {
    **_PAPER_COMMON,
    "population_size": 4,
    "total_steps": 32_000_000,
    "hidden_sizes": (128, 256, 256, 128),
    "learning_rate": 1e-4,
    "critic_learning_rate": 1e-4,
    "multiplier_learning_rate": 0.5,
    "envs_per_pair": 10,
    "rollout_length": 8,
    "entropy": 5e-3,
}

_FAST_REACHING: dict[str, Any] = {
    "population_size": 4,
    "total_steps": 2_000_000,
    "hidden_sizes": (64, 64),
    "entropy": 0.05,
    "entropy_final": 0.005,
    "minibatches": 4,
    "parallel_seeds": 4,
}

_FAST_MATRIX: dict[str, Any] = {
    "population_size": 3,
    "total_steps": 500_000,
    "hidden_sizes": (32, 32),
    "margin": 1.0,
    "envs_per_pair": 8,
    "rollout_length": 2,
    "entropy": 0.15,
    "normalise_advantages": False,
    "chunk_steps": 3_000,
    "parallel_seeds": 16,
}

# Teammates work against best responses and are stopped by their constraints alone: ever smaller steps end the circling.
_FAST_ZERO_SUM: dict[str, Any] = {**_FAST_MATRIX, "total_steps": 250_000, "margin": 0.5, "anneal": True}

_GENERATE: dict[str, dict[str, dict[str, Any]]] = {
    "rock-paper-scissors": {"fast": _FAST_ZERO_SUM},
    # A critic that lags behind the policies keeps multipliers on the wrong side.
    "matching-pennies": {"fast": {**_FAST_ZERO_SUM, "population_size": 2, "critic_learning_rate": 5e-3}},
    "matrix": {
        "paper": {
            **_PAPER_COMMON,
            "population_size": 3,
            "total_steps": 1_000_000,
            "hidden_sizes": (32, 32),
            "margin": 1.0,
            # 40 threads over nine pairs: five environments in each.
            "envs_per_pair": 5,
            "rollout_length": 2,
            "entropy": 1e-3,
            "normalise_advantages": False,
        },
        "fast": _FAST_MATRIX,
    },
    "reaching": {
        "paper": {**_PAPER_REACHING, "margin": 0.2},
        "fast": {**_FAST_REACHING, "margin": 0.2, "multiplier_learning_rate": 0.15, "restart_patience": 100},
    },
    "weighted-reaching": {
        "paper": {**_PAPER_REACHING, "margin": 0.5},
        # With 0.05 pairs may go round the corners for long; with 0.02 one may learn to avoid them all.
        "fast": {**_FAST_REACHING, "margin": 0.5, "entropy": 0.03},
    },
    "foraging": {
        "paper": {
            **_PAPER_COMMON,
            "population_size": 6,
            "total_steps": 240_000_000,
            "hidden_sizes": (128, 128),
            "learning_rate": 1e-4,
            "critic_learning_rate": 1e-4,
            "multiplier_learning_rate": 0.05,
            "margin": 0.1,
            # 160 threads over 36 pairs: four in each, and the rest in self-play.
            "envs_per_pair": 4,
            "extra_self_play": 3,
            "rollout_length": 8,
            "entropy": 8e-4,
        },
        "fast": {
            "population_size": 6,
            "total_steps": 15_000_000,
            "hidden_sizes": (64, 64),
            # An object that is gone changes few of the inputs; ReLU networks hardly notice.
            "fourier_bandwidth": 2.0,
            # With two policies a pair, pairs also separate by the sides from which they load, and orders stay unfound.
            "share_pair_parameters": True,
            "discount": 0.97,
            "critic_learning_rate": 3e-3,
            "margin": 0.15,
            "multiplier_learning_rate": 0.02,
            "max_multiplier": 0.5,
            "multiplier_growth_exponent": 2.0,
            # One that collects two objects and not the third meets the plain constraints.
            "settled_margin_factor": 2.0,
            # The third pair that begins with an object finds both continuations taken, and never leaves by itself.
            "restart_patience": 400,
            "stop_patience": 400,
            "envs_per_pair": 4,
            "extra_self_play": 24,
            "entropy": 0.02,
            "entropy_final": 0.01,
            "minibatches": 4,
            "chunk_steps": 100_000,
            "parallel_seeds": 4,
        },
    },
}

_OTHER_ENVIRONMENTS: dict[str, Any] = {
    "population_size": 4,
    "total_steps": 4_000_000,
    # Self-play is what has to be learned first, and cross-play only measured: most environments are in self-play.
    "envs_per_pair": 2,
    "extra_self_play": 12,
    "rollout_length": 64,
    "max_rollout_episodes": 8,
    "epochs": 8,
    "minibatches": 8,
    "learning_rate": 5e-4,
    "entropy": 0.02,
    "entropy_final": 0.005,
    # Nothing depends on the scale of rewards.
    "normalise_values": True,
    "advantage_scale_memory": 0.99,
    "scale_free": True,
    "margin": 0.1,
    "multiplier_learning_rate": 0.3,
    # In games with sparse rewards, multipliers that grow before a pair earns anything teach it to avoid all rewards.
    "multiplier_growth_exponent": 1.0,
    "restart_patience": 100,
}
"""For games without a preset."""

_ALPHA: dict[str, dict[str, float]] = {
    "brdiv": {"matrix": 1.0, "reaching": 10.0, "weighted-reaching": 1.0, "foraging": 0.4},
    "lipo": {"matrix": 0.5, "reaching": 8.0, "weighted-reaching": 0.25, "foraging": 0.08},
}
"""The paper's table of alpha for the baselines."""

_FAST_OF_METHOD: dict[str, dict[str, dict[str, Any]]] = {
    "lipo": {
        # At the paper's 8 our LIPO learns to avoid every corner; alpha is a setting to be tuned for each trainer.
        "reaching": {"alpha": 1.0},
        # With less it may settle where its own objective is lower than at its best.
        "weighted-reaching": {"entropy": 0.1},
    },
}


def default_method(population_size: Any = None) -> str:
    """The method of a run that names none: the paper's, or the one that finds how many pairs are needed."""
    return "growing" if population_size == AUTO else "lbrdiv"


def resolve_generation(
    environment: str, method: str | Method, preset: str, settings: GenerateSettings | None = None, **overrides: Any
) -> tuple[GenerateSettings, Method]:
    """The settings of a run and its method, from a preset and what replaces parts of it.

    Args:
      environment: name of the environment; one that is not in the presets has the defaults.
      method: a name, whose settings come from the preset, or a method.
      preset: `fast` or `paper`.
      settings: shared settings that replace all of the preset's.
      **overrides: fields of `GenerateSettings` and of the method that replace single ones; `population_size` may be
        `auto` for a method that finds it.

    Raises:
      ValueError: a field is unknown, or its value is not allowed.
    """
    check_one_of("preset", preset, PRESETS)
    name = method if isinstance(method, str) else method_name(method)
    if overrides.get("population_size") == AUTO:
        _check_finds_size(name)
        del overrides["population_size"]
    records = (GenerateSettings, method_class(name))
    values = _generation_preset(environment, name, preset)
    shared, own = (select_fields(record, values) for record in records)
    shared_overrides, own_overrides = _split_overrides(overrides, *records)
    if isinstance(method, Method):
        own = asdict(method)  # pyright: ignore[reportArgumentType]
    if settings is not None:
        shared = asdict(settings)
    return GenerateSettings(**{**shared, **shared_overrides}), make_method(name, **{**own, **own_overrides})


def _check_finds_size(method: str) -> None:
    if not method_class(method).finds_size:
        raise ValueError(
            f"population_size must be a number for {method}, which trains as many pairs as it is told, got '{AUTO}'; "
            "growing finds the number itself."
        )


def select_fields(record: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that are fields of a record of settings."""
    names = {field.name for field in fields(record)}
    return {name: value for name, value in values.items() if name in names}


def _split_overrides(overrides: Mapping[str, Any], shared: Any, own: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Overrides of shared settings, and of a method's or learner's own; a name of neither is refused."""
    for name in overrides:
        check_one_of("setting", name, [field.name for record in (shared, own) for field in fields(record)])
    return select_fields(shared, overrides), select_fields(own, overrides)


def _generation_preset(environment: str, method: str, preset: str) -> dict[str, Any]:
    """All values that a preset gives, whether or not this method has such settings."""
    if (own := method_class(method).default_settings) is not None:
        return dict(own)
    values = _GENERATE.get(environment, {}).get(preset, _OTHER_ENVIRONMENTS)
    alpha = _ALPHA.get(method, {}).get(environment)
    tuned = _FAST_OF_METHOD.get(method, {}).get(environment, {}) if preset == "fast" else {}
    changes = method_class(method).preset_changes
    return {**({} if alpha is None else {"alpha": alpha}), **values, **tuned, **changes}


_PAPER_AGENT: dict[str, Any] = {
    "learning_rate": 1e-4,
    "critic_learning_rate": 1e-4,
    "anneal": False,
    "minibatches": 1,
}
_PAPER_REACHING_AGENT: dict[str, Any] = {
    **_PAPER_AGENT,
    "total_steps": 12_000_000,
    "hidden_sizes": (128, 256, 256, 128),
    "memory_size": 32,
    # 16 threads over four teammates.
    "envs_per_partner": 4,
    "rollout_length": 8,
    "entropy": 2.5e-4,
}
_FAST_AGENT: dict[str, Any] = {
    "hidden_sizes": (32,),
    "memory_size": 32,
    "learning_rate": 2e-3,
    "critic_learning_rate": 2e-3,
    "entropy": 0.05,
    "entropy_final": 0.002,
    "parallel_seeds": 4,
}
_FAST_REACHING_AGENT: dict[str, Any] = {
    **_FAST_AGENT,
    "total_steps": 1_500_000,
    # Finding out whom one plays with pays within a few episodes of some five steps; further ahead is noise.
    "discount": 0.97,
    "rollout_length": 32,
}

_TRAIN: dict[str, dict[str, dict[str, Any]]] = {
    "matrix": {
        "paper": {
            **_PAPER_AGENT,
            "total_steps": 1_000_000,
            "hidden_sizes": (32, 32),
            "memory_size": 16,
            # 10 threads over three teammates, rounded up.
            "envs_per_partner": 4,
            "rollout_length": 2,
            "entropy": 1e-4,
        },
        "fast": {**_FAST_AGENT, "total_steps": 300_000, "discount": 0.95, "reward_scale": 0.3},
    },
    "reaching": {"paper": _PAPER_REACHING_AGENT, "fast": _FAST_REACHING_AGENT},
    "weighted-reaching": {"paper": _PAPER_REACHING_AGENT, "fast": {**_FAST_REACHING_AGENT, "reward_scale": 0.3}},
    "foraging": {
        "paper": {
            **_PAPER_AGENT,
            "total_steps": 48_000_000,
            "hidden_sizes": (128, 128),
            "memory_size": 64,
            # 16 threads over six teammates, rounded up.
            "envs_per_partner": 3,
            "rollout_length": 8,
            "entropy": 8e-4,
        },
        "fast": {
            "total_steps": 2_000_000,
            "hidden_sizes": (128,),
            # As for teammates, but softer: the agent also reads its own last action.
            "fourier_bandwidth": 1.0,
            "memory_size": 64,
            "critic_learning_rate": 2e-3,
            "discount": 0.97,
            "rollout_length": 50,
            "entropy": 0.02,
            "entropy_final": 0.002,
            "parallel_seeds": 4,
        },
    },
}


def resolve_training(
    environment: str, learner: "str | Learner", preset: str, settings: TrainSettings | None = None, **overrides: Any
) -> "tuple[TrainSettings, Learner]":
    """The settings of agent training and its learner, from a preset and what replaces parts of it.

    Args:
      environment: name of the environment; one that is not in the presets has the defaults.
      learner: a name, whose own settings are the defaults, or a learner.
      preset: `fast` or `paper`.
      settings: shared settings that replace all of the preset's.
      **overrides: fields of `TrainSettings` and of the learner that replace single ones.

    Raises:
      ValueError: a field is unknown, or its value is not allowed.
    """
    name = learner if isinstance(learner, str) else learner_name(learner)
    replaced, own_overrides = _split_overrides(overrides, TrainSettings, learner_class(name))
    before = {} if isinstance(learner, str) else asdict(learner)  # pyright: ignore[reportArgumentType]
    chosen = make_learner(name, {**before, **own_overrides})
    if settings is None:
        return train_settings(environment, preset, **replaced), chosen
    return TrainSettings(**{**asdict(settings), **replaced}), chosen


def train_settings(environment: str, preset: str, **overrides: Any) -> TrainSettings:
    """The settings that learners share, from a preset with some of them replaced."""
    check_one_of("preset", preset, PRESETS)
    settings = _TRAIN.get(environment, {}).get(preset, {"total_steps": 2_000_000})
    return TrainSettings(**{**settings, **overrides})
