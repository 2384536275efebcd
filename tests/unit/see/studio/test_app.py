"""Who may talk to the studio."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from episode.see.studio.app import Access, Guard

ACCESS = Access(8350)
OWN = "http://127.0.0.1:8350"


async def said(request: Request) -> JSONResponse:
    return JSONResponse({"path": request.url.path})


def client(base: str = OWN, cookie: str | None = None) -> TestClient:
    routes = [Route(path, said, methods=["GET", "POST"]) for path in ("/", "/api/runs", "/api/enter")]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, access=ACCESS)])
    return TestClient(app, base_url=base, cookies={} if cookie is None else {ACCESS.cookie: cookie})


def test_the_page_is_for_all_of_this_machine_and_data_for_those_with_the_cookie() -> None:
    assert client().get("/").status_code == 200
    assert client().get("/api/runs").status_code == 401
    assert client(cookie="guessed").get("/api/runs").status_code == 401
    assert client(cookie=ACCESS.token).get("/api/runs").status_code == 401
    assert client(cookie=ACCESS.session).get("/api/runs").status_code == 200


@pytest.mark.parametrize("host", ["http://evil.example:8350", "http://127.0.0.1:9999", "http://127.0.0.1.nip.io:8350"])
def test_other_names_for_this_machine_are_refused(host: str) -> None:
    for path in ("/", "/api/runs", "/api/enter"):
        assert client(host, ACCESS.session).get(path).status_code == 403
        assert client(host, ACCESS.session).post(path).status_code == 403


def test_localhost_is_this_machine() -> None:
    assert client("http://localhost:8350", ACCESS.session).get("/api/runs").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": OWN, "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_pages_of_others_cannot_post(headers: dict[str, str]) -> None:
    assert client(cookie=ACCESS.session).post("/api/runs", headers=headers).status_code == 403


def test_its_own_page_can_post() -> None:
    own = {"origin": OWN, "sec-fetch-site": "same-origin"}
    assert client(cookie=ACCESS.session).post("/api/runs", headers=own).status_code == 200


def test_every_answer_restricts_what_the_page_may_load() -> None:
    for answer in (client().get("/"), client().get("/api/runs"), client("http://evil.example").get("/")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_tokens_are_long_and_of_one_server() -> None:
    assert len(ACCESS.token) >= 43
    assert Access(8350).token != ACCESS.token
    assert ACCESS.admits(ACCESS.token)
    assert not ACCESS.admits(ACCESS.token + "x")
    assert not ACCESS.admits(None)
    assert not ACCESS.admits("é")
    assert "#token=" in ACCESS.address
