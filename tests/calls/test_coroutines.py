"""Async actions, and sources, which go on giving."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

import narval
from narval.calls import in_daemon
from narval.calls.book import CallBook
from narval.calls.context import CallContext, Target
from narval.calls.executor import Executor
from narval.calls.in_daemon import Coroutines
from narval.calls.record import CallListener, CallRecord
from narval.core.engines.events import Failure, OutputElement
from narval.files.settings import CallLimits


async def stubborn(ended: asyncio.Event) -> str:
    while not ended.is_set():
        try:
            await ended.wait()
        except asyncio.CancelledError:
            continue
    return "<late/>"


def test_N33_an_async_action_runs_in_the_loop(calls: Any) -> None:
    async def act() -> str:
        await asyncio.sleep(0)
        return f"<a>{asyncio.get_running_loop() is calls.runner.get_loop()}</a>"

    assert calls.ask(act, where="async").elements == [OutputElement(b"<a>True</a>")]


def test_N33_an_async_action_is_cancelled_at_its_time_limit_and_may_clean_up(calls: Any) -> None:
    cleaned: list[bool] = []

    async def act() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)

    outcome = calls.ask(act, where="async", timeout=0.02)
    assert outcome.problem == Failure("timeout", "m.act did not come back within 0.02 s")
    assert cleaned == [True]


def test_N33_an_async_action_that_refuses_to_be_cancelled_is_given_up(calls: Any) -> None:
    ended = asyncio.Event()
    outcome = calls.ask(lambda: stubborn(ended), where="async", timeout=0.02)
    assert outcome.problem.kind == "timeout"
    assert calls.book.counts.given_up == 1
    ended.set()
    calls.until(lambda: calls.book.counts.given_up == 0)
    assert outcome.elements == []


def test_what_a_cancelled_action_still_returns_is_dropped(calls: Any) -> None:
    async def act() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "<late/>"
        return "<never/>"

    outcome = calls.start(calls.context(act, where="async", id="c"))
    calls.wait(asyncio.sleep(0))
    calls.abandon("c")
    ended = calls.outcome(outcome)
    assert (ended.elements, ended.abandoned) == ([], True)


def test_an_async_action_given_up_before_it_began_never_begins(calls: Any) -> None:
    begun: list[bool] = []

    async def act() -> None:
        begun.append(True)

    async def both() -> Any:
        loop = asyncio.get_running_loop()
        backend, ended = Coroutines(loop, 0.1), loop.create_future()
        call = calls.context(act, where="async")
        record = CallRecord(call, CallListener(ended.set_result))
        backend.start(record)
        backend.abandon(record)
        return await ended

    assert calls.wait(both()).abandoned
    assert begun == []


def test_an_action_that_cancels_itself_has_a_problem(calls: Any) -> None:
    async def act() -> None:
        raise asyncio.CancelledError

    assert calls.ask(act, where="async").problem == Failure("CancelledError", "the action cancelled itself")


@pytest.mark.parametrize("where", ["async", "source"])
def test_an_action_that_blocks_between_its_awaits_is_named_in_the_log(
    calls: Any, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ticks = iter((0.0, 1.0, 10.0, 19.0, *[20.0] * 8))
    monkeypatch.setattr(in_daemon, "monotonic", lambda: next(ticks))

    async def act() -> None:
        await asyncio.sleep(0)

    async def watch() -> AsyncIterator[str]:
        await asyncio.sleep(0)
        yield "<a/>"

    assert calls.ask(act if where == "async" else watch, where=where).problem is None
    (said,) = [record.message for record in caplog.records if record.name == "narval.calls"]
    assert (
        "m.act of run 7, step send, took 9 s without an await: the daemon did nothing else meanwhile" in said
    )


# --- sources ----------------------------------------------------------------------------------------------


def test_N36_each_yield_adds_elements_and_is_recorded_before_the_source_goes_on(calls: Any) -> None:
    seen: list[int] = []

    async def watch(box: Any) -> AsyncIterator[Any]:
        yield "<mail n='1'/>"
        seen.append(len(calls.produced))
        yield ["<mail n='2'/>", "<mail n='3'/>"]
        seen.append(len(calls.produced))

    outcome = calls.ask(watch, where="source", inputs={"box": None})
    assert (outcome.elements, outcome.problem, outcome.abandoned) == ([], None, False)
    assert calls.produced == [[b'<mail n="1"/>'], [b'<mail n="2"/>', b'<mail n="3"/>']]
    assert seen == [1, 2]


def test_N36_a_source_waits_until_what_it_gave_is_recorded(calls: Any) -> None:
    recorded, passed = asyncio.Event(), []

    async def watch() -> AsyncIterator[str]:
        yield "<a/>"
        passed.append(True)

    class Slow(CallListener):
        async def produced(self, record: CallRecord, elements: list[OutputElement]) -> None:
            await recorded.wait()

    async def both() -> None:
        ended = asyncio.get_running_loop().create_future()
        calls.ask_for(calls.context(watch, where="source"), Slow(ended.set_result))
        await asyncio.sleep(0.02)
        assert passed == []
        recorded.set()
        await ended

    calls.wait(both())
    assert passed == [True]


def test_N36_a_source_says_when_it_has_caught_up(calls: Any) -> None:
    async def watch() -> AsyncIterator[str]:
        yield "<old/>"
        narval.call().caught_up()
        await asyncio.Event().wait()
        yield "<new/>"

    calls.start(calls.context(watch, where="source", id="c"))
    calls.until(lambda: calls.book.executor.has_caught_up(calls.find("c")))
    assert calls.produced == [[b"<old/>"]]
    assert calls.changes == 1
    assert calls.book.counts.running == 1


def test_N36_a_source_that_is_abandoned_is_closed(calls: Any) -> None:
    closed: list[bool] = []

    async def watch() -> AsyncIterator[str]:
        try:
            yield "<a/>"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    outcome = calls.start(calls.context(watch, where="source", id="c"))
    calls.until(lambda: bool(calls.produced))
    calls.abandon("c")
    assert calls.outcome(outcome).abandoned
    assert closed == [True]
    assert calls.find("c") is None


def test_N36_a_source_that_swallows_its_end_gives_nothing_more(calls: Any) -> None:
    async def watch() -> AsyncIterator[str]:
        yield "<a/>"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "<late/>"

    outcome = calls.start(calls.context(watch, where="source", id="c"))
    calls.until(lambda: bool(calls.produced))
    calls.abandon("c")
    assert calls.outcome(outcome).abandoned
    assert calls.produced == [[b"<a/>"]]


def test_N36_a_source_that_raises_keeps_what_it_gave(calls: Any) -> None:
    async def watch() -> AsyncIterator[str]:
        yield "<a/>"
        raise ConnectionError("the server went away")

    problem = calls.ask(watch, where="source").problem
    assert (problem.kind, problem.message) == ("ConnectionError", "the server went away")
    assert calls.produced == [[b"<a/>"]]


def test_N36_a_source_that_yields_rubbish_is_closed_and_told(calls: Any) -> None:
    closed: list[bool] = []

    async def watch() -> AsyncIterator[Any]:
        try:
            yield 42
            yield "<never/>"
        finally:
            closed.append(True)

    assert calls.ask(watch, where="source").problem.kind == "bad-output"
    assert (calls.produced, closed) == ([], [True])


def test_N36_a_function_that_is_no_source_is_told_so(calls: Any) -> None:
    problem = calls.ask(lambda: "<a/>", where="source").problem
    assert problem == Failure("bad-output", "a source is an async generator, got a str", final=True)


def test_N36_a_source_that_yields_nothing_again_and_again_leaves_the_loop_to_others(calls: Any) -> None:
    async def watch() -> AsyncIterator[None]:
        while True:
            yield None

    outcome = calls.start(calls.context(watch, where="source", id="c"))
    calls.wait(asyncio.sleep(0.01))
    calls.abandon("c")
    assert calls.outcome(outcome).abandoned


def test_N34_closing_ends_sources_at_once_and_leaves_them_to_recovery(calls: Any) -> None:
    closed: list[bool] = []

    async def watch() -> AsyncIterator[str]:
        try:
            await asyncio.Event().wait()
            yield "<never/>"
        finally:
            await asyncio.sleep(0.01)
            closed.append(True)

    outcome = calls.start(calls.context(watch, where="source"))
    calls.wait(asyncio.sleep(0.01))
    calls.close(grace=600.0)
    assert closed == [True]
    assert not outcome.done()


def test_N34_a_coroutine_that_refuses_to_end_keeps_no_loop_from_closing() -> None:
    async def refuses() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    async def story() -> None:
        book = CallBook(Executor(CallLimits(patience=0.05)))
        call = CallContext("1", 1, "s", target=Target(action="m.a", where="async", function=refuses))
        book.of(1).start(call, listener=CallListener(lambda outcome: None))
        await asyncio.sleep(0.01)
        await book.close()

    asyncio.run(story())  # it waits for what is left when it closes
