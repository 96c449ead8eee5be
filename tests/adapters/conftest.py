"""Jumanji and JaxMARL promote ranks and dtypes implicitly, which the tests of our own code do not allow."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def implicit_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
