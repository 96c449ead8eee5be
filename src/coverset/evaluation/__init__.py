"""Measurements of populations and agents: cross-play, conventions, robustness, statistics over seeds."""
