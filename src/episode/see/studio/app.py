"""The studio's application: who may call it, the page, and its endpoints. Queries are in bodies, never in addresses.

See decisions 155 and 156.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request, cookie_parser
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.see.studio import tables as gallery
from episode.see.studio import views as looking
from episode.see.studio.runs import Run, Runs
from episode.see.studio.studio import Studio
from episode.see.studio.views import check, notebook, problem_of

# Who may talk to the studio: a browser of this machine that has the token.
#
# The token is in the fragment of the page's address, which browsers send nowhere; the page hands it in once, and gets a
# cookie for it. Requests for another host are refused, so that no site can make its own name mean this machine (DNS
# rebinding), and so are those that a page of another origin has sent.


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
"""Headers of every answer. Charts set styles on their elements; nothing is evaluated as a script."""


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
        """Address of the page, with the token."""
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

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (self.app if refused is None else refused)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, path = Headers(scope=scope), scope["path"]
        if headers.get("host", "") not in self.access.hosts:
            return _refuse(403, "This is not the name of the studio.")
        if scope["method"] not in ("GET", "HEAD") and not self._is_own(headers):
            return _refuse(403, "The request comes from another page.")
        if not path.startswith(API) or path == ENTRANCE:
            return None
        if not self.access.knows(cookie_parser(headers.get("cookie", "")).get(self.access.cookie)):
            return _refuse(401, "Open the studio by the address that was printed where it was started.")
        return None

    def _is_own(self, headers: Headers) -> bool:
        """Whether a request that does something was sent by the studio's page, as far as the browser reports it."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own = {f"http://{host}" for host in self.access.hosts}
        return (origin is None or origin in own) and site in (None, "same-origin")


def _refuse(status: int, message: str) -> JSONResponse:
    return JSONResponse({"problem": {"kind": "access", "message": message, "text": message}}, status)


MOST_BYTES = 1_000_000
"""Bytes in the body of a request, at most."""
MOST_ROWS = 500
"""Rows in one answer."""
MOST_DIGITS = 15
WISHES = ("pattern", "of", "between", "match", "choose", "series")
"""Options of a plot that a page may set."""
PAGE_FILES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Endpoint = Callable[[Request], Awaitable[Response]]


def application(studio: Studio, access: Access) -> Starlette:
    """The page of a studio, for those who have its token."""
    pages = Pages(studio, access)
    routes = [
        Route("/", pages.page),
        Route("/vega.js", pages.vega),
        Route("/page/{name}", pages.file),
        Route("/api/enter", _answer_errors(pages.enter), methods=["POST"]),
        Route("/api/tables", _answer_errors(pages.tables)),
        Route("/api/tables/{name}", _answer_errors(pages.preview)),
        Route("/api/check", _answer_errors(pages.check), methods=["POST"]),
        Route("/api/runs", _answer_errors(pages.runs)),
        Route("/api/runs", _answer_errors(pages.start), methods=["POST"]),
        Route("/api/runs/{run}", _answer_errors(pages.run)),
        Route("/api/runs/{run}/rows", _answer_errors(pages.rows)),
        Route("/api/runs/{run}/cancel", _answer_errors(pages.cancel), methods=["POST"]),
        Route("/api/runs/{run}/count", _answer_errors(pages.count), methods=["POST"]),
        Route("/api/runs/{run}/keys", _answer_errors(pages.keys)),
        Route("/api/runs/{run}/plot", _answer_errors(pages.plot), methods=["POST"]),
        Route("/api/runs/{run}/plan", _answer_errors(pages.plan), methods=["POST"]),
        Route("/api/runs/{run}/report", _answer_errors(pages.report), methods=["POST"]),
        Route("/api/runs/{run}/why-not", _answer_errors(pages.why_not), methods=["POST"]),
        Route("/api/streams", _answer_errors(pages.streams)),
        Route("/api/notebook", _answer_errors(pages.notebook), methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, access=access)])


