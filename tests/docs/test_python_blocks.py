"""The Python of every page runs: the blocks of a page in order, in one namespace and an empty directory."""

import doctest
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
import pages
from coverset.adhoc.learner import AdHocPolicy
from coverset.adhoc.saved import load_agent_policy
from coverset.envs.registry import parameters_of
from coverset.loggers import base as loggers
from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population, save_population
from coverset.studio.files import SafeDirectory
from coverset.studio.recordings import FORMAT, RecordingStore
from coverset.teammates import registry
from coverset.types import Percept
from saved_agents import make_spec, write_untrained
from toy_run import untrained

ELSEWHERE = {
    "README.md": "test_readme.py",
    "docs/concepts/certificates.md": "certificates/test_certificate.py",
    "docs/how-to/integrations.md": "adapters/test_ecosystem_page.py",
    "docs/reference/files.md": "docs/test_python_blocks.py",
    "docs/how-to/exact-solver.md": "solver/test_examples.py",
    "docs/tutorials/bring-your-own-game.md": "test_tutorial.py",
}
"""Pages whose blocks have a test of their own, which looks closer at what they do."""


def recorded_trial() -> None:
    """What the studio would have stored: one episode of the matrix game."""
    environment = coverset.make("matrix")
    episode = {"actions": [[0, 0]], "rewards": [10.0], "return": 10.0, "oracle": None, "ended": "terminated"}
    content = {
        "format": FORMAT,
        "env": "matrix",
        "env_parameters": parameters_of(environment),
        "env_version": environment.version,
        "seed": 0,
        "seat": 0,
        "partner": {"run": "seed-0", "reference": "heuristic:H1", "name": "H1"},
        "planned_episodes": 1,
        "episodes": [episode],
    }
    Path("runs").mkdir()
    RecordingStore(SafeDirectory(Path("runs"))).save("recording-0123456789ab", content)


def exported_agent() -> None:
    """An agent that nobody has trained, as a file."""
    untrained(Path("run/seed-0"), "matrix")
    coverset.train("run", learner="plastic")
    coverset.export_agent("run/seed-0/plastic", "agent.zip")


def saved_networks() -> None:
    """A population with Fourier features and ReLU, and an agent with memory, as one run would have written them."""
    place, about = Path("runs/matrix-lbrdiv-fast/seed-0"), {"env": "matrix", "env_parameters": {}, "seed": 0}
    halves = [
        dense_policy(
            jax.vmap(lambda key: MLP.create(key, (2, 8, 6, 3), fourier_bandwidth=1.0))(jax.random.split(key, 2))
        )
        for key in jax.random.split(jax.random.key(0))
    ]
    save_population(place / "policies.safetensors", Population(*halves), about)
    write_untrained(place / "rl2" / "agent.safetensors", about, make_spec(2, 3, hidden_sizes=(5,), reward_scale=0.5))


PREPARED: dict[str, Callable[[], None]] = {
    "docs/how-to/studio.md": recorded_trial,
    "docs/how-to/export.md": exported_agent,
}
"""What must lie there before the blocks of a page can run."""


def python_blocks(page: Path) -> list[pages.Block]:
    return [block for block in pages.blocks(page.read_text()) if block.kind == "python"]


def run(page: Path, monkeypatch) -> dict:
    """Run the blocks of a page; those with a title are files, which the others may import. Gives what they define."""
    names: dict = {"__name__": page.stem}
    for block in python_blocks(page):
        if block.text.startswith(">>>"):
            run_session(block.text, names)
            continue
        code = compile(block.text, str(page), "exec")
        if block.title:
            module = ModuleType(Path(block.title).stem)
            monkeypatch.setitem(sys.modules, module.__name__, module)
            exec(code, module.__dict__)
        else:
            exec(code, names)
    return names


def run_session(text: str, names: dict) -> None:
    """Run what is shown as a session, and compare what it prints."""
    session = doctest.DocTestParser().get_doctest(text, names, "session", None, None)
    assert doctest.DocTestRunner().run(session, clear_globs=False).failed == 0


PAGES = {name: page for name, page in pages.pages().items() if python_blocks(page)}


@pytest.mark.parametrize("name", sorted(PAGES.keys() - ELSEWHERE.keys()))
def test_the_python_of_a_page_runs(name: str, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    monkeypatch.setattr(loggers, "LOGGERS", dict(loggers.LOGGERS))
    PREPARED.get(name, lambda: None)()
    pages.shrink(monkeypatch)
    run(PAGES[name], monkeypatch)


def test_files_are_read_without_coverset_as_with_it(monkeypatch, tmp_path: Path) -> None:
    """The page compares the population by itself; the agent's numbers are compared here."""
    monkeypatch.chdir(tmp_path)
    saved_networks()
    names = run(PAGES["docs/reference/files.md"], monkeypatch)
    agent, _ = load_agent_policy(Path(names["file"]))
    assert isinstance(agent, AdHocPolicy)
    start = Percept(jnp.ones(2), jnp.float32(0.0), jnp.bool_(True))
    logits, memory = agent.logits(start, agent.initial_memory())
    np.testing.assert_allclose(names["logits"], logits, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(names["cell"], memory.cell, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["matrix", "reaching", "foraging", "overcooked"])
def test_every_parameter_of_an_environment_is_on_its_page(name: str) -> None:
    page = (pages.ROOT / "docs" / "reference" / "environments.md").read_text()
    section = page.split(f"\n## `{name}`")[1].split("\n## ")[0]
    for parameter in parameters_of(coverset.make(name)):
        assert f"`{parameter}" in section


@pytest.mark.parametrize("name", ELSEWHERE)
def test_every_other_page_has_a_test_of_its_own(name: str) -> None:
    assert name in PAGES
    assert Path(name).name in (pages.ROOT / "tests" / ELSEWHERE[name]).read_text()
