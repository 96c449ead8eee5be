"""Access control and response headers.

Pages of other sites in the same browser are kept out: the Host check stops DNS rebinding, the Origin and Sec-Fetch-Site
checks stop cross-site requests. Unless the studio listens on loopback it requires a token, which the first visit
exchanges for a cookie.
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
"""Rate per client address: far above the needs of a page, far below what two cores can serve."""
MOST_WRONG_TOKENS = 10
LOCK_OUT_SECONDS = 60.0
"""Ten guesses a minute do not find a reasonable token, and a mistyped one does not lock anybody out for long."""
MOST_HEAD_BYTES = 16 * 1024
SAFE_METHODS = ("GET", "HEAD")
METHODS = (*SAFE_METHODS, "POST", "DELETE")
TOKEN_HINT = "open the address that was printed at start-up"
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
class AccessRules:
    """Host names, token and cookie that give access to the studio."""

    names: tuple[str, ...]
    """Allowed host names; with a token, numeric addresses are allowed too."""
    token: str | None = None
    guessable: bool = False
    """Whether the token was chosen by a person."""
    cookie: str = "coverset-studio"
    """Cookie name, unique per port because browsers send cookies to all ports of a host."""


def is_loopback(host: str) -> bool:
    """Whether a server on `host` is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware that checks every request before the app sees it."""

    def __init__(self, app: ASGIApp, access: AccessRules) -> None:
        self.app = app
        self.access = access
        self.rates = RateLimit(REQUESTS)
        self.lock_out = LockOut(MOST_WRONG_TOKENS, LOCK_OUT_SECONDS)
        self.session = secrets.token_urlsafe(32)
        """Cookie value. It is not the token, which may be guessable or reused as a password."""

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
        """The response to a refused request, else None. Cross-site requests do not count towards the rate limit."""
        if _head_size(request) > MOST_HEAD_BYTES:
            return refuse(431, "The request is too long.")
        hosts = request.headers.getlist("host")
        host = parse_authority(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return refuse(400, "A request must have one Host header, of the form name or name:port.")
        if not self._allows_name(host.name):
            return refuse(421, "The studio does not answer to this host name.")
        if not request.scope["raw_path"].startswith(b"/"):
            return refuse(400, "A request path must begin with a slash.")
        if _is_cross_site(request, host):
            return refuse(403, "Requests from other pages are refused.")
        if not self.rates.allows(request.client.host if request.client else "unknown"):
            return refuse(429, "Too many requests: wait a moment.")
        return self._form_refusal(request) or self._token_refusal(request)

    def _allows_name(self, name: str) -> bool:
        return name in self.access.names or (self.access.token is not None and is_address(name))

    def _form_refusal(self, request: Request) -> Response | None:
        if request.method not in METHODS:
            return refuse(405, "This method is not allowed.")
        if request.headers.get("upgrade", "").lower() == "websocket":
            return refuse(400, "The studio has no WebSockets.")
        if request.method == "POST" and request.headers.get("content-type", "").split(";")[0] != "application/json":
            return refuse(415, "A message must be sent as application/json.")
        return None

    def _token_refusal(self, request: Request) -> Response | None:
        """Check the cookie or the token; a token in the address is exchanged for the cookie.

        After too many wrong tokens, tokens chosen by a person are refused for a while. The cookie and generated tokens
        cannot be guessed and are always accepted, so that guessing does not lock out those who have them.
        """
        if self.access.token is None or _equal(_cookie(request.headers, self.access.cookie), self.session):
            return None
        bearer, in_address = _bearer(request.headers), _token_in_address(request)
        offered = in_address if bearer is None else bearer
        if offered is None:
            return refuse(401, f"The studio needs a token: {TOKEN_HINT}.")
        right, wait = _equal(offered, self.access.token), self.lock_out.wait()
        if wait and (self.access.guessable or not right):
            seconds = math.ceil(wait)
            return refuse(429, f"Too many wrong tokens: wait {seconds} seconds.", retry_after=seconds)
        if not right:
            self.lock_out.record_failure()
            return refuse(401, f"The token is wrong: {TOKEN_HINT}.")
        return None if bearer is not None else self._exchange_token()

    def _exchange_token(self) -> Response:
        """Set the cookie and redirect to an address without the token."""
        response = RedirectResponse("/", status_code=303, headers={"Cache-Control": "no-store"})
        response.set_cookie(self.access.cookie, self.session, httponly=True, samesite="strict")
        return response


def refuse(status: int, sentence: str, *, retry_after: int | None = None) -> JSONResponse:
    """Build an error response with one sentence."""
    later = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse({"error": sentence}, status, {"Cache-Control": "no-store", **later})


def make_access_rules(host: str, token: str | None, *, port: int = 0, machine: str | None = None) -> AccessRules:
    """Make the access rules of a studio on `host`; a missing token is generated unless `host` is loopback.

    The machine's own name is allowed only with a token, because the network decides what it resolves to.
    """
    local = is_loopback(host)
    names = [*LOCAL_NAMES, f"[{host}]" if ":" in host else host]
    if not local and machine is not None:
        names.append(machine)
    guessable = token is not None
    if not local and token is None:
        token = secrets.token_urlsafe(24)
    return AccessRules(tuple(name.lower() for name in names), token, guessable, f"coverset-studio-{port}")


def _is_cross_site(request: Request, host: Authority) -> bool:
    """Whether another site sent this request. Other sites may link to the studio, but not load or send anything."""
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


def _head_size(request: Request) -> int:
    """Size in bytes of a request without its body."""
    address = len(request.scope["raw_path"]) + len(request.scope["query_string"])
    return address + sum(len(name) + len(value) for name, value in request.headers.raw)


def _equal(offered: str, token: str) -> bool:
    return secrets.compare_digest(offered.encode(), token.encode())


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
