"""The ASGI application of the monitor: each page at its path, as JSON, and followed as it changes.

It is made from a table of routes. The guard has already decided who asks, and whether they may; this module
knows what a handler is given, and how its answer is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match
from starlette.routing import Route as Mounted

from narval.ask.text import json_bytes
from narval.core.errors import (
    DaemonGoneError,
    InternalError,
    NarvalError,
    NotFoundError,
    RequestError,
    TaskRefusedError,
    WorkRefusedError,
)
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.bulk import BulkActs
from narval.surfaces.http.guard import CALLS, HOOKS
from narval.surfaces.http.page import (
    FIELDS,
    REFUSED,
    VISITOR,
    Fields,
    PageRoute,
    Placing,
    Redirect,
    Shown,
    Visit,
    Visitor,
    name_in,
)
from narval.surfaces.http.rendering import StaticFiles, block, rendered
from narval.surfaces.http.senders import STATUS_OF_GONE

Endpoint = Callable[[Request], Awaitable[Response]]

FRAGMENT = "x-fragment"
"""The header by which a script requests one block of a page."""

STATUS: Mapping[type[NarvalError], int] = {
    **STATUS_OF_GONE,
    NotFoundError: 404,
    WorkRefusedError: 409,
    InternalError: 500,
}
"""The status of an error's page; 400 for any other error."""

NOT_THERE = frozenset({"no-type", "no-object", "no-item"})
"""The kinds of refusals of a task or an item of work that mean that it does not exist."""

NOBODY = Visitor("", "", "person")


class Follower(Protocol):
    """An endpoint for the stream of an open page."""

    async def __call__(self, request: Request, route: PageRoute, again: Again) -> Response: ...


Again = Callable[[], Any]
"""Remakes a page: an awaitable of `(Shown, values)`."""


class Site:
    """The things that all pages share: interfaces to the daemon, templates, the frame around each page.

    `reading` can only read. `frame` gives the values that every page shows, `layouts` places graphs, and
    `follow` answers the streams of open pages; without it there are none.
    """

    def __init__(
        self,
        reading: AsyncClient,
        writing: AsyncClient,
        templates: Environment,
        frame: Callable[[Visit], Awaitable[dict[str, Any]]],
        static: StaticFiles,
        layouts: Placing,
        follow: Follower | None = None,
    ) -> None:
        self.reading, self.writing, self.templates = reading, writing, templates
        self._frame, self.static, self._layouts = frame, static, layouts
        self.follow = follow
        self._bulk = BulkActs()

    def visit(
        self,
        visitor: Visitor,
        path: Mapping[str, Any],
        asked: Sequence[tuple[str, str]] = (),
        *,
        fields: Fields | None = None,
        live: bool = False,
        looks: bool = False,
    ) -> Visit:
        """A request as a handler sees it; without `fields`, or if it only `looks`, it can only read."""
        path = {name: name_in(part) if isinstance(part, str) else part for name, part in path.items()}
        named = {"agent": str(path.get("agent", "")), "acting_as": visitor.person}
        if visitor.person:
            named["session"] = visitor.session
        look = partial(self.reading.ask, **named)
        can_only_look = fields is None or looks
        do = look if can_only_look else partial(self.writing.ask, **named)
        query, more = dict(asked), Fields(asked)
        return Visit(
            visitor,
            look,
            do,
            path,
            query,
            layouts=self._layouts,
            bulk=self._bulk,
            asked=more,
            fields=fields,
            live=live,
        )

    async def values(self, visit: Visit, route: PageRoute | None, page: Shown) -> dict[str, Any]:
        """The values of a page's template: its own, and those of the frame."""
        command = {"command": route.command_of(visit.path, visit.query)} if route is not None else {}
        return {**await self._frame(visit), **command, "visit": visit, **page.values}


