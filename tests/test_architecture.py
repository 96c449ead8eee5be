"""The order of the layers, docstrings on every public name, and files that fit in one head."""

import ast
from pathlib import Path

import pytest

from coverset.adhoc.registry import LEARNERS
from coverset.policies.network import NETWORKS
from coverset.teammates.registry import METHODS

ROOT = Path(__file__).parents[1] / "src" / "coverset"
MODULES = {
    ".".join(("coverset", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
MOST_LINES = 450

LAYERS = (
    ("types",),
    ("checks",),
    ("extending",),
    ("policy", "settings"),
    ("runs.storage",),
    ("runs.trust",),
    ("runs",),
    ("envs.drawing", "envs.oracle"),
    ("envs.base",),
    ("envs.seats",),
    ("envs.extensions", "envs.relabelled", "envs.symmetry_checks"),
    ("envs.foraging", "envs.matrix", "envs.overcooked", "envs.reaching", "envs.signalling", "envs.conformance"),
    ("envs.registry", "envs"),
    ("solver",),
    ("policies",),
    ("learning",),
    ("evaluation",),
    ("certificates",),
    ("teammates", "adhoc"),
    ("presets",),
    ("exported",),
    ("reports",),
    ("adapters", "loggers"),
    ("partners",),
    ("pipeline",),
    ("study",),
    ("bench",),
    ("studio",),
    ("cli",),
    ("__main__",),
)
"""A module may import from its own layer's package and from layers above it; names are prefixes below `coverset`."""

GAMES = ("foraging", "matrix", "overcooked", "reaching")
GAME_TOOLS = ("envs.base", "envs.seats", "envs.drawing", "envs.extensions", "envs.oracle")
KNOW_A_GAME = {
    "coverset.envs.registry": GAMES,
    "coverset.adapters.lbforaging": ("foraging",),
    "coverset.bench.stepping": ("foraging", "overcooked"),
}
"""Who may name a game besides its own folder: the table of built-in names, and what is about that one game."""

METHOD_TOOLS = (
    *("teammates.method", "teammates.networks", "teammates.pair_grid", "teammates.probe_grid", "teammates.self_play"),
    *("teammates.ego_grid", "teammates.methods", "learning.losses"),
    *("envs.base", "envs.seats", "envs.relabelled", "policy"),
)
BELIEFS = ("adhoc.evidence", "adhoc.library", "adhoc.safeguard")
LEARNER_TOOLS = tuple(
    f"adhoc.{part}"
    for part in ("learner", "ppo", "pool", "recurrent", "latent", "gaussian", "mixtures", "partner_losses", "perturbed")
)
MAY_IMPORT = {
    **{
        f"coverset.solver.{part}": ("types", "checks", "solver")
        for part in ("coverage", "diversity", "games", "independent", "payoffs", "zero_sum")
    },
    "coverset.solver.drawing": ("solver", "runs.storage"),
    "coverset.envs.drawing": (),
    "coverset.envs.oracle": ("policy",),
    "coverset.envs.base": ("types", "checks", "policy", "envs.drawing", "envs.oracle"),
    "coverset.envs.seats": ("types", "envs.base"),
    **{f"coverset.envs.{game}": ("types", "checks", "policy", f"envs.{game}", *GAME_TOOLS) for game in GAMES},
    "coverset.policy": ("types",),
    "coverset.types": (),
    "coverset.checks": ("types",),
    "coverset.teammates.method": ("types", "checks", "settings", "learning.constraints", "teammates.pair_grid"),
    "coverset.teammates.methods": ("types", "checks", "evaluation", "policies", *METHOD_TOOLS),
    "coverset.adhoc.registry": ("adhoc.learner", "extending", "runs", "settings"),
    "coverset.adhoc.learners": (
        "types",
        "checks",
        "evaluation",
        "policies",
        "policy",
        "learning.losses",
        *LEARNER_TOOLS,
        *BELIEFS,
    ),
}
"""Packages that keep to less than all that stands above them."""


def is_within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def imports_of(path: Path) -> set[str]:
    """Modules of coverset that a file imports anywhere, but for type checkers."""
    tree = ast.parse(path.read_text())
    skipped = {id(inner) for node in ast.walk(tree) if is_type_checking(node) for inner in ast.walk(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the whole name."
            found |= {
                name if (name := f"{node.module}.{alias.name}") in MODULES else str(node.module) for alias in node.names
            }
    return {module for module in found if is_within(module, "coverset")}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def layer_of(module: str) -> int:
    matches = [
        (len(prefix), number)
        for number, layer in enumerate(LAYERS)
        for prefix in layer
        if is_within(module, f"coverset.{prefix}")
    ]
    assert matches, f"{module} has no place in the order of layers: give it one."
    return max(matches)[1]


@pytest.mark.parametrize("module", [name for name in MODULES if name != "coverset"])
def test_a_module_imports_only_what_stands_above_it(module: str) -> None:
    own = layer_of(module)
    for imported in imports_of(MODULES[module]):
        if imported == "coverset":
            continue
        above = layer_of(imported) < own
        same_package = layer_of(imported) == own and module.split(".")[1] == imported.split(".")[1]
        assert above or same_package, f"{module} imports {imported}, which stands below it."


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_few_packages_keep_to_less(package: str) -> None:
    allowed = [f"coverset.{prefix}" for prefix in MAY_IMPORT[package]]
    inside = [name for name in MODULES if is_within(name, package)]
    assert inside
    for module in inside:
        for imported in imports_of(MODULES[module]):
            assert any(is_within(imported, prefix) for prefix in allowed), f"{module} imports {imported}."


@pytest.mark.parametrize("game", GAMES)
def test_nothing_outside_of_its_folder_knows_a_game(game: str) -> None:
    folder = f"coverset.envs.{game}"
    for module, path in MODULES.items():
        if not is_within(module, folder) and game not in KNOW_A_GAME.get(module, ()):
            assert not [name for name in imports_of(path) if is_within(name, folder)], module


@pytest.mark.parametrize("table", [METHODS, LEARNERS, NETWORKS], ids=["methods", "learners", "networks"])
def test_nothing_imports_what_a_table_names(table: dict[str, str]) -> None:
    """A method, a learner or a network is found by its name; only those built on one another import each other."""
    named = {place.partition(":")[0] for place in table.values()} - {"coverset.policies.networks.dense"}
    folder = next(iter(named)).rpartition(".")[0]
    for module, path in MODULES.items():
        if not is_within(module, folder):
            assert not imports_of(path) & named, module


def test_nothing_imports_the_command_line() -> None:
    for module, path in MODULES.items():
        if not is_within(module, "coverset.cli") and module != "coverset.__main__":
            assert not [name for name in imports_of(path) if is_within(name, "coverset.cli")], module


def test_the_walk_sees_imports_inside_functions() -> None:
    assert "coverset.pipeline.generate" in imports_of(MODULES["coverset.cli.generate"])
    assert "coverset.teammates.pair_grid" in imports_of(MODULES["coverset.teammates.trainer"])


def public_definitions(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    """Public functions and classes of a module. Methods are left out: most only keep a documented contract."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    source = MODULES[module].read_text()
    tree = ast.parse(source)
    if source.strip():
        assert ast.get_docstring(tree), f"{module} has no docstring."
    for node in public_definitions(tree):
        assert ast.get_docstring(node), f"{module}.{node.name} has no docstring."


@pytest.mark.parametrize("module", MODULES)
def test_a_file_stays_short(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) <= MOST_LINES


def test_no_two_classes_share_a_name() -> None:
    """A reader who meets a name in a message or a traceback finds one class of that name."""
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
