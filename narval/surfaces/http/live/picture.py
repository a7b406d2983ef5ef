"""Pictures of a page: its parts that may change, and the messages that turn one picture into another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from narval.surfaces.http.page import Patch


class StreamEvent(NamedTuple):
    """An event of a stream: its name, its data as JSON, and the turn from which a reconnect continues."""

    name: str
    data: str = "null"
    turn: int | None = None

    def frame(self) -> str:
        """The encoded message."""
        head = "" if self.turn is None else f"id: {self.turn}\n"
        return f"{head}event: {self.name}\ndata: {self.data}\n\n"


class Picture(NamedTuple):
    """The content of a page's regions, and the parts of its graph, both by id."""

    regions: Mapping[str, str]
    parts: Mapping[str, Patch]


NOTHING = Picture({}, {})


def picture(regions: Mapping[str, str], parts: Sequence[Patch]) -> Picture:
    """The picture of these regions and parts."""
    return Picture(regions, {part.id: part for part in parts})


def message(name: str, data: Any = None, turn: int | None = None) -> StreamEvent:
    """A message with plain data."""
    return StreamEvent(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")), turn)


def differences(before: Picture, after: Picture, turn: int) -> list[StreamEvent]:
    """The messages that turn one picture of a page into another; the last names the turn."""
    regions = {name: text for name, text in after.regions.items() if before.regions.get(name) != text}
    parts = [part for name, part in after.parts.items() if before.parts.get(name) != part]
    events: list[StreamEvent] = []
    if regions:
        events.append(message("regions", regions))
    if parts:
        events.append(message("parts", [(part.id, part.state, part.tone, part.badge) for part in parts]))
    return [*events[:-1], events[-1]._replace(turn=turn)] if events else []
