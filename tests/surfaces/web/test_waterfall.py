"""The calls of a run over time: the bars, and which call took longest (M36)."""

from __future__ import annotations

import asyncio
from typing import Any

from narval.surfaces.http.page import Shown, Visit, Visitor
from narval.surfaces.web.drawing.layout import Layouts
from narval.surfaces.web.pages.run import timeline_page

BEGUN = "2026-11-23T07:00:00+00:00"


def call(part: str, begun: str, ended: str | None, asked: str = BEGUN) -> dict[str, Any]:
    """A row of a timeline."""
    row = {"part": part, "asked": asked, "begun": begun, "ended": ended, "for": "call"}
    return row | {"outcome": "done" if ended else "under way"}


def shown(*rows: dict[str, Any], **query: str) -> list[str]:
    """The parts in the order in which the page draws their calls."""

    async def ask(method: str, /, **params: Any) -> Any:
        if method == "show":
            return {"eid": 7, "phase": "active"}
        return {"started": BEGUN, "ended": None, "at_work": 0.0, "rows": list(rows)}

    visit = Visit(Visitor("1", "ann", "reader"), ask, ask, {"run": 7}, query, layouts=Layouts())
    found = asyncio.run(timeline_page.handler(visit))  # type: ignore[arg-type]
    assert isinstance(found, Shown)
    return [bar.row["part"] for bar in found.values["fall"].bars]


def test_M36_the_longest_calls_come_first_whatever_they_waited_before() -> None:
    rows = (
        call("short", "2026-11-23T07:00:00+00:00", "2026-11-23T07:00:01+00:00"),
        call("long", "2026-11-23T07:05:00+00:00", "2026-11-23T07:05:09+00:00"),
        call("middle", "2026-11-23T07:00:02+00:00", "2026-11-23T07:00:07+00:00"),
        call("under way", "2026-11-23T07:06:00+00:00", None),
    )
    assert shown(*rows, sort="longest") == ["under way", "long", "middle", "short"]
    assert shown(*rows) == ["short", "long", "middle", "under way"]
