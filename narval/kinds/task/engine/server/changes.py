"""The facts that change the service run of a task type (K63), each with its effect. Applying one decides
nothing.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from narval.core.engines.run_state import RunBegan, RunChange
from narval.core.memory.labels import recorded
from narval.kinds.task.engine.server.line import ArrivalLine
from narval.kinds.task.engine.server.state import (
    CalledInstance,
    EventRule,
    EventWaiter,
    KnownInstance,
    Queued,
    RaisedEvent,
    Result,
    StoredEvent,
    TaskServerState,
    ended,
    rule_key,
)
from narval.kinds.task.language.windows import Interval


class ServerChange(RunChange, frozen=True):
    """A fact that changes a service run."""


class ServerFact(ServerChange, frozen=True):
    """A fact with its moment."""

    at: float


class ObjectFact(ServerFact, frozen=True):
    """A fact about an object."""

    object: int


class InstanceFact(ServerFact, frozen=True):
    """A fact about an instance."""

    instance: int


class CallFact(ServerFact, frozen=True):
    """A fact about a call of the server."""

    call: str


class EventFact(ServerFact, frozen=True):
    """A fact about an event."""

    event: int


class RuleFact(EventFact, frozen=True):
    """A fact about a rule of an event, by its number in the event."""

    rule: int


class ServerBegan(ServerChange, RunBegan, frozen=True):
    """The type is loaded for the first time."""

    def apply(self, state: TaskServerState) -> None:
        state.begin(self)
        state.move("serving")


class ServerLoaded(ServerFact, frozen=True):
    """A version of the type is loaded; "" if its file is gone."""

    version: str = ""

    def apply(self, state: TaskServerState) -> None:
        state.gone = not self.version
        state.version = self.version or state.version


class ServerEnded(ServerFact, frozen=True):
    """The service run has ended: its type is gone for good, or narval failed."""

    status: str = "cancelled"
    error: int | None = None

    def apply(self, state: TaskServerState) -> None:
        state.move(self.status, self.at, self.error)


# --- the queue --------------------------------------------------------------------------------------------


class Enqueued(ObjectFact, frozen=True):
    """An object was queued, at the end or, if given back, at the `front`; a part waits for the others."""

    case: int = 0
    parent: int = 0
    ordinal: int = 0
    count: int = 0
    front: bool = False

    def apply(self, state: TaskServerState) -> None:
        state.unhand(self.object)
        state.objects[self.object] = Queued(self.at, self.case, self.parent, self.ordinal, self.count)
        if self.count:
            state.parts.setdefault(self.parent, {})[self.ordinal] = self.object
        elif self.front:
            state.queue.prepend(self.object)
        else:
            state.queue.append(self.object)


class TakeParked(InstanceFact, frozen=True):
    """An instance waits for an object; it has finished the last one, and is in no state."""

    signal: str

    def apply(self, state: TaskServerState) -> None:
        state.let_go(self.instance)
        state.takers[self.instance] = self.signal
        entry = replace(state.at_work[self.instance], state="", take=self.signal, took="")
        state.put_instance(self.instance, entry)


class ObjectGiven(InstanceFact, frozen=True):
    """A waiting instance was given an object; 0 if it must end."""

    object: int = 0

    def apply(self, state: TaskServerState) -> None:
        took = state.takers.pop(self.instance, "")
        queued = state.take_out(self.object) if self.object else None
        case = queued.case if queued is not None else 0
        fields = {"object": self.object, "case": case, "take": "", "took": took}
        entry = replace(state.at_work[self.instance], state="", **fields)
        state.put_instance(self.instance, entry)
        if self.object:
            state.given[self.object] = str(self.instance)


class ObjectGone(ObjectFact, frozen=True):
    """An object is no longer in the queue, nor with an instance of this type; `why` is the reason."""

    why: str = ""

    def apply(self, state: TaskServerState) -> None:
        state.unhand(self.object)
        state.take_out(self.object)


class PartsMerged(ObjectFact, frozen=True):
    """All parts of an object had arrived and were merged into one element, its next version (K20)."""

    parts: tuple[int, ...]
    element: int

    def apply(self, state: TaskServerState) -> None:
        queued = [state.take_out(part) for part in self.parts]
        first = queued[0]
        case = first.case if first is not None else 0
        since = min(part.at for part in queued if part is not None)
        state.objects[self.element] = Queued(since, case)
        state.queue.append(self.element)


class ObjectSent(CallFact, frozen=True):
    """An object goes back to the type that it came from, with `call`."""

    object: int
    case: int
    to: str = ""

    def apply(self, state: TaskServerState) -> None:
        state.sent[self.call] = (self.object, self.case)


class SendingOver(CallFact, frozen=True):
    """The `call` of an `ObjectSent` was answered."""

    def apply(self, state: TaskServerState) -> None:
        del state.sent[self.call]


class WithdrawalBegan(CallFact, frozen=True):
    """An instance must give up its object; the signal is answered when `call` has ended."""

    object: int
    signal: str
    why: str = ""

    def apply(self, state: TaskServerState) -> None:
        state.withdrawing[self.call] = (self.signal, self.object)


class WithdrawalEnded(CallFact, frozen=True):
    """A withdrawal has ended."""

    def apply(self, state: TaskServerState) -> None:
        _, eid = state.withdrawing.pop(self.call)
        state.unhand(eid)


# --- instances --------------------------------------------------------------------------------------------


class InstanceJoined(InstanceFact, frozen=True):
    """An instance that the server did not begin has joined."""

    user: str = ""
    role: str = ""
    program: bool = False

    def apply(self, state: TaskServerState) -> None:
        entry = KnownInstance(self.at, user=self.user, role=self.role, program=self.program)
        state.put_instance(self.instance, entry)


class InstanceAt(InstanceFact, frozen=True):
    """An instance is in a state that has rules, or in none; `call` is the server's call that began it, if
    any.
    """

    state: str = ""
    object: int = 0
    case: int = 0
    call: str = ""

    def apply(self, state: TaskServerState) -> None:
        entry = state.at_work.get(self.instance, KnownInstance(self.at, self.call))
        if self.call in state.called:
            state.called[self.call] = replace(state.called[self.call], instance=self.instance)
        state.hold(self.instance, replace(entry, state=self.state), self.object, self.case)


class InstanceLeft(InstanceFact, frozen=True):
    """An instance has left."""

    why: str = ""

    def apply(self, state: TaskServerState) -> None:
        state.forget_instance(self.instance)


class InstanceCalled(CallFact, frozen=True):
    """The server began an instance: on an object of the queue, on an event's object, or on none."""

    object: int = 0
    case: int = 0
    event: int = 0

    def apply(self, state: TaskServerState) -> None:
        state.take_out(self.object)
        state.called[self.call] = CalledInstance(self.at, self.object, self.case, self.event)
        if self.event:
            state.events[self.event].started = True
            state.unserved.discard(self.event)
        if self.object:
            state.given[self.object] = self.call


