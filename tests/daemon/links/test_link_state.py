"""The state of a link: what is taken, sent again and given up, as stores are put back (G41, G42)."""

from __future__ import annotations

import pytest

from narval.daemon.links.frame import Frame, Message, Standing
from narval.daemon.links.protocol import Difference, Heard, LinkFaultError, LinkState, Meeting

SHOP = "5" * 32
HERE, THERE = "a" * 32, "b" * 32


def message(number: int, sender: str = SHOP) -> Message:
    return Message("shop", sender, number, f"{sender}.{number}", "element", 0.0, None, "ada", b"", b"<a/>")


class Side:
    """One side: a state, what its store has, and copies of that."""

    def __init__(self, link: str) -> None:
        self.link, self.incarnation = link, link
        self.sent = self.dropped = 0
        self.rows: list[int] = []
        self.restored: dict[str, dict[str, int]] = {}
        self.met, self.former, self.reached = Meeting(), set[tuple[str, str]](), dict[str, int]()
        self.got: list[int] = []
        self.told: list[Difference] = []
        self.start()

    def start(self) -> None:
        """Be at work on what the store has."""
        own = Standing({SHOP: self.sent}, {SHOP: self.dropped}, self.restored, {SHOP: "shop"})
        run = f"{id(self):032x}"[-32:]
        given = self.met, self.former, self.reached, own
        self.state = LinkState(self.link, self.incarnation, run, *given)
        for number in self.rows:
            self.state.out.put(message(number))

    def send(self, many: int = 1) -> None:
        for _ in range(many):
            self.sent += 1
            self.rows.append(self.sent)
            self.state.out.put(message(self.sent))

    def hear(self, frame: Frame) -> Heard:
        heard = self.state.hear(frame)
        self.met = heard.met or self.met
        self.former |= {heard.former} if heard.former else set()
        self.told += heard.differences
        reached = dict(heard.corrected)
        for sender, number in heard.dropped.items():
            assert sender == SHOP
            self.dropped = number
            self.rows = [row for row in self.rows if row > number]
        for one in heard.messages:
            if self.state.may_take(one):
                self.state.take(one)
                reached[one.sender_id] = one.number
                self.got.append(one.number)
        self.reached |= reached
        self.state.recorded(reached)
        return heard

    def copy(self) -> tuple[object, ...]:
        return self.sent, self.dropped, [*self.rows], self.met, {*self.former}, {**self.reached}

    def put_back(self, copy: tuple[object, ...], incarnation: str = "") -> None:
        """Put a copy back: with a new incarnation as `narval restore` does, without one by hand."""
        self.sent, self.dropped, self.rows, self.met, self.former, self.reached = copy  # type: ignore[assignment]
        if incarnation:
            self.incarnation = incarnation
            self.restored[incarnation] = {SHOP: self.sent}
        self.start()


def exchange(asking: Side, other: Side, times: int = 4) -> None:
    asking.state.begin()
    frame = asking.state.frame()
    for _ in range(times):
        other.hear(frame)
        answer = other.state.frame(frame.number)
        asking.hear(answer)
        frame = asking.state.frame(answer.number)


def pair() -> tuple[Side, Side]:
    here, there = Side(HERE), Side(THERE)
    exchange(here, there)
    return here, there


def test_G41_messages_come_in_order_and_are_dropped_once_taken() -> None:
    here, there = pair()
    here.send(1_200)
    exchange(here, there, 6)
    assert there.got == list(range(1, 1_201))
    assert here.rows == []
    assert here.state.out.oldest is None


def test_G42_what_a_restored_sender_forgot_is_told_and_what_it_sends_now_is_taken() -> None:
    here, there = pair()
    here.send(8)
    backup = here.copy()
    here.send(4)
    exchange(here, there)
    here.put_back(backup, "c" * 32)
    here.send(2)
    exchange(there, here)
    assert there.told == [Difference(SHOP, 9, 12, "again")]
    assert there.got == [*range(1, 13), 9, 10]
    assert here.rows == []
    exchange(here, there)
    assert there.told == [Difference(SHOP, 9, 12, "again")]


def test_G42_what_a_restored_receiver_has_lost_is_told_and_the_rest_comes() -> None:
    here, there = pair()
    here.send(2)
    exchange(here, there)
    backup = there.copy()
    here.send(3)
    exchange(here, there)
    here.send(1)
    there.put_back(backup, "c" * 32)
    there.got.clear()
    exchange(here, there)
    assert there.told == [Difference(SHOP, 3, 5, "lost")]
    assert there.got == [6]


def test_G42_a_store_that_was_put_back_by_hand_stops_the_link_with_a_fault() -> None:
    here, there = pair()
    here.send(2)
    exchange(here, there)
    backups = here.copy(), there.copy()
    here.send(3)
    exchange(here, there)
    here.put_back(backups[0])
    with pytest.raises(LinkFaultError, match=r"taken messages up to 5 .* sent 2"):
        exchange(here, there)
    here.sent = here.dropped = 5
    here.start()
    there.put_back(backups[1])
    with pytest.raises(LinkFaultError, match=r"messages 3 to 5 .* put back by hand"):
        exchange(here, there)


def test_G42_frames_of_a_store_that_another_took_the_place_of_change_nothing() -> None:
    here, there = pair()
    backup = here.copy()
    here.send(2)
    here.state.begin()
    late = here.state.frame()
    here.put_back(backup, "c" * 32)
    here.send(1)
    exchange(here, there)
    assert there.got == [1]
    with pytest.raises(LinkFaultError, match="took the place of"):
        there.hear(late)
    assert there.got == [1]


def test_a_new_link_begins_at_the_first_number_and_tells_of_no_loss() -> None:
    here, there = pair()
    here.send(3)
    exchange(here, there)
    here = Side("d" * 32)
    here.send(1)
    exchange(here, there)
    assert there.told == []
    assert there.got == [1, 2, 3, 1]
