"""Access control: host names, origins, tokens, rates."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverset.studio.authority import LARGEST_PORT, Authority, is_address, parse_authority, parse_origin
from coverset.studio.guard import LOCAL_NAMES, MOST_WRONG_TOKENS, Guard, is_loopback, make_access_rules
from coverset.studio.limits import LockOut, Rate, RateLimit
from coverset.studio.serving import listen
from studio_client import Served

MOVE = {"step": 0, "action": 0}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8642", "[::1]"])
def test_names_of_this_machine_are_answered(shared, host):
    assert shared.get("/api/engine", host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "localhost.evil.example", "10.0.0.1", "[::2]"])
def test_other_host_names_are_not_so_that_rebinding_fails(shared, host):
    assert shared.get("/api/engine", host=host).status == 421


@pytest.mark.parametrize(
    "lines",
    [
        *("Host: localhost:evil", "Host: 127.0.0.1:18642, evil.com", "Host: localhost,evil.com", "Host: localhost:"),
        *(
            "Host: localhost:0",
            "Host: localhost:080",
            "Host: localhost:65536",
            "Host: localhost:1:1",
            "Host: localhost.",
        ),
        *("Host: 127.0.0.1.:80", "Host: me@localhost", "Host: localhost@evil.com", "Host: local host", "Host: ::1"),
        *(
            "Host: [::1",
            "Host: [::1]evil",
            "Host: [::1%lo]",
            "Host: localhost/x",
            "Host: localhost#",
            "Host: http://localhost",
        ),
        *(
            "Host:",
            "X: no host",
            "Host: localhost\r\nHost: localhost",
            "Host: localhost\r\nHost: evil.com",
            "Host: l\u00f6calhost",
        ),
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_host_header_of_any_other_form_is_refused(shared, lines, version):
    answer = shared.raw(f"GET /api/engine HTTP/{version}\r\nConnection: close\r\n{lines}\r\n\r\n".encode("latin-1"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.rpartition(b"\r\n\r\n")[2].count(b".") == 1


PIECES = [
    "localhost",
    "LOCALHOST",
    "127.0.0.1",
    "[::1]",
    "evil.com",
    "8642",
    "0",
    "99999",
    *":@,. \t/#?%[]\u212a\u0663",
]


@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(max_size=30))
def test_only_known_names_with_or_without_a_port_are_answered(value):
    found = parse_authority(value)
    name, _, port = value.rpartition(":") if value.lower() not in LOCAL_NAMES else (value, "", "1")
    digits = port.isascii() and port.isdecimal() and not port.startswith("0") and int(port) <= LARGEST_PORT
    expected = name.isascii() and name.lower() in LOCAL_NAMES and digits
    assert (found is not None and found.name in make_access_rules("127.0.0.1", None).names) == expected


@given(st.text(alphabet="ab.:[]019-_@, ", max_size=20))
def test_what_is_parsed_is_all_of_what_was_said(value):
    found = parse_authority(value)
    assert found is None or value.lower() == found.name + ("" if found.port is None else f":{found.port}")
    assert parse_origin(f"http://{value}") == found


@given(st.ip_addresses(), st.none() | st.integers(1, LARGEST_PORT))
def test_addresses_in_digits_are_known_as_such(address, port):
    name = f"[{address}]" if address.version == 6 else str(address)
    assert parse_authority(name + ("" if port is None else f":{port}")) == Authority(name.lower(), port)
    assert is_address(name)
    assert not is_address(f"{name}.evil.com")


@pytest.mark.parametrize("name", ["127.1", "0x7f.0.0.1", "2130706433", "127.0.0.01", "[1.2.3.4]", "[]", "evil"])
def test_other_ways_to_write_addresses_are_not(name):
    assert not is_address(name)


def test_the_machines_own_name_opens_only_a_studio_with_a_token():
    assert "laptop" not in make_access_rules("127.0.0.1", None, machine="laptop").names
    assert "laptop" in make_access_rules("0.0.0.0", None, machine="Laptop").names
    assert "[fd00::1]" in make_access_rules("fd00::1", None).names


def test_a_forwarded_port_is_answered_to_its_own_pages_alone(shared):
    path = "/api/trials/none/moves"
    assert shared.post(path, MOVE, host="localhost:9000", origin="http://localhost:9000").status == 404
    assert shared.post(path, MOVE, host="localhost:9000", origin="http://localhost:9001").status == 403
    assert shared.post(path, MOVE, host="localhost:9000", origin=f"http://localhost:{shared.port}").status == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://evil.com",
        "null",
        "",
        "ftp://{}",
        "http://{}/",
        "http://me@{}",
        "http://{}, http://{}",
        "{}",
    ],
)
def test_any_other_origin_is_refused_whatever_the_method(shared, origin):
    named = origin.format(*[f"127.0.0.1:{shared.port}"] * 2)
    assert shared.get("/api/engine", origin=named).status == 403
    assert shared.ask("DELETE", "/api/recordings/none", origin=named).status == 403


def test_other_pages_may_link_here_but_not_load_parts(shared):
    link = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert shared.get("/", sec_fetch_site="cross-site", **link).status == 200
    assert shared.get("/", sec_fetch_site="cross-site", **link | {"sec_fetch_dest": "iframe"}).status == 403
    assert (
        shared.get("/icon.svg", sec_fetch_site="same-site", sec_fetch_mode="no-cors", sec_fetch_dest="image").status
        == 403
    )


def test_a_target_that_names_another_host_and_websockets_are_refused(shared):
    target = shared.raw(b"GET http://evil.com/api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert target.startswith(b"HTTP/1.1 400 ")
    upgrade = shared.get("/", connection="Upgrade", upgrade="websocket", sec_websocket_version="13")
    assert (upgrade.status, upgrade.json["error"]) == (400, "The studio has no WebSockets.")


def test_posts_of_other_pages_are_refused(shared):
    path = "/api/trials/none/moves"
    assert shared.post(path, MOVE).status == 404
    assert shared.post(path, MOVE, origin=f"http://127.0.0.1:{shared.port}").status == 404
    assert shared.post(path, MOVE, origin="http://evil.example").status == 403
    assert shared.post(path, MOVE, origin="null").status == 403
    assert shared.post(path, MOVE, sec_fetch_site="cross-site").status == 403
    assert shared.post(path, MOVE, content_type="text/plain").status == 415
    assert shared.ask("DELETE", "/api/recordings/recording-000000000000", origin="http://evil.example").status == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(shared, method):
    assert shared.ask(method, "/api/runs").status == 405


def test_a_token_opens_the_door_once_and_a_cookie_from_then_on(made):
    with Served(made, token="correct-horse") as studio:
        for refused in (studio.get("/"), studio.get("/api/runs"), studio.get("/?token=wrong-horse")):
            assert refused.status == 401
            assert "token" in refused.json["error"]
        assert studio.get("/api/runs", cookie="coverset-studio=wrong").status == 401
        welcome = studio.get("/?token=correct-horse")
        assert (welcome.status, welcome.headers["location"]) == (303, "/")
        cookie = welcome.headers["set-cookie"]
        assert "correct-horse" not in cookie
        assert cookie.startswith(f"coverset-studio-{studio.port}=")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert studio.get("/api/runs", cookie=cookie.split(";")[0]).status == 200
        assert studio.get("/api/runs", authorization="Bearer correct-horse").status == 200
        assert studio.post("/api/trials?token=correct-horse", {}).status == 401


def guard_of(studio: Served) -> Guard:
    guard = studio.listening.server.config.app
    assert isinstance(guard, Guard)
    return guard


def guess(studio: Served, times: int = MOST_WRONG_TOKENS) -> list[int]:
    ways = ({"path": "/?token=wrong-horse"}, {"path": "/api/runs", "authorization": "Bearer wrong-horse"})
    return [studio.get(**ways[n % 2]).status for n in range(times)]


def test_after_too_many_wrong_tokens_none_is_looked_at_but_a_cookie_is(tmp_path):
    with Served(tmp_path, token="correct-horse") as studio:
        cookie = studio.get("/?token=correct-horse").headers["set-cookie"].split(";")[0]
        assert guess(studio, MOST_WRONG_TOKENS + 2) == [401] * MOST_WRONG_TOKENS + [429] * 2
        refused = studio.get("/?token=correct-horse")
        assert refused.status == 429
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert refused.json["error"].startswith("Too many wrong tokens: wait ")
        assert studio.get("/api/runs", authorization="Bearer correct-horse").status == 429
        assert studio.get("/api/runs", cookie=cookie).status == 200
        assert studio.get("/api/runs").status == 401
        guard_of(studio).lock_out.clock = lambda: time.monotonic() + 61
        assert studio.get("/?token=correct-horse").status == 303


def test_a_token_that_was_made_up_opens_in_spite_of_guesses(tmp_path):
    with Served(tmp_path, token="correct-horse") as studio:
        guard_of(studio).access = replace(
            guard_of(studio).access, guessable=make_access_rules("0.0.0.0", None).guessable
        )
        assert guess(studio, MOST_WRONG_TOKENS + 1)[-1] == 429
        assert studio.get("/?token=correct-horse").status == 303


def test_old_cookies_requests_without_a_token_and_other_pages_lock_nobody_out(tmp_path):
    image = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}
    with Served(tmp_path, token="correct-horse") as studio:
        for _ in range(MOST_WRONG_TOKENS + 1):
            assert studio.get("/api/runs").status == 401
            assert studio.get("/api/runs", cookie=f"coverset-studio-{studio.port}=old").status == 401
            assert studio.get("/?token=wrong-horse", **image).status == 403
        assert studio.get("/?token=correct-horse").status == 303


def test_wrong_tokens_are_forgotten_after_a_while():
    now = 0.0
    lock_out = LockOut(3, 60.0, clock=lambda: now)
    for _ in range(3):
        assert lock_out.wait() == 0
        lock_out.record_failure()
        now += 10.0
    assert lock_out.wait() == 30.0
    now = 61.0
    assert lock_out.wait() == 0
    lock_out.record_failure()
    assert lock_out.wait() == 9.0


def test_nothing_about_requests_is_logged(tmp_path, capfd):
    with Served(tmp_path, token="correct-horse") as studio:
        guess(studio, MOST_WRONG_TOKENS + 1)
        studio.get("/?token=correct-horse")
        studio.raw(b"GET /?token=correct-horse nonsense\r\n\r\n")
        studio.get("/?token=correct-horse", connection="Upgrade", upgrade="websocket")
    assert capfd.readouterr() == ("", "")


def test_elsewhere_than_on_loopback_there_is_always_a_token():
    assert make_access_rules("127.0.0.1", None).token is None
    assert make_access_rules("localhost", None).token is None
    made_up = make_access_rules("0.0.0.0", None).token
    assert made_up is not None
    assert len(made_up) >= 24
    assert made_up != make_access_rules("0.0.0.0", None).token
    assert make_access_rules("studio.example", "chosen-one").token == "chosen-one"
    assert [is_loopback(host) for host in ("127.0.0.2", "::1", "0.0.0.0", "::", "example")] == [True] * 2 + [False] * 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 70000}, "port must lie between"),
        ({"token": "short"}, "token must have at least 8"),
        ({"token": "with a space in it"}, "token must have"),
        ({"host": "no.such.host.invalid"}, "host must be an address of this machine"),
    ],
)
def test_bad_options_are_named(made, options, words):
    with pytest.raises(ValueError, match=words):
        listen(made, **{"port": 0, **options})


def test_a_port_in_use_is_named(shared, made):
    with pytest.raises(ValueError, match=f"port {shared.port} is in use"):
        listen(made, port=shared.port)


def test_rates_are_limited_for_each_client():
    now = 0.0
    limit = RateLimit(Rate(burst=3, per_second=2), most_clients=2, clock=lambda: now)
    assert [limit.allows("a") for _ in range(5)] == [True, True, True, False, False]
    assert limit.allows("b")
    now = 1.0
    assert [limit.allows("a") for _ in range(3)] == [True, True, False]
    limit.allows("c")
    limit.allows("d")
    assert limit.allows("a"), "a client that was forgotten starts anew"
