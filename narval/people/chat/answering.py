"""Questions in a chat: the items whose messages wait for an answer, and the answer that a person gives."""

from __future__ import annotations

from msgspec.structs import replace

from narval.agent.turn import Turn
from narval.people.chat.boxes import FORM, OUT, QUESTION, SENT, ChatBox, ChatBoxes, outbox_in, sent_in
from narval.people.chat.messages import (
    ASKED,
    CLOSED,
    ENDED,
    Answering,
    Asked,
    AskedBack,
    OpenForm,
    Outbound,
    Reply,
    Sent,
    Taken,
)

EARLY = 2.0
"""Seconds by which the moment of a message may be early: some servers give whole seconds."""


def asked_in(box: ChatBox, person: str, at: float) -> list[Asked]:
    """The waiting items that a person was asked about, each once, in the order of the last messages.

    A message that is being sent at the moment `at` may have arrived already, although this is not recorded
    yet; a message held back by quiet hours has not.
    """
    waiting = dict[tuple[str, int], Asked]()
    for sent in _questions(box, person, at):
        waiting.pop((sent.agent, sent.item), None)
        waiting[sent.agent, sent.item] = asked_by(sent)
    return list(waiting.values())


def was_written_before(box: ChatBox, taken: Taken, at: float) -> bool:
    """True if a message was written before its person was asked about any of the waiting items: it waited, or
    came late, and meant another.
    """
    written = taken.message.at
    return not any(
        sent.number < taken.number and (written is None or sent.sent_after <= written + EARLY)
        for sent in _questions(box, taken.person, at)
    )


def asked_since(box: ChatBox, person: str, since: AskedBack | OpenForm | None, at: float) -> list[Asked]:
    """The waiting items that a person was asked about after another question."""
    if since is None:
        return []
    return [asked_by(sent) for sent in _questions(box, person, at) if sent.sent_after > since.at]


def _questions(box: ChatBox, person: str, at: float) -> list[Sent | Outbound]:
    """The messages, sent or being sent, that ask a person about waiting items."""
    under_way = [one for id, one in box.outbox.items() if id in box.handed and one.was_due(at)]
    messages: list[Sent | Outbound] = [*box.sent.values(), *under_way]
    return [sent for sent in messages if sent.purpose == ASKED and sent.to == person]


def asked_by(sent: Sent | Outbound) -> Asked:
    """The item that a message is about."""
    return Asked(item=sent.item, shown=sent.shown, agent=sent.agent, title=sent.title)


def settle_answering(boxes: ChatBoxes, answering: Answering, turn: Turn, box: ChatBox, taken: Taken) -> None:
    """Record the answer that the writer of a message is giving, and the item that the writer has finished."""
    if answering.form is not None:
        box.put(turn, FORM, taken.person, answering.form)
    elif taken.person in box.forms:
        box.drop(turn, FORM, taken.person)
    done = answering.done
    if done is not None:
        about = Reply(text=answering.said, to=taken.person, item=done.item, agent=done.agent, purpose=CLOSED)
        for number, each in enumerate(boxes.all()):
            end_of_item(turn, each, f"{box.name}.{taken.number}.{number}", about)


def settle_question(turn: Turn, box: ChatBox, taken: Taken, question: AskedBack | None) -> None:
    """Record the question put back to the writer of a message; any new message cancels an earlier one."""
    if question is not None:
        box.put(turn, QUESTION, taken.person, question)
    elif taken.person in box.questions:
        box.drop(turn, QUESTION, taken.person)


def end_of_item(turn: Turn, box: ChatBox, id: str, reply: Reply) -> None:
    """Record that a person is no longer asked about an item, and say so if the person was asked.

    The message replaces the last one that asked. A question that is not being sent yet is dropped.
    """
    key, under_way = (reply.item, reply.agent, reply.to), False
    for outbound in outbox_in(turn, box).values():
        if outbound.purpose == ASKED and (outbound.item, outbound.agent, outbound.to) == key:
            if outbound.id in box.handed:
                under_way = True
                box.put(turn, OUT, outbound.id, replace(outbound, purpose=ENDED))
            else:
                box.drop(turn, OUT, outbound.id)
    sent = [
        (kind_id, one)
        for kind_id, one in sent_in(turn, box).items()
        if (one.item, one.agent, one.to) == key and one.purpose in (ASKED, ENDED)
    ]
    for kind_id, one in sent:
        if one.purpose == ASKED:
            box.put(turn, SENT, kind_id, replace(one, purpose=ENDED))
    if sent:
        kind_id, last = sent[-1]
        put_once(
            turn,
            box,
            id,
            replace(reply, place=last.place, address=last.address, edits=kind_id, replies_to=kind_id),
        )
    elif under_way:
        put_once(turn, box, id, reply)


def is_put(turn: Turn, box: ChatBox, id: str) -> bool:
    """True if a message with this id is in the outbox or was sent."""
    return id in outbox_in(turn, box) or any(sent.id == id for sent in sent_in(turn, box).values())


def put_once(turn: Turn, box: ChatBox, id: str, reply: Reply) -> None:
    """Record a message in the outbox, unless one with its id is there or was sent."""
    if not is_put(turn, box, id):
        box.send(turn, reply, id=id)
