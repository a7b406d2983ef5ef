"""Logging in and out, and the page of sessions (M65)."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from narval.surfaces.http import login
from tests.surfaces.http.doors import HOME, Door, form_token_on


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def test_M65_looking_at_a_link_takes_nothing_and_its_form_uses_it_up(door: Door) -> None:
    token, browser = door.sessions.new_link("ann"), door.browser(origin=HOME)
    for _ in range(3):
        page = browser.get("/login", params={"token": token, "next": "/sessions"})
        assert page.status_code == 200
        assert f'name="token" value="{token}"' in page.text
        assert "set-cookie" not in page.headers
    assert browser.head("/login", params={"token": token}).status_code == 200
    assert door.sessions.listed() == []
    answer = browser.post("/login", data={"token": token, "next": "/sessions"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sessions")
    cookie = answer.headers["set-cookie"]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly", "samesite=strict", "path=/", "max-age=604800",
    }  # fmt: skip
    assert door.browser(origin=HOME).post("/login", data={"token": token}).status_code == 403
    assert [one.person for one in door.sessions.listed()] == ["ann"]


@pytest.mark.parametrize(
    ("agent", "browser"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0", "Edge on Windows"),
        ("curl/8", ""),
    ],
)
def test_M65_a_session_is_told_by_its_browser(door: Door, agent: str, browser: str) -> None:
    token, visitor = door.sessions.new_link("ann"), door.browser(**{"origin": HOME, "user-agent": agent})
    assert visitor.post("/login", data={"token": token}).status_code == 303
    assert [one.browser for one in door.sessions.listed()] == [browser]
    assert f'<td data-label="browser">{browser}</td>' in visitor.get("/sessions").text


def test_M65_a_form_from_elsewhere_uses_no_link_up(door: Door) -> None:
    token = door.sessions.new_link("ann")
    for headers in ({"origin": "https://evil.example"}, {}, {"origin": HOME, "content-type": "text/plain"}):
        answer = door.browser(**headers).post("/login", content=f"token={token}")
        assert answer.status_code == 403
    assert door.sessions.link(token) is not None


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "evil",
        "",
        "/a\r\nX: y",
        "/\t/x",
    ],
)
def test_M65_a_login_leads_to_our_own_pages_alone(door: Door, wanted: str) -> None:
    token, browser = door.sessions.new_link("ann"), door.browser(origin=HOME)
    assert 'name="next" value="/"' in browser.get("/login", params={"token": token, "next": wanted}).text
    answer = browser.post("/login", data={"token": token, "next": wanted})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_M65_nobody_is_let_in_who_has_gone_meanwhile(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "FAILED", 0.0)
    token = door.sessions.new_link("zoe")
    assert door.browser(origin=HOME).post("/login", data={"token": token}).status_code == 403
    own = door.sessions.new_link("", "ben")  # made where no daemon could be asked
    assert door.browser(origin=HOME).post("/login", data={"token": own}).status_code == 303
    assert [one.person for one in door.sessions.listed()] == ["ben"]


def test_M4_a_link_is_not_used_up_while_no_daemon_is_at_work(tmp_path: Path) -> None:
    door = Door(tmp_path)
    people, door.people = door.people, None
    token = door.sessions.new_link("ann")
    answer = door.browser(origin=HOME).post("/login", data={"token": token})
    assert answer.status_code == 503
    assert "narval run" in answer.text
    door.people = people
    assert door.browser(origin=HOME).post("/login", data={"token": token}).status_code == 303


def test_M74_a_failed_login_takes_a_second_and_eight_go_at_a_time(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (login.FAILED, login.AT_ONCE) == (1.0, 8)
    monkeypatch.setattr(login, "FAILED", 0.05)
    at_once, most = 0, 0
    slept = asyncio.sleep

    async def sleep(seconds: float) -> None:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        while most < 8:
            await slept(0.001)
        await slept(seconds)  # time for one more, if there could be
        at_once -= 1

    monkeypatch.setattr(login.asyncio, "sleep", sleep)
    with door.browser(origin=HOME) as browser, ThreadPoolExecutor(20) as pool:
        tries = [pool.submit(browser.post, "/login", data={"token": str(n)}) for n in range(20)]
        assert {found.result().status_code for found in tries} == {403}
        assert most == 8
        token, began = door.sessions.new_link("ann"), time.monotonic()
        assert browser.post("/login", data={"token": token}).status_code == 303
        assert time.monotonic() - began < 30


def test_M74_a_flood_of_failed_logins_neither_piles_up_nor_asks_the_daemon(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    async def sleep(seconds: float) -> None:
        while not released.is_set():
            await slept(0.01)

    slept = asyncio.sleep
    monkeypatch.setattr(login.asyncio, "sleep", sleep)
    count = login.WAITING + 20
    with door.browser(origin=HOME) as browser, ThreadPoolExecutor(count) as pool:
        tries = [pool.submit(browser.post, "/login", data={"token": str(n)}) for n in range(count)]
        early = as_completed(tries)
        refused = [next(early).result().status_code for _ in range(20)]
        assert refused == [429] * 20
        assert browser.post("/login", data={"token": door.sessions.new_link("ann")}).status_code == 303
        assert door.asked == 1
        released.set()
        assert sorted(found.result().status_code for found in tries) == [403] * 64 + [429] * 20


def test_M65_a_session_is_listed_and_ended_by_its_person_or_an_operator(door: Door) -> None:
    ann, ben, cat = door.login("ann"), door.login("ben"), door.login("cat")
    assert [row["session"] for row in ann.get("/sessions.json").json()] == [1, 2, 3]
    assert [row["person"] for row in ben.get("/sessions.json").json()] == ["ben"]
    own = {"token": form_token_on(ben)}
    assert ben.post("/sessions/3/end", data=own).status_code == 404
    assert cat.get("/sessions.json").status_code == 200
    assert ann.post("/sessions/3/end", data={"token": form_token_on(ann)}).headers["location"] == "/sessions"
    assert cat.get("/sessions.json").status_code == 401
    assert ben.post("/sessions/2/end", data=own).headers["location"] == "/login"
    assert ben.get("/sessions.json").status_code == 401
    assert [one.person for one in door.sessions.listed()] == ["ann"]


def test_M65_who_logs_out_has_no_session_any_more(door: Door) -> None:
    ann = door.login()
    assert ann.post("/logout", data={}).status_code == 403
    answer = ann.post("/logout", data={"token": door.token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert door.sessions.listed() == []
    cookie = {"cookie": f"{door.place.cookie}={door.secret}"}
    assert door.browser(**cookie).get("/sessions.json").status_code == 401


def test_M65_a_new_login_ends_the_session_of_the_same_browser(door: Door) -> None:
    ann = door.login()
    assert ann.post("/login", data={"token": door.sessions.new_link("ben")}).status_code == 303
    assert [one.person for one in door.sessions.listed()] == ["ben"]


def test_M65_who_comes_from_elsewhere_is_told_how_to_go_on(door: Door) -> None:
    page = door.browser().get("/login", params={"next": "/a/narval/runs/7?at=3"})
    assert "narval web login" in page.text
    assert 'href="/a/narval/runs/7?at=3"' in page.text
    known = door.login().get("/login")
    assert "You are logged in as ann" in known.text


def test_M74_a_login_is_a_small_form(door: Door) -> None:
    """Strangers send it: what they may have us hold is little."""
    token = door.sessions.new_link("ann")
    answer = door.browser(origin=HOME).post("/login", data={"token": token, "x": "y" * 5_000})
    assert answer.status_code == 413
    assert door.browser(origin=HOME).post("/login", data={"token": token}).status_code == 303
