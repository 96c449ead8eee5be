"""Compiled programs are kept between commands, where the user has not said otherwise."""

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from coverset.cli.main import run

NAMES = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture(autouse=True)
def restored(monkeypatch, tmp_path: Path) -> Iterator[None]:
    """Another home for the user's cache, and the tests' own cache again in the end."""
    before = {name: getattr(jax.config, name) for name in NAMES}
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(("chosen", "kept_in"), [(None, "coverset/jax"), ("mine", "mine")])
def test_a_command_keeps_compiled_programs(tmp_path: Path, chosen: str | None, kept_in: str) -> None:
    """One that is refused before it compiles anything."""
    jax.config.update("jax_compilation_cache_dir", chosen and str(tmp_path / chosen))
    assert run(["generate", "matrix", "--seeds", "1", "1"]) == 2
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / kept_in)
