"""Overcooked: layouts, rules, observations, heuristics and board."""

from coverset.envs.overcooked.dynamics import Overcooked
from coverset.envs.overcooked.layouts import LAYOUTS, Kitchen, make_kitchen
from coverset.envs.overcooked.rules import OvercookedState

__all__ = ["LAYOUTS", "Kitchen", "Overcooked", "OvercookedState", "make_kitchen"]
