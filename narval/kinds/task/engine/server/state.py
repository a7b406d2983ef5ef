"""The state of the service run of a task type: plain data, altered only by its changes.

Whatever has ended is removed from it and remains in the journal.
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
"""The stage of a rule: before its window; to be judged; judged false, and judged again when something
changes; judged true, before the window of its action; waiting for a busy receiver, or for the action of
another rule, which may keep what the event carries; being done.
"""

Result = Literal["done", "expired", "failed", "cancelled", "passed over"]
"""The end of a rule or an event. A rule is passed over if its event was answered in another state."""

MOST_STORED = 100
"""The most events of one name that are kept until an instance waits for them."""


class Queued(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An object in the queue since a moment, and its case; for a part, its parent, ordinal and count."""

    at: float
    case: int = 0
    parent: int = 0
    ordinal: int = 0
    count: int = 0


class KnownInstance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An instance of the type, as its server knows it."""

    since: float
    """The moment at which it joined or was first heard of."""
    call: str = ""
    """The call that began it, if the server did."""
    state: str = ""
    """The state that it is in, if that has rules."""
    object: int = 0
    """The object that it has."""
    case: int = 0
    """The case of that object."""
    user: str = ""
    """The user for whom it works."""
    role: str = ""
    """The role of that user."""
    program: bool = False
    """True if it belongs to a program."""
    acting: str = ""
    """The rule whose action it does."""
    take: str = ""
    """The signal that asks for an object and has no answer yet."""
    took: str = ""
    """The signal whose answer gave it its object."""


class Present(msgspec.Struct, omit_defaults=True):
    """The instances in a state that are free to act: those without an object, and those with one."""

    idle: list[int] = []
    busy: list[int] = []


class CalledInstance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An instance that the server has called, with its object or event; `instance` is its eid once known."""

    at: float
    object: int = 0
    case: int = 0
    event: int = 0
    instance: int = 0


class EventRule(msgspec.Struct, omit_defaults=True, gc=False):
    """A rule that answers an event."""

    state: str
    """The state of the task that it belongs to."""
    ordinal: int
    """Its place among the rules of that state for the event."""
    before_condition: tuple[Interval, ...] | None = None
    """The windows in which it is judged; None: whenever an instance is in the state."""
    before_action: tuple[Interval, ...] | None = None
    """The windows in which its action may be done, once its condition held; None: at once."""
    stage: Stage = "registered"
    """The stage that it has reached."""
    receiver: int = 0
    """The instance that does its action."""
    call: str = ""
    """The call of its action."""
    wake: float | None = None
    """The moment at which it is examined again."""
    watched: bool = False
    """True if its condition is watched for, to be judged again."""
    hearsay: bool = False
    """The mark recorded before labels existed."""
    labels: tuple[str, ...] = ()
    """The labels of the elements that its condition depended on."""


class RaisedEvent(msgspec.Struct, omit_defaults=True):
    """An event that has not ended (K33)."""

    id: int
    """Its number."""
    name: str
    """Its name."""
    at: float
    """The moment it was raised."""
    base: float
    """The moment from which its windows are counted."""
    parameters: tuple[str, ...] = ()
    """Its parameters."""
    sync: bool = False
    """True if the raiser waits for its end."""
    object: int = 0
    """The object that it carries."""
    case: int = 0
    """The case of that object."""
    users: tuple[str, ...] = ()
    """The users to whom it is addressed."""
    roles: tuple[str, ...] = ()
    """The roles to which it is addressed."""
    raiser: int = 0
    """The run that raised it."""
    raiser_type: str = ""
    """The type of that run."""
    signal: str = ""
    """The signal whose answer the raiser waits for."""
    state: str = ""
    """The state in which it is being answered; the rules of other states wait."""
    started: bool = False
    """True if an instance was begun for it."""
    rules: dict[int, EventRule] = {}
    """The rules that may still answer it, by number."""
    results: tuple[Result, ...] = ()
    """The results of its ended rules."""
    labels: tuple[str, ...] = ()
    """The labels of its content."""

    @property
    def queue(self) -> str:
        """The queue of events that it is in (K62)."""
        stages = {rule.stage for rule in self.rules.values()}
        if stages & {"due", "ready", "acting"}:
            return "awaiting-action"
        return "awaiting-condition" if stages & {"open", "false"} else "registered"

    @property
    def is_claimed(self) -> bool:
        """True while an action of one of its rules is under way, which may keep the object that it
        carries.
        """
        return bool(self.object) and any(rule.stage == "acting" for rule in self.rules.values())

    def unbind(self) -> None:
        """Release the event from its state, if no rule there is due, ready or acting."""
        if not any(rule.stage in ("due", "ready", "acting") for rule in self.rules.values()):
            self.state = ""


