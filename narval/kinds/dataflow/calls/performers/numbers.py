"""Numbers that are read from texts: what is none is no value, and is counted, so that people are told."""

from __future__ import annotations

import math
import threading
from typing import Any

from narval.kinds.dataflow.calls.documents import number_in
from narval.kinds.dataflow.engine.state import UnreadNumbers
from narval.kinds.dataflow.language.definition import OperatorCall

MOST_SHOWN = 3
"""The texts that are shown of those that are no numbers, for one attribute of an operator."""

LONGEST_SHOWN = 80


class NumberReader:
    """Reads the numbers of a session, from any thread, and counts the texts that are none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unread: dict[tuple[str, int, str], UnreadNumbers] = {}

    def read(self, call: OperatorCall, attribute: str, value: Any) -> int | float | None:
        """The number that a value is; None for a blank text, and for one that is no number."""
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        number = number_in(text)
        if number is None and text.strip():
            self._note(call, attribute, text.strip()[:LONGEST_SHOWN])
        return number

    def _note(self, call: OperatorCall, attribute: str, text: str) -> None:
        place = (call.key, call.line, attribute)
        with self._lock:
            before = self._unread.get(place) or UnreadNumbers(*place)
            texts = (*before.texts, text)[:MOST_SHOWN]
            self._unread[place] = UnreadNumbers(*place, before.count + 1, texts)

    @property
    def unread(self) -> tuple[UnreadNumbers, ...]:
        """The texts that were no numbers, by operator and attribute."""
        return tuple(self._unread.values())
