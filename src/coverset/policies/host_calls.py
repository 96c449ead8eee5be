"""Plain Python under `jit` and `vmap`: a function of one environment, called once for each of a batch, on the host."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from coverset.types import PyTree


def call_host(function: Callable[..., Any], result: PyTree, *arguments: Any) -> PyTree:
    """`function(*arguments)` computed by Python while a compiled program waits.

    Under `vmap` the program waits once for the whole batch, and `function` runs for its members one after the other. It
    may be called again with the same arguments, or not at all where nothing uses its result: it must give the same
    for the same.

    Args:
      function: takes numpy arrays as `arguments` have them, returns numpy arrays as `result` says.
      result: a tree of `jax.ShapeDtypeStruct`.
      *arguments: arrays.
    """
    ranks = [np.ndim(argument) for argument in arguments]
    return jax.pure_callback(
        lambda *batch: _over_batch(function, result, ranks, batch), result, *arguments, vmap_method="broadcast_all"
    )


def _over_batch(function: Callable[..., Any], result: PyTree, ranks: list[int], batch: tuple[Any, ...]) -> PyTree:
    """Call `function` for every member of whatever leading axes `vmap` has put before the arguments' own."""
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
