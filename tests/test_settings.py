"""How a run is cut into dispatches."""

import math
from itertools import product

import pytest

from coverset.settings import Schedule


@pytest.mark.parametrize("chunk_steps", [100, 101, 1000])
def test_a_chunk_as_long_as_the_run_is_the_whole_run(chunk_steps: int) -> None:
    for steps_per_update in range(1, 150):
        schedule = Schedule(100, chunk_steps, steps_per_update)
        assert schedule.num_chunks == 1
        assert schedule.num_updates == math.ceil(100 / steps_per_update)


def test_a_run_is_equal_chunks_that_reach_its_steps() -> None:
    for total_steps, chunk_steps, steps_per_update in product(range(1, 40), range(1, 40), range(1, 12)):
        schedule = Schedule(total_steps, chunk_steps, steps_per_update)
        assert schedule.num_updates == schedule.num_chunks * schedule.updates_per_chunk
        assert (schedule.num_chunks - 1) * schedule.steps_per_chunk < total_steps
        assert schedule.num_chunks * schedule.steps_per_chunk >= total_steps
        if chunk_steps < total_steps:
            assert schedule.updates_per_chunk <= max(1, round(chunk_steps / steps_per_update))


def test_chunks_are_shortened_only_where_whole_ones_exceed_the_run_by_far() -> None:
    assert Schedule(500_000, 3_000, 144).updates_per_chunk == 21  # 0.4 % beyond: as published
    asked = Schedule(60_000, 50_000, 1_536)
    assert (asked.num_chunks, asked.num_updates * 1_536) == (2, 61_440)  # not 101,376
    for total_steps in range(20_000, 200_000, 777):
        schedule = Schedule(total_steps, 50_000, 512)
        excess = schedule.num_updates * 512 - total_steps
        assert excess < max(0.05 * total_steps + 512, schedule.num_chunks * 512)
