"""The pages on which people log in and out and see their sessions.

Opening a link has no effect: it shows a button, and only that button's form uses up the link.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route as Mounted
from starlette.routing import compile_path

from narval.core.errors import NotFoundError
from narval.surfaces.http.application import NOBODY, Site
from narval.surfaces.http.guard import ENDED, KEPT, LOGIN, LOGOUT, SECRET, TOKEN
from narval.surfaces.http.page import (
    EVERYBODY,
    FIELDS,
    VISITOR,
    PageRoute,
    Redirect,
    Shown,
    Visit,
    Visitor,
    act,
    page,
)
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.rendering import rendered
from narval.surfaces.http.saved_forms import UNWRITTEN, SavedForms
from narval.surfaces.http.sessions import (
    WHOLE,
    LoginLink,
    PeopleOfHome,
    Sessions,
    WebSession,
    browser_of,
    own_person,
    session_form,
)

FAILED = 1.0
"""Seconds after which a failed login is answered."""

AT_ONCE = 8
"""The most failed logins answered at a time; others wait."""

WAITING = 64
"""The most failed logins that wait: more are refused at once. A successful login never waits."""


def session_pages(
    sessions: Sessions, forms: SavedForms, pages: Sequence[PageRoute] = ()
) -> tuple[PageRoute, ...]:
    """The page of sessions and the act that ends one: people have their own, operators all.

    Also the page of the form that the visitor sent after the previous session had ended; it leads to the one
    of the `pages` that is nearest above the form's address.
    """

    @page("/sessions", roles=EVERYBODY, command="narval web sessions")
    async def sessions_page(visit: Visit) -> Shown:
        rows = [session_form(one) for one in sessions.listed() if _may_see(visit.visitor, one)]
        return Shown("sessions.html", {"sessions": rows}, rows)

    @act("/sessions/{number:int}/end", roles=EVERYBODY)
    async def end_session(visit: Visit) -> Redirect:
        number = visit.path["number"]
        if not any(one.number == number and _may_see(visit.visitor, one) for one in sessions.listed()):
            raise NotFoundError(f"there is no session {number}; see narval web sessions")
        sessions.end(number)
        return Redirect(LOGIN if str(number) == visit.visitor.session else "/sessions")

    looks = [route for route in (*pages, sessions_page) if not route.is_act]
    above = [(compile_path(route.path)[0], route.roles) for route in looks]

    @page(KEPT, roles=EVERYBODY)
    async def kept_form(visit: Visit) -> Shown:
        form = forms.of(int(visit.visitor.session))
        safe = form._replace(address=_local(form.address)) if form is not None else None
        shapes = [shape for shape, roles in above if visit.visitor.role in roles]
        page_above = _nearest_above(shapes, safe.address) if safe is not None else ""
        values = {"form": safe, "unwritten": UNWRITTEN, "above": page_above}
        return Shown("kept.html", values, {"address": safe.address if safe is not None else None})

    @act(f"{KEPT}/leave", roles=EVERYBODY)
    async def leave_form(visit: Visit) -> Redirect:
        forms.drop(int(visit.visitor.session))
        return Redirect("/")

    return sessions_page, end_session, kept_form, leave_form


def _nearest_above(shapes: Sequence[re.Pattern[str]], address: str) -> str:
    """The nearest page above an address, without its query; "" for none."""
    path = address.partition("?")[0].rstrip("/")
    while path := path.rpartition("/")[0]:
        for end in ("", "/"):
            if any(shape.match(unquote(path + end)) for shape in shapes):
                return path + end
    return ""


def _may_see(visitor: Visitor, session: WebSession) -> bool:
    return visitor.role == "operator" or session.person == visitor.person


class LoginPages:
    """The handlers of logging in and out."""

    def __init__(
        self, sessions: Sessions, people: PeopleOfHome, place: WebPlace, site: Site, forms: SavedForms
    ) -> None:
        self._sessions, self._people, self._place, self._site = sessions, people, place, site
        self._forms = forms
        self._failing, self._waiting = asyncio.Semaphore(AT_ONCE), 0

    def mounted(self) -> tuple[Mounted, ...]:
        """The routes: they come before a session or end one, so they are not pages of the site."""
        return (
            Mounted(LOGIN, self._show, methods=["GET"]),
            Mounted(LOGIN, self._log_in, methods=["POST"]),
            Mounted(LOGOUT, self._log_out, methods=["POST"]),
        )

    async def _show(self, request: Request) -> Response:
        """A button if the link has a token, else advice how to get a link."""
        query = request.query_params
        return await self._page(request, token=query.get(TOKEN, ""), wanted=query.get("next", ""))

    async def _log_in(self, request: Request) -> Response:
        fields = request.scope[FIELDS]
        token, target = fields.get(TOKEN), _local(fields.get("next"))
        link = self._sessions.link(token)
        people = await self._people.people() if link is not None else None
        if link is not None and people is None:
            message = "No daemon is running that knows you. Start it (narval run), and use the link then."
            return await self._page(request, message, status=503)
        secret = self._begun(token, link, people or (), browser_of(request.headers.get("user-agent", "")))
        if secret is None:
            if self._waiting >= WAITING:
                return await self._page(
                    request, "Too many logins fail now; try again in a while.", status=429
                )
            self._waiting += 1
            try:
                async with self._failing:
                    await asyncio.sleep(FAILED)
            finally:
                self._waiting -= 1
            message = "This link was used already, is older than ten minutes, or is for no person known here."
            return await self._page(request, message, status=403)
        self._end(request)
        ended, session = request.scope.get(ENDED), self._sessions.peek(secret)
        if ended is not None and session is not None and self._forms.hand_over(ended, session):
            target = KEPT
        answer = RedirectResponse(target, 303)
        self._set_cookie(answer, secret, int(WHOLE))
        return answer

    def _begun(
        self, token: str, link: LoginLink | None, people: Sequence[Mapping[str, Any]], browser: str
    ) -> str | None:
        """The secret of the session that a link starts; None without a valid link or person."""
        if link is None:
            return None
        person = link.person or own_person(people, link.login)
        role = next((row["web"] for row in people if row["person"] == person), None)
        return self._sessions.log_in(token, person, role, browser) if person and role else None

    async def _log_out(self, request: Request) -> Response:
        self._end(request)
        answer = RedirectResponse(LOGIN, 303)
        self._set_cookie(answer, "", 0)
        return answer

    def _end(self, request: Request) -> None:
        """End the browser's session."""
        visitor = request.scope.get(VISITOR)
        if isinstance(visitor, Visitor) and request.scope.get(SECRET):
            self._sessions.end(int(visitor.session))

    def _set_cookie(self, answer: Response, secret: str, seconds: int) -> None:
        answer.set_cookie(
            self._place.cookie,
            secret,
            max_age=seconds,
            path="/",
            secure=bool(self._place.behind),
            httponly=True,
            samesite="strict",
        )

    async def _page(
        self, request: Request, problem: str = "", *, token: str = "", wanted: str = "", status: int = 200
    ) -> Response:
        ended = request.scope.get(ENDED)
        values = {
            "problem": problem,
            "ended": ended is not None,
            "kept": ended is not None and self._forms.of(ended.number) is not None,
            "token": token,
            "next": _local(wanted),
            "known": request.scope.get(VISITOR),
        }
        page = Shown("login.html", values)
        visit = self._site.visit(NOBODY, {})
        template = self._site.templates.get_template(page.template)
        return HTMLResponse(rendered(template, await self._site.values(visit, None, page)), status)


def _local(target: str) -> str:
    """The requested address if it is a page of ours; otherwise that of the first page."""
    fits = target.startswith("/") and not target.startswith("//") and target.isprintable()
    return target if fits and "\\" not in target and target.isascii() else "/"
