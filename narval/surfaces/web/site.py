"""The site: the table of all pages and acts, and the frame around each page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from narval.ask.text import in_shown_zone, zone
from narval.core.agreeing import Role
from narval.core.errors import NarvalError
from narval.core.kinds import KINDS
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.application import Site
from narval.surfaces.http.hub import Hub
from narval.surfaces.http.page import EVERYBODY, OPERATORS, READERS, PageRoute, Visit
from narval.surfaces.http.rendering import StaticFiles, environment
from narval.surfaces.web.drawing.layout import Layouts
from narval.surfaces.web.pages import (
    agents,
    definitions,
    memory,
    proposals,
    run,
    run_acts,
    runs,
    status,
    trials,
)

_OF_KINDS = tuple(import_module(f"{kind.folder}.{kind.pages}") for kind in KINDS.values() if kind.pages)
"""The modules in which kinds have pages of their own."""

_MODULES = (
    agents, status, runs, run, run_acts, memory, definitions, trials, proposals, *_OF_KINDS,
)  # fmt: skip

PAGES = tuple(route for module in _MODULES for route in vars(module).values() if isinstance(route, PageRoute))
"""All pages and acts, in the order of lookup: those of each module in their order there."""


def sections_of(path: str) -> tuple[tuple[str, str, tuple[Role, ...]], ...]:
    """The lists of kinds that are shown beside a page of the header."""
    return tuple(
        (word, own, roles)
        for pages in _OF_KINDS
        for beside, word, own, roles in getattr(pages, "SECTIONS", ())
        if beside == path
    )


NAVIGATION: tuple[tuple[str, str, tuple[Role, ...], str], ...] = (
    ("Status", "/", READERS, "g s"),
    ("Memory", "/memory", READERS, "g m"),
    ("Runs", "/runs", READERS, "g r"),
    ("Definitions", "/definitions", READERS, "g d"),
    ("New", "/proposals", OPERATORS, "g n"),
    ("Work", "/work", EVERYBODY, "g w"),
    ("Calendar", "/calendar", READERS, "g c"),
    ("Errors", "/errors", READERS, "g e"),
    ("Log", "/log", READERS, "g l"),
)
"""The pages in the header of every page, and their keys."""

SECTIONS: Mapping[str, tuple[tuple[str, str, tuple[Role, ...]], ...]] = {
    "/memory": (
        ("Elements", "/memory", READERS), ("Letters", "/letters", READERS), ("Webhooks", "/hooks", READERS),
        *sections_of("/memory"),
    ),
    "/work": (("Items", "/work", EVERYBODY), *sections_of("/work")),
}  # fmt: skip
"""The lists that share an entry of the header, by its path; each links to the others."""

SWITCHED = 10
"""The most agents in the header of each page; a field finds any other."""

SCRIPTS = ("graph.js", "replay.js", "live.js", "keys.js", "draft.js", "edit.js")
"""The scripts of every page, in their order of execution; earlier ones receive events of later ones."""

PHASE_TONES: Mapping[str, str] = {
    "active": "active", "done": "done", "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip
"""The tone of each phase of a run."""

WAITS_TONES: Mapping[str, tuple[str, str]] = {
    "person": ("waits for a person", "person"), "act": ("waits for an act", "person"),
    "nothing": ("working", "active"), "element": ("waits for an element", "waiting"),
    "moment": ("waits for a moment", "waiting"), "call": ("waits for a call", "waiting"),
}  # fmt: skip
"""The words and the tone of a run under way, by what it waits for; those that need a person come first."""

WAITED_FOR: Mapping[str, str] = {
    "condition": "an element", "time": "a moment", "call": "a call", "try": "its next attempt",
    "again": "its next call", "input": "an input", "join": "other tokens", "signal": "a signal",
    "limit": "its deadline", "person": "a person",
}  # fmt: skip
"""The words for what a part waits for."""


def make_site(
    find_socket: Callable[[], Path | str | None], folder: Path | None = None, start: str = "narval run"
) -> Site:
    """The site of the home whose daemon `find_socket` names and the command `start` starts; its cached files
    go into a folder.
    """
    static = StaticFiles("narval.surfaces.web")
    templates = environment("narval.surfaces.web")
    templates.globals |= {
        "static": static.url, "scripts": SCRIPTS, "navigation": NAVIGATION, "phase_tones": PHASE_TONES,
        "sections": SECTIONS, "waited_for": WAITED_FOR, "waits_tones": WAITS_TONES, "most_agents": SWITCHED,
    }  # fmt: skip
    layouts = Layouts(folder / "layouts" if folder is not None else None)
    reading, writing = AsyncClient(find_socket, "read", start), AsyncClient(find_socket, None, start)
    hub = Hub(templates, lambda: AsyncClient(find_socket, "read", start))
    return Site(reading, writing, templates, frame, static, layouts, hub)


async def frame(visit: Visit) -> dict[str, Any]:
    """The values that every page shows besides its own."""
    return {
        "agent": visit.agent,
        "base": visit.base if visit.agent else "",
        "visitor": visit.visitor,
        "attention": await _attention(visit),
        "agents_there": await _agents(visit),
        "now": in_shown_zone(datetime.now(UTC)).isoformat(timespec="seconds"),
        "zone": zone(),
        "live": "",
        "here": "",
        "section": "",
        "command": "",
    }


async def _agents(visit: Visit) -> list[dict[str, Any]]:
    """The first agents of the home, and one more if there is one; none while an open page is remade, as its
    header is not remade.
    """
    if not visit.agent or visit.live:
        return []
    try:
        return list(await visit.ask("agents", limit=SWITCHED + 1))
    except NarvalError:
        return []


async def _attention(visit: Visit) -> int:
    """The number of things that need attention; 0 for visitors who may not see it, or without a daemon."""
    if not visit.agent or visit.visitor.role == "person":
        return 0
    try:
        return len(await visit.ask("attention"))
    except NarvalError:
        return 0
