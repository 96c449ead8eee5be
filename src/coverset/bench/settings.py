"""How much of everything `coverset bench` runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Effort:
    """Sizes and repeats. They decide how long it takes and how sharp the numbers are, not what is measured."""

    repeats: int = 7
    """How often everything takes its turn."""
    chunk_steps: int = 50_000
    """Environment steps of one timed chunk of training, about."""
    populations: tuple[int, ...] = (2, 4, 6, 8, 16, 32)
    """K, for the growth with the population."""
    gathered_up_to: int = 16
    """Largest K at which the baseline is measured: its arithmetic grows with K."""
    grid_envs: int = 2048
    """Environments of the whole pair grid, about, at each of these K."""
    envs_per_pair: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Environments of each cell, for the growth with their number."""
    stepping_envs: int = 1024
    """Environments that step side by side with random actions."""
    stepping_length: int = 200
    """Steps of each of them that are timed together."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Settings of teammate generation that replace the preset's."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of agent training that replace the preset's."""

    def chunked(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with chunks of the size that is timed, unless they say another."""
        return {"chunk_steps": self.chunk_steps, **settings}


FULL = Effort()
QUICK = Effort(
    repeats=3, chunk_steps=10_000, populations=(2, 6, 16), grid_envs=1024, envs_per_pair=(2, 8, 32), stepping_length=100
)
