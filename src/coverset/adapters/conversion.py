"""What the adapters share: rewards and observations by seat, as `Environment` has them, and JAX code of others."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

BY_AGENT = "by-agent"
REWARDS = (BY_AGENT, "mean", "sum")
"""Whether each agent keeps its own reward, or all of them share the mean or the sum."""


def combine_rewards(how: str, rewards: Float[Any, "seats"]) -> Float[Any, "..."]:
    """The rewards of all seats as they are, or one that is common to them."""
    if how == BY_AGENT:
        return rewards
    return rewards.mean() if how == "mean" else rewards.sum()


def stack_masks(masks: Sequence[Num[Array, "_"] | Bool[Array, "_"]], size: int) -> Bool[Array, "seats a"]:
    """The legal actions of all seats; what a seat does not have is illegal."""
    rows = [jnp.asarray(one, bool) for one in masks]
    return jnp.stack([jnp.pad(row, (0, size - len(row))) for row in rows])


def describe_observations(
    time: int, observations: Float[Any, "seats d"], sizes: Sequence[int], seat: int | None = None
) -> str:
    """The step and the numbers that one seat observes, or all seats, for games that have no text of their own."""
    seats = range(len(sizes)) if seat is None else (seat,)
    lines = [f"seat {n}: {_format_numbers(np.asarray(observations[n, : sizes[n]]))}" for n in seats]
    return "\n".join([f"step {time}", *lines])


def _format_numbers(numbers: Float[np.ndarray, "d"]) -> str:
    return np.array2string(numbers, precision=3, suppress_small=True, max_line_width=120)


@contextmanager
def implicit_promotion() -> Iterator[None]:
    """Let code of others mix ranks and dtypes, as it does, where the process has forbidden that."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
