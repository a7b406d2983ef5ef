"""The guard: each threat of the monitor against every route of its table."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import compile_path

from narval.surfaces.http.guard import FORM, POLICY, Guard, Message, Receive, RequestLimits, Scope, Send
from narval.surfaces.http.page import PageRoute
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.saved_forms import SavedForms
from narval.surfaces.http.sessions import PeopleOfHome
from tests.surfaces.http.doors import HOME, PORT, Door, done, filled

OTHERS = ("/login", "/static/x/narval.css", "/a/narval/nothing", "/nothing.json")


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def acts(door: Door) -> list[PageRoute]:
    return [route for route in door.routes if route.is_act]


def looks(door: Door) -> list[PageRoute]:
    return [route for route in door.routes if not route.is_act]


def addresses(door: Door) -> list[str]:
    """An address of each route that is looked at, as a page, as data and as a stream."""
    pages = [filled(route.path) for route in looks(door)]
    ways = [[path, f"{path}.json", f"{path.rstrip('/')}/live"] for path in pages]
    return [address for some in ways for address in some]


# --- M68: forms -----------------------------------------------------------------------------------------


def test_M68_no_form_but_of_our_own_pages_comes_to_any_act(door: Door) -> None:
    ann = door.login()
    own = {"token": door.token}
    strange = door.browser(cookie=f"{door.place.cookie}={door.secret}")
    door.login("ben")
    others = {"token": door.token}
    refused: list[tuple[str, dict[str, Any]]] = [
        ("no token", {"data": {"a": "b"}}),
        ("an empty one", {"data": {"token": ""}}),
        ("another session's", {"data": others}),
        ("foreign Origin", {"data": own, "headers": {"origin": "https://evil.example"}}),
        ("another port", {"data": own, "headers": {"origin": "http://127.0.0.1:1"}}),
        ("https", {"data": own, "headers": {"origin": f"https://127.0.0.1:{PORT}"}}),
        ("no Origin", {"data": own, "headers": {"origin": "null"}}),
        ("cross-site", {"data": own, "headers": {"origin": "null", "sec-fetch-site": "cross-site"}}),
        ("same site", {"data": own, "headers": {"origin": "null", "sec-fetch-site": "same-site"}}),
        ("text", {"content": f"token={own['token']}", "headers": {"content-type": "text/plain"}}),
        ("JSON", {"json": own}),
        ("a file", {"data": own, "files": {"f": b"x"}}),
        ("no type", {"content": f"token={own['token']}"}),
    ]
    for route in acts(door):
        path = filled(route.path)
        for what, form in refused:
            assert ann.post(path, **form).status_code == 403, (path, what)
        assert strange.post(path, data=own).status_code == 403, path
        if path not in addresses(door):  # else it is the page on which the form stands
            assert ann.get(path, params=own).status_code in (404, 405), path
        assert ann.put(path, data=own).status_code == 405, path
        assert door.browser(origin=HOME).post(path, data=own).status_code == 401, path
    assert done == []
    assert len(door.sessions.listed()) == 2


def test_M68_our_own_forms_come_through(door: Door) -> None:
    ann = door.login()
    fields = {"token": door.token, "name": "Ä&=", "empty": ""}
    assert ann.post("/a/narval/try", data=fields).status_code == 303
    # a browser that sends no referrer says null, and where it comes from
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert ann.post("/a/narval/try", data={**fields, "x": ["1", "2"]}, headers=headers).status_code == 303
    first = ("name", "Ä&="), ("empty", "")
    assert done == [first, (*first, ("x", "1"), ("x", "2"))]


def test_M68_no_page_alters_anything_when_it_is_looked_at(door: Door) -> None:
    ann = door.login()
    for address in addresses(door):
        assert ann.get(address, params={"token": door.token}).status_code in (200, 400, 404, 500, 503)
        if not any(compile_path(route.path)[0].match(address) for route in acts(door)):
            assert ann.post(address, data={"token": door.token}).status_code == 405, address
    assert done == []


# --- M69: Host ------------------------------------------------------------------------------------------


def test_M69_another_host_is_refused_before_anything_is_routed(door: Door) -> None:
    ann = door.login()
    for path in (*addresses(door), *OTHERS):
        assert ann.get(path, headers={"host": "evil.example"}).status_code == 400, path
    for route in acts(door):
        headers = {"host": "evil.example", "origin": "http://evil.example"}
        answer = ann.post(filled(route.path), data={"token": door.token}, headers=headers)
        assert answer.status_code == 400, route.path
    assert ann.post("/hook/x", data={}, headers={"host": "evil.example"}).status_code == 400
    assert done == []


@pytest.mark.parametrize(
    "host",
    [
        f"evil.example:{PORT}",
        f"127.0.0.1.evil.example:{PORT}",
        f"evil.localhost.example:{PORT}",
        f"localhost.:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.2:{PORT}",
        f"0.0.0.0:{PORT}",
        f"[::2]:{PORT}",
        f"user@127.0.0.1:{PORT}",
        f"127.0.0.1:{PORT}, evil.example",
        "",
    ],
)
def test_M69_a_host_that_looks_like_ours_is_refused(door: Door, host: str) -> None:
    ann = door.login()
    assert ann.get("/sessions", headers={"host": host}).status_code == 400
    form, headers = {"token": door.token}, {"host": host, "origin": f"http://{host}"}
    assert ann.post("/a/narval/try", data=form, headers=headers).status_code == 400
    assert done == []


@pytest.mark.parametrize("name", ["localhost", "work.localhost", "[::1]", "LocalHost"])
def test_M64_names_of_this_machine_are_ours(door: Door, name: str) -> None:
    ann, host = door.login(), f"{name}:{PORT}"
    assert ann.get("/login", headers={"host": host}).status_code == 200
    headers = {"host": host, "origin": f"http://{host.lower()}"}
    # a cookie of 127.0.0.1 is not one of another name, so the session is given by hand
    cookie = {"cookie": f"{door.place.cookie}={door.secret}"}
    answer = door.browser(**headers, **cookie).post("/a/narval/try", data={"token": door.token})
    assert answer.status_code == 303


def test_M69_behind_a_proxy_its_name_alone_is_ours(tmp_path: Path) -> None:
    place = WebPlace.behind_proxy("https://Narval.Example.org/")
    assert place.accepts("narval.example.org")
    assert place.accepts("narval.example.org:443")
    for host in ("127.0.0.1", "localhost", "narval.example.org:80", "x.narval.example.org", ""):
        assert not place.accepts(host)
    door = Door(tmp_path, place=place, base="https://narval.example.org")
    ann = door.login()
    assert door.sessions.listed()[0].person == "ann"
    assert ann.post("/a/narval/try", data={"token": door.token}).status_code == 303
    forged = {"x-forwarded-host": "evil.example", "forwarded": "host=evil.example"}
    assert ann.get("/sessions", headers=forged).status_code == 200
    cookie = door.browser(origin=door.base).post("/login", data={"token": door.sessions.new_link("ann")})
    assert "Secure" in cookie.headers["set-cookie"]
    assert cookie.headers["set-cookie"].startswith("__Host-narval=")


# --- M66: who may ---------------------------------------------------------------------------------------


def test_M64_without_a_login_there_is_nothing(door: Door) -> None:
    stranger = door.browser(origin=HOME)
    for address in addresses(door):
        answer = stranger.get(address)
        if address.endswith((".json", "/live")):
            assert answer.status_code == 401
        else:
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=%2F")
    for cookie in ("x", "", "a" * 5000, "é", f"{door.place.cookie}=x; {door.place.cookie}="):
        sent = {"cookie": f"{door.place.cookie}={cookie}".encode()}
        assert stranger.get("/sessions.json", headers=sent).status_code == 401  # type: ignore[arg-type]


@pytest.mark.parametrize(("person", "role"), [("ann", "operator"), ("ben", "person"), ("cat", "reader")])
def test_M66_each_route_is_for_the_roles_of_its_row(door: Door, person: str, role: str) -> None:
    browser = door.login(person)
    for route in looks(door):
        path = filled(route.path)
        for address in (path, f"{path}.json", f"{path.rstrip('/')}/live"):
            assert (browser.get(address).status_code == 403) == (role not in route.roles), address
    for route in acts(door):
        answer = browser.post(filled(route.path), data={"token": door.token})
        assert (answer.status_code == 403) == (role not in route.roles), route.path


def test_M66_a_session_ends_when_the_person_goes_or_the_role_changes(door: Door) -> None:
    ben, cat = door.login("ben"), door.login("cat")
    assert door.people is not None
    door.people = [row for row in door.people if row["person"] != "ben"]
    assert ben.get("/sessions.json").status_code == 401
    assert cat.get("/sessions.json").status_code == 200
    door.people[-1]["web"] = "operator"
    assert cat.get("/sessions.json").status_code == 401
    assert door.sessions.listed() == []


def test_M66_while_no_daemon_answers_everybody_is_who_they_were(door: Door) -> None:
    ben = door.login("ben")
    door.people = None
    assert ben.get("/sessions.json").status_code == 200
    assert ben.get("/a/narval/").status_code == 403


def test_M65_what_follows_a_page_ends_with_its_session(door: Door) -> None:
    door.login()
    asked = 0

    async def people(method: str) -> Any:
        nonlocal asked
        asked += 1
        return door.people

    async def followed(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for data in (b"data: 1", b": ping", b"data: 2", b"data: 3"):
            if data == b"data: 3":
                door.sessions.end(1)
            await send({"type": "http.response.body", "body": data, "more_body": True})

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", HOME.partition("//")[2].encode())]
    headers.append((b"cookie", f"{door.place.cookie}={door.secret}".encode()))
    scope = {"type": "http", "method": "GET", "path": "/a/x/live", "raw_path": b"/a/x/live"}
    guard = Guard(followed, door.place, door.sessions, PeopleOfHome(people), SavedForms())
    asyncio.run(guard({**scope, "query_string": b"", "headers": headers}, receive, send))
    told = [(one.get("body"), one.get("more_body", False)) for one in sent[1:]]
    assert told == [(b"data: 1", True), (b": ping", True), (b"data: 2", True), (b"", False)]
    assert asked == 1  # who is what was asked when it began, and counts for a while


# --- M74: limits ----------------------------------------------------------------------------------------


def test_M74_the_size_of_a_form_and_its_fields_are_limited(door: Door) -> None:
    ann = door.login()
    token, path = {"token": door.token}, "/a/narval/try"
    assert ann.post(path, data={**token, "x": "y" * 900_000}).status_code == 303
    refused = ann.post(path, data={**token, "x": "y" * 1_000_000})
    assert (refused.status_code, refused.headers["connection"]) == (413, "close")
    assert "A form is at most 1,000,000 bytes long." in refused.text
    assert refused.text.rstrip().endswith("</html>"), "who wrote it sees a page"
    lies = {"content-length": "5", "content-type": FORM}
    assert ann.post(path, content=b"x" * 1_100_000, headers=lies).status_code == 413
    assert ann.post(path, data={**token, "x": ["y"] * 499}).status_code == 303
    assert ann.post(path, data={**token, "x": ["y"] * 500}).status_code == 400
    for bad in (b"x=%ff", "x=é".encode(), b"x=%C3%28"):
        body, form = b"token=" + door.token.encode() + b"&" + bad, {"content-type": FORM}
        assert ann.post(path, content=body, headers=form).status_code == 400
    assert len(done) == 2


def test_M74_the_header_of_a_request_is_limited(door: Door) -> None:
    ann = door.login()
    assert ann.get("/sessions", headers={"x": "y" * 15_000}).status_code == 200
    assert ann.get("/sessions", headers={"x": "y" * 17_000}).status_code == 431
    assert ann.get("/sessions", params={"x": "y" * 17_000}).status_code == 431


def test_M74_a_session_has_so_many_requests_a_second(tmp_path: Path) -> None:
    door = Door(tmp_path, limits=RequestLimits(rate=1000))
    ann = door.login()
    assert all(ann.get("/sessions.json").status_code == 200 for _ in range(60))
    door = Door(tmp_path, limits=RequestLimits(rate=2))
    ann = door.login()  # one request
    answers = [ann.get("/sessions.json") for _ in range(20)]
    late = [answer for answer in answers if answer.status_code == 429]
    assert late
    assert late[0].headers["retry-after"] == "1"
    assert RequestLimits().rate == 50


def test_nothing_is_counted_of_sessions_that_ask_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(tmp_path, scarce={"try": 3})
    for at in range(20):
        monkeypatch.setattr(time, "monotonic", lambda at=at: at * 3600.0)
        ann = door.login()
        ann.post("/a/narval/try", data={"token": door.token})
    assert sum(len(counts) for _, counts in door.guard._counts.values()) == 2


def test_M74_a_session_that_asks_too_often_has_the_daemon_asked_no_more(tmp_path: Path) -> None:
    door = Door(tmp_path, limits=RequestLimits(rate=5))
    ann = door.login()
    before = door.asked
    answers = [ann.get("/sessions.json").status_code for _ in range(100)]
    assert door.asked - before == answers.count(200) < 100


def test_M74_a_number_of_thousands_of_digits_is_of_nothing_there(door: Door) -> None:
    ann = door.login()
    for route in looks(door):
        if ":int}" in route.path:
            address = filled(route.path).replace("7", "7" * 6_000, 1)
            assert ann.get(address).status_code in (400, 404, 503), route.path


def test_M74_what_is_scarce_is_had_so_many_times_an_hour(tmp_path: Path) -> None:
    door = Door(tmp_path, scarce={"try": 3})
    ann, form = door.login(), {"data": {"token": door.token}}
    form["data"] = {"token": door.token}
    found = [ann.post("/a/narval/try", **form).status_code for _ in range(5)]  # type: ignore[arg-type]
    assert found == [303, 303, 303, 429, 429]
    ben = door.login("ben")
    assert ben.post("/a/narval/try", data={"token": door.token}).status_code == 303


# --- M75, M76, M77: what each answer carries ------------------------------------------------------------


def test_M76_every_answer_has_the_headers_errors_too(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    ann, stranger = door.login(), door.browser()
    answers = [browser.get(path) for browser in (ann, stranger) for path in (*addresses(door), *OTHERS)]
    answers += [ann.post(filled(route.path), data={"token": door.token}) for route in acts(door)]
    answers += [ann.post("/login"), ann.delete("/"), ann.get("/", headers={"host": "evil.example"})]
    with caplog.at_level(logging.CRITICAL):
        answers.append(ann.get("/broken"))
    assert {200, 303, 400, 401, 403, 404, 405, 500} <= {answer.status_code for answer in answers}
    for answer in answers:
        headers = answer.headers
        assert headers.get_list("content-security-policy") == [POLICY], answer.url
        assert headers.get_list("x-content-type-options") == ["nosniff"]
        assert headers.get_list("referrer-policy") == ["no-referrer"]
        assert headers.get_list("cross-origin-opener-policy") == ["same-origin"]
        assert headers.get_list("cross-origin-resource-policy") == ["same-origin"]
        assert len(headers.get_list("cache-control")) == 1
        kept = headers["cache-control"] != "no-store"
        assert not kept or (str(answer.url.path).startswith("/static/") and answer.status_code == 200)
        assert "server" not in headers


def test_M77_the_policy_allows_nothing_inline_and_nobody_else() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("frame-ancestors") == "'none'"
    assert set(rules.values()) == {"'self'"}
    assert set(rules) == {"script-src", "style-src", "img-src", "connect-src", "form-action", "worker-src"}


def test_M76_a_page_that_breaks_shows_nothing_of_why(door: Door) -> None:
    answer = door.login().get("/broken")
    assert answer.status_code == 500
    assert "a bug in a page" not in answer.text
    assert "Traceback" not in answer.text


# --- M72: paths -----------------------------------------------------------------------------------------


ODD = ("..", "%2e%2e", "%2e%2e%2fetc%2fpasswd", "%00", "%2fetc%2fpasswd", "x%00.css", "....//", "%5c..")


@pytest.mark.parametrize("odd", ODD)
def test_M72_no_parameter_of_a_path_leads_to_a_file(door: Door, odd: str) -> None:
    ann = door.login()
    statics = [f"/static/{odd}", f"/static/x/{odd}", f"/static/{odd}/narval.css/..", f"/static/../{odd}"]
    pages = [
        filled(route.path.replace(name, odd))
        for route in looks(door)
        for name in re.findall(r"\{[^}]*\}", route.path)
    ]
    for path in (*statics, *pages):
        answer = ann.get(path)
        assert answer.status_code != (200 if answer.url.path.startswith("/static/") else 500), path
        assert answer.headers.get("location", HOME).startswith((HOME, "/"))
        assert "root:" not in answer.text
