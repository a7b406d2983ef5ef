"""Messages to and from agents that other daemons of the store hold: found, counted and handed over once (G25,
G30, G31).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from narval.agent.loop import Delivery, Request
from narval.core.errors import StoreAwayError
from narval.daemon.messages.mailbox import Mailbox
from narval.daemon.messages.other_daemons import OtherDaemons
from narval.daemon.messages.post_office import Addresses, PostOffice
from narval.daemon.messages.room import MOST_OF_A_PAIR, MailboxRoom
from narval.store.batch import PASSIVE, AgentRow, MessageRow, TakenRow
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedStore
from tests.store.stores import batch

SENDER, RECEIVER = AgentRow(10, "a" * 32, "ada", PASSIVE), AgentRow(20, "b" * 32, "bob", PASSIVE)


def messages(first: int, last: int, sender: int = SENDER.agent) -> list[MessageRow]:
    return [
        MessageRow(RECEIVER.agent, sender, n, f"{n}", "element", 1.0, None, b"", b"<a/>")
        for n in range(first, last + 1)
    ]


class Side:
    """A daemon as far as messages go: its store, its office, and a mailbox if its agent is at work."""

    def __init__(self, server: Server, home: str, own: AgentRow) -> None:
        self.store = SharedStore(server)
        self.store.leases.join(home, f"{home}.example", "1.0")
        self.store.commit(batch(self.store.own, agents=[own]))
        self.others = OtherDaemons(self.store.leases)
        addresses = Addresses(self.here, elsewhere=self.others)
        self.office = PostOffice(self.store.letters, addresses, MailboxRoom())
        self.own = own
        self.woken: list[str] = []
        self.told: list[int] = []
        self.posted: list[Delivery | Request] = []
        self.office.open([own], self.woken.append, lambda moment: None)
        self.others.tell_by(self.told.append)

    def here(self, name: str) -> AgentRow | None:
        return self.own if name == self.own.name else None

    def sends(self, rows: list[MessageRow]) -> None:
        """Record messages, and hand them over."""
        self.office.expect(RECEIVER)
        self.store.commit(batch(SENDER.agent, messages=rows))
        self.office.hand_over(rows)

    def is_told(self) -> list[MessageRow]:
        """Read what waits, as a notice or a heartbeat has it done; those that cannot be handed over."""
        self.office.room.begin_recount()
        waiting = self.store.letters.waiting()
        rows = self.store.letters.messages(self.own.agent)
        missing = self.office.came(rows)
        self.office.recount(waiting, [self.own])
        return missing

    def mailbox(self) -> Mailbox:
        """The mailbox of the agent here, which is at work from now on."""
        made = Mailbox(self.own.agent, self.office, self.posted.append, lambda turn, row: True)
        made.open()
        return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with closing(Server(tmp_path / "server.db")) as made:
        yield made


@pytest.fixture
def sides(server: Server) -> Iterator[tuple[Side, Side]]:
    attic, barn = Side(server, "attic", SENDER), Side(server, "barn", RECEIVER)
    with attic.store, barn.store:
        yield attic, barn


def lacking(side: Side) -> str:
    return side.office.room.lacking(RECEIVER, SENDER.agent, 1, 4, 0)


def test_G30_an_agent_elsewhere_is_found_once_and_its_daemon_is_told(
    sides: tuple[Side, Side],
) -> None:
    attic, _ = sides
    assert attic.office.addresses.find("bob") == RECEIVER
    attic.store.link.is_away = True
    assert attic.office.addresses.find("bob") == RECEIVER
    with pytest.raises(StoreAwayError):
        attic.office.addresses.find("eve")
    attic.store.link.is_away = False
    assert attic.office.addresses.find("eve") is None
    attic.sends(messages(1, 2))
    assert attic.told == [RECEIVER.agent] * 2
    assert attic.woken == []


def test_G1_one_removed_and_made_anew_under_its_name_is_looked_for_again(sides: tuple[Side, Side]) -> None:
    attic, barn = sides
    assert attic.office.addresses.find("bob") == RECEIVER
    other = AgentRow(21, "c" * 32, "bob", PASSIVE)
    barn.store.commit(batch(barn.store.own, removed_agents=[RECEIVER.agent]))
    barn.store.commit(batch(barn.store.own, agents=[other]))
    assert attic.office.addresses.find_same("bob", other.id) == other
    assert attic.office.addresses.find_same("bob", RECEIVER.id) is None


def test_G25_what_comes_is_handed_over_once_whoever_tells_of_it(sides: tuple[Side, Side]) -> None:
    attic, barn = sides
    attic.office.addresses.find("bob")
    attic.sends(messages(1, 2))
    barn.is_told()
    assert barn.woken == ["bob"]
    mailbox = barn.mailbox()
    assert mailbox.reached(SENDER.agent) == 2
    assert barn.is_told() == []
    attic.sends(messages(3, 5))
    assert barn.is_told() == []
    assert barn.is_told() == []
    assert mailbox.reached(SENDER.agent) == 5
    assert barn.office.room.of(RECEIVER.agent) == 5


def test_G25_a_sender_that_has_come_here_does_not_overtake_what_it_sent_elsewhere(
    sides: tuple[Side, Side], server: Server
) -> None:
    attic, barn = sides
    mailbox = barn.mailbox()
    attic.office.addresses.find("bob")
    attic.sends(messages(1, 2))
    attic.store.leases.give([SENDER.agent])
    assert barn.store.leases.claim("ada") is not None
    barn.sends(messages(3, 3))
    assert mailbox.reached(SENDER.agent) == 0, "it waits for the two before it"
    assert barn.told == [RECEIVER.agent]
    barn.is_told()
    assert mailbox.reached(SENDER.agent) == 3
    assert barn.office.room.of(RECEIVER.agent) == 3


def test_G31_room_elsewhere_is_counted_again_while_a_call_waits_for_it(sides: tuple[Side, Side]) -> None:
    attic, barn = sides
    attic.office.addresses.find("bob")
    attic.sends(messages(1, MOST_OF_A_PAIR))
    assert "1,000 not taken" in lacking(attic)
    retried: list[int] = []
    attic.office.room.wait(RECEIVER.agent, SENDER.agent, "1", lambda: retried.append(1))
    attic.office.recount(attic.store.letters.waiting(), [])
    assert retried == []
    barn.store.commit(batch(RECEIVER.agent, taken=[TakenRow(RECEIVER.agent, SENDER.agent, 10)]))
    attic.office.room.begin_recount()
    waiting = attic.store.letters.waiting()
    attic.sends(messages(MOST_OF_A_PAIR + 1, MOST_OF_A_PAIR + 2))
    attic.office.recount(waiting, [])
    assert retried == [1]
    assert lacking(attic) == ""
    assert attic.office.room.of(RECEIVER.agent) == MOST_OF_A_PAIR - 10 + 2, "with what was sent meanwhile"


def test_G31_all_who_wait_for_room_are_told_once_a_mailbox_is_empty() -> None:
    room, told, rows = MailboxRoom(), list[str](), messages(1, 3)
    for row in rows:
        room.add(row)
    for call in "abcde":
        room.wait(RECEIVER.agent, SENDER.agent, call, partial(told.append, call))
    for row, expected in zip(rows, ("a", "ab", "abcde"), strict=True):
        room.remove(row)
        assert told == list(expected)


def test_G25_an_agent_that_comes_here_finds_how_far_it_had_come(sides: tuple[Side, Side]) -> None:
    attic, barn = sides
    attic.office.addresses.find("bob")
    attic.sends(messages(1, 4))
    barn.store.commit(batch(RECEIVER.agent, taken=[TakenRow(RECEIVER.agent, SENDER.agent, 3)]))
    barn.store.leases.give([RECEIVER.agent])
    assert attic.store.leases.claim("bob") is not None
    mailbox = Mailbox(RECEIVER.agent, attic.office, attic.posted.append, lambda turn, row: True)
    mailbox.open()
    assert mailbox.reached(SENDER.agent) == 4
    assert attic.office.room.of(RECEIVER.agent) == 1
    attic.sends(messages(5, 5))
    assert mailbox.reached(SENDER.agent) == 5
    assert len(attic.posted) == 1


def test_G32_a_message_to_an_agent_that_was_removed_meanwhile_is_a_stray(server: Server) -> None:
    attic = Side(server, "attic", SENDER)
    attic.sends(messages(1, 2))
    assert attic.store.letters.strays() == messages(1, 2)
