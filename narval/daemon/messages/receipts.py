"""Receipts: answering messages that tell a waiting call that its elements are taken (G27)."""

from __future__ import annotations

from narval.agent.turn import Turn
from narval.calls.leaving import addressed
from narval.core.agent_name import peer_of
from narval.core.engines.commands import Call
from narval.core.engines.events import Failure, Returned
from narval.core.errors import ActionError
from narval.daemon.messages.mailbox import Outbox
from narval.store.batch import ResultRow

AWAITED = "awaited"
"""The prefix of a scope of results, followed by the id of a call. The scope has the messages to other homes
that have no receipt yet, each with its peer.
"""


def await_receipt(turn: Turn, call: str, id: str, peer: str) -> None:
    """Wait for the receipt of a message of a call to another home, where it may wait for long."""
    turn.transaction.batch.put_result(ResultRow(f"{AWAITED} {call}", id, turn.at, peer.encode()))


def _is_sent_to(turn: Turn, id: str, sender: str) -> bool:
    """Record that a message is taken, or is not, as its receiver reports; False for one that was not sent to
    an agent of that home.
    """
    if not peer_of(sender):
        return True
    scope, batch = f"{AWAITED} {_call_of(id)}", turn.transaction.batch
    waiting = turn.agent.store.results_of(scope, (id,))
    if not waiting or waiting[0].data != peer_of(sender).encode():
        return False
    batch.drop_result(scope, id)
    return True


def _receipts_wanted(turn: Turn, call: str) -> bool:
    """True while a receipt from another home is awaited."""
    scope = f"{AWAITED} {call}"
    in_turn = turn.transaction.batch.results_in(scope)
    return any(in_turn.values()) or any(row.key not in in_turn for row in turn.agent.store.results(scope))


def _call_of(id: str) -> str:
    """The external id of the call that sent a message."""
    return id.partition("/")[0]


def is_awaited(outbox: Outbox, turn: Turn, call: Call) -> bool:
    """True while a message of a call is not taken."""
    sender, office = outbox.sender, outbox.office
    id = f"{sender.id}.{call.call}"
    try:
        names = {name for name, _ in addressed(turn.agent.memory, call)}
    except ActionError:
        return False  # the elements are forgotten, with their receivers
    if any(map(peer_of, names)) and _receipts_wanted(turn, id):
        return True
    receivers = [
        row for name in names if not peer_of(name) and (row := office.addresses.find(name)) is not None
    ]
    return any(
        _call_of(waiting) == id
        for receiver in receivers
        for waiting in office.letters.ids(receiver.agent, sender.agent)
    )


def settle_call(
    outbox: Outbox, turn: Turn, run: int, id: str, problem: Failure | None = None, *, sender: str
) -> None:
    """Answer the call that sent a message, if it waits for that and none of its other messages is pending.

    `id` is that of the message, `problem` the reason why it could not be taken, `sender` the agent that
    reports.
    """
    if not _is_sent_to(turn, id, sender):
        return
    waiting = turn.agent.runs.active.get(run)
    call = waiting.calls.get(_call_of(id).partition(".")[2]) if waiting is not None else None
    if call is not None and call.begun and (problem is not None or not is_awaited(outbox, turn, call)):
        turn.tell(run, Returned(0, 0.0, call.call, problem=problem))
