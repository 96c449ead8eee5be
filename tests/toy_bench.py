"""A benchmark that measures nothing and takes seconds."""

from dataclasses import replace

from coverset.benchmarking.effort import QUICK
from toy_run import SETTINGS

TINY = replace(
    QUICK,
    repeats=2,
    chunk_steps=8,
    populations=(2, 3),
    gathered_up_to=2,
    grid_envs=9,
    envs_per_pair=(2,),
    stepping_envs=4,
    stepping_length=3,
    generation=SETTINGS,
    training={"hidden_sizes": (4,), "memory_size": 4, "envs_per_partner": 4, "rollout_length": 2, "seeds_together": 1},
)
