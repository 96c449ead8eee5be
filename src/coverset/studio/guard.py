"""Who may ask, and with what headers everything is answered.

Pages of other sites in the same browser are kept out: a name of theirs that resolves to this machine (DNS rebinding)
fails the check of Host, and a request they forge fails the check of Origin and of Sec-Fetch-Site. Elsewhere than on
this machine a token is needed, which the first visit exchanges for a cookie.
"""

import ipaddress
import math
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coverset.studio.authority import Authority, is_address, parse_authority, parse_origin
from coverset.studio.limits import LockOut, Rate, RateLimit

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
REQUESTS = Rate(burst=2000, per_second=400)
"""Per address: far above what a page asks for, far below what would keep two cores busy."""
MOST_WRONG_TOKENS = 10
LOCK_OUT_SECONDS = 60.0
"""Ten guesses a minute find no token worth the name; a person who mistypes is not kept out for long."""
MOST_HEAD_BYTES = 16 * 1024
SAFE_METHODS = ("GET", "HEAD")
METHODS = (*SAFE_METHODS, "POST", "DELETE")
WHERE_TOKEN_IS = "open the address that was printed when it was started"
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
    guessable: bool = False
    """Whether a person chose the token."""
    cookie: str = "coverset-studio"
    """The cookie's name. Browsers send cookies to all ports of a host, so that each studio needs a name of its own."""


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
        self.lock_out = LockOut(MOST_WRONG_TOKENS, LOCK_OUT_SECONDS)
        self.session = secrets.token_urlsafe(32)
        """What the cookie holds: not the token, which could be guessed or be somebody's password elsewhere."""

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
        """The answer to a request that goes no further. What other pages send is refused before anything is counted."""
        if _size(request) > MOST_HEAD_BYTES:
            return refuse(431, "The request is too long.")
        hosts = request.headers.getlist("host")
        host = parse_authority(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return refuse(400, "A request must have one Host header, of the form name or name:port.")
        if not self._is_called(host.name):
            return refuse(421, "The studio does not answer to this host name.")
        if not request.scope["raw_path"].startswith(b"/"):
            return refuse(400, "A request must ask for a path that begins with a slash.")
        if _is_foreign(request, host):
            return refuse(403, "Requests from other pages are not answered.")
        if not self.rates.allows(request.client.host if request.client else "unknown"):
            return refuse(429, "Too many requests: wait a moment.")
        return self._form_refusal(request) or self._token_refusal(request)

    def _is_called(self, name: str) -> bool:
        return name in self.door.names or (self.door.token is not None and is_address(name))

    def _form_refusal(self, request: Request) -> Response | None:
        if request.method not in METHODS:
            return refuse(405, "This method is not allowed.")
        if request.headers.get("upgrade", "").lower() == "websocket":
            return refuse(400, "The studio has no WebSockets.")
        if request.method == "POST" and request.headers.get("content-type", "").split(";")[0] != "application/json":
            return refuse(415, "A message must be sent as application/json.")
        return None

    def _token_refusal(self, request: Request) -> Response | None:
        """Ask for the cookie or the token; whoever brings the token in the address gets the cookie.

        Once too many tokens were wrong, none is looked at for a while. The cookie, and a token that was made up, are
        far too long to be guessed: they are let in all the same, so that guesses shut nobody out who holds them.
        """
        if self.door.token is None or _same(_cookie(request.headers, self.door.cookie), self.session):
            return None
        bearer, in_address = _bearer(request.headers), _token_in_address(request)
        offered = in_address if bearer is None else bearer
        if offered is None:
            return refuse(401, f"The studio needs a token: {WHERE_TOKEN_IS}.")
        right, wait = _same(offered, self.door.token), self.lock_out.wait()
        if wait and (self.door.guessable or not right):
            seconds = math.ceil(wait)
            return refuse(429, f"Too many wrong tokens: wait {seconds} seconds.", retry_after=seconds)
        if not right:
            self.lock_out.note_wrong()
            return refuse(401, f"The token is wrong: {WHERE_TOKEN_IS}.")
        return None if bearer is not None else self._welcome()

    def _welcome(self) -> Response:
        """Exchange the token for the cookie, and take the token out of the address."""
        welcome = RedirectResponse("/", status_code=303, headers={"Cache-Control": "no-store"})
        welcome.set_cookie(self.door.cookie, self.session, httponly=True, samesite="strict")
        return welcome


def refuse(status: int, sentence: str, *, retry_after: int | None = None) -> JSONResponse:
    """An answer that says what is wrong in one sentence."""
    later = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse({"error": sentence}, status, {"Cache-Control": "no-store", **later})


def make_door(host: str, token: str | None, *, port: int = 0, machine: str | None = None) -> Door:
    """The door of a studio that listens on `host`: with a token, made up if none is given, unless that is loopback.

    The machine's own name opens it only beside a token: who answers for that name is up to the network.
    """
    local = is_loopback(host)
    names = [*LOCAL_NAMES, f"[{host}]" if ":" in host else host]
    if not local and machine is not None:
        names.append(machine)
    guessable = token is not None
    if not local and token is None:
        token = secrets.token_urlsafe(24)
    return Door(tuple(name.lower() for name in names), token, guessable, f"coverset-studio-{port}")


def _is_foreign(request: Request, host: Authority) -> bool:
    """Whether another page sent this. It may link to the studio, but not load parts of it, nor send anything."""
    origins = request.headers.getlist("origin")
    if origins and (len(origins) > 1 or parse_origin(origins[0]) != host):
        return True
    if request.headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return False
    link = (request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest")) == ("navigate", "document")
    return not (link and request.method in SAFE_METHODS)


def _bearer(headers: Headers) -> str | None:
    scheme, _, word = headers.get("authorization", "").partition(" ")
    return word if scheme.lower() == "bearer" else None


def _token_in_address(request: Request) -> str | None:
    return request.query_params.get("token") if request.method in SAFE_METHODS else None


def _size(request: Request) -> int:
    """Bytes of a request before its body."""
    address = len(request.scope["raw_path"]) + len(request.scope["query_string"])
    return address + sum(len(name) + len(value) for name, value in request.headers.raw)


def _same(offered: str, token: str) -> bool:
    return secrets.compare_digest(offered.encode(), token.encode())


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
