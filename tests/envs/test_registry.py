"""Names that become environments: code of others that fails is named in one sentence."""

import re
import sys
from pathlib import Path

import pytest

from coverset.cli.main import run
from coverset.envs.matrix import MatrixGame
from coverset.envs.registry import ADAPTER_PACKAGES, make, parameters_to_record
from coverset.policies.third_party import load_third_party

BROKEN = {
    "syntax": ("def game(:\n", r"but SyntaxError: .*"),
    "name": ("game = unheard_of\n", r"but NameError: name 'unheard_of' is not defined"),
    "leaves": ("raise SystemExit(5)\n", r"but SystemExit: 5"),
    "exits": ("raise RuntimeError('first line\\nsecond line')\n", r"but RuntimeError: first line"),
    "import": ("import unheard_of\n", r"but No module named 'unheard_of'"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_module_that_cannot_be_imported_is_named(kind: str, tmp_path: Path, monkeypatch) -> None:
    text, cause = BROKEN[kind]
    name = f"broken_{kind}:game"
    (tmp_path / f"broken_{kind}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=rf"^environment '{name}' must name an importable module:function, {cause}\.$"):
        make(name)
    with pytest.raises(ValueError, match=rf"^partner '{name}' must name an importable module:function, {cause}\.$"):
        load_third_party(name, MatrixGame(), seat=1)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("exit(5)", "SystemExit: 5"),
        ("{}['board']", "KeyError: 'board'"),
        ("[][3]", "IndexError: list index out of range"),
        ("1 / 0", "ZeroDiv"),
    ],
)
def test_a_factory_that_fails_is_named(body: str, cause: str, tmp_path: Path, monkeypatch, capsys) -> None:
    module = f"failing_{cause.partition(':')[0].lower()}"
    (tmp_path / f"{module}.py").write_text(
        f"from coverset import Environment\ndef game() -> Environment:\n    return {body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run(["generate", f"{module}:game", "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"coverset: environment '{module}:game' cannot be made: {cause}")
    assert printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["./hand/some_game.py", "hand/some_game", "some_game.py", ".some_game"])
def test_a_file_is_not_a_module(file: str) -> None:
    sentence = f"environment must name a module, such as some_game:Game, got '{file}:Game'."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make(f"{file}:Game")


SCALED = """
import itertools
from coverset.envs.matrix import MatrixGame

class Scaled(MatrixGame):
    __eq__, __hash__ = object.__eq__, object.__hash__

turns = itertools.count(2)

def turning() -> MatrixGame:
    return MatrixGame(horizon=next(turns))

def lasting(horizon=3) -> MatrixGame:
    return MatrixGame(horizon=horizon)
"""


def test_parameters_are_recorded_only_where_they_build_the_same_again(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "scaled_game.py").write_text(SCALED)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("scaled_game:Scaled", "scaled_game:turning"):
        with pytest.raises(ValueError, match=rf"^environment '{name}' must be a frozen dataclass that .* got an"):
            parameters_to_record(name, make(name), {})
    for given in ({}, {"horizon": 5}):
        environment = make("scaled_game:lasting", **given)
        recorded = parameters_to_record("scaled_game:lasting", environment, given)
        assert recorded == {"horizon": 3} | given
        assert make("scaled_game:lasting", **recorded) == environment


MAKERS = """
from __future__ import annotations
from functools import partial
from coverset import Environment
from coverset.envs.matrix import MatrixGame

called = []

def plain():
    called.append("plain")

def untrue() -> Environment:
    return called

def elsewhere() -> Unheard:
    called.append("elsewhere")

def says() -> MatrixGame:
    return MatrixGame()

class Other:
    def __init__(self):
        called.append("Other")

half = partial(plain)
"""


def test_only_what_says_that_it_makes_an_environment_is_called(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "makers.py").write_text(MAKERS)
    monkeypatch.syspath_prepend(tmp_path)
    assert make("makers:says") == MatrixGame()
    for name in ("makers:plain", "makers:elsewhere", "makers:half"):
        with pytest.raises(ValueError, match=rf"^environment '{name}' must name an Environment class or .* `-> Env"):
            make(name)
    with pytest.raises(ValueError, match=r"^environment 'makers:Other' must name .*, got another class\.$"):
        make("makers:Other")
    with pytest.raises(TypeError, match="must build a coverset Environment, got list"):
        make("makers:untrue")
    assert sys.modules["makers"].called == []


def test_a_sentence_of_the_factory_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match=r"^horizon must be at least 1, got 0\.$"):
        make("coverset.envs.matrix:MatrixGame", horizon=0)


@pytest.mark.parametrize("module", ADAPTER_PACKAGES)
def test_an_adapter_whose_package_is_missing_says_what_to_install(module: str, monkeypatch) -> None:
    package, install = ADAPTER_PACKAGES[module]
    for name in [name for name in sys.modules if name == module or name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    sentence = f"environment '{module}:game' needs the package {package}: install {install}."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make(f"{module}:game")


def test_every_adapter_of_environments_is_among_them() -> None:
    adapters = Path(__file__).parents[2] / "src" / "coverset" / "adapters"
    outside = {path.stem for path in adapters.glob("*.py") if "Needs the " in path.read_text()}
    assert outside - {"tensorboard", "wandb"} == {module.rpartition(".")[2] for module in ADAPTER_PACKAGES}


@pytest.mark.parametrize("parameter", ["name", "role", "function"])
def test_parameters_may_have_any_name(parameter) -> None:
    """Those of files in particular: they must not meet the names of our own arguments."""
    with pytest.raises(ValueError, match=f"Environment 'matrix' takes payoffs, .*got '{parameter}'"):
        make("matrix", **{parameter: 1})
