"""The commit on a server: one call of the function `record`, one round trip (G45, G47).

Its rows are in the binary form of PostgreSQL, arrays of values of a composite type. They are encoded here,
because the driver takes several times as long for each value.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from os import dup
from struct import Struct
from typing import Any, NamedTuple, cast

from psycopg import OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

from narval.core.errors import FencedError
from narval.store.batch import Batch
from narval.store.postgresql.functions import TOLD, record
from narval.store.postgresql.server import Server
from narval.store.slots import WRITTEN, Insert, Rows, by_field, filled
from narval.store.store import Durability
from narval.store.tables import Columns, plain_type

MOST_ROWS = 5_000
"""The most rows of one call, unless one agent has more."""


class TurnMark(NamedTuple):
    """A place in the history of an agent: its epoch, and the number of the next commit."""

    epoch: int
    turn: int


def fenced(agents: Iterable[int]) -> FencedError:
    """The error that agents are now another daemon's; without any, that all are. It has numbers; callers that
    know the names add them.
    """
    lost = frozenset(agents)
    what = f"{len(lost)} agent{'s are' if len(lost) > 1 else ' is'}"
    if not lost:
        what = "the time of this daemon was over, and its agents are"
    return FencedError(f"{what} another daemon's now; nothing was recorded", lost)


Told = list[Rows | None]
"""The rows of a call by slot, in the order of `TOLD`."""

_PLACES = {slot: place for place, slot in enumerate(TOLD)}
_FIELDS = by_field(lambda slot: _PLACES[slot.name])
_KEYS = [
    (_PLACES[slot.name], itemgetter(*map(list(slot.columns).index, effect.table.key)))
    for slot in WRITTEN
    for effect in slot.effects
    if isinstance(effect, Insert) and effect.conflict == "replace"
]
_FENCE, _TEXTS = _PLACES["fence"], _PLACES["texts"]


def told(batches: Iterable[Batch]) -> Told:
    """The rows of batches, one batch for each agent."""
    slots: list[list[Any]] = [[] for _ in TOLD]
    for batch in batches:
        for name in filled((batch,)):
            for rows_of, place in _FIELDS[name]:
                slots[place] += rows_of(batch)
    for place, key in _KEYS:
        if len(slots[place]) > 1:  # the last row of a key wins
            slots[place] = list({key(row): row for row in slots[place]}.values())
    if len(slots[_TEXTS]) > 1:  # in a fixed order, so that no two commits deadlock
        slots[_TEXTS] = sorted(dict(slots[_TEXTS]).items())
    return [rows or None for rows in slots]


def divided(batches: Sequence[Batch]) -> list[list[Batch]]:
    """Groups of batches for one call each: each agent is in it once, and its rows are within `MOST_ROWS`."""
    parts: list[list[Batch]] = [[]]
    agents, rows = set[int](), 0
    for batch in batches:
        size = sum(map(len, vars(batch).values()))
        if batch.agent in agents or (rows and rows + size > MOST_ROWS):
            parts.append([])
            agents, rows = set(), 0
        parts[-1].append(batch)
        agents.add(batch.agent)
        rows += size
    return parts


class Commit:
    """The batches of a commit for each of its calls, and the marks that fence them: none before the daemon
    has joined.

    Raises FencedError for an agent that is not `held`.
    """

    def __init__(self, batches: Sequence[Batch], held: Mapping[int, TurnMark] | None) -> None:
        self.parts = divided(batches)
        self.is_fenced = held is not None
        self.before: dict[int, TurnMark] = {}
        """The marks of its agents before it is recorded."""
        self.marks: list[dict[int, TurnMark] | None] = [None] * len(self.parts)
        self.after: dict[int, TurnMark] = {}
        self.registered = {row.agent for batch in batches for row in batch.agents}
        self.removed = {agent for batch in batches for agent in batch.removed_agents}
        if held is not None:
            self._fence({batch.agent for batch in batches}, held)

    def _fence(self, agents: set[int], held: Mapping[int, TurnMark]) -> None:
        if lost := agents - held.keys():
            raise fenced(lost)
        self.before = {agent: held[agent] for agent in agents}
        self.after = dict(self.before)
        for place, part in enumerate(self.parts):
            self.marks[place] = {batch.agent: self.after[batch.agent] for batch in part}
            for batch in part:
                mark = self.after[batch.agent]
                self.after[batch.agent] = TurnMark(mark.epoch, mark.turn + 1)


_SYNCED: dict[Durability, str] = {"crash": "off", "power": "on"}

_DAEMON = Struct(">q").pack

_SETTINGS = """
SET synchronous_commit = {};
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off
"""
"""This connection only looks rows up by their keys. A plan that is made while a table is small must serve
when it is large.
"""


class Writer:
    """The connection that records. Its methods raise psycopg's errors."""

    def __init__(self, server: Server, durability: Durability) -> None:
        self.connection = connection = server.connect()
        self._pg = connection.pgconn
        name = record().name
        self._checked(self._pg.exec_(_SETTINGS.format(_SYNCED[durability]).encode()))
        cursor = connection.execute(
            "SELECT typname::text, oid::int8 FROM pg_type WHERE typname = ANY(%s) "
            "AND typnamespace = current_schema()::regnamespace",
            ([f"{name}_{slot}" for slot in TOLD],),
        )
        oids: dict[str, int] = dict(cursor.fetchall())
        self._made = [Composite(columns, oids[f"{name}_{slot}"]).array for slot, columns in TOLD.items()]
        markers = ", ".join(f"${number}" for number in range(1, len(TOLD) + 2))
        self._formats = [Format.BINARY] * (len(TOLD) + 1)
        self._checked(self._pg.prepare(b"record", f"SELECT {name}({markers})".encode()))

    def packed(self, daemon: int, marks: dict[int, TurnMark] | None, rows: Told) -> list[bytes | None]:
        """The arguments of a call; without `marks` it is not fenced.

        Raises ValueError, TypeError or struct.error for rows with an invalid value.
        """
        if marks is not None:
            rows[_FENCE] = [(agent, *mark) for agent, mark in sorted(marks.items())]
        made = (
            None if column is None else make(column) for make, column in zip(self._made, rows, strict=True)
        )
        return [_DAEMON(daemon), *made]

    def record(self, calls: Sequence[list[bytes | None]]) -> set[int]:
        """Make the calls, all or nothing, and return the agents that were made."""
        if len(calls) == 1:
            return self._call(calls[0])
        self._checked(self._pg.exec_(b"BEGIN"))
        try:
            made = set().union(*map(self._call, calls))
            self._checked(self._pg.exec_(b"COMMIT"))
        except BaseException:
            self._pg.exec_(b"ROLLBACK")
            raise
        return made

    def _call(self, given: list[bytes | None]) -> set[int]:
        values = cast("Sequence[bytes]", given)  # psycopg accepts None, but its types do not say so
        result = self._checked(self._pg.exec_prepared(b"record", values, self._formats))
        made = (result.get_value(0, 0) or b"").strip(b"{}")
        return set(map(int, made.split(b","))) if made else set()

    def _checked(self, result: PGresult) -> PGresult:
        if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            return result
        if self.is_broken:
            raise OperationalError(self._pg.error_message.decode(errors="replace").strip())
        raise error_from_result(result)

    @property
    def is_broken(self) -> bool:
        """True if the connection is broken."""
        return self._pg.status != ConnStatus.OK

    def cut(self) -> None:
        """Abort the current request to the server, from another thread."""
        with suppress(OSError), socket.socket(fileno=dup(self._pg.socket)) as asked:
            asked.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


