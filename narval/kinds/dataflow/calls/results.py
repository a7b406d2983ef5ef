"""Results of dataflows by key, in the home's store: what a session has done, and what dataflows remember.

A *scope* has the results of one session, or what is remembered under one name. While a session runs, its work
is recorded before the results are passed on (T23, TA22, TA23). What it sees stays its own, as a *sight*, and
is remembered in the turn that records its success. The messages of an unsuccessful session are kept as told,
by dataflow and values: the next session, to which the same items are new, does not send them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import blake2b
from time import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from narval.kinds.dataflow.calls.messages import InTurn
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.state import UnreadNumbers
from narval.store.batch import Batch, ResultRow
from narval.store.store import ALL, AgentStore

if TYPE_CHECKING:  # not needed by a dataflow in the foreground
    from narval.agent.turn import Turn
    from narval.calls.book import AgentCalls

MOST_KEPT = 64 << 20
"""The most bytes of a kept result; a larger one is requested again after a crash."""

REMEMBERED, TOLD, LABELS_OF = "remembered ", "told ", "labels of "
"""The prefixes of the scopes that outlive sessions; a name follows, or the digest of a dataflow. The last one
has the labels of what is remembered under a name.
"""

LABELS = "?labels"
"""The key, among a session's recorded work, of the labels of what it has received from outside."""

UNREAD = "?unread"
"""The suffix of the key, among a session's recorded work, of the texts that a piece of it could not read."""

DONE, SIGHTS, TELLING = "done ", "sights ", "telling "
"""The prefixes of a session's scopes, whose name follows."""

_OF_SESSIONS = (DONE, SIGHTS, TELLING)


class ResultChange(msgspec.Struct, frozen=True):
    """Results to add, results to remove by scope and key, and scopes to remove as a whole."""

    rows: list[ResultRow] = []
    dropped: list[tuple[str, str]] = []
    scopes: list[str] = []

    def put(self, batch: Batch) -> None:
        """Add it to the batch of a turn."""
        for row in self.rows:
            batch.put_result(row)
        for scope, key in self.dropped:
            batch.drop_result(scope, key)
        batch.dropped_scopes.extend(self.scopes)


class Results(Protocol):
    """The results of an agent."""

    async def all(self, scope: str, most: int = ALL) -> list[ResultRow]:
        """The results of a scope, newest first; at most `most`."""

    async def of(self, scope: str, keys: Collection[str]) -> list[ResultRow]:
        """The results of a scope that have one of these keys."""

    async def write(self, change: ResultChange, also: InTurn | None = None) -> None:
        """Record a change, in the turn that does `also`; return when it is recorded."""


class StoredResults:
    """The results of an active agent: read from its store, written by its turns."""

    def __init__(self, store: AgentStore, calls: AgentCalls) -> None:
        self._store, self._calls = store, calls

    async def all(self, scope: str, most: int = ALL) -> list[ResultRow]:
        """The results of a scope, newest first."""
        return await asyncio.to_thread(self._store.results, scope, most)

    async def of(self, scope: str, keys: Collection[str]) -> list[ResultRow]:
        """The results of a scope that have one of these keys."""
        return await asyncio.to_thread(self._store.results_of, scope, keys)

    async def write(self, change: ResultChange, also: InTurn | None = None) -> None:
        """Record a change in a turn of the agent."""

        def keep(turn: Turn) -> None:
            change.put(turn.transaction.batch)
            if also is not None:
                also(turn)

        await self._calls.keep(keep)


class SeenItem(NamedTuple):
    """An item that `remember` has seen under a name: its key, first and last moment, and tuple as JSON."""

    key: str
    first: float
    last: float
    data: bytes


class _Sight(NamedTuple):
    """An item as seen by a try of a frame of a session; the try is 0 if it was before a crash."""

    frame: str
    epoch: int
    item: SeenItem


