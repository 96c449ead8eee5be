"""The cost of methods is measured in one run, relative to L-BRDiv, and games that a method cannot play leave it out."""

import time

from coverset.bench.methods import measure_methods
from coverset.bench.settings import BenchSettings

TINY = BenchSettings(
    repeats=2, generation={"hidden_sizes": (4,), "envs_per_pair": 1, "rollout_length": 2, "epochs": 1, "minibatches": 1}
)


def test_costs_are_relative_to_those_of_lbrdiv() -> None:
    """The paper's game has no symmetries, and other-play is left out."""
    rows = measure_methods("matrix", TINY, time.process_time, methods=("mep", "other-play"))
    assert [row["method"] for row in rows] == ["lbrdiv", "mep"]
    assert rows[0]["cost_of_update"] == rows[0]["cost_of_step"] == 1.0
    assert all(row["update_seconds"] > 0 and row["num_envs"] == 9 for row in rows)
