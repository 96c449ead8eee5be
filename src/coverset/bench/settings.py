"""Sizes and repeats of the benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BenchSettings:
    """Sizes and repeats. They determine duration and precision, not what is measured."""

    repeats: int = 7
    """Timed repeats of every workload."""
    chunk_steps: int = 50_000
    """Approximate environment steps of one timed chunk of training."""
    populations: tuple[int, ...] = (2, 4, 6, 8, 16, 32)
    """Population sizes K of the scaling benchmark."""
    baseline_up_to: int = 16
    """Largest K at which the baseline is measured: its cost grows with K."""
    grid_envs: int = 2048
    """Approximate number of environments of the whole pair grid at each K."""
    envs_per_pair: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Environments per cell in the scaling benchmark."""
    stepping_envs: int = 1024
    """Environments stepped in parallel with random actions."""
    stepping_length: int = 200
    """Steps of each environment per timed call."""
    acting_calls: int = 500
    """Calls of an agent per timed workload."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Settings of teammate generation that replace the preset's."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of agent training that replace the preset's."""

    def with_chunk_steps(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with the benchmark's `chunk_steps`, unless they have their own."""
        return {"chunk_steps": self.chunk_steps, **settings}


FULL = BenchSettings()
QUICK = BenchSettings(
    repeats=3, chunk_steps=10_000, populations=(2, 6, 16), grid_envs=1024, envs_per_pair=(2, 8, 32), stepping_length=100
)
