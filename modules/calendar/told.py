"""The events of a calendar that were reported and are current in memory: their removal is reported too."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path

from lxml import etree

from ..feeds.origins import keep
from .occurring import Window

OVER, GONE = "it is over", "it is no longer in the calendar"


class Told:
    """The keys of a calendar's events that memory may have, with their ends: `var/calendars/DIGEST.json`.

    They are stored before events are reported, and dropped after the removal is recorded. A key stored in
    vain leads to another report of its removal, which then has no effect.
    """

    def __init__(self, name: str, home: Path | None) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        self._name = name
        self._path = home and home / "var" / "calendars" / f"{digest}.json"
        self._ends = _recalled(self._path)
        self._written = dict(self._ends)
        self._known: dict[str, bytes] = {}

    def changes(self, events: Mapping[str, etree._Element], window: Window) -> list[etree._Element]:
        """The elements for the differences from what was reported. Blocks while it stores their keys."""
        changed = [event for key, event in events.items() if self._known.get(key) != etree.tostring(event)]
        gone = [
            _outdated(key, self._name, OVER if _is_over(end, window) else GONE)
            for key, end in self._ends.items()
            if key not in events
        ]
        self._keep(self._ends | {key: event.get("end", "") for key, event in events.items()})
        return [*gone, *changed]

    def record(self, events: Mapping[str, etree._Element]) -> None:
        """Record that all of these were reported. Blocks."""
        self._known = {key: etree.tostring(event) for key, event in events.items()}
        self._keep({key: event.get("end", "") for key, event in events.items()})

    def _keep(self, ends: dict[str, str]) -> None:
        self._ends = ends
        if self._path is None or ends == self._written:
            return
        # If nothing can be written, removals while no daemon runs go unreported: no reason to stop.
        with contextlib.suppress(OSError):
            keep(self._path, json.dumps(ends).encode())
            self._written = ends


def _recalled(path: Path | None) -> dict[str, str]:
    try:
        data = json.loads(path.read_bytes()) if path else {}
        return {str(key): str(end) for key, end in data.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _is_over(end: str, window: Window) -> bool:
    try:
        if "T" in end:
            return datetime.fromisoformat(end) <= window.start
        return date.fromisoformat(end) <= window.start.astimezone(window.zone).date()
    except (ValueError, TypeError):
        return False


def _outdated(key: str, name: str, reason: str) -> etree._Element:
    return etree.Element("outdated", key=key, calendar=name, reason=reason)
