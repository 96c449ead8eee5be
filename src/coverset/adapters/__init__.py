"""Adapters to third-party environments: Gymnasium, PettingZoo, JaxMARL, Jumanji and `lbforaging`."""
