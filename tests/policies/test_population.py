"""A population's file: load undoes save, and layers that do not fit together are refused."""

from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import FORMAT, Population, load_population, save_population
from coverset.policies.stacked import take_members
from coverset.runs.storage import DamagedFile, load_tensors, save_tensors

SIZES = {"best_responses": (2, 5, 3), "teammates": (2, 5, 4)}


def stack(seed: int, sizes: tuple[int, ...], count: int = 3) -> ActorPolicy:
    """Distinct numbers in every place, without a compiled initialiser."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(random.normal(size=shape), jnp.float32)

    pairs = list(pairwise(sizes))
    weights = tuple(draw(count, fan_in, fan_out) for fan_in, fan_out in pairs)
    return dense_policy(MLP(weights, tuple(draw(count, fan_out) for _, fan_out in pairs)))


@pytest.fixture(scope="module")
def population() -> Population:
    return Population(stack(0, SIZES["best_responses"]), stack(1, SIZES["teammates"]))


@pytest.fixture
def path(population: Population, tmp_path: Path) -> Path:
    save_population(tmp_path / "policies.safetensors", population, {"env": "matrix", "env_parameters": {}, "seed": 3})
    return tmp_path / "policies.safetensors"


def test_load_undoes_save(population: Population, path: Path) -> None:
    loaded, metadata = load_population(path)
    assert metadata == {"format": FORMAT, "env": "matrix", "env_parameters": {}, "seed": 3}
    assert jax.tree.structure(loaded) == jax.tree.structure(population)
    for left, right in zip(jax.tree.leaves(loaded), jax.tree.leaves(population), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert loaded.teammates.mlp.sizes == SIZES["teammates"]


def test_tensors_have_the_names_that_others_may_rely_on(path: Path) -> None:
    tensors, _ = load_tensors(path)
    assert sorted(tensors) == sorted(
        f"{role}.{layer}.{kind}" for role in SIZES for layer in (0, 1) for kind in ("weight", "bias")
    )
    assert tensors["teammates.1.weight"].shape == (3, 5, 4)


def test_members_are_chosen_in_order(population: Population) -> None:
    chosen = take_members(population.teammates, 2, 0)
    np.testing.assert_array_equal(chosen.mlp.biases[0], population.teammates.mlp.biases[0][jnp.array([2, 0])])


def swap_roles(tensors: dict) -> None:
    for name in [name for name in tensors if name.startswith("teammates")]:
        del tensors[name]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda t: t.pop("teammates.0.bias"), "lacks the tensor 'teammates.0.bias'"),
        (lambda t: t.pop("teammates.0.weight"), "lacks the tensor"),
        (swap_roles, "lacks the tensor 'teammates.0.weight'"),
        (lambda t: t.update({"teammates.0.bias": np.zeros((3, 6), np.float32)}), "do not fit together"),
        (lambda t: t.update({"teammates.1.weight": np.zeros((3, 6, 4), np.float32)}), "do not fit together"),
        (lambda t: t.update({"teammates.0.weight": np.zeros((2, 5), np.float32)}), "do not fit together"),
        (
            lambda t: t.update(
                {
                    "teammates.1.weight": np.zeros((4, 5, 4), np.float32),
                    "teammates.1.bias": np.zeros((4, 4), np.float32),
                }
            ),
            "do not fit together",
        ),
        (lambda t: t.update({"teammates.0.bias": np.zeros((3, 5), np.int32)}), "'teammates.0.bias' as int32"),
        (lambda t: t.update(extra=np.zeros(1, np.float32)), "holds the tensor 'extra', which belongs to nothing"),
        (lambda t: t.update({k: v[:0] for k, v in t.items()}), "do not fit together"),
        (lambda t: t["teammates.0.weight"].fill(np.nan), r"not finite in teammates\.0\.weight"),
        (lambda t: t["best_responses.1.bias"].fill(-np.inf), r"not finite in best_responses\.1\.bias"),
        (
            lambda t: t.update({k: v[:2] for k, v in t.items() if k.startswith("teammates")}),
            "populations of different sizes",
        ),
    ],
)
def test_layers_that_do_not_fit_are_refused(path: Path, spoil, sentence: str) -> None:
    tensors, metadata = load_tensors(path)
    spoil(tensors)
    save_tensors(path, tensors, metadata)
    with pytest.raises(DamagedFile, match=sentence):
        load_population(path)


def test_a_file_of_another_kind_is_refused(path: Path) -> None:
    tensors, _ = load_tensors(path)
    save_tensors(path, tensors, {"format": "coverset agent 1"})
    with pytest.raises(DamagedFile, match="holds 'coverset agent 1' where 'coverset population 1' was expected"):
        load_population(path)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda m: m.pop("env"), "does not hold env"),
        (lambda m: m.update(env=["matrix"]), r"env must be text, got \['matrix'\]"),
        (lambda m: m.update(env_parameters=[]), "env_parameters must be a JSON object"),
        (lambda m: m.update(waves="yes"), "waves must be true or false"),
        (lambda m: m.update(format=["x"] * 1000), "where 'coverset population 1' was expected"),
    ],
)
def test_metadata_are_checked(path: Path, spoil, sentence: str) -> None:
    tensors, metadata = load_tensors(path)
    spoil(metadata)
    save_tensors(path, tensors, metadata)
    with pytest.raises(DamagedFile, match=sentence) as refused:
        load_population(path)
    assert len(str(refused.value)) < 1000


def test_a_flipped_byte_is_noticed(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-3] ^= 4
    path.write_bytes(whole)
    with pytest.raises(DamagedFile, match="checksum"):
        load_population(path)
