"""Environments: the interface, the registry, the conformance check, and one folder per built-in game."""
