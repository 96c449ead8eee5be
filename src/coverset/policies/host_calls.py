"""Call plain Python functions of one environment under `jit` and `vmap`, on the host."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from coverset.types import PyTree


def call_host(function: Callable[..., Any], result: PyTree, *arguments: Any) -> PyTree:
    """Compute `function(*arguments)` in Python from within a compiled program.

    Under `vmap` there is one callback for the whole batch, which calls `function` for each member in turn. JAX may call
    it again with the same arguments, or not at all if its result is unused, so `function` must be pure.

    Args:
      function: takes numpy arrays of the shapes of `arguments` and returns numpy arrays as described by `result`.
      result: a tree of `jax.ShapeDtypeStruct`.
      *arguments: arrays.
    """
    ranks = [np.ndim(argument) for argument in arguments]
    return jax.pure_callback(
        lambda *batch: _over_batch(function, result, ranks, batch), result, *arguments, vmap_method="broadcast_all"
    )


def _over_batch(function: Callable[..., Any], result: PyTree, ranks: list[int], batch: tuple[Any, ...]) -> PyTree:
    """Call `function` for every member of the leading axes that `vmap` has added to the arguments."""
    arrays = [np.asarray(array) for array in batch]
    axes = arrays[0].shape[: arrays[0].ndim - ranks[0]]
    flat = [array.reshape(-1, *array.shape[len(axes) :]) for array in arrays]
    answers = [function(*members) for members in zip(*flat, strict=True)]
    leaves, structure = jax.tree.flatten(result)
    columns = zip(*(structure.flatten_up_to(answer) for answer in answers), strict=True)
    stacked = [
        np.asarray(column, leaf.dtype).reshape((*axes, *leaf.shape))
        for column, leaf in zip(columns, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, stacked)
