"""Shapes are enforced while tests run; JAX refuses implicit promotion of ranks and dtypes, here and in subprocesses."""

import gc
import os
from pathlib import Path

from jaxtyping import install_import_hook

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"

gc.set_threshold(100_000, 20, 20)
"""Tracing makes objects by the million that live on: no need to look through them as often as by default."""

install_import_hook("coverset", "tests.typechecked").__enter__()

import jax  # noqa: E402
from platformdirs import user_cache_path  # noqa: E402

jax.config.update("jax_compilation_cache_dir", str(user_cache_path("coverset") / "jax-tests"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

import pytest  # noqa: E402

from coverset.runs import trust  # noqa: E402

MOST_MEMORY = 3 * 2**30
"""Bytes of a test process beyond which compiled programs are forgotten: they are cached on disk."""


@pytest.fixture(autouse=True, scope="module")
def bounded_memory():
    """Without this, compiled programs of all tests add up to more than ten gigabytes per process."""
    yield
    pages = Path("/proc/self/statm")
    if pages.exists() and int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(autouse=True, scope="module")
def restored_trust_of_modules():
    """What the fixtures of one file trust is forgotten before the next file."""
    named, allowed, key = set(trust._named), set(trust._allowed), trust._granted_key
    yield
    trust._named, trust._allowed, trust._granted_key = named, allowed, key


@pytest.fixture(autouse=True)
def restored_trust(monkeypatch):
    """What one test trusts, or adopts from another process, is forgotten before the next."""
    monkeypatch.setattr(trust, "_named", set(trust._named))
    monkeypatch.setattr(trust, "_allowed", set(trust._allowed))
    monkeypatch.setattr(trust, "_granted_key", trust._granted_key)
