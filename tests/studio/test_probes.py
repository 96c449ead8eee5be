"""What probes found, in the studio: listed, watched and played with."""

from typing import Any

import pytest

import coverset
from coverset.policies.population import Population, save_population
from coverset.runs.storage import read_json, write_json
from coverset.studio.catalogue import Catalogue
from coverset.studio.files import SafeDirectory
from coverset.studio.messages import BadMessage, Watch, read_query
from coverset.studio.partners import PartnerLoader
from coverset.studio.records import RunRecords
from toy_run import constant_policies, write_constant

GAME = coverset.make("matrix")


@pytest.fixture
def probed(tmp_path):
    """A run whose pairs play actions 1 and 2, and a probe that has found action 3."""
    write_constant(tmp_path / "seed-0", "matrix", actions=(0, 1))
    place, about = tmp_path / "seed-0" / "probe", read_json(tmp_path / "seed-0" / "config.json")
    found = Population(*(constant_policies(GAME, seat, (2,)) for seat in (0, 1)))
    save_population(place / "policies.safetensors", found, {key: about[key] for key in ("env", "env_parameters")})
    write_json(place / "config.json", {"command": "probe"})
    write_json(place / "summary.json", {"sentence": "2 probes found it.", "teammate": "action 3 100%", "served_by": 1})
    directory = SafeDirectory(tmp_path)
    return directory, Catalogue(directory).run("seed-0")


def test_probes_are_listed_with_the_run(probed) -> None:
    directory, run = probed
    (probe,) = RunRecords(directory).details(run)["probes"]
    assert probe["name"] == "probe"
    assert probe["sentence"] == "2 probes found it."
    assert (probe["teammate"], probe["served_by"]) == ("action 3 100%", 1)
    assert RunRecords(directory).details(run)["agents"] == []


def test_the_teammate_found_is_a_partner_and_so_is_its_best_response(probed) -> None:
    directory, run = probed
    loader = PartnerLoader(directory)
    _, teammate = loader.find(run, "probe-teammate:probe")
    assert (teammate.name, teammate.seat, teammate.is_ego) == ("teammate found by probe", 1, False)
    _, best_response = loader.find(run, "probe-best-response:probe")
    assert (best_response.seat, best_response.is_ego) == (0, True)


def test_the_teammate_found_is_watched_with_members_and_with_its_own_best_response(probed) -> None:
    directory, run = probed
    loader = PartnerLoader(directory)
    for number, action in ((1, 0), (2, 1), (0, 2)):
        _, pair = loader.pair(run, number, 1, "probe")
        assert [choice(policy) for policy in pair] == [action, 2]


def choice(policy: Any) -> int:
    """The action that a constant policy always takes."""
    return int(policy.network.biases[-1].argmax())


def test_only_names_of_probes_are_understood() -> None:
    query = {"run": "seed-0", "best_response": "0", "teammate": "1", "seed": "3"}
    assert read_query(Watch, query | {"probe": "probe"}).probe == "probe"
    for bad in ({}, {"probe": "../other"}):
        with pytest.raises(BadMessage):
            read_query(Watch, query | bad)
