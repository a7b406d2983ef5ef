"""Plain data to msgpack and back: the format of journal, queue and snapshots (design, "One turn").

An *entry* is one event of one run with the changes and commands that followed. It leaves out what is stored
elsewhere or never needed again. An element in `Add` is its eid, since the element is in its own table; the
elements of an event are only counted, since a decision is never made again. Structs are written as maps with
names, so that older entries stay readable when fields are added or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from narval.core.elements.element import Element, Origin
from narval.core.engines.commands import Add, Command, Watch
from narval.core.engines.effects import EFFECTS, InForce
from narval.core.engines.events import Event, Migrated, Produced, Returned, Signalled
from narval.core.errors import PatternError, UnreadableError
from narval.core.patterns.pattern import Bound
from narval.store.batch import Offer

Lookup = Callable[[int], Element | None]
"""The element of an eid, for the variables of a pattern."""


class JournalEntry(NamedTuple):
    """An entry read back: the event if it settles an active command, the changes, the tracked commands.

    *Tracked* commands have an effect that outlives the turn and is in no table: recovery needs them back.
    `lines` is the number of its lines of history: one for the event, and one for each change and command.
    """

    event: Event | None
    changes: list[Any]
    commands: list[Command]
    lines: int


class Snapshot(NamedTuple):
    """A state, and the tracked commands that are still active."""

    state: Any
    commands: list[Command]


class _StoredEntry(msgspec.Struct, array_like=True, frozen=True):
    event: dict[str, Any]
    changes: msgspec.Raw
    commands: list[dict[str, Any]]


class _StoredSnapshot(msgspec.Struct, array_like=True, frozen=True):
    state: msgspec.Raw
    commands: list[dict[str, Any]]


def _counted(event: Any) -> Any:
    """An event with the count of its elements in place of them."""
    return replace(event, elements=len(event.elements)) if event.elements else event


_SLIM: dict[type, Callable[[Any], Any]] = {
    # The copies hold plain data where their types promise more; they are encoded and dropped. Since `replace`
    # makes them, they include any field added to an event or a command later.
    Returned: _counted,
    Produced: _counted,
    Signalled: _counted,
    Migrated: lambda event: replace(event, state=b""),
    Add: lambda command: replace(command, element=command.element.eid),
    Watch: lambda command: replace(command, conditions=[bound.plain() for bound in command.conditions]),
}
_KNOWN = frozenset(command.__name__ for command in get_args(Command))
_TRACKED = {command.__name__: command for command, effect in EFFECTS.items() if effect.in_force is not None}
_SETTLING: dict[str, Any] = {kind.__name__: kind for kind in InForce.SETTLED_BY}

_encode = msgspec.msgpack.Encoder().encode
_decode_any = msgspec.msgpack.Decoder().decode
_decode_entry = msgspec.msgpack.Decoder(_StoredEntry).decode
_decode_snapshot = msgspec.msgpack.Decoder(_StoredSnapshot).decode
_decode_queued = msgspec.msgpack.Decoder(Event | Offer).decode
_decode_origin = msgspec.msgpack.Decoder(Origin).decode

_Read = TypeVar("_Read")


# --- the journal ----------------------------------------------------------------------------------------


def encode_entry(event: Event, changes: Sequence[Any], commands: Sequence[Command]) -> bytes:
    """An event and everything that followed from it, for the journal."""
    slim = _SLIM.get(type(event))  # runs for each recorded step, so it avoids calls
    slimmed = [
        command if (shorten := _SLIM.get(type(command))) is None else shorten(command) for command in commands
    ]
    return _encode((event if slim is None else slim(event), changes, slimmed))


def decode_entry(data: bytes, changes_type: Any, lookup: Lookup) -> JournalEntry:
    """An entry of the journal, for recovery; `changes_type` is the engine's own union of changes.

    Raises UnreadableError.
    """
    stored = read("an entry of the journal", _decode_entry, data)
    changes = read("an entry of the journal", _changes_decoder(changes_type), stored.changes)
    lines = 1 + len(changes) + len(stored.commands)
    return JournalEntry(_settling(stored.event), changes, list(_tracked(stored.commands, lookup)), lines)


def read_entry(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The event and the commands of an entry as plain data. Raises UnreadableError."""
    stored = read("an entry of the journal", _decode_entry, data)
    return stored.event, stored.commands


def describe_entry(data: bytes, run: int | None = None, seq: int = 0) -> list[dict[str, Any]]:
    """An entry as lines of history: `{"seq", "at", "run", "what", …fields}`, `run` only when it is given.

    The event has the entry's own `seq`, each change and command the next. A field that clashes with one of
    the four names is renamed: the moment of something due is `due`, a run that is named `of_run`.

    Raises UnreadableError.
    """
    try:
        event, changes, commands = read("an entry of the journal", _decode_any, data)[:3]
        event.pop("former", None)  # a whole text, too long for a line
        head = {"at": event.pop("at")} if run is None else {"at": event.pop("at"), "run": run}
        lines = [{"seq": seq + number, **head} for number in range(1 + len(changes) + len(commands))]
        for line, fact in zip(lines, [event, *changes, *commands], strict=True):
            line["what"] = fact.pop("type")
            if fact.get("at") == head["at"] and line["what"] not in _KNOWN:
                fact.pop("at")  # a change repeats the moment of its event
            line.update((_RENAMED.get(name, name), _shown(value)) for name, value in fact.items())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable("an entry of the journal", error) from None
    return lines


