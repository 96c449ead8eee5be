"""Who may ask, and with what headers everything is answered.

Pages of other sites in the same browser are kept out: a name of theirs that resolves to this machine (DNS rebinding)
fails the check of Host, and a request they forge fails the check of Origin. Elsewhere than on this machine a token is
needed, which the first visit exchanges for a cookie.
"""

import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coverset.studio.limits import Rate, RateLimit

COOKIE = "coverset-studio"
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
REQUESTS = Rate(burst=2000, per_second=400)
"""Per address: far above what a page asks for, far below what would keep two cores busy."""
MOST_HEAD_BYTES = 16 * 1024
SAFE_METHODS = ("GET", "HEAD")
METHODS = (*SAFE_METHODS, "POST", "DELETE")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Door:
    """What opens the studio."""

    names: tuple[str, ...]
    """Host names under which it may be called; addresses in digits are allowed beside them if there is a token."""
    token: str | None = None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Asks every request for its papers before the app sees it."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app = app
        self.door = door
        self.rates = RateLimit(REQUESTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._refusal(Request(scope))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        await (answer or self.app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that goes no further."""
        if _size(request) > MOST_HEAD_BYTES:
            return refuse(431, "The request is too long.")
        if not self._host_allowed(request.headers.get("host", "")):
            return refuse(421, "The studio does not answer to this host name.")
        client = request.client.host if request.client else "unknown"
        if not self.rates.allows(client):
            return refuse(429, "Too many requests: wait a moment.")
        if request.method not in METHODS:
            return refuse(405, "This method is not allowed.")
        if self.door.token is not None:
            return self._token_refusal(request, self.door.token) or self._origin_refusal(request)
        return self._origin_refusal(request)

    def _host_allowed(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") and ":" in host else host
        if name.lower() in self.door.names:
            return True
        return self.door.token is not None and _is_address(name)

    def _token_refusal(self, request: Request, token: str) -> Response | None:
        offered = request.query_params.get("token")
        if offered is not None and _same(offered, token) and request.method in SAFE_METHODS:
            welcome = RedirectResponse("/", status_code=303)
            welcome.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return welcome
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if any(_same(word, token) for word in (bearer, _cookie(request.headers))):
            return None
        return refuse(401, "Open the studio with the address that was printed when it was started: it holds a token.")

    def _origin_refusal(self, request: Request) -> Response | None:
        """Requests that change something must come from our own page, or from no page at all."""
        if request.method in SAFE_METHODS:
            return None
        origin, host = request.headers.get("origin"), request.headers.get("host")
        foreign = origin is not None and origin not in (f"http://{host}", f"https://{host}")
        if foreign or request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return refuse(403, "Requests from other pages are not answered.")
        if request.method == "POST" and request.headers.get("content-type", "").split(";")[0] != "application/json":
            return refuse(415, "A message must be sent as application/json.")
        return None


def refuse(status: int, sentence: str) -> JSONResponse:
    """An answer that says what is wrong in one sentence."""
    return JSONResponse({"error": sentence}, status, {"Cache-Control": "no-store"})


def make_door(host: str, token: str | None, names: Iterable[str] = ()) -> Door:
    """The door of a studio that listens on `host`: with a token, made up if none is given, unless that is loopback."""
    local = is_loopback(host)
    if not local and token is None:
        token = secrets.token_urlsafe(24)
    return Door((*LOCAL_NAMES, *(name.lower() for name in (host, *names))), token)


def _size(request: Request) -> int:
    """Bytes of a request before its body."""
    address = len(request.scope["raw_path"]) + len(request.scope["query_string"])
    return address + sum(len(name) + len(value) for name, value in request.headers.raw)


def _same(offered: str, token: str) -> bool:
    return secrets.compare_digest(offered.encode(), token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
