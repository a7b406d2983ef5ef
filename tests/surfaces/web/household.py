"""A home at work in this program, and its pages as a role sees them: a real daemon, and no guard before."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from narval.core.agreeing import Role
from narval.files.home import Home
from narval.surfaces.cli.without_daemon import serving
from narval.surfaces.control.client import Client
from narval.surfaces.http.application import application
from narval.surfaces.http.page import FIELDS, VISITOR, Fields, Visitor
from narval.surfaces.web.site import PAGES, make_site
from tests.surfaces.cli.command_line import make_home

SHOW = """\
<cookbook group="show">
  <recipe group="show" name="stages" start_step="first" end_step="last">
    <step id="first" type="action" target="talk.nothing"/>
    <step id="last" type="action" target="talk.nothing"/>
    <transition id="go"><in idref="first"/><out idref="last"/>
      <condition use="yes"><match>go[@stage='1']</match></condition></transition>
  </recipe>
  <recipe group="show" name="calls" start_step="call" end_step="call">
    <step id="call" type="recipe" target="show.stages"/>
  </recipe>
  <recipe group="show" name="asks" start_step="ask" end_step="ask">
    <step id="ask" type="work" target="show.late"/>
  </recipe>
  <work group="show" name="late">
    <title>Is it too late?</title>
    <for roles="operator"/>
    <outcome name="yes"/><outcome name="no"/><deadline after="5d"/>
  </work>
  <work group="show" name="judge">
    <title>Is this to be answered?</title>
    <for roles="operator"/>
    <outcome name="yes"/><outcome name="no"/>
  </work>
  <work group="show" name="vote">
    <title>Is this to be voted on?</title>
    <for people="ann ben"/>
    <outcome name="yes" needs="2"/><outcome name="no" needs="2"/>
  </work>
  <work group="show" name="form">
    <title>How long did it take?</title>
    <for roles="operator"/>
    <field name="why" type="text"/><outcome name="yes"/>
  </work>
</cookbook>
"""

OTHERS = {
    "recipes/show.xml": SHOW,
    "recipes/order.xml": """\
<process-definition name="order">
  <node name="enter" type="wait" isStart="true"><arc to="bill"/></node>
  <node name="bill" type="wait"/>
</process-definition>
""",
    "recipes/guard.xml": """\
<automaton name="door"><state name="start" command="true"><wait signal="open"/></state></automaton>
""",
    "recipes/disk.xml": """\
<automaton name="copy"><state name="start" command="sh">echo no disk >&amp;2; exit 3</state></automaton>
""",
    "recipes/broken.xml": """\
<recipe group="show" name="broken" start_step="a" end_step="b">
<steep/></recipe>
""",
    "etc/people.toml": """\
[people.ann]
login = "ann"
web = "operator"
roles = ["operator"]

[people.ben]
login = "ben"
web = "person"

[people.cat]
login = "cat"
web = "reader"

[admin]
people = ["ann"]
""",
    "etc/narval.toml": 'timezone = "UTC"\n',
}

PEOPLE: dict[Role, str] = {"operator": "ann", "person": "ben", "reader": "cat"}
BASE = "/a/narval"


class AtTheDoor:
    """Stands where the guard does: says who asks by a header of the tests, and reads the fields of forms."""

    def __init__(self, inside: ASGIApp) -> None:
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            role = dict(scope["headers"]).get(b"x-role", b"operator").decode()
            scope[VISITOR] = Visitor("1", PEOPLE[role], role, "token-of-1")
            if scope["method"] == "POST":
                message = await receive()
                scope[FIELDS] = Fields(parse_qsl(message["body"].decode(), keep_blank_values=True))
        await self._inside(scope, receive, send)


class PagesOfHome:
    """The pages of a home. An address from `/` on is one of the agent's; one from `//` on is as it stands."""

    def __init__(self, home: Home, browser: TestClient) -> None:
        self.home, self.browser = home, browser

    def get(self, path: str, role: Role = "operator", **query: object) -> Any:
        """The answer to a look."""
        asked = f"?{urlencode(query)}" if query else ""
        return self.browser.get(_address(path) + asked, headers={"x-role": role})

    def shows(self, path: str, *words: object, role: Role = "operator", **query: object) -> str:
        """A page that is there, and has these words."""
        answer = self.get(path, role, **query)
        assert answer.status_code == 200, (path, answer.text)
        for word in words:
            assert str(word) in answer.text, (path, word, answer.text)
        return answer.text

    def post(self, path: str, role: Role = "operator", **fields: object) -> Any:
        """The answer to a form; a list is a field that comes several times."""
        return self.browser.post(_address(path), data=fields, headers={"x-role": role})

    def does(self, path: str, **fields: object) -> str:
        """Where an act leads that is done."""
        answer = self.post(path, **fields)
        assert answer.status_code == 303, (path, answer.text)
        return answer.headers["location"].removeprefix(BASE)

    def ask(self, method: str, *, acting_as: str = "ann", **params: Any) -> Any:
        """The answer to an operation, asked in a person's name, or in that of the owner."""
        path = self.home.known_socket()
        assert path is not None
        with Client(path, acting_as=acting_as) as client:
            return client.ask(method, **params)

    def start(self, name: str, **params: Any) -> int:
        """Start a run; its number."""
        return int(self.ask("start", name=name, **params)["eid"])

    def over(self, name: str) -> int:
        """Start a run, and wait for its end."""
        run = self.start(name)
        self.ask("wait", run=run, timeout=60)
        return run

    def add(self, xml: str) -> int:
        """Add an element; its number."""
        return int(self.ask("add", elements=[xml.encode()])["eids"][0])


def _address(path: str) -> str:
    return path[1:] if path.startswith("//") else BASE + path


def data(answer: Any) -> Any:
    return json.loads(answer.content)


@contextmanager
def browsing(home: Home) -> Iterator[PagesOfHome]:
    """The pages of a home, whether its daemon is at work or not."""
    inside = application(PAGES, make_site(home.known_socket, start=home.run_command))
    with TestClient(AtTheDoor(inside), follow_redirects=False) as browser:
        yield PagesOfHome(home, browser)


@contextmanager
def at_work(home: Home) -> Iterator[None]:
    """The daemon of a home, on a thread."""
    ready, ends = threading.Event(), []

    async def work() -> None:
        async with serving(home, as_daemon=True) as daemon:
            ends.append((asyncio.get_running_loop(), daemon.stop.request))
            ready.set()
            await daemon.main_loop.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        for loop, stop in ends:
            loop.call_soon_threadsafe(stop)
        thread.join()


def make_show(place: Path) -> Home:
    """A home with definitions of several kinds, a faulty file, and people."""
    make_home(place)
    for name, text in OTHERS.items():
        (place / name).write_text(text)
    return Home(place)
