"""Signalling: dynamics and heuristics."""

from coverset.envs.signalling.dynamics import Signalling, SignallingState

__all__ = ["Signalling", "SignallingState"]
