"""Withdrawals between agents. Every agent that was sent an element, or something made from it, is told after
the element itself that it was withdrawn, is doubtful or was confirmed.

A message has the standing of elements that its turn has withdrawn, doubted or confirmed, or has sent although
they are withdrawn or doubtful. A repeated message changes nothing. Anything made there from several elements
is judged by all of them: the receiver stores their standing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from narval.agent.turn import Turn
from narval.agent.withdrawing import confirm, doubt, withdraw_and_tell
from narval.core.elements.element import Origin
from narval.core.errors import UnreadableError
from narval.daemon.messages.contract import Receiver, Refusal
from narval.daemon.messages.envelope import Envelope, Outgoing, seal
from narval.daemon.messages.mailbox import Outbox
from narval.store.batch import MessageRow, ResultRow
from narval.store.codec import reader

WITHDRAW = "withdraw"
"""The kind of these messages."""

STANDING, BAD = "standing", b"bad"
"""The scope of results for elements of a sender, by its id, from which something here was made together with
others; and the value for those that are withdrawn or doubtful.
"""


class TakenBack(msgspec.Struct, frozen=True, omit_defaults=True):
    """The standing of elements that a receiver was sent, by their eids at the sender: the withdrawn ones with
    the reason, the doubtful ones, and the confirmed ones.
    """

    withdrawn: dict[int, str] = {}
    doubtful: tuple[int, ...] = ()
    confirmed: tuple[int, ...] = ()


_read = reader("a withdrawal", TakenBack)


def send_withdrawals(turn: Turn, outbox: Outbox) -> None:
    """Notify the agents that were sent elements that this turn has withdrawn, doubted or confirmed."""
    memory, receivers = turn.agent.memory, turn.transaction.taken_back
    for name, concerned in receivers.items():
        receiver = outbox.office.addresses.find(name)
        if receiver is None:
            continue  # it is gone, with everything that it was sent
        what = TakenBack(
            {eid: memory.withdrawn[eid] for eid in sorted(concerned & memory.withdrawn.keys())},
            tuple(sorted(concerned & memory.doubtful)),
            tuple(sorted(concerned - memory.withdrawn.keys() - memory.doubtful)),
        )
        id = f"{outbox.sender.id}.{turn.agent.numbers.draw()}"
        outbox.send(turn, receiver, Outgoing(WITHDRAW, id, outbox.envelope(), seal(what)))
    receivers.clear()


def take_withdrawal(receiver: Receiver, turn: Turn, row: MessageRow, envelope: Envelope) -> Refusal | None:
    """Withdraw, doubt or confirm what was made of these elements here, by their standing at the sender."""
    try:
        what = _read(row.data)
    except UnreadableError as error:
        return Refusal("unreadable", str(error))
    memory = turn.agent.memory
    for _ in memory.descent.reading:
        pass
    origin = Origin(by=envelope.by, actor=envelope.actor, agent=envelope.sender, message=row.id)
    ids = (f"{envelope.sender_id}.", f"{receiver.outbox.sender.id}.")
    by_reason: dict[str, list[int]] = {}
    doubtful, confirmed = list[int](), list[int]()
    named = (*what.withdrawn, *what.doubtful, *what.confirmed)
    concerned = {eid for there in named for eid in memory.descent.received(envelope.sender, there)}
    origins: dict[int, Origin] = {}
    for eid in sorted(concerned):
        element = memory.element(eid)
        if element is not None and element.origin is not None and element.origin.message.startswith(ids):
            origins[eid] = element.origin  # else it is from another agent that had this name before
    bad = {*what.withdrawn, *what.doubtful, *_bad_before(turn, envelope.sender_id, origins.values(), what)}
    for eid, origin_there in origins.items():
        copy_of = origin_there.sent_as[0] if origin_there.sent_as else 0
        if copy_of in what.withdrawn:
            by_reason.setdefault(what.withdrawn[copy_of], []).append(eid)
        elif _is_doubtful(origin_there, what, bad):
            doubtful.append(eid)
        else:
            confirmed.append(eid)
    for why, eids in by_reason.items():
        withdraw_and_tell(turn, tuple(eids), f"{envelope.sender} withdrew it: {why}", origin)
    doubt(turn.transaction, tuple(doubtful))
    confirm(turn.transaction, tuple(confirmed), f"{envelope.sender} confirmed it", origin)
    return None


def _is_doubtful(origin: Origin, what: TakenBack, bad: set[int]) -> bool:
    """True for a copy of a doubtful element, and for anything made there only from such elements."""
    if origin.sent_as:
        return origin.sent_as[0] in what.doubtful
    return bad.issuperset(origin.made_there)


def _bad_before(turn: Turn, sender: str, origins: Iterable[Origin], what: TakenBack) -> Iterator[int]:
    """The elements there that were withdrawn or doubtful by earlier messages, among those from which
    something was made together with others; their present standing is stored.
    """
    together = {there for origin in origins if len(origin.made_there) > 1 for there in origin.made_there}
    if not together:
        return
    scope, batch = f"{STANDING} {sender}", turn.transaction.batch
    now = dict.fromkeys((*what.withdrawn, *what.doubtful), BAD) | dict.fromkeys(what.confirmed, b"")
    others = sorted(map(str, together - now.keys()))
    standing = {row.key: row.data for row in (turn.agent.store.results_of(scope, others) if others else ())}
    standing |= {key: row.data for key, row in batch.results_in(scope).items() if row is not None}
    for there in sorted(together & now.keys()):
        batch.put_result(ResultRow(scope, str(there), turn.at, now[there]))
    yield from (int(key) for key, data in standing.items() if data and int(key) not in now)
