"""Threads that hang, wait in a queue, and are given up."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from narval.core.engines.events import Failure, OutputElement


class Gate:
    """An action that waits until the test opens the gate."""

    def __init__(self) -> None:
        self.opened, self.inside = threading.Event(), threading.Semaphore(0)

    def __call__(self) -> str:
        self.inside.release()
        self.opened.wait()
        return "<late/>"


@pytest.fixture
def gate() -> Any:
    gate = Gate()
    yield gate
    gate.opened.set()


def test_N33_a_thread_that_outlives_its_time_limit_is_given_up_and_replaced(
    make_calls: Callable[..., Any], gate: Gate
) -> None:
    calls = make_calls(threads=1)
    outcome = calls.ask(gate, timeout=0.02, action="mail.fetch")
    assert outcome.problem == Failure("timeout", "mail.fetch did not come back within 0.02 s")
    assert calls.book.counts.given_up == 1
    assert calls.ask(lambda: "<a/>").elements == [OutputElement(b"<a/>")]


def test_N33_the_late_result_of_a_thread_given_up_is_dropped(calls: Any, gate: Gate) -> None:
    outcome = calls.ask(gate, timeout=0.02)
    gate.opened.set()
    calls.until(lambda: calls.book.counts.given_up == 0)
    assert outcome.elements == []


def test_a_call_is_abandoned_though_its_thread_goes_on(calls: Any, gate: Gate) -> None:
    outcome = calls.start(calls.context(gate, id="c"))
    gate.inside.acquire()
    calls.abandon("c")
    assert calls.outcome(outcome).abandoned
    assert (calls.book.counts.running, calls.book.counts.given_up) == (0, 1)


def test_a_call_that_waits_is_abandoned_and_never_begins(make_calls: Callable[..., Any], gate: Gate) -> None:
    calls, begun = make_calls(threads=1), []
    first = calls.start(calls.context(gate))
    second = calls.start(calls.context(lambda: begun.append(1), id="second"))
    assert (calls.book.counts.running, calls.book.counts.queued) == (1, 1)
    calls.abandon("second")
    assert calls.outcome(second).abandoned
    gate.opened.set()
    assert calls.outcome(first).elements == [OutputElement(b"<late/>")]
    assert begun == []


def test_no_more_calls_run_at_once_than_there_are_threads(make_calls: Callable[..., Any]) -> None:
    calls, lock, now, most = make_calls(threads=3), threading.Lock(), [0], [0]
    meet = threading.Barrier(3)

    def act() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        meet.wait()
        with lock:
            now[0] -= 1

    for outcome in [calls.start(calls.context(act)) for _ in range(30)]:
        assert calls.outcome(outcome).problem is None
    assert most == [3]


def test_the_time_limit_of_a_call_runs_from_when_it_begins(
    make_calls: Callable[..., Any], gate: Gate
) -> None:
    calls = make_calls(threads=1)
    calls.start(calls.context(gate))
    waiting = calls.start(calls.context(lambda: "<a/>", timeout=0.02))
    with pytest.raises(TimeoutError):
        calls.runner.run(_within(0.1, waiting))
    gate.opened.set()


async def _within(seconds: float, outcome: Any) -> Any:
    import asyncio

    return await asyncio.wait_for(asyncio.shield(outcome), seconds)


def test_a_call_that_finds_no_room_for_a_thread_waits_for_one(
    make_calls: Callable[..., Any], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = make_calls(threads=2)
    first = calls.start(calls.context(gate))
    monkeypatch.setattr(threading.Thread, "start", full)
    second = calls.start(calls.context(lambda: "<a/>"))
    assert calls.book.counts.queued == 1
    gate.opened.set()
    assert calls.outcome(first).elements == [OutputElement(b"<late/>")]
    assert calls.outcome(second).elements == [OutputElement(b"<a/>")]


def test_a_call_for_which_there_will_be_no_thread_has_a_problem(
    calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    assert calls.ask(lambda: "<a/>").problem == Failure("no-thread", "can't start new thread")


def test_what_an_action_does_to_its_list_stays_with_it(calls: Any) -> None:
    given: list[Any] = []
    calls.ask(lambda mails: mails.append(1), inputs={"mails": given})
    assert given == []


def test_N34_closing_lets_running_calls_end(calls: Any, gate: Gate) -> None:
    outcome = calls.start(calls.context(gate))
    gate.inside.acquire()
    threading.Timer(0.05, gate.opened.set).start()
    calls.close(grace=30.0)
    assert outcome.result().elements == [OutputElement(b"<late/>")]


def test_N34_what_does_not_end_within_the_grace_is_left_to_recovery(calls: Any, gate: Gate) -> None:
    outcome = calls.start(calls.context(gate))
    calls.close(grace=0.02)
    assert not outcome.done()


def test_N34_closing_begins_nothing_that_still_waits(make_calls: Callable[..., Any], gate: Gate) -> None:
    calls, begun = make_calls(threads=1), []
    first = calls.start(calls.context(gate))
    second = calls.start(calls.context(lambda: begun.append(1)))
    threading.Timer(0.05, gate.opened.set).start()
    calls.close(grace=30.0)
    assert (first.done(), second.done(), begun) == (True, False, [])


def test_N33_a_thread_that_hangs_does_not_keep_the_program_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from narval.calls.book import CallBook\n"
        "from narval.calls.context import CallContext, Target\n"
        "from narval.calls.executor import Executor\n"
        "from narval.calls.record import CallListener\n"
        "async def main():\n"
        "    target = Target(action='a', where='thread', function=threading.Event().wait)\n"
        "    call = CallContext('c', 1, 's', target=target, timeout=0.02)\n"
        "    ended = asyncio.Event()\n"
        "    listener = CallListener(lambda outcome: (print(outcome.problem.kind), ended.set()))\n"
        "    CallBook(Executor()).of(1).start(call, listener=listener)\n"
        "    await ended.wait()\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "timeout\n", "")