class CalledOver(CallFact, frozen=True):
    """An instance that the server called has ended."""

    problem: str = ""

    def apply(self, state: TaskServerState) -> None:
        called = state.called.pop(self.call)
        if state.given.get(called.object) == self.call:
            del state.given[called.object]
        if called.instance:
            state.forget_instance(called.instance)


class TickSet(ServerFact, frozen=True):
    """The next run of a periodic task, or the next base of a global event, was scheduled; None for none."""

    due: float | None = None
    missed: bool = False

    def apply(self, state: TaskServerState) -> None:
        state.due, state.missed = self.due, self.missed


# --- events -----------------------------------------------------------------------------------------------


class RuleWindows(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A rule that may answer an event, and the windows in which it is judged; None: whenever an instance is
    in the state.
    """

    state: str
    ordinal: int
    windows: tuple[Interval, ...] | None = None


class EventRaised(EventFact, frozen=True):
    """An event is raised, with its windows, which are never computed again."""

    name: str
    """Its name."""
    base: float
    """The moment from which its windows are counted."""
    rules: tuple[RuleWindows, ...]
    """The rules that may answer it."""
    parameters: tuple[str, ...] = ()
    """Its parameters."""
    sync: bool = False
    """True if the raiser waits for its end."""
    object: int = 0
    """The object that it carries."""
    case: int = 0
    """The case of that object."""
    users: tuple[str, ...] = ()
    """The users to whom it is addressed; () for all."""
    roles: tuple[str, ...] = ()
    """The roles to which it is addressed; () for all."""
    raiser: int = 0
    """The run that raised it."""
    raiser_type: str = ""
    """The type of that run."""
    signal: str = ""
    """The signal whose answer the raiser waits for."""
    by: str = ""
    """The person who raised it."""
    own: bool = False
    """True if it is a global event that comes by itself."""
    labels: tuple[str, ...] = ()
    """The labels of its content."""

    def apply(self, state: TaskServerState) -> None:
        rules = {
            number: EventRule(rule.state, rule.ordinal, rule.windows)
            for number, rule in enumerate(self.rules, 1)
        }
        event = RaisedEvent(
            self.event, self.name, self.at, self.base, self.parameters, self.sync, rules=rules
        )
        event.object, event.case, event.signal = self.object, self.case, self.signal
        event.users, event.roles = self.users, self.roles
        event.raiser, event.raiser_type = self.raiser, self.raiser_type
        event.labels = self.labels
        state.events[self.event] = event
        if self.own:
            state.own = self.event
        if self.object:
            state.carried[self.object] = self.event
        if self.signal:
            state.raisers[self.signal] = self.event
        state.store(self.name, StoredEvent(self.event, self.parameters))


class RuleWakes(ServerChange, frozen=True):
    """A rule must be examined again at a moment; None for never."""

    event: int
    rule: int
    at: float | None = None

    def apply(self, state: TaskServerState) -> None:
        state.events[self.event].rules[self.rule].wake = self.at


class WindowOpened(RuleFact, frozen=True):
    """A rule may be judged from now on, until a moment; None: whenever an instance is in the state."""

    until: float | None = None

    def apply(self, state: TaskServerState) -> None:
        rule = state.move_rule(self.event, self.rule, "open")
        rule.wake = self.until
        state.open.setdefault(rule.state, ArrivalLine()).append(rule_key(self.event, self.rule))
        if not state.events[self.event].started:
            state.unserved.append(self.event)


class ConditionJudged(RuleFact, frozen=True):
    """A condition was judged, for a receiver if there is one."""

    held: bool
    """True if it held."""
    receiver: int = 0
    """The instance for which it was judged; 0 for none."""
    windows: tuple[Interval, ...] | None = None
    """The windows of the action, if it held."""
    picky: bool = False
    """True if it is false for the present instances and depends on the receiver's object."""
    watched: bool = False
    """True if it is watched for, to be judged again."""
    hearsay: bool = False
    """The mark recorded before labels existed."""
    labels: tuple[str, ...] = ()
    """The labels of the elements that it depended on."""

    def apply(self, state: TaskServerState) -> None:
        rule = state.move_rule(self.event, self.rule, "due" if self.held else "false")
        event = state.events[self.event]
        state.unserved.discard(self.event)
        if self.held:
            rule.receiver, rule.before_action = self.receiver, self.windows
            of_both = recorded(rule.labels, rule.hearsay), recorded(self.labels, self.hearsay)
            rule.labels = tuple(sorted(set().union(*of_both)))
            if event.sync:
                state.chosen.setdefault(rule.receiver, ArrivalLine()).append(rule_key(event.id, self.rule))
            event.state = rule.state
            for number, other in event.rules.items():
                if other.state != rule.state:
                    state.move_rule(event.id, number, "registered")
        else:
            rule.watched = self.watched
            if self.picky:
                state.picky.setdefault(rule.state, ArrivalLine()).append(rule_key(self.event, self.rule))


class ActionDue(RuleFact, frozen=True):
    """The window of an action has begun, but its receiver is busy, or another rule may keep what the event
    carries.
    """

    def apply(self, state: TaskServerState) -> None:
        rule = state.move_rule(self.event, self.rule, "ready")
        state.pending.setdefault(rule.receiver, ArrivalLine()).append(rule_key(self.event, self.rule))


class ActionBegan(RuleFact, frozen=True):
    """The receiver is asked to do the action, with `call`."""

    call: str

    def apply(self, state: TaskServerState) -> None:
        rule, key = state.move_rule(self.event, self.rule, "acting"), rule_key(self.event, self.rule)
        rule.call = self.call
        state.acts[self.call] = key
        if rule.receiver:
            state.put_instance(rule.receiver, replace(state.at_work[rule.receiver], acting=key))


class RuleBack(RuleFact, frozen=True):
    """The receiver was not in the state when its action should begin: the condition is judged again (KA6)."""

    why: str = ""

    def apply(self, state: TaskServerState) -> None:
        rule = state.move_rule(self.event, self.rule, "registered")
        rule.receiver, rule.before_action = 0, None
        state.events[self.event].unbind()


class RuleOver(RuleFact, frozen=True):
    """A rule of an event has ended; if `kept`, its receiver now has the object that the event carried."""

    result: Result
    why: str = ""
    kept: bool = False

    def apply(self, state: TaskServerState) -> None:
        state.move_rule(self.event, self.rule, None)
        event = state.events[self.event]
        del event.rules[self.rule]
        if self.result != "passed over":
            event.results = (*event.results, self.result)
        event.unbind()
        if self.kept:
            state.take_carried(event)


class CarriedTaken(EventFact, frozen=True):
    """The object that an event carried is taken from it: it went back, is withdrawn, or now belongs to the
    `instance` whose action it was brought to.
    """

    to: str = ""
    instance: int = 0

    def apply(self, state: TaskServerState) -> None:
        event = state.events[self.event]
        if self.instance:
            state.hold(self.instance, state.at_work[self.instance], event.object, event.case)
        state.take_carried(event)


class EventOver(EventFact, frozen=True):
    """An event has ended, with the most severe result of its rules."""

    result: Result
    why: str = ""

    def apply(self, state: TaskServerState) -> None:
        event = state.events.pop(self.event)
        state.raisers.pop(event.signal, None)
        state.unserved.discard(self.event)
        state.store(ended(event.name), StoredEvent(event.id, event.parameters, self.result))


class RaiserGone(EventFact, frozen=True):
    """The raiser of a synchronous event no longer waits for its end."""

    def apply(self, state: TaskServerState) -> None:
        event = state.events[self.event]
        state.raisers.pop(event.signal, None)
        event.signal = ""


class WaitParked(ServerFact, frozen=True):
    """An instance waits for an event, or its end, until a moment."""

    signal: str
    instance: int
    event: str
    end: bool = False
    until: float | None = None

    def apply(self, state: TaskServerState) -> None:
        state.waits[self.signal] = EventWaiter(self.instance, self.event, self.end, self.until)
        name = ended(self.event) if self.end else self.event
        state.waiters.setdefault(name, {})[self.signal] = None


class WaitOver(ServerFact, frozen=True):
    """A wait has ended: the event came, the time ran out, or the instance is gone."""

    signal: str
    event: int = 0

    def apply(self, state: TaskServerState) -> None:
        waiter = state.waits.pop(self.signal)
        name = ended(waiter.event) if waiter.end else waiter.event
        del state.waiters[name][self.signal]
        if not state.waiters[name]:
            del state.waiters[name]


class StoredTaken(ServerFact, frozen=True):
    """A wait took a stored event (KA12)."""

    name: str
    event: int
    instance: int = 0

    def apply(self, state: TaskServerState) -> None:
        stored = [event for event in state.stored[self.name] if event.event != self.event]
        if stored:
            state.stored[self.name] = stored
        else:
            del state.stored[self.name]
