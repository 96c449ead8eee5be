"""A population's file: load undoes save, for every network, and tensors that do not fit are refused."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.network import NETWORKS, NetworkSpec
from coverset.policies.networks.dense import MLP
from coverset.policies.population import FORMAT, Population, load_population, save_population
from coverset.policies.saving import network_record
from coverset.policies.stacked import count_members, take_member
from coverset.policies.team import build_networks
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
    networks = {
        role: network_record("dense", NetworkSpec((first,), last, tuple(hidden)))
        for role, (first, *hidden, last) in SIZES.items()
    }
    written = {"format": FORMAT, **networks, "env": "matrix", "env_parameters": {}, "seed": 3}
    assert metadata == json.loads(json.dumps(written))
    assert jax.tree.structure(loaded) == jax.tree.structure(population)
    for left, right in zip(jax.tree.leaves(loaded), jax.tree.leaves(population), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert loaded.teammates.network.sizes == SIZES["teammates"]  # pyright: ignore[reportAttributeAccessIssue]


def test_tensors_have_the_names_that_others_may_rely_on(path: Path) -> None:
    tensors, _ = load_tensors(path)
    assert sorted(tensors) == sorted(
        f"{role}.{kind}.{layer}" for role in SIZES for layer in (0, 1) for kind in ("weights", "biases")
    )
    assert tensors["teammates.weights.1"].shape == (3, 5, 4)


def test_a_member_is_taken_by_its_index(population: Population) -> None:
    chosen = take_member(population.teammates, 2)
    for left, right in zip(jax.tree.leaves(chosen), jax.tree.leaves(population.teammates), strict=True):
        np.testing.assert_array_equal(left, right[2])


def drop_teammates(tensors: dict) -> None:
    for name in [name for name in tensors if name.startswith("teammates")]:
        del tensors[name]


def put(name: str, *shape: int, dtype: type = np.float32):
    """Zeros in place of a tensor."""
    return lambda tensors: tensors.update({name: np.zeros(shape, dtype)})


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda t: t.pop("teammates.biases.0"), "lacks the tensor 'teammates.biases.0'"),
        (lambda t: t.pop("teammates.weights.0"), "lacks the tensor 'teammates.weights.0'"),
        (drop_teammates, "lacks the tensor 'teammates.weights.0'"),
        (put("teammates.biases.0", 3, 6), r"teammates.biases.0 as float32\[3, 6\], where float32\[3, 5\] was expected"),
        (
            put("teammates.weights.1", 3, 6, 4),
            r"weights.1 as float32\[3, 6, 4\], where float32\[3, 5, 4\] was expected",
        ),
        (put("teammates.weights.0", 2, 5), r"weights.0 as float32\[2, 5\], where float32\[2, 2, 5\] was expected"),
        (put("teammates.weights.0"), "holds no members of teammates"),
        (
            put("teammates.weights.1", 4, 5, 4),
            r"weights.1 as float32\[4, 5, 4\], where float32\[3, 5, 4\] was expected",
        ),
        (put("teammates.biases.0", 3, 5, dtype=np.int32), r"teammates.biases.0 as int32\[3, 5\], where float32"),
        (put("extra", 1), "holds the tensor 'extra', which belongs to nothing"),
        (
            put("teammates.weights.2", 3, 4, 4),
            "'teammates.weights.2', which the network that it describes does not have",
        ),
        (lambda t: t.update({k: v[:0] for k, v in t.items()}), "holds no members of best_responses"),
        (lambda t: t["teammates.weights.0"].fill(np.nan), r"not finite in teammates\.weights\.0"),
        (lambda t: t["best_responses.biases.1"].fill(-np.inf), r"not finite in best_responses\.biases\.1"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(path: Path, spoil, sentence: str) -> None:
    tensors, metadata = load_tensors(path)
    spoil(tensors)
    save_tensors(path, tensors, metadata)
    with pytest.raises(DamagedFile, match=sentence):
        load_population(path)


def test_a_file_of_another_kind_is_refused(path: Path) -> None:
    tensors, _ = load_tensors(path)
    save_tensors(path, tensors, {"format": "coverset agent 1"})
    with pytest.raises(DamagedFile, match="holds 'coverset agent 1' where 'coverset population 3' was expected"):
        load_population(path)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda m: m.pop("env"), "does not hold env"),
        (lambda m: m.update(env=["matrix"]), r"env must be text, got \['matrix'\]"),
        (lambda m: m.update(env_parameters=[]), "env_parameters must be a JSON object"),
        (lambda m: m.update(format=["x"] * 1000), "where 'coverset population 3' was expected"),
        (
            lambda m: m.update(format="coverset population 1"),
            r"by another version of coverset \('coverset population 1'\)",
        ),
        (lambda m: m.pop("teammates"), "a network must be described by an object, got None"),
        (lambda m: m.update(teammates=["dense"]), r"a network must be described by an object, got \['dense'\]"),
        (lambda m: m["teammates"].pop("head_scale"), "does not hold head_scale"),
        (lambda m: m["teammates"].update(kind=7), "kind must be text, got 7"),
        (lambda m: m["teammates"].update(num_outputs="many"), "num_outputs must be a whole number, got 'many'"),
        (lambda m: m["teammates"].update(hidden_sizes=[2.5]), "hidden_sizes must be a list of items"),
        (lambda m: m["teammates"].update(num_outputs=0), "describes a network of sizes"),
        (lambda m: m["teammates"].update(memory_size=-3), "describes a network of sizes"),
        (lambda m: m["teammates"].update(hidden_sizes=[2**40]), "describes a network of sizes"),
        (lambda m: m["teammates"].update(hidden_sizes=[1] * 100_000), "describes a network of sizes"),
        (
            lambda m: m["teammates"].update(hidden_sizes=[]),
            r"holds the tensor 'teammates\.biases\.1', which the network",
        ),
        (lambda m: m["teammates"].update(hidden_sizes=[2**24, 2**24]), "was expected"),
        (lambda m: m["teammates"].update(kind="conv"), r"cannot be built \(ValueError: network 'conv' needs obs"),
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


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            "densely",
            r"built \(ValueError: network must be dense, .*, got 'densely'\. Did you mean 'dense'\?\)\.$",
        ),
        (
            "os:system",
            r"would import 'os:system', and was not written by you on this machine: if you trust that code, allow it",
        ),
    ],
)
def test_networks_that_are_not_built_in_are_refused_in_one_sentence(path: Path, kind: str, sentence: str) -> None:
    tensors, metadata = load_tensors(path)
    metadata["teammates"]["kind"] = kind
    save_tensors(path, tensors, metadata)
    with pytest.raises(ValueError, match=sentence) as refused:
        load_population(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("bandwidth", [0.0, 1.5])
@pytest.mark.parametrize("kind", NETWORKS)
def test_load_undoes_save_for_every_network_and_unequal_numbers(tmp_path: Path, kind: str, bandwidth: float) -> None:
    spec = NetworkSpec((2, 3, 2), 3, (4,), memory_size=5, fourier_bandwidth=bandwidth, head_scale=0.01)

    def policies(seed: int, members: int) -> ActorPolicy:
        return ActorPolicy(build_networks(kind, jax.random.split(jax.random.key(seed), members), spec), kind, spec)

    population = Population(policies(0, 3), policies(1, 2))
    save_population(tmp_path / "policies", population, {"env": "matrix", "env_parameters": {}})
    loaded, _ = load_population(tmp_path / "policies")
    assert [count_members(policy) for policy in loaded] == [3, 2]
    assert jax.tree.structure(loaded) == jax.tree.structure(population)
    for left, right in zip(jax.tree.leaves(loaded), jax.tree.leaves(population), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def test_a_specification_decides_what_is_read(path: Path, population: Population) -> None:
    """The same tensors are no network of another kind."""
    other = replace(population.teammates.spec, fourier_bandwidth=1.0)
    tensors, metadata = load_tensors(path)
    save_tensors(path, tensors, {**metadata, "teammates": network_record("dense", other)})
    assert load_population(path)[0].teammates.network.fourier  # pyright: ignore[reportAttributeAccessIssue]
    save_tensors(path, tensors, {**metadata, "teammates": network_record("gru", other)})
    with pytest.raises(DamagedFile, match=r"lacks the tensor 'teammates\.encoder\.weights\.0'"):
        load_population(path)
