"""What an agent offers to `http:NAME` answers an HTTP POST with its result, and nobody else gets it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import narval
from narval.core.errors import DaemonGoneError, UnansweredError
from narval.core.source.text import Source
from narval.files.home import Home
from narval.files.settings import parse_settings
from narval.surfaces.cli.daemon.serving import pages
from narval.surfaces.http import programs
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.programs import Calls
from narval.surfaces.http.sessions import Sessions
from tests.acceptance.home import Narval, make

TOKENS = {"shop": "5f0c6c0e6a5b4d57", "other": "a0b1"}
DIGESTS = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
SETTINGS = f"""
[callers.shop]
sha256 = "{DIGESTS["shop"]}"
bytes = "1K"
[callers.other]
sha256 = "{DIGESTS["other"]}"
[agent.offers]
"w.invoice" = ["http:shop"]
"w.fail" = ["http:shop"]
"w.wait" = ["http:shop"]
"w.gone" = ["http:shop"]
"w.common" = ["*"]
"""
MODULE = """
from narval import ActionError, Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("invoice", "invoice")], pure=True)
def invoice(order): return "<invoice of='%s'/>" % order.attributes["n"]

@action()
def fail(): raise ActionError("there is no stock", "no-stock", final=True)
"""
INVOICE = '<input id="order"><match>order</match></input>'


def recipe(name: str, target: str, within: str = "") -> str:
    step = f'<step id="s" type="action" target="{target}">{within}</step>'
    return f'<recipe group="w" name="{name}" start_step="s" end_step="s">{step}</recipe>'


WAIT = """<recipe group="w" name="wait" start_step="s" end_step="e">
<step id="s" type="action" target="basic.nothing"/>
<transition id="t"><in idref="s"/><out idref="e"/><condition><match>go</match></condition></transition>
<step id="e" type="action" target="basic.nothing"/></recipe>"""
RECIPES = (
    f"<cookbook>{recipe('invoice', 'w.invoice', INVOICE)}{recipe('fail', 'w.fail')}"
    f"{recipe('common', 'basic.nothing')}{WAIT}</cookbook>"
)


class Called(NamedTuple):
    """A home with a daemon, and a client of its pages that has the token of `shop`."""

    home: Narval
    client: TestClient

    def call(self, definition: str, content: bytes = b"{}", **headers: str) -> Any:
        return self.client.post(f"/call/{definition}", content=content, headers=headers)


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Called]:
    folder = tmp_path_factory.mktemp("called")
    home = make(folder / "home", settings=SETTINGS, module=MODULE, recipes=RECIPES)
    headers = {"authorization": f"Bearer {TOKENS['shop']}", "content-type": "application/json"}
    with home.running(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(programs.Calls.__init__, "__kwdefaults__", {"seconds": lambda: 0.0, "wait": 10.0})
        guarded = pages(Home(home.home), folder / "web", WebPlace(7457), Sessions(folder / "web"))
        with TestClient(guarded, base_url="http://127.0.0.1:7457", headers=headers) as client:
            yield Called(home, client)


def test_a_call_is_answered_with_what_the_run_gives(called: Called) -> None:
    answer = called.call("w.invoice", b'{"order": {"n": 7}}')
    run = answer.json()
    assert (answer.status_code, run["state"], run["again"]) == (200, "done", False), str(run["error"])
    (element,) = run["elements"]
    assert 'of="7"' in element["xml"]
    shown = called.home.ask("show", str(run["eid"]))
    assert {key: run[key] for key in ("eid", "name", "by", "started")} == {
        "eid": shown["eid"],
        "name": "w.invoice",
        "by": "http:shop",
        "started": shown["started"],
    }
    (order,) = called.home.ask("memory", "order[@n='7']")
    assert order["labels"] == ["http:shop"]
    as_xml = called.call("w.invoice", b"<order n='8'/>", **{"content-type": "application/xml"})
    assert 'of="8"' in as_xml.json()["elements"][0]["xml"]


def test_a_key_that_comes_again_is_answered_by_the_same_run(called: Called) -> None:
    first, second = (
        called.call("w.invoice", b'{"order": {"n": 9}}', **{"idempotency-key": "k"}).json() for _ in "12"
    )
    assert (first["again"], second["again"]) == (False, True)
    assert {**first, "again": True} == second
    assert len(called.home.ask("memory", "order[@n='9']")) == 1


def test_a_key_of_a_run_that_is_forgotten_starts_nothing_and_says_so(tmp_path: Path) -> None:
    brief = recipe("invoice", "basic.nothing").replace("<recipe", '<recipe decay="10"')
    home = make(tmp_path / "home", settings=SETTINGS, recipes=brief).home
    with narval.open(home, clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:

        def call(key: str) -> Any:
            about = {"caller": "shop", "definition": "w.invoice", "elements": []}
            return agent.ask("call_offered", **about, key=key, wait=10)

        first = call("k")
        agent.elapse(seconds=60)
        again = call("k")
        assert (first["phase"], again["phase"]) == ("done", "forgotten")
        assert (again["eid"], again["active"], again["again"]) == (first["eid"], False, True)
        assert agent.ask("runs", name="w.invoice") == []
        assert call("another")["phase"] == "done"


def test_a_run_that_fails_is_told_with_its_error(called: Called) -> None:
    answer = called.call("w.fail")
    assert answer.status_code == 422
    assert "there is no stock" in str(answer.json()["error"])


def test_a_run_that_takes_long_is_asked_for_by_its_caller_alone(
    called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"authorization": f"Bearer {TOKENS['shop']}", "content-type": "application/json"}
    monkeypatch.setattr(Calls.__init__, "__kwdefaults__", {"seconds": lambda: 0.0, "wait": 0.0})
    folder = called.home.home.parent / "web2"
    guarded = pages(Home(called.home.home), folder, WebPlace(7457), Sessions(folder))
    with TestClient(guarded, base_url="http://127.0.0.1:7457", headers=headers) as client:
        answer = client.post("/call/w.wait", content=b"{}")
    assert (answer.status_code, answer.json()["active"]) == (202, True)
    place = answer.headers["location"]
    assert place == f"/call/runs/{answer.json()['eid']}"
    for none, status in (("/call/w.wait", 405), ("/call/runs/x", 404), ("/hook/build", 405), ("/call/", 404)):
        wrong = called.client.get(none)
        assert (wrong.status_code, bool(wrong.json()["error"])) == (status, True), none
    other = called.client.get(place, headers={"authorization": f"Bearer {TOKENS['other']}"})
    assert (other.status_code, "there is no run" in other.json()["error"]) == (404, True)
    called.home.ask("cancel", str(answer.json()["eid"]))
    ended = called.client.get(place)
    assert (ended.status_code, ended.json()["state"]) == (422, "cancelled")


@pytest.mark.parametrize(
    ("definition", "content", "headers", "status", "problem"),
    [
        ("w.invoice", b"{}", {"authorization": ""}, 401, "Expected the token of a caller"),
        ("w.invoice", b"{}", {"authorization": "Bearer wrong"}, 401, "Expected the token of a caller"),
        ("w.invoice", b"{}", {"authorization": f"Bearer {TOKENS['other']}"}, 403, 'offers = {"w.invoice"'),
        ("w.common", b"{}", {}, 403, "does not offer"),
        ("w.unknown", b"{}", {}, 403, "does not offer"),
        ("w.gone", b"{}", {}, 400, "w.gone"),
        ("w.invoice", b"x" * 1025, {}, 413, "at most 1,024 bytes"),
        ("w.invoice", b"{}", {"content-type": "text/plain"}, 415, "application/json"),
        ("w.invoice", b"[1]", {}, 400, "expected an object of elements by their names"),
        ("w.invoice", b'{"a b": 1}', {}, 400, "expected the names of elements as keys"),
        ("w.invoice", b'{"quit": {}}', {}, 422, "which narval obeys"),
        ("w.invoice", b"<a>", {"content-type": "application/xml"}, 400, "not well-formed XML"),
        ("w.invoice", b"{}", {"idempotency-key": "k" * 201}, 400, "expected a key of at most"),
    ],
)
def test_G34_what_may_not_be_called_is_refused_and_starts_nothing(
    called: Called, definition: str, content: bytes, headers: dict[str, str], status: int, problem: str
) -> None:
    before = called.home.ask("memory")
    answer = called.call(definition, content, **headers)
    assert answer.status_code == status, answer.text
    assert problem in answer.json()["error"]
    assert called.home.ask("memory") == before


class Gone:
    """Stands in for a daemon: one caller with two calls a minute; it goes where there is `error`."""

    error: Exception | None = None
    phase = "done"

    async def ask(self, method: str, /, **params: Any) -> Any:
        if self.error is not None:
            raise self.error
        if method == "callers":
            return [{"caller": "shop", "bytes": 10, "calls": 2, "sha256": DIGESTS["shop"]}]
        return {"eid": 7, "active": False, "phase": self.phase}


def test_more_calls_than_a_minute_has_wait_and_a_daemon_that_is_gone_is_told() -> None:
    daemon, now = Gone(), [0.0]
    routes = Calls(daemon, daemon, seconds=lambda: now[0]).routes()
    headers = {"authorization": f"Bearer {TOKENS['shop']}", "content-type": "application/json"}
    with TestClient(Starlette(routes=list(routes)), headers=headers) as client:
        answers = [client.post("/call/w.a", content=b"{}") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].headers["retry-after"] == "60"
        now[0], daemon.phase = 60.0, "forgotten"
        assert client.post("/call/w.a", content=b"{}").status_code == 410
        now[0], daemon.error = 121.0, DaemonGoneError("gone")
        assert client.post("/call/w.a", content=b"{}").status_code == 503
        daemon.error = UnansweredError("the daemon ended before it answered")
        unanswered = client.post("/call/w.a", content=b"{}")
        assert (unanswered.status_code, "retry-after" in unanswered.headers) == (504, False)
        assert unanswered.json()["error"] == (
            "the daemon ended before it answered; what it was asked may be recorded: "
            "with an Idempotency-Key send it again, and it is done once; without one look before you do."
        )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[callers.shop]\ncalls = 3", "1:10: callers.shop: expected sha256"),
        (f'[callers.a]\nsha256 = "{"0" * 64}"\n[callers.b]\nsha256 = "{"0" * 64}"', "4:1: callers.b.sha256"),
        ('[agent.offers]\n"w.a" = ["shop", "http:nobody"]', "a caller of etc/narval.toml, [callers.NAME]"),
    ],
)
def test_callers_are_settings_with_places_of_their_faults(text: str, fault: str) -> None:
    settings, faults = parse_settings(Source("etc/narval.toml", text.encode()))
    assert settings is None
    assert fault in "\n".join(map(str, faults))


def test_an_agents_file_that_names_no_caller_is_a_fault(tmp_path: Path) -> None:
    home = make(tmp_path, settings=SETTINGS)
    home.write("agents/web/agent.toml", '[offers]\n"w.a" = ["http:shop"]\n"w.b" = ["*", "http:nobody"]\n')
    told = (done := home("check")).stdout.decode() + done.stderr.decode()
    assert "agents/web/agent.toml:3:15: offers" in told
    assert told.count("http: and the name of a caller") == 1
