"""Messages, receipts and dead letters in a store (G23 to G25, G32)."""

from __future__ import annotations

from narval.store.batch import DeadLetterRow, MessageRow, TakenRow
from narval.store.letters import KeptLetter, PairRow, WaitingRow
from narval.store.store import Store
from tests.store.stores import batch


def message(receiver: int, sender: int, number: int, until: float | None = None) -> MessageRow:
    id, data = f"{sender}.{number}", b"<e/>" * number
    return MessageRow(receiver, sender, number, id, "element", 1.0, until, b"from", data)


def test_G25_messages_are_there_until_they_are_taken(store: Store) -> None:
    sent = [message(2, 1, number, float(number)) for number in (1, 2, 3)]
    store.commit(batch(1, messages=sent), batch(3, messages=[message(2, 3, 1)]))
    letters = store.letters
    assert letters.messages(2) == [*sent, message(2, 3, 1)]
    assert letters.messages(1) == []
    assert sorted(letters.waiting(1.0)) == [
        WaitingRow(2, 1, 3, 24, 1.0, 2.0, 3),
        WaitingRow(2, 3, 1, 4, None, None, 1),
    ]
    assert letters.messages_of({1, 2}) == letters.messages(2)
    both = [PairRow(2, 1, 3, 0, 3, 1.0), PairRow(2, 3, 1, 0, 1, 1.0)]
    assert (letters.pairs(0, 5), letters.pairs(0, 1), letters.pairs(3, 5)) == (both, both[:1], both[1:])
    store.commit(batch(2, taken=[TakenRow(2, 1, 2)]))
    assert letters.pairs(1, 5) == [PairRow(2, 1, 3, 2, 1, 1.0)]
    assert letters.messages(2) == [sent[2], message(2, 3, 1)]
    assert letters.taken(2) == [TakenRow(2, 1, 2)]
    store.commit(batch(2, taken=[TakenRow(2, 1, 3), TakenRow(2, 3, 1)]))
    assert (letters.messages(2), letters.waiting()) == ([], [])
    assert letters.pairs(2, 5) == [PairRow(2, 1, 3, 3, 0, None), PairRow(2, 3, 1, 1, 0, None)]
    assert letters.taken(2) == [TakenRow(2, 1, 3), TakenRow(2, 3, 1)]


def test_G23_the_last_number_of_a_pair_is_known_whether_it_was_taken_or_not(store: Store) -> None:
    letters = store.letters
    assert (letters.last_sent(2, 1), letters.last_correspondent()) == (0, 0)
    store.commit(batch(1, messages=[message(2, 1, 1), message(2, 1, 2)]))
    assert (letters.last_sent(2, 1), letters.last_sent(1, 2)) == (2, 0)
    store.commit(batch(2, taken=[TakenRow(2, 1, 2)]))
    assert (letters.last_sent(2, 1), letters.last_correspondent()) == (2, 2)
    store.commit(batch(1, messages=[message(2, 1, 3), message(7, 1, 1)]))
    assert (letters.last_sent(2, 1), letters.last_correspondent()) == (3, 7)


def test_G32_dead_letters_are_kept_for_their_sender_until_they_are_settled(store: Store) -> None:
    row = DeadLetterRow(3, "shop", 1, "3.1", "element", "invalid: no", 5.0, None, b"from", b"<e/>")
    store.commit(batch(2, dead_letters=[row, row._replace(number=2)]))
    first, second = store.letters.dead(3)
    assert first == KeptLetter(first.line, *row)
    assert second.line > first.line
    assert store.letters.dead(2) == []
    store.commit(batch(3, letters_settled=[first.line]))
    assert store.letters.dead(3) == [second]


def test_G20_what_is_addressed_to_an_agent_goes_with_it_and_what_it_sent_stays(store: Store) -> None:
    store.commit(batch(1, messages=[message(2, 1, 1)]), batch(2, messages=[message(1, 2, 1)]))
    store.commit(batch(removed_agents=[2]))
    assert store.letters.messages(2) == []
    assert store.letters.messages(1) == [message(1, 2, 1)]
