"""The book of calls: one record of a call, its moves, and who is told of it (N33, G7)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.calls.book import Activation
from narval.calls.context import CallContext
from narval.calls.record import ABANDONED, CALL_MOVES, LOST, CallListener, CallRecord, Outcome
from narval.core.engines.commands import Call
from narval.core.errors import InternalError
from tests.calls.conftest import number_of


class Journal(CallListener):
    """Has the beginning of a call recorded when the test says so."""

    def announce(self, record: CallRecord) -> None:
        """Nothing is recorded yet."""


def record_of(outcomes: list[Outcome], **asked: Any) -> CallRecord:
    call = Call("1.1", "action", "m.act", "send", **asked)
    return CallRecord(CallContext("a.1.1", 1, "send"), Journal(outcomes.append), asked=call)


def test_each_way_through_the_moves_ends_once() -> None:
    ways, ended = [["waiting"]], []
    while ways:
        way = ways.pop()
        following = CALL_MOVES[way[-1]]  # type: ignore[index]
        ways += [[*way, state] for state in following]
        ended += [] if following else [way]
    assert {way[-1] for way in ended} == {"recorded", "left"}
    assert all(len(set(way)) == len(way) for way in ended)


def test_a_call_that_must_not_be_made_twice_runs_once_it_is_recorded_that_it_begins() -> None:
    record = record_of([], on_restart="error")
    assert not record.begin()
    assert record.state == "announced"
    assert record.go()
    assert record.state == "running"
    with pytest.raises(InternalError, match="a call that is running"):
        record.go()


@pytest.mark.parametrize("first", [ABANDONED, LOST, Outcome()])
def test_a_call_is_answered_once_and_goes_on_no_more(first: Outcome) -> None:
    outcomes: list[Outcome] = []
    record = record_of(outcomes, on_restart="error")
    record.begin()
    record.answer(first)
    record.answer(Outcome(value={"status": 1}))
    assert not record.go()
    assert outcomes == [first]
    assert record.state == ("left" if first.lost else "recorded")


def test_a_call_of_no_journal_tells_its_listener_and_leaves_nothing(calls: Any) -> None:
    shop, is_seen = number_of("shop"), threading.Event()
    outcome = calls.start(calls.context(is_seen.wait, agent="shop"))
    assert [record.state for record in calls.book] == ["running"]
    assert calls.book.count(shop) == 1
    is_seen.set()
    calls.outcome(outcome)
    assert (calls.book.count(shop), list(calls.book)) == (0, [])


def test_the_book_has_the_calls_of_an_agent_whose_last_one_was_lost_before_it_was_active(calls: Any) -> None:
    shop = calls.book.of(number_of("shop"))
    shop.detach(lambda: None)
    assert calls.book.of(number_of("shop")) is not shop
    calls.book.drop(calls.book.of(number_of("shop")))
    is_seen = threading.Event()

    async def start() -> None:
        shop.start(calls.context(is_seen.wait, agent="shop"), listener=CallListener(lambda outcome: None))

    calls.wait(start())
    assert calls.book.count(number_of("shop")) == 1
    is_seen.set()
    calls.until(lambda: not list(calls.book))


def test_one_that_is_answered_inline_is_told_before_start_returns(calls: Any) -> None:
    outcomes: list[Outcome] = []

    async def start() -> None:
        calls.ask_for(calls.context(lambda: None, where="inline"), CallListener(outcomes.append))
        assert outcomes == [Outcome()]
        await asyncio.sleep(0)

    calls.wait(start())
    assert calls.book.counts.running == 0


def test_what_waits_to_be_recorded_goes_to_the_next_activation(calls: Any) -> None:
    shop, agent = calls.book.of(number_of("shop")), cast("AgentState", None)
    first, second, activated = list[Request](), list[Request](), list[bool]()

    async def kept() -> None:
        shop.attach(Activation(agent, first.append, lambda run, call: None, lambda run: None))
        keeping = asyncio.create_task(shop.keep(lambda turn: None))
        await asyncio.sleep(0)
        shop.detach(lambda: activated.append(True))
        first[0].settle(None, InternalError("the activation is dropped"))
        assert activated == [True]
        shop.attach(Activation(agent, second.append, lambda run, call: None, lambda run: None))
        assert (second[0].work, keeping.done()) == (first[0].work, False)
        second[0].settle(None, None)
        await keeping

    calls.wait(kept())
