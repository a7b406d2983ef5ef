"""Troubles: what keeps sources from their work now, by the call of each (N36).

A source is in trouble when it gives nothing but errors, or fails; it is at work again when it gives something
else, or says so. The log is told once for each cause.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from narval.engines.events import OutputElement
from narval.memory.elements.element import Element
from narval.memory.elements.error_element import read_error
from narval.runtime.calls.context import CallContext
from narval.source.secrets import without_secrets

MOST = 1_000
"""The most that are kept: of calls that are never made again nobody says that they are over."""

log = logging.getLogger("narval.sources")


class Trouble(msgspec.Struct, frozen=True):
    """What keeps a source from its work, since when."""

    since: float
    kind: str
    message: str


class SourceTroubles:
    """The troubles of sources; by the id of its call, which is the same when it is tried again."""

    def __init__(self) -> None:
        self._of: dict[str, Trouble] = {}

    def of(self, call: str) -> Trouble | None:
        """The trouble of a source; None while it is at work."""
        return self._of.get(call)

    def hear(self, call: CallContext, given: Sequence[OutputElement], at: float) -> None:
        """Hear what a source gives."""
        elements = [Element(0, output.xml) for output in given]
        if elements and all(element.name == "error" for element in elements):
            kind, message, _ = read_error(elements[-1])
            self.begin(call, kind, message, at)
        elif elements:
            self.end(call)

    def begin(self, call: CallContext, kind: str, message: str, at: float) -> None:
        """Note what keeps a source from its work; the log is told of another cause than before."""
        message = " ".join(without_secrets(message).split())
        before = self._of.get(call.id)
        if before is None or (before.kind, before.message) != (kind, message):
            since = at if before is None else before.since
            self._of[call.id] = Trouble(since, kind, message)
            log.warning("%s of run %d: %s: %s", call.target.action, call.run, kind, message)
        if len(self._of) > MOST:
            del self._of[next(iter(self._of))]

    def end(self, call: CallContext) -> None:
        """Note that a source is at work again, or is over."""
        trouble = self._of.pop(call.id, None)
        if trouble is not None:
            log.info("%s of run %d: that is over: %s", call.target.action, call.run, trouble.kind)
