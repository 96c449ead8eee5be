"""What an update of every method costs, relative to one of L-BRDiv."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jax

from coverset.bench.settings import BenchSettings
from coverset.bench.timing import median_ratio, time_interleaved
from coverset.envs import registry
from coverset.presets import resolve_generation
from coverset.teammates.registry import METHODS
from coverset.teammates.trainer import Trainer

REFERENCE = "lbrdiv"


def measure_methods(
    environment: str,
    settings: BenchSettings,
    clock: Callable[[], float],
    *,
    preset: str = "fast",
    methods: Sequence[str] = tuple(METHODS),
) -> list[dict[str, Any]]:
    """Seconds of an update, and its cost for each step of an environment, relative to L-BRDiv's of the same repeat.

    All methods have the settings that the preset gives them. Methods that cannot play the game are left out.

    Args:
      environment: name of the game.
      settings: repeats, and settings of teammate generation that replace the preset's.
      clock: wall-clock or processor time.
      preset: `fast` or `paper`.
      methods: names of those to compare, besides L-BRDiv.
    """
    trainers = {}
    for name in dict.fromkeys((REFERENCE, *methods)):
        shared, method = resolve_generation(environment, name, preset, **settings.generation)
        try:
            trainers[name] = Trainer(registry.make(environment), method, shared)
        except ValueError:
            if name == REFERENCE:
                raise
    seconds = time_interleaved(
        {name: _updates(trainer) for name, trainer in trainers.items()}, repeats=settings.repeats, clock=clock
    )
    steps = {name: trainer.schedule.steps_per_update for name, trainer in trainers.items()}
    return [
        {
            "env": environment,
            "preset": preset,
            "method": name,
            "num_envs": trainer.grid.num_envs,
            "update_seconds": median(seconds[name]),
            "cost_of_update": median_ratio(seconds[name], seconds[REFERENCE]),
            "cost_of_step": median_ratio(seconds[name], seconds[REFERENCE]) * steps[REFERENCE] / steps[name],
        }
        for name, trainer in trainers.items()
    ]


def _updates(trainer: Trainer) -> Callable[[], Any]:
    """One update, always of the same state."""
    state = jax.jit(trainer.init)(jax.random.key(0))
    update = jax.jit(trainer.update)
    return lambda: update(state)
