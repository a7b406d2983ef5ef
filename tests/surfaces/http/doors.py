"""The pages of a home behind their guard, within a test: no daemon, and people as the test has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from anyio.from_thread import BlockingPortal
from starlette.routing import Route
from starlette.testclient import TestClient

from narval.core.errors import DaemonGoneError
from narval.surfaces.http.application import application
from narval.surfaces.http.guard import Guard, RequestLimits
from narval.surfaces.http.login import LoginPages, session_pages
from narval.surfaces.http.page import EVERYBODY, PageRoute, Redirect, Shown, Visit, act, page
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.saved_forms import SavedForms
from narval.surfaces.http.sessions import PeopleOfHome, Sessions
from narval.surfaces.web.site import PAGES, make_site

PORT = 7457
HOME = f"http://127.0.0.1:{PORT}"
PLACE = WebPlace(PORT)

done: list[Any] = []
"""The fields of each form that came through to the act of the tests."""


@act("/a/{agent}/try", roles=EVERYBODY)
async def try_it(visit: Visit) -> Redirect:
    done.append(visit.fields.pairs)
    return Redirect("/sessions")


@page("/broken", roles=EVERYBODY)
async def broken(visit: Visit) -> Shown:
    raise RuntimeError("a bug in a page")


OWN: tuple[PageRoute, ...] = (try_it, broken)


class Door:
    """A browser at the pages: `login` gives it a session."""

    portal: ClassVar[BlockingPortal | None] = None
    """The loop of all requests; None if each begins one."""

    def __init__(
        self,
        folder: Path,
        *,
        place: WebPlace = PLACE,
        limits: RequestLimits | None = None,
        scarce: Mapping[str, int] | None = None,
        routes: tuple[PageRoute, ...] = (),
        others: tuple[Route, ...] = (),
        base: str = HOME,
    ) -> None:
        done.clear()
        self.asked = 0
        self.people: list[dict[str, Any]] | None = [
            {"person": "ann", "login": "ann", "web": "operator"},
            {"person": "ben", "login": "ben", "web": "person"},
            {"person": "cat", "login": "cat", "web": "reader"},
        ]
        self.place, self.sessions = place, Sessions(folder / "web")
        site = make_site(lambda: None)
        self.static = site.static.url
        site.follow = None  # streams that are let through would go on for ever
        people = PeopleOfHome(self._ask)
        forms = self.forms = SavedForms()
        login = LoginPages(self.sessions, people, place, site, forms)
        self.routes = (*PAGES, *session_pages(self.sessions, forms, PAGES), *OWN, *routes)
        inside = application(self.routes, site, *login.mounted(), *others)
        limits = limits or RequestLimits(rate=1_000_000)
        self.guard = Guard(inside, place, self.sessions, people, forms, scarce=scarce, limits=limits)
        self.base = base
        self.secret = self.token = ""

    async def _ask(self, method: str) -> Any:
        assert method == "people"
        self.asked += 1
        if self.people is None:
            raise DaemonGoneError("no daemon is running")
        return self.people

    def browser(self, **headers: str) -> TestClient:
        """A browser without a session."""
        browser = TestClient(
            self.guard,
            base_url=self.base,
            follow_redirects=False,
            raise_server_exceptions=False,
            headers=headers,
        )
        browser.portal = self.portal
        return browser

    def login(self, person: str = "ann") -> TestClient:
        """A browser with a session, whose forms come from our own pages."""
        browser = self.browser(origin=self.base)
        answer = browser.post("/login", data={"token": self.sessions.new_link(person)})
        assert answer.status_code == 303, answer.text
        self.secret = answer.cookies[self.place.cookie]
        self.token = form_token_on(browser)
        return browser


def form_token_on(browser: TestClient) -> str:
    """The token in the forms of a page that everybody has."""
    found = re.search(r'name="token" value="([^"]+)"', browser.get("/sessions").text)
    assert found is not None
    return found[1]


def filled(path: str) -> str:
    """An address of a route: numbers are 7, the agent is narval."""
    return re.sub(r"\{(\w+)(:int)?[^}]*\}", lambda found: "7" if found[2] else "narval", path)
