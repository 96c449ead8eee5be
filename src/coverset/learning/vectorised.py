"""Mapping functions of one environment over many."""

from collections.abc import Callable
from typing import Any

import jax


def over_grid(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function of one environment over two leading axes: policies, and environments of each."""
    return jax.vmap(jax.vmap(function))
