"""Export a policy as a file that runs with jax alone, and load it as a partner.

The file contains the compiled step of the policy and no Python code, so it can be shared. Needs the extra `export`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import jax.numpy as jnp

import coverset


class TakesTurns(coverset.Policy):
    """Play the three actions of the matrix game in turn; the memory counts the steps of a trial."""

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        return memory % 3, memory + 1


def main() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "takes-turns.zip"
        coverset.export_policy(TakesTurns(), "matrix", 1, path)
        policy = coverset.load_exported(path)
        print("loaded", type(policy).__name__, "from", path.name, f"({path.stat().st_size:,} bytes)")
        table = coverset.crossplay("H1", path, trials=8, episodes=3)
    print("return of H1 with it:", round(float(table.means[0, 0]), 3))


if __name__ == "__main__":
    main()
