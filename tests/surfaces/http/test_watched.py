"""What machines ask of the pages: metrics with a token, and the health check without one."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from narval.core.errors import DaemonGoneError
from narval.files.home import Home
from narval.surfaces.cli.daemon.serving import pages
from narval.surfaces.http import programs
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.programs import Watched
from narval.surfaces.http.sessions import FOLDER, Sessions

TOKEN = "4d1c-secret"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
UP = {"name": "narval_up", "kind": "gauge", "doc": "Up.", "samples": [{"labels": {}, "value": 1.0}]}


class FakeDaemon:
    """Stands in for the daemon: what it answers, or what that raises."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {"metrics": [UP], "health": {"well": True, "troubles": []}}
        self.asked = 0

    async def ask(self, method: str, /, **params: Any) -> Any:
        self.asked += 1
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return answer


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon()


def client_of(daemon: FakeDaemon, digest: str = DIGEST) -> TestClient:
    from starlette.applications import Starlette

    return TestClient(Starlette(routes=Watched(daemon, digest).routes()))


def scrape(client: TestClient, token: str = TOKEN) -> Any:
    return client.get("/metrics", headers={"authorization": f"Bearer {token}"})


def test_who_has_the_token_is_given_metrics_as_openmetrics(daemon: FakeDaemon) -> None:
    answer = scrape(client_of(daemon))
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("narval_up 1.0\n# EOF\n")


@pytest.mark.parametrize(
    "header", [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}]
)
def test_who_has_not_is_refused_and_nobody_is_asked(daemon: FakeDaemon, header: dict[str, str]) -> None:
    answer = client_of(daemon).get("/metrics", headers=header)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert daemon.asked == 0


def test_without_a_token_set_there_are_no_metrics(daemon: FakeDaemon) -> None:
    answer = scrape(client_of(daemon, digest=""), token="")
    assert answer.status_code == 404
    assert "web.metrics_sha256" in answer.text


@pytest.mark.parametrize("answer", [DaemonGoneError("no daemon"), None])
def test_where_no_daemon_answers_the_metrics_say_so(
    daemon: FakeDaemon, answer: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "WITHIN", 0.01)
    daemon.answers = {"metrics": answer, "health": answer}
    client = client_of(daemon)
    assert "narval_up 0.0" in scrape(client).text
    health = client.get("/healthz")
    assert (health.status_code, health.text) == (503, "not well: no daemon answers\n")


def test_the_health_check_names_sorts_alone_and_asks_once_a_second(daemon: FakeDaemon) -> None:
    troubles = [{"what": "store", "text": "db.secret.example is away"}, {"what": "disk", "text": "/home/ann"}]
    daemon.answers["health"] = {"well": False, "troubles": troubles}
    client = client_of(daemon)
    assert {client.get("/healthz").text for _ in range(5)} == {"not well: store, disk\n"}
    assert daemon.asked == 1


def test_the_guard_lets_both_through_without_a_session(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = tmp_path / "var" / FOLDER
    folder.parent.mkdir()
    application = pages(home, folder, WebPlace(7457), Sessions(folder), DIGEST)
    client = TestClient(application, base_url="http://localhost:7457")
    assert client.get("/healthz").text == "not well: no daemon answers\n"
    assert client.get("/metrics").status_code == 401
    assert scrape(client).text.endswith("narval_up 0.0\n# EOF\n")
    assert client.post("/healthz").status_code == 405
    assert client.get("/runs", follow_redirects=False).status_code == 303