class EventWaiter(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An instance that waits for an event, or for its end (K53, K54), until a moment."""

    instance: int
    event: str
    end: bool = False
    until: float | None = None


class StoredEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event that no wait has taken yet (KA12), or the end of one."""

    event: int
    parameters: tuple[str, ...] = ()
    result: str = ""


class TaskServerState(RunState, omit_defaults=True):
    """The service run of a task type, or of a global event.

    Objects are named by the eid they had on arrival.
    """

    KIND: ClassVar[str] = "task server"
    MOVES: ClassVar[Moves] = {"ready": frozenset({"serving"}), "serving": frozenset({"failed", "cancelled"})}

    version: str = ""
    """The digest of the version loaded last."""
    gone: bool = False
    """True if the file of that version is gone."""
    queue: ArrivalLine[int] = msgspec.field(default_factory=ArrivalLine)
    """The waiting objects, oldest first."""
    objects: dict[int, Queued] = {}
    """The objects in the queue, and the parts that wait."""
    parts: dict[int, dict[int, int]] = {}
    """The parts that wait for the others, by parent and ordinal."""
    carried: dict[int, int] = {}
    """The objects that events carry, each with its event."""
    given: dict[int, str] = {}
    """The objects that instances have, each with the call that began the instance, or its eid."""
    at_work: dict[int, KnownInstance] = {}
    """The instances known to the server, by eid."""
    takers: dict[int, str] = {}
    """The instances that wait for an object, each with its signal."""
    called: dict[str, CalledInstance] = {}
    """The instances that the server has called and that have not ended, by call."""
    present: dict[str, Present] = {}
    """The instances that are free to act, by state."""
    events: dict[int, RaisedEvent] = {}
    """The events that have not ended."""
    open: dict[str, ArrivalLine[str]] = {}
    """The rules to be judged when an instance is in their state, by that state."""
    picky: dict[str, ArrivalLine[str]] = {}
    """The rules to judge again for each new object, by state; they are false for the present objects."""
    pending: dict[int, ArrivalLine[str]] = {}
    """The rules that wait for their receiver to be free, by receiver."""
    chosen: dict[int, ArrivalLine[str]] = {}
    """The rules whose condition held and whose raiser waits, by receiver."""
    unserved: ArrivalLine[int] = msgspec.field(default_factory=ArrivalLine)
    """The events that no instance could receive, and for which none was begun."""
    acts: dict[str, str] = {}
    """The actions under way: call to rule."""
    raisers: dict[str, int] = {}
    """The signals of waiting raisers, each with its event."""
    waits: dict[str, EventWaiter] = {}
    """The instances that wait for an event, by signal."""
    waiters: dict[str, dict[str, None]] = {}
    """The signals of those waits by the name of the event, marked with `!` for its end."""
    stored: dict[str, list[StoredEvent]] = {}
    """The events that no wait has taken yet, by that name."""
    withdrawing: dict[str, tuple[str, int]] = {}
    """The signals to be answered, and their objects, by the call that must end first."""
    sent: dict[str, tuple[int, int]] = {}
    """The objects that calls put back to another type, and their cases."""
    own: int = 0
    """The number of the last event that came by itself."""
    due: float | None = None
    """The moment of the next such event, or of the next run of a periodic task."""
    missed: bool = False
    """True if one fell due while the last was under way."""

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
        """Take its object from an instance."""
        entry = self.at_work.get(instance)
        if entry is not None and entry.object:
            if self.given.get(entry.object) == str(instance):
                del self.given[entry.object]
            self.put_instance(instance, replace(entry, object=0, case=0))

    def take_out(self, eid: int) -> Queued | None:
        """Take an object out of the queue or out of the waiting parts."""
        queued = self.objects.pop(eid, None)
        self.queue.discard(eid)
        if queued is not None and queued.count and (parts := self.parts.get(queued.parent)) is not None:
            parts.pop(queued.ordinal, None)
            if not parts:
                del self.parts[queued.parent]
        return queued

    def forget_instance(self, instance: int) -> None:
        """Remove an instance."""
        self.let_go(instance)
        self.takers.pop(instance, None)
        self.put_instance(instance, None)

    def store(self, name: str, event: StoredEvent) -> None:
        """Keep an event until an instance waits for it; at most `MOST_STORED` of its name."""
        stored = self.stored.setdefault(name, [])
        stored.append(event)
        del stored[:-MOST_STORED]

    def move_rule(self, event: int, number: int, stage: Stage | None) -> EventRule:
        """Move a rule to another stage, and out of the lines of the last one; None if it has ended."""
        rule, key = self.events[event].rules[number], rule_key(event, number)
        if rule.state in self.open:
            _leave(self.open, rule.state, key)
        if rule.state in self.picky:
            _leave(self.picky, rule.state, key)
        if rule.receiver in self.pending:
            _leave(self.pending, rule.receiver, key)
        if stage in (None, "registered") and rule.receiver in self.chosen:
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
        """Update an instance, and give it an object in place of its last one; 0 for none."""
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
        """Update an instance; remove it if `entry` is None."""
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
        """The list that an instance is in; None if its state has no rules, or if it is acting."""
        if not entry.state or entry.acting:
            return None
        present = self.present.setdefault(entry.state, Present())
        return present.busy if entry.object else present.idle


def ended(name: str) -> str:
    """The name under which the end of an event is stored and waited for."""
    return f"{name}!"


Name = TypeVar("Name", int, str)


def _leave(lines: dict[Name, ArrivalLine[str]], name: Name, key: str) -> None:
    """Remove a key from the line of a name."""
    line = lines[name]
    line.discard(key)
    if not line:
        del lines[name]


def rule_key(event: int, number: int) -> str:
    """The name of a rule of an event."""
    return f"{event}/{number}"


def read_key(key: str) -> tuple[int, int]:
    """The event and the number of its rule, read from a key."""
    event, _, number = key.partition("/")
    return int(event), int(number)
