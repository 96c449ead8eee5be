"""Learners that are refused when they are named."""

from dataclasses import dataclass

from coverset.adhoc.learners.rl2 import RL2


class Thawed(RL2):
    """A subclass without settings of its own is still a frozen dataclass; this one hides that it is."""

    __dataclass_params__ = type("Parameters", (), {"frozen": False})


@dataclass(frozen=True)
class Greedy(RL2):
    """Has a setting that all learners share."""

    entropy: float = 0.5
