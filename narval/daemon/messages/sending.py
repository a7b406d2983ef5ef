"""Sending: calls of kind `send`, answered in the turn that records what they send (G24, G27)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, count
from typing import Any

from msgspec.structs import replace

from narval.agent.loop import Delivery, Request
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.calls.leaving import addressed
from narval.core.agent_name import peer_of
from narval.core.elements.element import Element
from narval.core.engines.commands import Call
from narval.core.engines.events import CallStarting, Failure, Produced, Returned
from narval.core.errors import ActionError, RequestError
from narval.core.memory.doubting import is_source
from narval.daemon.messages.agent_mail import AgentMail
from narval.daemon.messages.envelope import ELEMENT, Outgoing
from narval.daemon.messages.undelivered import await_receipt, is_awaited


def send_elements(mail: AgentMail, run: Run, call: Call, turn: Turn) -> None:
    """Send the elements of a call, one message for each element and receiver, and answer it.

    A call that waits until all are taken is answered by the last receipt.
    """
    if call.call not in run.calls:
        return
    if call.call in run.abandoned:
        turn.tell(run.eid, Returned(0, 0.0, call.call, abandoned=True))
        return
    if run.calls[call.call].begun:  # it was sent before
        if not is_awaited(mail.outbox, turn, call):
            turn.tell(run.eid, Returned(0, 0.0, call.call))
        return
    try:
        pairs = list(addressed(turn.agent.memory, call))
    except ActionError as error:
        problem = Failure(error.kind, str(error), final=error.final)
        turn.tell(run.eid, Returned(0, 0.0, call.call, problem=problem))
        return
    lacking = mail.lacking(turn, ((name, element.xml) for name, element in pairs))
    if lacking is not None:
        again = Request(partial(send_elements, mail, run, call))
        mail.wait(*lacking, call.call, partial(mail.post, again))
        return
    how: dict[str, Any] = call.payload or {}
    waits = bool(how.get("taken")) and any(mail.office.addresses.find(name) is not None for name, _ in pairs)
    event = CallStarting(0, 0.0, call.call) if waits else Returned(0, 0.0, call.call)
    if turn.tell(run.eid, event):
        _send(mail, run, call, turn, pairs, waits, how.get("keep"))


def _send(
    mail: AgentMail,
    run: Run,
    call: Call,
    turn: Turn,
    pairs: list[tuple[str, Element]],
    waits: bool,
    keep: float | None,
) -> None:
    by = _by(turn, run)
    for (name, element), id in zip(pairs, _ids(mail, call.call), strict=False):
        envelope = mail.outbox.envelope(run.eid, call.step, (element.eid,), *by, awaited=waits)
        mail.send(turn, name, Outgoing(ELEMENT, id, envelope, element.xml), keep)
        if (
            waits
            and (peer := peer_of(name))
            and mail.office.addresses.find_for(mail.identity.name, name) is not None
        ):
            await_receipt(turn, f"{mail.identity.id}.{call.call}", id, peer)


def send_from_outside(
    mail: AgentMail,
    turn: Turn,
    to: str,
    elements: list[bytes],
    *,
    by: str = "",
    actor: str = "",
    keep: float | None = None,
) -> list[str]:
    """Send elements from outside to an agent, each as a message; return their ids. Raises RequestError."""
    if mail.office.addresses.find_for(mail.identity.name, to) is None:
        raise RequestError(mail.office.addresses.why_not(mail.identity.name, to))
    lacking = mail.lacking(turn, ((to, xml) for xml in elements))
    if lacking is not None:
        raise RequestError(f"there is no {lacking[1]}; send again when some are taken")
    envelope = mail.outbox.envelope(by=by, actor=actor)
    ids = [f"{mail.identity.id}.{turn.agent.numbers.draw()}" for _ in elements]
    for id, xml in zip(ids, elements, strict=True):
        mail.send(turn, to, Outgoing(ELEMENT, id, envelope, xml), keep)
    return ids


def send_outputs(mail: AgentMail, turn: Turn, run: Run, event: Returned | Produced) -> bool:
    """Deliver a call's result to its run, and send its messages to other agents (G28); False if that had no
    effect, or if it is retried when there is room (G31).
    """
    kept = tuple([output for output in event.elements if not output.to])
    sent = event.elements[len(kept) :]
    lacking = mail.lacking(turn, ((output.to, output.xml) for output in sent))
    if lacking is not None:
        mail.wait(*lacking, event.call, partial(mail.post, Delivery(run.eid, event)))
        return False
    call = run.calls.get(event.call)
    given = dict.fromkeys(eid for _, eids in call.inputs for eid in eids) if call else ()
    made_from = tuple([eid for eid in given if is_source(turn.agent.memory, eid)])
    if not turn.tell(run.eid, replace(event, elements=kept)):
        return False
    by, actor = _by(turn, run)
    envelope = replace(mail.outbox.envelope(run.eid, by=by, actor=actor), made_from=made_from)
    for output, id in zip(sent, _ids(mail, event.call), strict=False):
        mail.send(turn, output.to, Outgoing(ELEMENT, id, envelope, output.xml))
    return True


def _by(turn: Turn, run: Run) -> tuple[str, str]:
    """The person on whose behalf a run works, and the actor (P39)."""
    runs = turn.agent.runs
    first = run if run.caller is None else runs[runs.top(run)]
    return first.by, first.actor


def _ids(mail: AgentMail, call: str) -> Iterator[str]:
    """The ids of the messages of a call: its external id, followed by a number from the second on."""
    first = f"{mail.identity.id}.{call}"
    return chain((first,), (f"{first}/{number}" for number in count(2)))
