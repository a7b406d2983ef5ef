"""The state of the standing run of a task type: plain data that its changes alone alter.

What is over leaves it; the journal has it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import ClassVar, Literal, TypeVar

import msgspec
from msgspec.structs import replace

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


MOST_STORED = 100
"""The events of one name that are kept until somebody waits for them (KA12)."""


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

    def unbind(self) -> None:
        """Let rules of other states be judged again, if none of the one goes on."""
        if not any(rule.stage in ("due", "ready", "acting") for rule in self.rules.values()):
            self.state = ""


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

    def unhand(self, eid: int) -> None:
        """Take an object from the instance that had it."""
        holder = self.given.pop(eid, "")
        if holder in self.called:
            self.called[holder] = called = replace(self.called[holder], object=0)
            self.let_go(called.instance)
        elif holder:
            self.let_go(int(holder))

    def let_go(self, instance: int) -> None:
        """Let an instance be without an object."""
        entry = self.at_work.get(instance)
        if entry is not None and entry.object:
            if self.given.get(entry.object) == str(instance):
                del self.given[entry.object]
            self.put_instance(instance, replace(entry, object=0, case=0))

    def take_out(self, eid: int) -> Queued | None:
        """Take an object out of the queue, or from among the parts that wait."""
        queued = self.objects.pop(eid, None)
        self.queue.discard(eid)
        if queued is not None and queued.count and (parts := self.parts.get(queued.parent)) is not None:
            parts.pop(queued.ordinal, None)
            if not parts:
                del self.parts[queued.parent]
        return queued

    def forget_instance(self, instance: int) -> None:
        """Let an instance work no more."""
        self.let_go(instance)
        self.takers.pop(instance, None)
        self.put_instance(instance, None)

    def store(self, name: str, event: StoredEvent) -> None:
        """Keep an event until somebody waits for it, and so many of its name."""
        stored = self.stored.setdefault(name, [])
        stored.append(event)
        del stored[:-MOST_STORED]

    def move_rule(self, event: int, number: int, stage: Stage | None) -> EventRule:
        """Let a rule stand at another stage, in the lines that belong to it; None: it is over."""
        rule, key = self.events[event].rules[number], rule_key(event, number)
        for lines in (self.open, self.picky):
            _leave(lines, rule.state, key)
        _leave(self.pending, rule.receiver, key)
        if stage in (None, "registered"):
            _leave(self.chosen, rule.receiver, key)
        if rule.call:
            self.acts.pop(rule.call, None)
            rule.call = ""
            entry = self.at_work.get(rule.receiver)
            if entry is not None and entry.acting == key:
                self.put_instance(rule.receiver, replace(entry, acting=""))
        rule.watched = False
        if stage is not None:
            rule.stage = stage
        return rule

    def take_carried(self, event: RaisedEvent) -> None:
        """Take from an event the object that it carries."""
        self.carried.pop(event.object, None)
        event.object = event.case = 0

    def hold(self, instance: int, entry: KnownInstance, eid: int, case: int) -> None:
        """Know an instance as it is now, but with an object, and no other; with 0 without one."""
        called = self.called.get(entry.call)
        holder, had = (str(instance), entry.object) if called is None else (entry.call, called.object)
        if called is not None:
            self.called[holder] = replace(called, object=eid, case=case)
        if self.given.get(had) == holder:
            del self.given[had]
        if eid:
            self.given[eid] = holder
        self.put_instance(instance, replace(entry, object=eid, case=case))

    def put_instance(self, instance: int, entry: KnownInstance | None) -> None:
        """Know an instance as it is now, or with None no more."""
        before = self.at_work.pop(instance, None)
        if before is not None and (line := self._line(before)) is not None:
            del line[bisect_left(line, instance)]
            if not (present := self.present[before.state]).idle and not present.busy:
                del self.present[before.state]
        if entry is None:
            return
        self.at_work[instance] = entry
        if (line := self._line(entry)) is not None:
            insort(line, instance)

    def _line(self, entry: KnownInstance) -> list[int] | None:
        """The list in which an instance stands; None for one that is in no state with rules, or acting."""
        if not entry.state or entry.acting:
            return None
        present = self.present.setdefault(entry.state, Present())
        return present.busy if entry.object else present.idle


def ended(name: str) -> str:
    """The name under which the ends of events are stored, and waited for."""
    return f"{name}!"


Name = TypeVar("Name", int, str)


def _leave(lines: dict[Name, ArrivalLine[str]], name: Name, key: str) -> None:
    line = lines.get(name)
    if line is not None:
        line.discard(key)
        if not line:
            del lines[name]


def rule_key(event: int, number: int) -> str:
    """The name of a rule of an event."""
    return f"{event}/{number}"


def read_key(key: str) -> tuple[int, int]:
    """The event, and the number of its rule, that a key names."""
    event, _, number = key.partition("/")
    return int(event), int(number)
