"""The state of the standing run of a task type: plain data that only `apply` alters.

What is over leaves it; the journal has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from narval.core.engines.run_state import Moves, RunState
from narval.kinds.task.engine.server.line import ArrivalLine
from narval.kinds.task.language.windows import Interval

Stage = Literal["registered", "open", "false", "due", "ready", "acting"]
"""The stage of a rule: before its window; to be judged; judged in vain, and judged again when something
changes; held, and before the window of its action; to be done by a receiver that is not free, or after that
of another rule, which may keep what the event carries; being done.
"""

Result = Literal["done", "expired", "failed", "cancelled", "passed over"]
"""The end of a rule or an event; a rule of another state than that in which it was taken is passed over."""


class Queued(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An object in the queue since a moment, and its case; of a part, its parent and which of how many."""

    at: float
    case: int = 0
    parent: int = 0
    ordinal: int = 0
    count: int = 0


class KnownInstance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An instance that works: since when, in which state that has rules, on which object.

    `call` began it, if the server did. `acting` is the rule whose action it does, `take` the signal by which
    it waits for an object, `took` the one by which it was given that which it has.
    """

    since: float
    call: str = ""
    state: str = ""
    object: int = 0
    case: int = 0
    user: str = ""
    role: str = ""
    program: bool = False
    acting: str = ""
    take: str = ""
    took: str = ""


class Present(msgspec.Struct, omit_defaults=True):
    """The instances that are in a state and free to act, by number: without an object, and with one."""

    idle: list[int] = []
    busy: list[int] = []


class CalledInstance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An instance that the server has called, and for what; `instance` is its eid once it has said so."""

    at: float
    object: int = 0
    case: int = 0
    event: int = 0
    instance: int = 0


class EventRule(msgspec.Struct, omit_defaults=True, gc=False):
    """A rule that answers an event: the `ordinal`-th of a state for it, in which windows it is judged (None:
    once somebody is there), and in which, once it held, its action may be done (None: at once).
    """

    state: str
    ordinal: int
    before_condition: tuple[Interval, ...] | None = None
    before_action: tuple[Interval, ...] | None = None
    stage: Stage = "registered"
    receiver: int = 0
    call: str = ""
    wake: float | None = None
    watched: bool = False
    hearsay: bool = False
    """True if a language model's answer had a say in its condition."""


class RaisedEvent(msgspec.Struct, omit_defaults=True):
    """An event that is not over (K33): `rules` are those that may still answer it, by number.

    `base` is the moment from which its windows count. `signal` is that of a raiser who waits, `object` what
    it carries. `results` are those of its rules that are over; `state` is the one in which it is taken: rules
    of others wait. It has `started` an instance, if it did.
    """

    id: int
    name: str
    at: float
    base: float
    parameters: tuple[str, ...] = ()
    sync: bool = False
    object: int = 0
    case: int = 0
    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    raiser: int = 0
    raiser_type: str = ""
    signal: str = ""
    state: str = ""
    started: bool = False
    rules: dict[int, EventRule] = {}
    results: tuple[Result, ...] = ()

    @property
    def queue(self) -> str:
        """The queue of events in which it is (K62)."""
        stages = {rule.stage for rule in self.rules.values()}
        if stages & {"due", "ready", "acting"}:
            return "awaiting-action"
        return "awaiting-condition" if stages & {"open", "false"} else "registered"

    @property
    def is_claimed(self) -> bool:
        """True while one of its rules does its action, and may keep what it carries."""
        return bool(self.object) and any(rule.stage == "acting" for rule in self.rules.values())


class EventWaiter(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An instance that waits for an event, or for its end (K53, K54), until a moment."""

    instance: int
    event: str
    end: bool = False
    until: float | None = None


class StoredEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event for which nobody has waited yet (KA12), or the end of one."""

    event: int
    parameters: tuple[str, ...] = ()
    result: str = ""


class TaskServerState(RunState, omit_defaults=True):
    """The standing run of a task type, or of a global event.

    `version` is the digest of what was loaded last; its file may be `gone`. Objects are named by the eid
    that they had when they came here. `given` are those that instances have: the call that began the
    instance, or its eid. `parts` are by parent (K20).

    `open` are the rules to be judged when somebody is in their state, `picky` those that are false for who
    is there and ask for another's object, `pending` those that wait for their receiver to be free, `chosen`
    those by receiver whose raiser waits (KA10). `unserved` are the events for which nobody was there, and no
    instance was begun (KA7). `stored` events and `waiters` are by the name of the event, with a `!` for its
    end.

    `withdrawing` are the signals to be answered, and their objects, when a call is over; `sent` are the
    objects that calls put back to another type, and their cases. `own` is the last event that came by
    itself; the next, or the next run of a periodic task, is `due`, and one was `missed` meanwhile.
    """

    KIND: ClassVar[str] = "task server"
    MOVES: ClassVar[Moves] = {"ready": frozenset({"serving"}), "serving": frozenset({"failed", "cancelled"})}

    version: str = ""
    gone: bool = False
    queue: ArrivalLine[int] = msgspec.field(default_factory=ArrivalLine)
    objects: dict[int, Queued] = {}
    parts: dict[int, dict[int, int]] = {}
    carried: dict[int, int] = {}
    given: dict[int, str] = {}
    at_work: dict[int, KnownInstance] = {}
    takers: dict[int, str] = {}
    called: dict[str, CalledInstance] = {}
    present: dict[str, Present] = {}
    events: dict[int, RaisedEvent] = {}
    open: dict[str, ArrivalLine[str]] = {}
    picky: dict[str, ArrivalLine[str]] = {}
    pending: dict[int, ArrivalLine[str]] = {}
    chosen: dict[int, ArrivalLine[str]] = {}
    unserved: ArrivalLine[int] = msgspec.field(default_factory=ArrivalLine)
    acts: dict[str, str] = {}
    raisers: dict[str, int] = {}
    waits: dict[str, EventWaiter] = {}
    waiters: dict[str, dict[str, None]] = {}
    stored: dict[str, list[StoredEvent]] = {}
    withdrawing: dict[str, tuple[str, int]] = {}
    sent: dict[str, tuple[int, int]] = {}
    own: int = 0
    due: float | None = None
    missed: bool = False

    def progress(self) -> Iterator[tuple[str, str]]:
        """The number of objects, events and instances."""
        yield "queue", str(len(self.queue))
        yield "events", str(len(self.events))
        yield "instances", str(len(self.at_work) + len(self.called))


def rule_key(event: int, number: int) -> str:
    """The name of a rule of an event."""
    return f"{event}/{number}"


def read_key(key: str) -> tuple[int, int]:
    """The event, and the number of its rule, that a key names."""
    event, _, number = key.partition("/")
    return int(event), int(number)