def encoded(answer: FlowAnswer) -> bytes:
    """An answer in recorded form."""
    return msgspec.json.encode((*answer.batch, answer.port, answer.at))


_Answers = list[tuple[tuple[str, ...], list[list[object]], str, str, int]]


def _answers(data: bytes) -> list[FlowAnswer]:
    return [
        FlowAnswer(TupleBatch(schema, [tuple(row) for row in rows], relation), port, at)
        for schema, rows, relation, port, at in msgspec.json.decode(data, type=_Answers)
    ]


def item_of(row: ResultRow) -> SeenItem:
    """The item in a row."""
    first, data = msgspec.json.decode(row.data, type=tuple[float, msgspec.Raw])
    return SeenItem(row.key, first, row.at, bytes(data))


def row_of(name: str, item: SeenItem) -> ResultRow:
    """The row of an item that is remembered under a name."""
    data = msgspec.json.encode((item.first, msgspec.Raw(item.data)))
    return ResultRow(REMEMBERED + name, item.key, item.last, data)


def told_scope(dataflow: str) -> str:
    """The scope of what unsuccessful sessions told, for a dataflow by its name and values."""
    return TOLD + blake2b(dataflow.encode(), digest_size=16).hexdigest()


class Claims:
    """The claims of an agent's running sessions: an item that one has seen is not new to another."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], str] = {}
        self._messages: set[str] = set()
        self._under_way: set[str] = set()

    def begin(self, session: str) -> None:
        """Register a running session."""
        self._under_way.add(session)

    def end(self, session: str) -> None:
        """Release its claims."""
        self._under_way.discard(session)
        self._sessions = {item: holder for item, holder in self._sessions.items() if holder != session}

    def claim(self, session: str, name: str, key: str) -> bool:
        """Claim an item for a session; False if another has it."""
        holder = self._sessions.get((name, key))
        if holder is not None and holder != session and holder in self._under_way:
            return False
        self._sessions[name, key] = session
        return True

    def claim_message(self, key: str) -> bool:
        """Claim a message already told; False if another session has it."""
        if key in self._messages:
            return False
        self._messages.add(key)
        return True


class SessionResults:
    """The results of one session. `dataflow`, if set, is the name and values of a dataflow that remembers:
    messages of its unsuccessful sessions count as sent. `labels` are those of everything the session has
    received; they are recorded and restored with its results.
    """

    def __init__(
        self,
        results: Results,
        session: str,
        dataflow: str = "",
        claims: Claims | None = None,
        labels: set[str] | None = None,
    ) -> None:
        self.session, self._results = session, results
        self._labels = labels if labels is not None else set()
        self._recorded: frozenset[str] = frozenset()
        """The labels that are recorded."""
        self._claims = claims if claims is not None else Claims()
        self._told = told_scope(dataflow) if dataflow else ""
        self._keys: set[str] = set()
        """The keys of recorded results."""
        self._pending: dict[str, bytes] = {}
        """The results not recorded yet."""
        self._sights: dict[tuple[str, str], _Sight] = {}
        self._is_resumed = False
        self._is_void: Callable[[str, int], bool]

    async def begin(self, is_void: Callable[[str, int], bool]) -> None:
        """Load what the session did before a crash; `is_void` tells which tries of frames do not count."""
        self._is_void = is_void
        self._claims.begin(self.session)
        self._is_resumed = bool(await self._results.all(DONE + self.session, 1))
        if self._is_resumed:
            for row in await self._results.of(DONE + self.session, [LABELS]):
                self._labels |= msgspec.json.decode(row.data, type=set[str])
                self._recorded = frozenset(self._labels)
            for row in await self._results.all(SIGHTS + self.session):
                name, key = msgspec.json.decode(row.key, type=tuple[str, str])
                frame, first, data = msgspec.json.decode(row.data, type=tuple[str, float, msgspec.Raw])
                self._sights[name, key] = _Sight(frame, 0, SeenItem(key, first, row.at, bytes(data)))
                self._claims.claim(self.session, name, key)

    def end(self) -> None:
        """Release its claims to other sessions."""
        self._claims.end(self.session)

    # --- finished work --------------------------------------------------------------------------------

    async def done(self, keys: Iterable[str]) -> dict[str, list[FlowAnswer]]:
        """The answers of those pieces of work that are finished, by key."""
        asked = [key for key in keys if self._is_resumed or key in self._keys or key in self._pending]
        answers = {key: _answers(self._pending[key]) for key in asked if key in self._pending}
        unread = [key for key in asked if key not in answers]
        if unread:
            rows = await self._results.of(DONE + self.session, unread)
            answers |= {row.key: _answers(row.data) for row in rows}
        return answers

    async def unread(self, key: str) -> list[UnreadNumbers]:
        """The texts that a finished piece of work could not read as numbers."""
        key += UNREAD
        if key in self._pending:
            return msgspec.json.decode(self._pending[key], type=list[UnreadNumbers])
        rows = await self._results.of(DONE + self.session, [key])
        return msgspec.json.decode(rows[0].data, type=list[UnreadNumbers]) if rows else []

    async def record(
        self, key: str, answers: Iterable[bytes] = (), unread: Collection[UnreadNumbers] = ()
    ) -> None:
        """Record a piece of work: its answers, each as `encoded`, and the texts it could not read."""
        also = {key + UNREAD: msgspec.json.encode(unread)} if unread else {}
        await self._write({key: b"[%b]" % b",".join(answers), **also})

    async def _write(
        self, work: Mapping[str, bytes], change: ResultChange | None = None, in_turn: InTurn | None = None
    ) -> None:
        """Record pieces of work and a further change, in the turn that does `in_turn`."""
        also, now = change or ResultChange(), time()
        self._pending |= work
        rows = [ResultRow(DONE + self.session, key, now, data) for key, data in work.items()]
        if self._labels != self._recorded:
            self._recorded = frozenset(self._labels)
            data = msgspec.json.encode(sorted(self._recorded))
            rows.append(ResultRow(DONE + self.session, LABELS, now, data))
        await self._results.write(ResultChange(rows + also.rows, also.dropped), in_turn)
        self._keys |= work.keys()
        for key in work:
            self._pending.pop(key, None)

    # --- sights ---------------------------------------------------------------------------------------

    def claim(self, name: str, key: str) -> bool:
        """Claim an item for this session; False if another running session has it."""
        return self._claims.claim(self.session, name, key)

    async def remembered(self, name: str, keys: Iterable[str]) -> dict[str, SeenItem]:
        """The items under a name that were seen before, by key."""
        unseen = {key for key in keys if self.seen(name, key) is None}
        rows = await self._results.of(REMEMBERED + name, unseen) if unseen else []
        if rows:
            self._labels |= {row.key for row in await self._results.all(LABELS_OF + name)}
        return {row.key: item_of(row) for row in rows}

    def seen(self, name: str, key: str) -> SeenItem | None:
        """An item as seen by the session, or None; what a void try saw does not count."""
        sight = self._sights.get((name, key))
        return None if sight is None or self._is_void(sight.frame, sight.epoch) else sight.item

    def see(self, frame: str, epoch: int, name: str, item: SeenItem) -> None:
        """Record an item, in its present form, as seen by a try of a frame of the session."""
        before = self._sights.get((name, item.key))
        if before is not None:
            item = item._replace(first=before.item.first)
            if before.epoch and not self._is_void(before.frame, before.epoch):
                frame, epoch = before.frame, before.epoch
        self._sights[name, item.key] = _Sight(frame, epoch, item)

    async def record_sights(self, work: Mapping[str, bytes], name: str, keys: Collection[str]) -> None:
        """Record the results of tuples, and that the session has seen the items with these keys."""
        rows = []
        for key in dict.fromkeys(keys):
            frame, _, item = self._sights[name, key]
            data = msgspec.json.encode((frame, item.first, msgspec.Raw(item.data)))
            place = msgspec.json.encode((name, key)).decode()
            rows.append(ResultRow(SIGHTS + self.session, place, item.last, data))
        await self._write(work, ResultChange(rows))

    # --- messages -------------------------------------------------------------------------------------

    async def told_before(self, message: str) -> str | None:
        """The key under which an unsuccessful session sent a message, which this one then claims; or None."""
        if not self._told:
            return None
        for row in await self._results.all(self._told):
            if row.data == message.encode() and self._claims.claim_message(row.key):
                return row.key
        return None

    async def tell(self, key: str, message: str, before: str | None, in_turn: InTurn | None = None) -> None:
        """Record that a message is sent, in that turn or before it, or that the session takes over one sent
        `before`.
        """
        if not self._told:
            await self._write({key: b"[]"}, in_turn=in_turn)
            return
        data = msgspec.json.encode((self._told, message))
        dropped = [(self._told, before)] if before is not None else []
        row = ResultRow(TELLING + self.session, key, time(), data)
        await self._write({key: b"[]"}, ResultChange([row], dropped), in_turn)

    # --- the end --------------------------------------------------------------------------------------

    async def ended_well(self) -> ResultChange:
        """The change for a successful end of the session. Everything it saw is remembered, except what only
        void tries saw. What earlier sessions told before they failed is dropped.
        """
        sights = [(name, sight) for (name, key), sight in self._sights.items() if self.seen(name, key)]
        rows = [row_of(name, sight.item) for name, sight in sights]
        names = {name for name, _ in sights}
        rows += [ResultRow(LABELS_OF + name, label, 0.0, b"") for name in names for label in self._labels]
        notices = [(self._told, row.key) for row in await self._results.all(self._told)] if self._told else []
        has_results = self._is_resumed or bool(self._keys)
        return ResultChange(rows, notices, _scopes_of(self.session) if has_results else [])


def _scopes_of(session: str) -> list[str]:
    return [beginning + session for beginning in _OF_SESSIONS]


def session_in(scope: str) -> str | None:
    """The session that a scope belongs to, if any."""
    return next((scope.removeprefix(one) for one in _OF_SESSIONS if scope.startswith(one)), None)


async def forget_session(results: Results, session: str) -> None:
    """Forget the results and sights of an unsuccessful session; what it told stays told."""
    rows = []
    for row in await results.all(TELLING + session):
        scope, message = msgspec.json.decode(row.data, type=tuple[str, str])
        rows.append(ResultRow(scope, f"{session} {row.key}", row.at, message.encode()))
    await results.write(ResultChange(rows, [], _scopes_of(session)))


async def forget_sessions(results: Results, sessions: set[str], is_over: Callable[[str], bool]) -> None:
    """Forget those of these sessions that have ended unsuccessfully."""
    for session in [one for one in sessions if is_over(one)]:
        sessions.discard(session)
        await forget_session(results, session)


class LocalResults:
    """Results in memory, lost with their program."""

    def __init__(self) -> None:
        self.scopes: dict[str, dict[str, ResultRow]] = {}

    async def all(self, scope: str, most: int = ALL) -> list[ResultRow]:
        """The results of a scope, newest first."""
        rows = self.scopes.get(scope, {}).values()
        return sorted(rows, key=lambda row: (-row.at, row.key))[:most]

    async def of(self, scope: str, keys: Collection[str]) -> list[ResultRow]:
        """The results of a scope that have one of these keys."""
        rows = self.scopes.get(scope, {})
        return [rows[key] for key in keys if key in rows]

    async def write(self, change: ResultChange, also: InTurn | None = None) -> None:
        """Keep a change; there is no turn."""
        for row in change.rows:
            self.scopes.setdefault(row.scope, {})[row.key] = row
        for scope, key in change.dropped:
            self.scopes.get(scope, {}).pop(key, None)
        for scope in change.scopes:
            self.scopes.pop(scope, None)