def _answer_errors(endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint so that an error of a query becomes an answer that explains it."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Missing as error:
            return JSONResponse({"problem": problem_of(error)}, 404)
        except Exception as error:  # noqa: BLE001 - the page shows it
            return JSONResponse({"problem": problem_of(error)}, 400 if isinstance(error, EpisodeError) else 500)

    return answer


class Missing(EpisodeError):
    """Error for a run that does not exist; it may have been forgotten."""


class Pages:
    """All endpoints. Those that ask Spark do so in a thread."""

    def __init__(self, studio: Studio, access: Access) -> None:
        self.studio = studio
        self.access = access

    async def page(self, request: Request) -> Response:
        return _file("index.html")

    async def file(self, request: Request) -> Response:
        return _file(request.path_params["name"])

    async def vega(self, request: Request) -> Response:
        """Vega's JavaScript, as the package that draws charts brings it along."""
        script = await run_in_threadpool(_vega_script)
        return Response(script, media_type="text/javascript")

    async def enter(self, request: Request) -> Response:
        """The token for a cookie, which scripts cannot read and other sites cannot send."""
        if not self.access.admits((await _body(request)).get("token")):
            return JSONResponse({"problem": {"kind": "access", "message": "This is not the token."}}, 403)
        answer = Response(status_code=204)
        answer.set_cookie(self.access.cookie, self.access.session, httponly=True, samesite="strict", path="/")
        return answer

    async def tables(self, request: Request) -> Response:
        tables = self.studio.tables
        found = {"version": version("episode"), "tables": tables.describe(), "offers": self.studio.offers}
        return JSONResponse({**found, "examples": gallery.examples_over(tables.sampled)})

    async def preview(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self.studio.tables.preview, request.path_params["name"]))

    async def check(self, request: Request) -> Response:
        text = _text(await _body(request))
        return JSONResponse(await run_in_threadpool(check, self.studio.tables, text))

    async def notebook(self, request: Request) -> Response:
        text = _text(await _body(request))
        content = notebook(text, self.studio.places(text))
        return _download(content.encode(), "application/x-ipynb+json", "episode-query.ipynb")

    async def runs(self, request: Request) -> Response:
        return JSONResponse({"runs": self._runs.summaries()})

    async def start(self, request: Request) -> Response:
        run = self._runs.start(_text(await _body(request)))
        return JSONResponse(run.summary(), 201)

    async def run(self, request: Request) -> Response:
        run = self._run(request)
        progress = await run_in_threadpool(self._runs.progress, run)
        return JSONResponse({**await run_in_threadpool(run.describe), "progress": progress})

    async def rows(self, request: Request) -> Response:
        run = self._run(request)
        first, count = _number(request, "from", 0), min(_number(request, "count", 100), MOST_ROWS)
        return JSONResponse({"from": first, "rows": await run_in_threadpool(run.rows, first, count)})

    async def cancel(self, request: Request) -> Response:
        run = self._run(request)
        await run_in_threadpool(self._runs.cancel, run)
        return JSONResponse(run.summary())

    async def count(self, request: Request) -> Response:
        return JSONResponse({"total": await run_in_threadpool(self._runs.count, self._run(request))})

    async def keys(self, request: Request) -> Response:
        pattern = _number(request, "pattern", 1)
        return JSONResponse(await run_in_threadpool(looking.keys, self._runs, self._run(request), pattern))

    async def plot(self, request: Request) -> Response:
        run, body = self._run(request), await _body(request)
        wish = {name: body[name] for name in WISHES if body.get(name) is not None}
        width = body.get("width")
        wide = min(max(width, 300), 2_000) if isinstance(width, int) else 760
        return JSONResponse(await run_in_threadpool(looking.plot, self._runs, run, wish, wide))

    async def plan(self, request: Request) -> Response:
        run, analyze = self._run(request), (await _body(request)).get("analyze") is True
        return JSONResponse({"html": await run_in_threadpool(looking.plan, self._runs, run, analyze)})

    async def report(self, request: Request) -> Response:
        content = await run_in_threadpool(looking.report, self._runs, self._run(request), self.studio.directory)
        return _download(content, "text/html", "episode-report.html")

    async def why_not(self, request: Request) -> Response:
        run, body = self._run(request), await _body(request)
        place = {name: body.get(name) for name in ("pattern", "of", "at")}
        between = body.get("between")
        both = tuple(between) if isinstance(between, list) and len(between) == 2 else None
        return JSONResponse(await run_in_threadpool(looking.why_not, self._runs, run, **place, between=both))

    async def streams(self, request: Request) -> Response:
        return JSONResponse({"streams": await run_in_threadpool(self.studio.streams.describe)})

    @property
    def _runs(self) -> Runs:
        return self.studio.runs

    def _run(self, request: Request) -> Run:
        run = self._runs.get(request.path_params["run"])
        if run is None:
            raise Missing("There is no such run any more.")
        return run


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object in a request."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MOST_BYTES:
            raise EpisodeAnalysisError(f"A request has at most {MOST_BYTES:,} bytes.")
    try:
        body = json.loads(bytes(found))
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise EpisodeAnalysisError("A text in the request has a lone surrogate, not a character.") from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise EpisodeAnalysisError("A request is a JSON object.")
    return body


def _text(body: dict[str, Any]) -> str:
    text = body.get("text")
    if not isinstance(text, str):
        raise EpisodeAnalysisError("The request has no text.")
    return text


def _number(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name, str(otherwise))
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise EpisodeAnalysisError(f"{name} is a number of at most {MOST_DIGITS} digits.")
    return int(text)


def _file(name: str) -> Response:
    """A file of the page: those of one folder, by their plain names."""
    suffix = name[name.rfind(".") :]
    folder = files("episode.see.studio") / "page"
    if suffix not in PAGE_FILES or name not in {one.name for one in folder.iterdir()}:
        return Response("There is no such file.", 404)
    return Response((folder / name).read_bytes(), media_type=f"{PAGE_FILES[suffix]}; charset=utf-8")


@cache
def _vega_script() -> str:
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its types ask for a text that it does not need
    return str(bundle())


def _download(content: bytes, kind: str, name: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
