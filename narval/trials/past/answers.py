"""The answers of past calls outside, by action and arguments."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from narval.core.elements.element import Element
from narval.core.errors import UnreadableError
from narval.store.batch import JournalRow
from narval.store.codec import read_entry
from narval.trials.simulate.executor import RecordedCall
from narval.trials.simulate.scenario import CannedAnswer

NOT_MADE = frozenset({"rejected", "refused-by-rule", "not-granted"})
"""The errors of calls that a person or a rule prevented: they say nothing about the outside."""

_ARGUMENTS = 4_096
"""The most cached digests of arguments: the same mailbox or template is in many calls."""


class PastAnswer(NamedTuple):
    """The answer to a past call: elements by their numbers, or an error."""

    at: float
    """The moment of the call."""
    after: float
    """Seconds until the answer came."""
    eids: tuple[int, ...]
    error: str = ""
    message: str = ""


class Answers:
    """The answers of a period. `element` returns its elements; `is_outside` says whether the calls of an
    action leave narval.
    """

    def __init__(self, element: Callable[[int], Element | None], is_outside: Callable[[str], bool]) -> None:
        self._element, self._is_outside = element, is_outside
        self._digest = lru_cache(_ARGUMENTS)(self._digest_of)
        self._by_call: dict[bytes, list[PastAnswer]] = {}
        self._asked: dict[str, tuple[bytes, float]] = {}
        self.outdated: set[int] = set()
        """The elements that runs have outdated in this period."""

    def read(self, rows: Iterable[JournalRow]) -> None:
        """Read entries of the journal, the calls of a run before their answers."""
        for row in rows:
            data = row.data
            if b"Call" in data or b"Returned" in data or b"Outdate" in data:
                try:
                    event, commands = read_entry(data)
                except UnreadableError:
                    continue  # an unreadable entry counts as forgotten
                if event["type"] == "Returned":
                    self._answered(event, commands)
                for command in commands:
                    if command["type"] == "Call":
                        self._called(command, row.at)
                    elif command["type"] == "Outdate":
                        self.outdated.update(command["eids"])

    def finish(self) -> None:
        """Sort the answers of each call by time."""
        self._asked.clear()
        for key, answers in self._by_call.items():
            if len(answers) > 1:
                self._by_call[key] = sorted(set(answers), key=attrgetter("at"))

    def answer(self, call: RecordedCall) -> CannedAnswer | None:
        """The answer to the same call: the last one up to this moment, or else the first after it."""
        digests = ((id, (_xml_digest(element.xml) for element in given)) for id, given in call.inputs)
        answers = self._by_call.get(_key(call.action, digests))
        if answers is None:
            return None
        at = bisect_right(answers, call.at, key=attrgetter("at"))
        then = answers[max(at - 1, 0)]
        elements = [self._element(eid) for eid in then.eids]
        if None in elements:
            return None  # it was forgotten
        xml = tuple(element.xml for element in elements if element is not None)
        return CannedAnswer(
            call.action, after=then.after, elements=xml, error=then.error, message=then.message
        )

    def _called(self, command: dict[str, Any], at: float) -> None:
        name = command["name"]
        if command["kind"] != "action" or command.get("agent") or not self._is_outside(name):
            return
        inputs = [(id, [self._digest(eid) for eid in eids]) for id, eids in command.get("inputs", ())]
        if all(None not in digests for _, digests in inputs):
            self._asked[command["call"]] = _key(name, inputs), at

    def _answered(self, event: dict[str, Any], commands: list[dict[str, Any]]) -> None:
        key, at = self._asked.pop(event["call"], (None, 0.0))
        if key is None or event.get("abandoned"):
            return
        problem, after = event.get("problem"), max(0.0, event["at"] - at)
        if problem is not None and problem["kind"] in NOT_MADE:
            return
        if problem is not None:
            answer = PastAnswer(at, after, (), problem["kind"], problem["message"])
        else:
            added = (command["element"] for command in commands if command["type"] == "Add")
            answer = PastAnswer(at, after, tuple(eid for eid in added if self._is_of(eid, event["call"])))
        self._by_call.setdefault(key, []).append(answer)

    def _is_of(self, eid: int, call: str) -> bool:
        element = self._element(eid)
        return element is None or (element.origin is not None and element.origin.call == call)

    def _digest_of(self, eid: int) -> bytes | None:
        element = self._element(eid)
        return None if element is None else _xml_digest(element.xml)


def _xml_digest(xml: bytes) -> bytes:
    return hashlib.blake2b(xml, digest_size=16).digest()


def _key(action: str, inputs: Iterable[tuple[str, Iterable[bytes | None]]]) -> bytes:
    """The digest of a call: its action, and the elements of each input."""
    digest = hashlib.blake2b(action.encode(), digest_size=16)
    for id, elements in sorted((id, [*elements]) for id, elements in inputs):
        if elements:
            digest.update(b"\0" + id.encode() + b"\0")
            digest.update(b"".join(each for each in elements if each is not None))
    return digest.digest()
