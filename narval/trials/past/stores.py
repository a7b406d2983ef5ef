"""The past of an agent as it is stored, in its home's store and in backups of it, all read-only.

The answers of its calls outside are found by action and arguments.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from narval.core.elements.element import Element
from narval.core.errors import NarvalError, RequestError, StoreError, UnreadableError
from narval.files.home import Home
from narval.files.settings import Settings
from narval.store.backups.restore import opened
from narval.store.batch import AgentRow, JournalRow, KeptElement, MarkRow, RunRow, WithdrawalRow
from narval.store.codec import read_entry
from narval.store.look import Look, PastReader
from narval.store.open import look_into
from narval.store.sqlite import BESIDE
from narval.store.store import Store
from narval.trials.simulate.executor import RecordedCall
from narval.trials.simulate.memory_copy import store_of
from narval.trials.simulate.scenario import CannedAnswer

BACKUPS = "backups"
"""The folder of a home that is searched for backups."""


class LeftOut(NamedTuple):
    """A backup that cannot be read, with the reason."""

    path: Path
    why: str


class PastStores:
    """The rows of one agent in its store and in backups; if several have a row, the store's wins."""

    def __init__(self, readers: Sequence[PastReader], live: Store, backups: Sequence[Path]) -> None:
        self._readers, self._live, self.backups = readers, live, backups
        self.left_out: list[LeftOut] = []

    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first."""
        last = 0
        for row in merge(*(reader.elements() for reader in self._readers), key=_eid):
            if row.element.eid != last:
                last = row.element.eid
                yield row

    def declared(self) -> Iterator[KeptElement]:
        """The elements that files declare now, and others that start a run."""
        for reader in self._readers[:1]:
            yield from reader.declared()

    def element(self, eid: int) -> Element | None:
        """The element of a number."""
        elements = (reader.element(eid) for reader in self._readers)
        return next((element for element in elements if element is not None), None)

    def runs(self) -> Iterator[RunRow]:
        """All runs, oldest first."""
        last = 0
        for row in merge(*(reader.every_run() for reader in self._readers), key=attrgetter("eid")):
            if row.eid != last:
                last = row.eid
                yield row

    def journal(self, since: float) -> Iterator[JournalRow]:
        """The entries of all runs from a moment on; the same entry may appear twice."""
        for reader in self._readers:
            yield from reader.journal_since(since)

    def withdrawals(self) -> Iterator[WithdrawalRow]:
        """The withdrawn elements, and the doubtful ones; the same row may appear twice."""
        for reader in self._readers:
            yield from reader.withdrawals()

    def labels(self) -> Iterator[tuple[int, str]]:
        """The labels of elements and runs."""
        for reader in self._readers:
            yield from reader.labels()

    def marks(self) -> Iterator[MarkRow]:
        """The uses of elements; the same row may appear twice."""
        for reader in self._readers:
            yield from reader.marks()

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value; the same row may appear twice."""
        for reader in self._readers:
            yield from reader.keys()

    def raise_if_moved(self) -> None:
        """Raise StoreError if reading may have mixed two states."""
        if not self._live.is_still():
            raise StoreError("a daemon has started or ended while the past was read; try again")


def _eid(row: KeptElement) -> int:
    return row.element.eid


@contextmanager
def past_stores(
    home: Home, settings: Settings, agent: str, backups: Sequence[Path] = ()
) -> Iterator[PastStores]:
    """The store of an agent, "" for the home's own, with the named backups, or by default those of the folder
    `backups`. Raises RequestError, StoreError.
    """
    with ExitStack() as ends:
        live = ends.enter_context(look_into(store_of(home, settings), home.is_held))
        row = _row(live, agent)
        readers = [live.past(row.agent)] if isinstance(live, Look) and row is not None else []
        used: list[Path] = []
        stores = PastStores(readers, live, used)
        for path in backups or _found(home):
            try:
                readers.append(_backup(path, row, agent, ends))
                used.append(path)
            except NarvalError as error:
                if backups:
                    raise
                stores.left_out.append(LeftOut(path, str(error)))
        yield stores


def _backup(path: Path, live: AgentRow | None, agent: str, ends: ExitStack) -> PastReader:
    source = ends.enter_context(opened(path))
    row = _row(source, agent)
    if row is None:
        raise RequestError(f"expected a backup with agent {agent or 'of the home'}, found none in {path}")
    if live is not None and row.id != live.id:
        raise RequestError(
            f"expected a backup of this home, found one of another agent {row.name}: {path}; "
            "what came there is not of this past"
        )
    return source.past(row.agent)


def _row(store: Store, agent: str) -> AgentRow | None:
    rows = store.agents()
    return next((row for row in rows if (row.name == agent if agent else row.agent == store.own)), None)


def _found(home: Home) -> list[Path]:
    folder = home.path / BACKUPS
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return [path for path in files if path.name[0] != "." and not path.name.endswith(BESIDE)]


# --- answers of calls -----------------------------------------------------------------------------------

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
        digests = (
            (id, (_xml_digest(element.xml) for element in input_elements))
            for id, input_elements in call.inputs
        )
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
