"""Who is let in: host names, origins, tokens, rates."""

import pytest

from coverset.studio.guard import is_loopback, make_door
from coverset.studio.limits import Rate, RateLimit
from coverset.studio.serving import listen
from studio_client import Served

MOVE = {"step": 0, "action": 0}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8642", "[::1]"])
def test_names_of_this_machine_are_answered(shared, host):
    assert shared.get("/api/engine", host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "localhost.evil.example", "10.0.0.1", "[::2]"])
def test_other_host_names_are_not_so_that_rebinding_fails(shared, host):
    assert shared.get("/api/engine", host=host).status == 421


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
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert studio.get("/api/runs", cookie=cookie.split(";")[0]).status == 200
        assert studio.get("/api/runs", authorization="Bearer correct-horse").status == 200
        assert studio.post("/api/trials?token=correct-horse", {}).status == 401


def test_elsewhere_than_on_loopback_there_is_always_a_token():
    assert make_door("127.0.0.1", None).token is None
    assert make_door("localhost", None).token is None
    made_up = make_door("0.0.0.0", None).token
    assert made_up is not None
    assert len(made_up) >= 24
    assert made_up != make_door("0.0.0.0", None).token
    assert make_door("studio.example", "chosen-one").token == "chosen-one"
    assert [is_loopback(host) for host in ("127.0.0.2", "::1", "0.0.0.0", "::", "example")] == [True] * 2 + [False] * 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 70000}, "port must lie between"),
        ({"token": "short"}, "token must be at least 8"),
        ({"token": "with a space in it"}, "token must be"),
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
