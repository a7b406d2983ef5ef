"""A session that has ended is said to be one, and a form sent after it is there again after the login."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient

from narval.core.errors import UnansweredError
from narval.surfaces.http import saved_forms
from narval.surfaces.http.page import EVERYBODY, Fields, Redirect, Visit
from narval.surfaces.http.page import act as form
from narval.surfaces.http.saved_forms import KEPT, MOST, SavedForms
from narval.surfaces.http.sessions import ENDED, IDLE, Sessions, WebSession
from tests.daemon.at_work import in_a_loop
from tests.surfaces.http.doors import HOME, PORT, Door, done, filled

FORM = {
    "xml": "<letter>\n</letter>",
    "name": 'Ä"&=',
    "empty": "",
    "shown": "9f2c",
    "claimed": "ann",
    "field.how-much": "7",
}
ACT = "/a/narval/try"


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def ended(door: Door, person: str = "ann") -> TestClient:
    """A browser whose session has ended."""
    browser = door.login(person)
    door.sessions.end(door.sessions.listed()[-1].number)
    return browser


def sent(door: Door, browser: TestClient, path: str = ACT, **headers: str) -> Any:
    """The answer to a form that stood on a page of that session."""
    return browser.post(path, data={**FORM, "token": door.token}, headers=headers)


def back(door: Door, browser: TestClient, person: str = "ann") -> str:
    """Where somebody is led who logs in in that browser."""
    answer = browser.post("/login", data={"token": door.sessions.new_link(person), "next": "/sessions"})
    return str(answer.headers["location"])


def test_a_session_that_has_ended_is_said_to_be_one(door: Door) -> None:
    browser = ended(door)
    answer = browser.get("/a/narval/runs?phase=done")
    assert answer.status_code == 303
    login = browser.get(answer.headers["location"])
    assert "<h1>Your session has ended</h1>" in login.text
    assert "narval web login" in login.text
    for path in ("/sessions.json", "/a/narval/runs/live"):
        answer = browser.get(path)
        assert (answer.status_code, "Your session has ended" in answer.text) == (401, True)
    assert "Your session has ended" not in door.browser().get("/login").text
    assert back(door, browser) == "/sessions"


def test_a_form_that_was_sent_after_its_session_is_there_again_after_the_login(door: Door) -> None:
    browser = ended(door)
    answer = sent(door, browser)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={quote('/kept', safe='')}")
    assert "What you sent was not done. It is kept" in browser.get(answer.headers["location"]).text
    assert back(door, browser) == "/kept"
    shown = browser.get("/kept").text
    assert f'action="{ACT}"' in shown
    assert 'name="name" value="Ä&#34;&amp;="' in shown
    assert 'name="xml" rows="6" spellcheck="false">\n&lt;letter&gt;\n&lt;/letter&gt;</textarea>' in shown
    for filled_in in ('name="shown" value="9f2c"', 'name="claimed" value="ann"'):
        assert f'<input type="hidden" {filled_in}>' in shown, "no one alters what the page had filled in"
    assert ">How much</label>" in shown
    assert '<a href="/a/narval/">page</a> shows what it is about' in shown
    assert door.token not in shown
    assert done == []  # before the person says so
    door.token = shown.partition('name="token" value="')[2].partition('"')[0]
    assert sent(door, browser).status_code == 303
    assert [dict(pairs) for pairs in done] == [FORM]
    assert "Nothing is kept" in browser.get("/kept").text


def test_a_kept_form_leads_to_the_nearest_page_above_it_that_there_is(door: Door) -> None:
    browser = door.login("ann")
    for act, above in {
        "/a/narval/runs/all/cancel?these=3": "/a/narval/runs",
        "/sessions/3/end": "/sessions",
        "/a/narval/runs/5/tokens/2/consume": "/a/narval/runs/5/tokens",
        "/nowhere/at/all": "",
    }.items():
        door.forms.keep(door.sessions.listed()[-1], act, Fields())
        shown = browser.get("/kept").text
        assert (f'<a href="{above}">page</a> shows' in shown) == bool(above), act
        assert ("shows what it is about" in shown) == bool(above), act


def test_a_kept_form_can_be_left(door: Door) -> None:
    browser = ended(door)
    sent(door, browser)
    back(door, browser)
    token = browser.get("/kept").text.partition('name="token" value="')[2].partition('"')[0]
    assert browser.post("/kept/leave", data={"token": token}).headers["location"] == "/"
    assert "Nothing is kept" in browser.get("/kept").text
    assert done == []


def test_nobody_else_sees_it(door: Door) -> None:
    browser = ended(door)
    sent(door, browser)
    assert "Nothing is kept" in door.login("ann").get("/kept").text  # in another browser
    assert back(door, browser, "ben") == "/sessions"  # another person in this one
    assert "letter" not in browser.get("/kept").text


def test_only_a_form_of_a_page_of_that_session_is_kept(door: Door) -> None:
    browser = ended(door)
    assert sent(door, browser, origin="https://evil.example").status_code == 403
    browser.post(ACT, data={**FORM, "token": "another"})
    browser.post(ACT, data=FORM)
    stranger = door.browser(origin=HOME, cookie=f"{door.place.cookie}=made-up")
    assert sent(door, stranger).status_code == 401
    assert "It is kept" not in browser.get("/login").text
    assert back(door, browser) == "/sessions"


def test_a_script_is_told_instead_of_led_to_the_login(door: Door) -> None:
    browser = ended(door)
    answer = sent(door, browser, **{"sec-fetch-mode": "cors"})
    assert (answer.status_code, "Your session has ended" in answer.text) == (401, True)
    assert back(door, browser) == "/kept"


def test_the_form_of_each_act_is_kept(door: Door) -> None:
    browser = ended(door)
    secret, token = door.secret, door.token
    for route in (route for route in door.routes if route.is_act):
        browser.cookies.clear()
        browser.cookies.set(door.place.cookie, secret)
        door.token = token
        path = filled(route.path)
        assert sent(door, browser, path).status_code == 303, path
        assert back(door, browser) == "/kept", path
        assert f'action="{path}"' in browser.get("/kept").text
    assert done == []


def test_a_form_that_was_sent_while_no_daemon_was_at_work_is_kept_to_be_sent_again(door: Door) -> None:
    browser, act = door.login("ann"), "/a/narval/work/5/answer"
    for _ in range(2):
        answer = sent(door, browser, act)
        assert (answer.status_code, "http-equiv" in answer.text) == (503, False)
        assert '<a href="/kept">look at it, and send it again</a>' in answer.text
        shown = browser.get("/kept").text
        assert "No daemon answered: nothing was done" in shown
        assert f'action="{act}"' in shown
        assert "&lt;letter&gt;" in shown
    looked_at = browser.get(act)
    assert looked_at.status_code == 405
    assert '<a href="/a/narval/work/5">The page above this address</a>' in looked_at.text


def test_a_form_that_was_not_answered_may_be_done_and_is_kept(tmp_path: Path) -> None:
    @form("/a/{agent}/ask", roles=EVERYBODY)
    async def ask(visit: Visit) -> Redirect:
        raise UnansweredError("the daemon ended before it answered")

    door = Door(tmp_path, routes=(ask,))
    browser = door.login("ann")
    answer = sent(door, browser, "/a/narval/ask")
    assert (answer.status_code, "what it was asked may be recorded" in answer.text) == (504, True)
    assert '<a href="/kept">send it again</a>' in answer.text
    kept = browser.get("/kept").text
    assert "it may be done. Look before you send it again." in kept
    assert 'action="/a/narval/ask"' in kept


def test_the_page_above_an_address_of_forms_is_one_that_there_is(door: Door) -> None:
    browser = door.login("ann")
    for act, above in {
        ACT: "/a/narval/",
        "/a/narval/letters/5/drop": "/a/narval/letters",
        "/a/narval/runs/5/tokens/2/consume": "/a/narval/runs/5/tokens",
    }.items():
        answer = browser.get(act)
        assert answer.status_code == 405, act
        assert f'<a href="{above}">The page above this address</a>' in answer.text


@in_a_loop
async def test_a_form_is_kept_before_its_page_is_sent_to_somebody_who_may_be_gone(door: Door) -> None:
    browser = door.login("ann")
    data = urlencode({**FORM, "token": door.token}).encode()
    act = "/a/narval/work/5/answer"
    headers = {
        "host": f"127.0.0.1:{PORT}",
        "origin": HOME,
        "cookie": f"{door.place.cookie}={door.secret}",
        "content-type": "application/x-www-form-urlencoded",
    }
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": act,
        "raw_path": act.encode(),
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": data}

    async def send(message: Any) -> None:
        raise ConnectionError("the browser has gone")

    with suppress(ConnectionError):
        await door.guard(scope, receive, send)
    assert f'action="{act}"' in browser.get("/kept").text


def test_what_a_script_sends_by_itself_takes_the_place_of_no_form(door: Door) -> None:
    browser, act = door.login("ann"), "/a/narval/work/5/answer"
    assert sent(door, browser, act).status_code == 503
    assert sent(door, browser, "/a/narval/work/9/save", **{"sec-fetch-mode": "cors"}).status_code == 503
    assert f'action="{act}"' in browser.get("/kept").text


def test_what_is_kept_is_bounded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narval.surfaces.http.guard.LONG", 100)
    browser = ended(door)
    assert browser.post(ACT, data={"xml": "x" * 101, "token": door.token}).status_code == 413
    now = 0.0
    forms = SavedForms(lambda: now)
    sessions = [WebSession("", number, "ann", "operator", 0.0, 0.0) for number in range(MOST + 2)]
    for session in (*sessions, sessions[-1]):
        forms.keep(session, ACT, Fields())
    assert [forms.of(session.number) is not None for session in sessions] == [False] * 2 + [True] * MOST
    now = KEPT
    assert forms.of(sessions[-1].number) is None
    assert not forms.hand_over(sessions[-1], sessions[0])
    assert saved_forms.LONG * MOST <= 16_000_000


def test_sessions_that_have_ended_are_remembered_for_a_while(tmp_path: Path) -> None:
    now = 0.0
    sessions = Sessions(tmp_path / "web", lambda: now)

    def begun() -> str:
        return str(sessions.log_in(sessions.new_link("ann"), "ann", "operator"))

    first = begun()
    assert sessions.ended(first) is None
    now = IDLE
    assert sessions.peek(first) is None
    assert sessions.ended(first) is not None  # by its time, though nothing was written
    for number in range(2, ENDED + 2):
        begun()
        assert sessions.end(number)
    assert sessions.ended(first) is None
    assert sessions.ended("made-up") is None
