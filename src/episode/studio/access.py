"""Who may talk to the studio: a browser of this machine that has the token.

The token is in the fragment of the page's address, which browsers send nowhere; the page hands it in once, and gets a
cookie for it. Requests for another host are refused, so that no site can make its own name mean this machine (DNS
rebinding), and so are those that a page of another origin has sent.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API, ENTRANCE = "/api/", "/api/enter"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer. Charts set styles on their elements; nothing is evaluated as a script."""


@dataclass(frozen=True)
class Access:
    """The secrets of one server, which live as long as it does. cookie: its name; other ports of this machine have
    their own."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        return f"episode_studio_{self.port}"

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    def admits(self, token: object) -> bool:
        return isinstance(token, str) and secrets.compare_digest(token.encode(), self.token.encode())

    def knows(self, cookie: str | None) -> bool:
        return cookie is not None and secrets.compare_digest(cookie.encode(), self.session.encode())


class Guard:
    """Asks every request whether it may come in."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (self.app if refused is None else refused)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, path = Headers(scope=scope), scope["path"]
        if headers.get("host", "") not in self.access.hosts:
            return _refused(403, "This is not the name of the studio.")
        if scope["method"] not in ("GET", "HEAD") and not self._is_own(headers):
            return _refused(403, "The request comes from another page.")
        if not path.startswith(API) or path == ENTRANCE:
            return None
        if not self.access.knows(cookie_parser(headers.get("cookie", "")).get(self.access.cookie)):
            return _refused(401, "Open the studio by the address that was printed where it was started.")
        return None

    def _is_own(self, headers: Headers) -> bool:
        """Whether a request that does something was sent by the studio's page, as far as the browser says."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own = {f"http://{host}" for host in self.access.hosts}
        return (origin is None or origin in own) and site in (None, "same-origin")


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"problem": {"kind": "access", "message": message, "text": message}}, status)
