"""Receipts: a call that waits until what it sent is taken is told so by messages that come back (G27)."""

from __future__ import annotations

from narval.agent.turn import Turn
from narval.core.engines.commands import Call
from narval.core.engines.events import Failure, Returned
from narval.core.errors import ActionError
from narval.daemon.messages.addressing import addressed
from narval.daemon.messages.contract import Receiver


def is_awaited(sender: Receiver, turn: Turn, call: Call) -> bool:
    """True while a message that a call has sent is not taken."""
    id, office = f"{sender.identity.id}.{call.call}", sender.office
    try:
        names = {name for name, _ in addressed(turn.agent.memory, call)}
    except ActionError:
        return False  # what was sent is forgotten: nobody can say where it went
    receivers = [row for name in names if (row := office.find(name)) is not None]
    return any(
        waiting.partition("/")[0] == id
        for receiver in receivers
        for waiting in office.letters.ids(receiver.agent, sender.identity.agent)
    )


def settle_call(sender: Receiver, turn: Turn, run: int, id: str, problem: Failure | None = None) -> None:
    """Answer the call that sent a message, if it waits for it and nothing else of it is on its way.

    `id` is that of the message, `problem` says why it could not be taken.
    """
    waiting = turn.agent.runs.active.get(run)
    call = waiting.calls.get(id.partition("/")[0].partition(".")[2]) if waiting is not None else None
    if call is not None and call.begun and (problem is not None or not is_awaited(sender, turn, call)):
        turn.tell(run, Returned(0, 0.0, call.call, problem=problem))