# --- rows in binary form --------------------------------------------------------------------------------

_ARRAY = Struct(">iiiii").pack
"""The head of an array: dimensions, a flag for no NULLs, type of the elements, length, first index."""

_WORD = Struct(">i").pack
_HEAD = Struct(">ii").pack
"""The type of a value and the length of what follows; the length of NULL is -1."""

_NUMBER, _MOMENT, _TRUTH = Struct(">iiq").pack, Struct(">iid").pack, Struct(">ii?").pack

INTEGERS, FLOATS, BOOLEANS, TEXTS, BYTES = 20, 701, 16, 25, 17
"""The numbers of the types of values in rows."""


def _number(value: int | None) -> bytes:
    return _HEAD(INTEGERS, -1) if value is None else _NUMBER(INTEGERS, 8, value)


def _moment(value: float | None) -> bytes:
    return _HEAD(FLOATS, -1) if value is None else _MOMENT(FLOATS, 8, value)


def _truth(value: bool) -> bytes:
    return _TRUTH(BOOLEANS, 1, value)


def _text(value: str) -> bytes:
    data = value.encode()
    return _HEAD(TEXTS, len(data)) + data


def _bytes(value: bytes | None) -> bytes:
    return _HEAD(BYTES, -1) if value is None else _HEAD(BYTES, len(value)) + value


_MADE: dict[type, Callable[[Any], bytes]] = {
    int: _number,
    float: _moment,
    bool: _truth,
    str: _text,
    bytes: _bytes,
}


class Composite:
    """Rows of a composite type whose number is `oid`."""

    def __init__(self, columns: Columns, oid: int) -> None:
        self._oid, self._size = oid, _WORD(len(columns))
        self._made = [_MADE[plain_type(kind)] for kind in columns.values()]

    def array(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Rows as an array. Raises ValueError, TypeError or struct.error for a value that its type cannot
        hold.
        """
        made, size = self._made, self._size
        values = ([make(value) for make, value in zip(made, row, strict=True)] for row in rows)
        packed = (b"".join((size, *row)) for row in values)
        head = _ARRAY(1, 0, self._oid, len(rows), 1)
        return b"".join(chain((head,), chain.from_iterable((_WORD(len(row)), row) for row in packed)))
