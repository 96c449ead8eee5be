"""A game whose package prints wherever it can: when it is imported, when it is made, and from a subprocess."""

import os
import subprocess
import sys
from dataclasses import dataclass

from coverset.envs.matrix import MatrixGame

print("noisy_game is imported")
os.write(1, b"noise from below Python\n")


@dataclass(frozen=True)
class Noisy(MatrixGame):
    """The matrix game, with noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        print("a game is made")
        subprocess.run([sys.executable, "-S", "-c", "print('a child prints')"], check=True)