_RENAMED = {"at": "due", "run": "of_run", "seq": "of_seq", "what": "of_what"}


def _shown(value: Any) -> Any:
    """A value in a form that JSON can represent: bytes become text for people."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _shown(item) for key, item in value.items()}
    return value


# --- queue, snapshots, origins --------------------------------------------------------------------------


def encode_queued(event: Event | Offer) -> bytes:
    """An event that still waits, in full: it has yet to be decided upon."""
    return _encode(event)


def decode_queued(data: bytes) -> Event | Offer:
    """A waiting event. Raises UnreadableError."""
    event: Event | Offer = read("a waiting event", _decode_queued, data)
    return event


def encode_snapshot(state: Any, commands: Iterable[Command]) -> bytes:
    """The state of a run, and the tracked commands still active."""
    return _encode((state, [_slim(command) for command in commands]))


def decode_snapshot(data: bytes, state_type: Any, lookup: Lookup) -> Snapshot:
    """A snapshot read back; `state_type` is the engine's own. Raises UnreadableError."""
    stored = read("a snapshot", _decode_snapshot, data)
    state = read("a snapshot", _state_decoder(state_type), stored.state)
    return Snapshot(state, list(_tracked(stored.commands, lookup)))


def encode_origin(origin: Origin | None) -> bytes | None:
    """The origin of an element (N8), None when from outside."""
    return None if origin is None else _encode(origin)


def decode_origin(data: bytes | None) -> Origin | None:
    """The origin of an element. Raises UnreadableError."""
    if data is None:
        return None
    origin: Origin = read("the origin of an element", _decode_origin, data)
    return origin


# --- reading stored values ------------------------------------------------------------------------------


def _slim(fact: Any) -> Any:
    slim = _SLIM.get(type(fact))
    return fact if slim is None else slim(fact)


@lru_cache(maxsize=32)
def _changes_decoder(changes_type: Any) -> Callable[[Any], list[Any]]:
    return msgspec.msgpack.Decoder(list[changes_type]).decode


@lru_cache(maxsize=32)
def _state_decoder(state_type: Any) -> Callable[[Any], Any]:
    return msgspec.msgpack.Decoder(state_type).decode


def _settling(event: dict[str, Any]) -> Event | None:
    """An event as its type, but without its elements, if it settles an active command."""
    kind = _SETTLING.get(str(event.get("type")))
    if kind is None:
        return None
    settling: Event = read(
        "an event of the journal", partial(msgspec.convert, type=kind), {**event, "elements": ()}
    )
    return settling


def _tracked(commands: Iterable[dict[str, Any]], lookup: Lookup) -> Iterator[Command]:
    """The tracked commands among those read as plain data."""
    for plain in commands:
        name = plain.get("type")
        tracked = _TRACKED.get(str(name))
        if tracked is Watch:
            yield _watch(plain, lookup)
        elif tracked is not None:
            yield read(f"a {name} of the journal", partial(msgspec.convert, type=tracked), plain)
        elif name not in _KNOWN:
            raise _unreadable("an entry of the journal", f"no command is called {name!r}")


def _watch(plain: dict[str, Any], lookup: Lookup) -> Watch:
    try:
        conditions = tuple(Bound.from_plain(bound, lookup) for bound in plain["conditions"])
        scopes = msgspec.convert(plain["scopes"], tuple[tuple[str, str, str] | None, ...])
        flags = {name: bool(plain.get(name)) for name in ("or_outdated", "standing", "unless_reserved")}
        elements = msgspec.convert(plain.get("elements", ()), tuple[int, ...])
        return Watch(plain["watch"], conditions, scopes, elements=elements, **flags)
    except (AttributeError, KeyError, TypeError, ValueError, PatternError) as error:
        raise _unreadable("a Watch of the journal", error) from None


def read(what: str, decode: Callable[[Any], _Read], data: Any) -> _Read:
    """A stored value, decoded; `what` names it for people. Raises UnreadableError."""
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise _unreadable(what, error) from None


def reader(what: str, form: type[_Read]) -> Callable[[Any], _Read]:
    """A function that reads stored values of a type, as `read` does."""
    return partial(read, what, msgspec.msgpack.Decoder(form).decode)


def _unreadable(what: str, error: object) -> UnreadableError:
    return UnreadableError(
        f"{what} cannot be read: {error}; another version of narval wrote it, or the store is damaged: "
        "start the version that wrote it, or put back a backup"
    )
