"""Third-party JAX code relies on implicit promotion of ranks and dtypes, which a program may forbid for itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def implicit_promotion() -> Iterator[None]:
    """Allow implicit promotion, as JAX does by default, in a call of third-party code."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
