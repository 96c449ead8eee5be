"""Valid messages are read; invalid ones are refused in one sentence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverset.studio.messages import MOST_BYTES, BadMessage, Move, NewTrial, Watch, read_body, read_query

TRIAL = {"run": "matrix/seed-0", "partner": "agent:rl2", "episodes": 5, "seed": 7}


def body(content: object) -> bytes:
    return json.dumps(content).encode()


def test_right_messages_are_read():
    assert read_body(NewTrial, body(TRIAL)) == NewTrial(**TRIAL)
    seated = TRIAL | {"seat": 2, "team": "teammate:1"}
    assert read_body(NewTrial, body(seated)) == NewTrial(**seated)
    assert read_body(Move, b'{"step": 0, "action": 4}') == Move(0, 4)
    query = {"run": "a", "best_response": "1", "teammate": "12", "seed": "4294967295"}
    assert read_query(Watch, query) == Watch("a", 1, 12, 2**32 - 1)


@pytest.mark.parametrize("partner", ["best-response:1", "teammate:64", "heuristic:H15", "agent:plastic"])
def test_every_kind_of_partner(partner):
    assert read_body(NewTrial, body(TRIAL | {"partner": partner})).partner == partner


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"episodes": 0}, "episodes must lie between 1 and 20, got 0"),
        ({"episodes": 21}, "episodes"),
        ({"episodes": True}, "episodes must be a whole number"),
        ({"episodes": "5"}, "episodes must be a whole number"),
        ({"episodes": 2.5}, "episodes must be a whole number"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"run": ""}, "length of run"),
        ({"run": None}, "run must be text"),
        ({"partner": "agent:../../etc/passwd"}, "partner must be like"),
        ({"partner": "teammate:0"}, "partner must be like"),
        ({"partner": "teammate:-1"}, "partner must be like"),
        ({"partner": "heuristic:H1\n"}, "partner must be like"),
        ({"partner": "module:os"}, "partner must be like"),
        ({"name": "me"}, "exactly the fields run, partner, episodes, seed, and may have seat and team"),
        ({"seat": -1}, "seat must lie between 0 and 1000, got -1"),
        ({"seat": "1"}, "seat must be a whole number"),
        ({"team": "agent:rl2"}, "team must be like"),
        ({"team": 3}, "team must be text"),
    ],
)
def test_wrong_fields_are_named(change, words):
    with pytest.raises(BadMessage, match=words):
        read_body(NewTrial, body(TRIAL | change))


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{", b"\xff", b'"a"', b"[" * 4000, b"9" * 4000, b"{}"])
def test_what_is_not_a_message_is_refused(content):
    with pytest.raises(BadMessage):
        read_body(Move, content)


def test_long_messages_are_refused_before_they_are_read():
    with pytest.raises(BadMessage, match="longer than 4,096 bytes"):
        read_body(Move, b'{"step": 0, "action": 0}' + b" " * MOST_BYTES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["run", "partner", "episodes", "seed", "seat", "team", "step", "action"]) | st.text()


def refusal(read, *arguments) -> str:
    """The error message of a refusal; empty for a valid message."""
    try:
        read(*arguments)
    except BadMessage as error:
        return str(error)
    return ""


@given(st.sampled_from([NewTrial, Move, Watch]), st.dictionaries(NAMES, JSON, max_size=6) | JSON)
def test_any_json_is_either_a_message_or_refused(kind, content):
    assert len(refusal(read_body, kind, body(content))) <= 300


@given(st.sampled_from([NewTrial, Move, Watch]), st.binary(max_size=5000))
def test_any_bytes_are_either_a_message_or_refused(kind, content):
    assert len(refusal(read_body, kind, content)) <= 300


@given(st.dictionaries(st.sampled_from(["run", "best_response", "teammate", "seed"]) | st.text(), st.text()))
def test_any_query_is_either_a_message_or_refused(query):
    assert len(refusal(read_query, Watch, query)) <= 300
