"""Rendering: templates of Jinja2 that escape everything, their words for moments, ages and sizes, static
files.

Each value that a template writes passes `visible`: control and bidirectional characters are shown as escapes,
and secrets are hidden. A page can be rendered whole, or only a block of it, for live pages. Static files are
a table read at the start, so that no path is made from a request. Their address contains a digest of all of
them, so browsers may cache them forever.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, Template
from jinja2.runtime import Context
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Mounted

from narval.ask import text
from narval.core.definitions.reading.durations import duration
from narval.core.source.secrets import without_secrets
from narval.surfaces.http.page import segment

LIVE = "live_"
"""The prefix of the names of blocks that are remade while a page is open."""

_HIDING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that are invisible, that change the order of others, or that are not characters."""

_NO_FORM = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
"""Characters that no form can hold."""


def environment(package: str) -> Environment:
    """The templates in the folder `templates` of a package."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
        auto_reload=False,
    )
    made.filters |= {
        "age": age, "clock": clock, "day": day, "utc": utc_text, "lasted": text.lasted,
        "size": text.size, "counted": lambda count, *things: text.counted(count, *things),
        "shortened": text.shortened, "seconds": duration, "segment": segment, "exact": Exact,
        "fault_line": text.fault_line, "query": urlencode, "leads": leads, "person": text.person,
        "newer_file": text.newer_file,
    }  # fmt: skip
    return made


class Exact(str):
    """A text of a form, which is sent back unchanged, except for characters that no form can hold."""


def visible(value: Any) -> Any:
    """A value that is safe to write: text without secrets or characters that hide or reorder others."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return "" if value is None else value
    if isinstance(value, Exact):
        return _NO_FORM.sub(_escape, value)
    text = without_secrets(value)
    return _HIDING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def rendered(template: Template, values: Mapping[str, Any]) -> str:
    """A whole page."""
    return template.render(values)


def block(template: Template, name: str, values: Mapping[str, Any]) -> str:
    """One block of a page."""
    return _blocks(template, values, lambda each: each == name)[name]


def live_blocks(template: Template, values: Mapping[str, Any]) -> dict[str, str]:
    """The blocks of a page that are remade while it is open, by name, with those of the frame."""
    return _blocks(template, values, lambda name: name.startswith(LIVE))


def _blocks(
    template: Template, values: Mapping[str, Any], is_wanted: Callable[[str], bool]
) -> dict[str, str]:
    """Single blocks, with the macros, imports and settings that are outside of all blocks.

    The template is first rendered with empty blocks, which evaluates everything outside of them.
    """
    context = template.new_context(dict(values))
    own, context.blocks = context.blocks, {name: [_empty] for name in context.blocks}
    "".join(template.root_render_func(context))
    for name, renderers in context.blocks.items():
        context.blocks[name] = [*own.get(name, []), *(one for one in renderers if one is not _empty)]
    return {
        name: "".join(renderers[0](context)) for name, renderers in context.blocks.items() if is_wanted(name)
    }


def _empty(context: Context) -> Iterator[str]:
    """A block with nothing in it."""
    yield ""


def leads(drawn: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The arcs that leave each part of a graph, by its id."""
    targets: dict[str, list[Any]] = {}
    for arc in drawn["arcs"]:
        targets.setdefault(arc["from"], []).append(arc)
    return targets


# --- words --------------------------------------------------------------------------------------------------


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def age(text: str | None) -> str:
    """The time since a moment, for people: `3 min ago`; for a future one `in 3 min`."""
    if not text:
        return ""
    seconds = time.time() - _moment(text).timestamp()
    return f"{_about(seconds)} ago" if seconds >= 0 else f"in {_about(-seconds)}"


def _about(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def clock(moment: str | None) -> str:
    """A moment in the zone of the home: the time of day, with the day if it is not today."""
    if not moment:
        return ""
    there = text.in_shown_zone(_moment(moment))
    today = datetime.now(there.tzinfo).date()
    if there.date() == today:
        return f"{there:%H:%M:%S}"
    near = abs(there.date() - today) < timedelta(days=300)
    return f"{there.day} {there:%b}{'' if near else f' {there:%Y}'} {there:%H:%M}"


def day(text: str) -> str:
    """The day of a moment in its own zone."""
    there = _moment(text)
    return f"{there:%A} {there.day} {there:%B %Y}"


def utc_text(text: str) -> str:
    """A moment in UTC."""
    return f"{_moment(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# --- static files -------------------------------------------------------------------------------------------


TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The types of files that are served, by suffix."""


class StaticFiles:
    """The files in the folder `static` of a package, by name."""

    def __init__(self, package: str) -> None:
        folder = files(package) / "static"
        paths = sorted(folder.iterdir(), key=lambda file: file.name)
        self._files = {
            file.name: (file.read_bytes(), TYPES[ending])
            for file in paths
            if (ending := file.name.rpartition(".")[2]) in TYPES
        }
        everything = hashlib.sha256(b"\0".join(data for data, _ in self._files.values()))
        self._digest = everything.hexdigest()[:16]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(self._files)

    def url(self, name: str) -> str:
        """The address of a file. Raises KeyError for an unknown name."""
        self._files[name]
        return f"/static/{self._digest}/{name}"

    def route(self) -> Mounted:
        """The route that serves them, for any digest."""
        return Mounted("/static/{digest}/{name}", self._serve, methods=["GET"])

    async def _serve(self, request: Request) -> Response:
        data, kind = self._files.get(request.path_params["name"], (None, "text/plain"))
        if data is None:
            return Response("There is no such file.", 404, media_type="text/plain")
        is_current = request.path_params["digest"] == self._digest
        keep = "public, max-age=31536000, immutable" if is_current else "no-store"
        return Response(data, headers={"Cache-Control": keep}, media_type=kind)
