"""The loop of an embedded home: results, errors and Ctrl-C."""

import asyncio
import signal
import threading

import pytest

from narval.surfaces.python.runner import Runner


@pytest.fixture
def runner():
    made = Runner()
    yield made
    made.close()


async def interrupted(times: int = 1) -> str:
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)
    return "not reached"


def test_results_and_errors_come_back(runner: Runner):
    async def give() -> int:
        return 5

    async def refuse() -> None:
        raise ValueError("no")

    assert runner.run(give()) == 5
    with pytest.raises(ValueError, match="no"):
        runner.run(refuse())


def test_ctrl_c_cancels_what_runs_so_that_it_can_end_well(runner: Runner):
    ended = []

    async def tidy() -> None:
        try:
            await interrupted()
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        runner.run(tidy())
    assert ended == [True]


def test_a_second_ctrl_c_does_not_wait(runner: Runner):
    with pytest.raises(KeyboardInterrupt):
        runner.run(interrupted(2))


def test_ctrl_c_between_two_runs_is_raised_at_once(runner: Runner):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_cancellation_that_nobody_typed_stays_one(runner: Runner):
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        runner.run(cancelled())


def test_the_handler_of_ctrl_c_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    runner = Runner()
    assert signal.getsignal(signal.SIGINT) is not before
    runner.close()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_the_program_itself_is_left_alone():
    def handler(number, frame):
        """The program's own."""

    before = signal.signal(signal.SIGINT, handler)
    try:
        Runner().close()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_may_have_a_loop_of_its_own():
    found = []

    async def give() -> int:
        return 7

    def work() -> None:
        runner = Runner()
        found.append(runner.run(give()))
        runner.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [7]
