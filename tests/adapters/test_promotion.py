"""Implicit promotion: forbidden while tests run, in subprocesses too, and allowed in calls of third-party code."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from coverset.adapters.promotion import implicit_promotion


def test_tests_forbid_implicit_promotion() -> None:
    with pytest.raises(ValueError, match="jax_numpy_rank_promotion='raise'"):
        jnp.ones((2, 2)) + jnp.ones(2)
    with pytest.raises(jax.dtypes.TypePromotionError, match="jax_numpy_dtype_promotion=strict"):
        jnp.ones(2) + jnp.ones(2, jnp.int32)


def test_programs_that_tests_start_forbid_it_too() -> None:
    shown = "import jax; print(jax.config.jax_numpy_rank_promotion, jax.config.jax_numpy_dtype_promotion)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["raise", "strict"]


def test_third_party_code_may_promote() -> None:
    @jax.jit
    def total(matrix, row):
        with implicit_promotion():
            return matrix + row

    assert total(jnp.ones((2, 2)), jnp.ones(2, jnp.int32)).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(ValueError, match="jax_numpy_rank_promotion='raise'"):
        jnp.ones((2, 2)) + jnp.ones(2)