def mounted(routes: Sequence[PageRoute], site: Site) -> list[Mounted]:
    """The routes of Starlette for pages and acts; those with `.json` and `/live` come before the pages."""

    def found(path: str, route: PageRoute, endpoint: Endpoint, method: str = "GET") -> Mounted:
        made = Mounted(path, _permitted(route, site, endpoint), methods=[method])
        for name, convertor in made.param_convertors.items():
            if isinstance(convertor, IntegerConvertor):
                made.param_convertors[name] = _Number()
        return made

    acts = [found(route.path, route, _act(route, site), "POST") for route in routes if route.is_act]
    looks = [route for route in routes if not route.is_act]
    data = [found(f"{route.path}.json", route, _data(route, site)) for route in looks]
    live = [found(f"{route.path.rstrip('/')}/live", route, _live(route, site)) for route in looks]
    return [*acts, *data, *live, *(found(route.path, route, _look(route, site)) for route in looks)]


def application(routes: Sequence[PageRoute], site: Site, *others: Mounted, **settings: Any) -> Starlette:
    """The application of a table of routes; `others` are routes other than pages, such as static files."""
    wrong = partial(_failed, site)
    handlers: Mapping[Any, Any] = {
        NarvalError: wrong,
        404: partial(_not_there, site),
        405: partial(_no_page, site),
        500: partial(_broken, site),
    }
    return Starlette(
        routes=[*others, site.static.route(), *mounted(routes, site)], exception_handlers=handlers, **settings
    )


class _Number(IntegerConvertor):
    """A number in a path, by its first 18 digits: Python refuses to read thousands of them."""

    def convert(self, value: str) -> int:
        """The number."""
        return int(value[:18])


# --- endpoints ----------------------------------------------------------------------------------------------


def _visitor(request: Request) -> Visitor:
    visitor = request.scope.get(VISITOR)
    return visitor if isinstance(visitor, Visitor) else NOBODY


def _visit(
    request: Request, site: Site, fields: Fields | None = None, *, live: bool = False, looks: bool = False
) -> Visit:
    asked = request.query_params.multi_items()
    return site.visit(_visitor(request), request.path_params, asked, fields=fields, live=live, looks=looks)


def _permitted(route: PageRoute, site: Site, endpoint: Endpoint) -> Endpoint:
    """The endpoint of a route, only for visitors whose role may use it."""

    async def checked(request: Request) -> Response:
        if (refusal := request.scope.get(REFUSED)) is not None:
            answer = await _error_page(site, request, refusal.status, str(refusal))
            answer.headers.update(refusal.headers)
            return answer
        role = _visitor(request).role
        if role in route.roles:
            return await endpoint(request)
        may = " and ".join({"person": "people"}.get(one, f"{one}s") for one in route.roles)
        return await _error_page(site, request, 403, f"This is for {may}; you are a {role} on these pages.")

    return checked


def _look(route: PageRoute, site: Site) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        visit = _visit(request, site)
        return await _answer(request, site, visit, route, await route.handler(visit))

    return endpoint


def _data(route: PageRoute, site: Site) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        page = await route.handler(_visit(request, site))
        if isinstance(page, Redirect):
            return RedirectResponse(page.url, 303)
        is_refused = page.status >= 400 and page.values.get("problem")
        answer = {"error": page.values["problem"]} if is_refused else page.answer
        content = json_bytes(answer) + b"\n"
        headers = {"Link": ", ".join(f'<{_json_of(url)}>; rel="{name}"' for name, url in page.links.items())}
        return Response(content, page.status, headers if page.links else None, media_type="application/json")

    return endpoint


def _json_of(url: str) -> str:
    """The address of the `.json` of a page."""
    path, sign, query = url.partition("?")
    return f"{path}.json{sign}{query}"


def _live(route: PageRoute, site: Site) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if site.follow is None:
            return Response(status_code=404)

        async def again() -> tuple[Shown, dict[str, Any]]:
            visit = _visit(request, site, live=True)
            page = await route.handler(visit)
            if isinstance(page, Redirect):
                raise RequestError("this page is elsewhere now")
            return page, await site.values(visit, route, page)

        return await site.follow(request, route, again)

    return endpoint


