"""The queue of a type (K21, K57): objects in order of arrival, parts that wait for each other (K20)."""

from __future__ import annotations

from lxml import etree

from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.events import Plain, Returned, Signalled
from narval.kinds.task.engine.server import changes
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.ending import cancel_event


def put(decision: ServerDecision, event: Signalled) -> None:
    """Put an object into the queue; a part waits until all parts have arrived."""
    state, eid, case = decision.state, event.number("object"), event.number("case") or event.sender
    if decision.definition.is_global:
        decision.refuse(event, "no-queue", f"{decision.definition.full_name} is an event; put it at a task")
        return
    decision.answer(event)
    if not eid or eid in state.objects:
        return
    if eid in state.carried:  # the action of the event has routed it here
        decision.change(changes.CarriedTaken(decision.now, state.carried[eid], decision.definition.full_name))
    parent, ordinal, count = event.number("parent"), event.number("ordinal"), event.number("count")
    front = event.arguments.get("front") is True
    if decision.definition.composed_from and parent and count:
        decision.change(changes.Enqueued(decision.now, eid, case, parent, ordinal, count))
        if len(state.parts[parent]) >= count:
            _merge(decision, parent)
    else:
        decision.change(changes.Enqueued(decision.now, eid, case, front=front))


def _merge(decision: ServerDecision, parent: int) -> None:
    """Merge all parts of an object into one element: its attributes with the parts as children."""
    state = decision.state
    parts = [part for _, part in sorted(state.parts[parent].items())]
    case, now = state.objects[parts[0]].case, decision.elements(parent)
    missing = next((part for part in parts if not decision.elements(part)), parent if not now else 0)
    whole = decision.view.element(now[0]) if now else None
    if missing or whole is None:
        for part in parts:
            decision.change(changes.ObjectGone(decision.now, part, "a part is no longer there"))
        tell_lost(decision, parent, case, f"element {missing} is no longer there, so nothing can be merged")
        return
    of = etree.fromstring(whole.xml)
    root = etree.Element(of.tag, dict(of.attrib), nsmap=of.nsmap)
    eids = tuple(eid for part in parts for eid in decision.elements(part))
    for eid in eids:
        element = decision.view.element(eid)
        if element is not None:
            root.append(etree.fromstring(element.xml))
    merged = (now[0], *eids)
    made = decision.add(Element(0, etree.tostring(root)), "merge", inputs=merged, held=False, replaces=merged)
    decision.command(commands.Outdate(merged))
    decision.change(changes.PartsMerged(decision.now, parent, tuple(parts), made))
    if case:
        said: dict[str, Plain] = {"parent": parent, "object": made, "parts": [*parts]}
        said["type"] = decision.definition.full_name
        decision.tell("merged", said, run=case, elements=(made,))


# --- taking -----------------------------------------------------------------------------------------------


def take(decision: ServerDecision, event: Signalled) -> None:
    """Let an instance wait for an object. One that the server has called is answered at once."""
    state, instance = decision.state, event.number("instance") or event.sender
    entry = state.at_work.get(instance)
    if entry is None:
        decision.refuse(event, "not-joined", f"instance {instance} has not joined this type; join first")
        return
    if entry.take:
        decision.refuse(event, "not-listening", "it waits for an object already; wait for that answer")
        return
    decision.change(changes.TakeParked(decision.now, instance, event.signal))
    if entry.call and not next_object(decision):
        _give(decision, instance, 0)


def hand_out(decision: ServerDecision) -> None:
    """Give objects to the instances that wait for one."""
    state = decision.state
    while state.takers and not state.gone and (eid := next_object(decision)):
        _give(decision, next(iter(state.takers)), eid)


def _give(decision: ServerDecision, instance: int, eid: int) -> None:
    signal = decision.state.takers[instance]
    queued = decision.state.objects.get(eid)
    decision.change(changes.ObjectGiven(decision.now, instance, eid))
    case = queued.case if queued is not None else 0
    decision.reply(signal, object=eid, case=case, eids=list(decision.elements(eid)))


def next_object(decision: ServerDecision) -> int:
    """The next object; 0 if there is none. Objects whose elements are gone are reported as lost."""
    while (eid := decision.state.queue.first) is not None:
        if decision.elements(eid):
            return eid
        lose(decision, eid, decision.state.objects[eid].case, f"element {eid} is no longer there")
    return 0


def lose(decision: ServerDecision, eid: int, case: int, why: str) -> None:
    """Drop an object that cannot continue here, and tell its case."""
    decision.change(changes.ObjectGone(decision.now, eid, why))
    tell_lost(decision, eid, case, why)


def tell_lost(decision: ServerDecision, eid: int, case: int, why: str) -> None:
    """Tell a case that one of its objects cannot continue here."""
    if case:
        said: dict[str, Plain] = {"object": eid, "type": decision.definition.full_name, "why": why}
        decision.tell("lost", said, run=case)


# --- withdrawing ------------------------------------------------------------------------------------------


def withdraw(decision: ServerDecision, event: Signalled) -> None:
    """Take an object from the queue, from an event, or from an instance, which is told to stop."""
    state, why = decision.state, event.text("why")
    eid = _known(decision, event.number("object"))
    holder = state.given.get(eid, "")
    if eid in state.objects:
        decision.change(changes.ObjectGone(decision.now, eid, why))
        decision.answer(event, withdrawn=True)
    elif eid in state.carried:
        raised = state.events[state.carried[eid]]
        decision.change(changes.CarriedTaken(decision.now, raised.id, "no person: it is withdrawn"))
        cancel_event(decision, raised, "cancelled", why or "its object was withdrawn")
        decision.answer(event, withdrawn=True)
    elif holder:
        called = state.called.get(holder)
        instance = called.instance if called is not None else int(holder)
        if instance:
            call = decision.tell("stop", {"why": why, "withdrawn": True}, run=instance)
        else:
            call = holder
            decision.command(commands.CancelCall(call))
        decision.change(changes.WithdrawalBegan(decision.now, call, eid, event.signal, why))
    else:
        decision.answer(event, withdrawn=False)


def _known(decision: ServerDecision, eid: int) -> int:
    """The eid under which this server knows an object: the given one, or that of the present version."""
    state = decision.state
    places = (state.objects, state.given, state.carried)
    names = (eid, *decision.elements(eid))
    return next((name for name in names if any(name in there for there in places)), eid)


def withdrawn(decision: ServerDecision, event: Returned) -> None:
    """Answer a withdrawal, now that the instance that had the object has ended."""
    signal, eid = decision.state.withdrawing[event.call]
    decision.change(changes.WithdrawalEnded(decision.now, event.call))
    if eid in decision.state.given:
        decision.change(changes.ObjectGone(decision.now, eid, "it is withdrawn"))
    decision.reply(signal, withdrawn=True)


def sent(decision: ServerDecision, event: Returned) -> None:
    """Handle the answer about an object that was put back to the type it came from."""
    eid, case = decision.state.sent[event.call]
    decision.change(changes.SendingOver(decision.now, event.call))
    if event.problem is not None:
        tell_lost(decision, eid, case, f"it could not go back: {event.problem.message}")