def _act(route: PageRoute, site: Site) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        fields, is_part = request.scope.get(FIELDS) or Fields(), FRAGMENT in request.headers
        visit = _visit(request, site, fields, live=is_part, looks=route.looks)
        page = await route.handler(visit)
        if isinstance(page, Shown) and page.status < 400 and not route.looks:
            raise TypeError(
                f"{route.name} answers a form with a page, which would send it again when reloaded"
            )
        return await _answer(request, site, visit, route, page)

    return endpoint


async def _answer(
    request: Request, site: Site, visit: Visit, route: PageRoute | None, page: Shown | Redirect
) -> Response:
    if isinstance(page, Redirect):
        return RedirectResponse(page.url, 303)
    template = site.templates.get_template(page.template)
    values = await site.values(visit, route, page)
    values["live"] = _live_address(request, site, page)
    fragment = request.headers.get(FRAGMENT)
    if fragment in template.blocks:
        return HTMLResponse(block(template, fragment, values), page.status)
    return HTMLResponse(rendered(template, values), page.status)


def _live_address(request: Request, site: Site, page: Shown) -> str:
    """The address of the page's stream; "" for a page that does not change."""
    if site.follow is None or page.follows is None or page.over or request.method != "GET":
        return ""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path.rstrip('/')}/live{query}"


# --- errors -------------------------------------------------------------------------------------------------


async def _failed(site: Site, request: Request, error: Exception) -> Response:
    """The page of a NarvalError: a sentence, and what to do next."""
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400)
    if isinstance(error, WorkRefusedError | TaskRefusedError) and error.kind in NOT_THERE:
        status = 404
    gone = error if isinstance(error, DaemonGoneError) else None
    return await _error_page(site, request, status, str(error), gone)


async def _not_there(site: Site, request: Request, error: Exception) -> Response:
    return await _error_page(site, request, 404, "There is no such page.")


async def _no_page(site: Site, request: Request, error: Exception) -> Response:
    is_form = request.method == "POST"
    if request.url.path.startswith((HOOKS, CALLS)):
        return await _error_page(site, request, 405, "Requests are sent here by POST.")
    why = "This page has no form." if is_form else "A form is sent here; there is no page at this address."
    return await _error_page(site, request, 405, why)


async def _broken(site: Site, request: Request, error: Exception) -> Response:
    return await _error_page(site, request, 500, "This page broke down; the log of narval web says where.")


async def _error_page(
    site: Site, request: Request, status: int, sentence: str, gone: DaemonGoneError | None = None
) -> Response:
    """The page of an error. If the daemon is `gone`, it is not asked again."""
    visit = _visit(request, site)
    if gone is not None:

        async def ask(method: str, /, **params: Any) -> Any:
            raise gone

        visit = Visit(visit.visitor, ask, ask, visit.path, visit.query, layouts=visit.layouts)
    if request.url.path.endswith(".json") or request.url.path.startswith((HOOKS, CALLS)):
        return Response(json_bytes({"error": sentence}) + b"\n", status, media_type="application/json")
    values = {"sentence": sentence, "status": status, "is_act": request.method == "POST"}
    is_refused = status == 405 or (request.method == "POST" and status in (400, 404, 409, 413))
    values["above"] = _page_above(request) if is_refused else ""
    page = Shown("error.html", values, status=status)
    return await _answer(request, site, visit, None, page)


def _page_above(request: Request) -> str:
    """The address of the nearest page at or above the address of a request; "/" is the last."""
    path, raw = request.scope["path"].rstrip("/"), request.scope["raw_path"].decode("latin-1").rstrip("/")
    while path:
        for end in ("", "/"):
            asked = {**request.scope, "method": "GET", "path": path + end}
            if any(route.matches(asked)[0] is Match.FULL for route in request.app.routes):
                return str(raw + end)
        path, raw = path.rpartition("/")[0], raw.rpartition("/")[0]
    return "/"
