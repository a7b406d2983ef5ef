"""The daemon's own log: bounded, shared by all threads, read again by the next daemon."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.system.log import Logbook


@pytest.fixture
def often_switched() -> Iterator[None]:
    """Threads that take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 1000)
    yield
    sys.setswitchinterval(before)


def _logged(path: Path | None, *messages: str, level: str = "info") -> Logbook:
    book = Logbook(path, level)

    async def log() -> None:
        book.attach()
        for message in messages:
            logging.getLogger("narval.test").info(message)
        book.detach()

    asyncio.run(log())
    return book


def _messages(book: Logbook, after: int = 0, most: int = 100) -> list[str]:
    return [line["message"] for line in book.lines(after, most)]


def test_the_last_lines_are_at_hand_and_those_behind_a_number(tmp_path: Path) -> None:
    book = _logged(tmp_path / "log", "one", "two", "three")
    assert _messages(book) == ["one", "two", "three"]
    assert _messages(book, most=2) == ["two", "three"]
    assert _messages(book, most=0) == []
    first = book.lines(0, 100)[0]["seq"]
    assert _messages(book, after=first, most=1) == ["two"]


def test_the_next_daemon_goes_on_counting_where_the_last_one_ended(tmp_path: Path) -> None:
    last = _logged(tmp_path / "log", "one", "two").lines(0, 1)[0]["seq"]
    book = _logged(tmp_path / "log", "three")
    assert _messages(book) == ["one", "two", "three"]
    assert book.lines(0, 1)[0]["seq"] == last + 1


def test_lines_that_are_no_log_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _logged(path, "one")
    path.write_bytes(path.read_bytes() + b'{"seq": "x"}\n[1]\n\xff\xfe{\n')
    assert _messages(Logbook(path)) == ["one"]


def test_a_log_that_is_only_read_changes_no_file(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log", writes=False)
    book.handle(logging.LogRecord("narval", logging.INFO, "", 0, "one", None, None))
    assert not (tmp_path / "log").exists()
    assert _messages(book) == ["one"]


def test_threads_log_without_losing_a_number(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log")

    async def log() -> None:
        book.attach()
        logger = logging.getLogger("narval.test")
        threads = [
            threading.Thread(target=lambda: [logger.info("said") for _ in range(50)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        book.detach()

    asyncio.run(log())
    assert [line["seq"] for line in book.lines(0, 1000)] == list(range(1, 201))


def test_the_log_is_read_while_threads_write_it(often_switched: None) -> None:
    book = Logbook(None)

    async def log() -> None:
        book.attach()
        logger = logging.getLogger("narval.test")
        writing = threading.Thread(target=lambda: [logger.info("said") for _ in range(100)])
        writing.start()
        while writing.is_alive():
            numbers = [line["seq"] for line in book.lines(1, 10_000)]
            assert numbers == sorted(numbers)
        writing.join()
        book.detach()

    asyncio.run(log())


def test_who_follows_the_log_is_woken_by_its_next_line() -> None:
    book = Logbook(None)

    async def follow() -> float:
        book.attach()
        waiting = asyncio.create_task(book.grown(20.0))
        await asyncio.sleep(0)
        threading.Timer(0.01, lambda: logging.getLogger("narval.test").info("said")).start()
        left = await waiting
        book.detach()
        return left

    assert asyncio.run(follow()) > 15.0
    logging.getLogger("narval.test").info("after the daemon ended")  # harms nobody


def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    book = _logged(tmp_path / "no such folder" / "log", "one")
    assert _messages(book) == ["one"]


def test_a_wrong_log_call_raises_nothing_and_a_line_is_always_utf8(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log")

    async def log() -> None:
        book.attach()
        for message, values in (("%d items", ("x",)), ("half \ud800", ())):
            book.handle(logging.LogRecord("narval.test", logging.INFO, "", 0, message, values, None))
        book.detach()

    asyncio.run(log())
    assert _messages(book) == ["half \\ud800"] == _messages(Logbook(tmp_path / "log"))


def test_an_exception_is_logged_with_its_traceback(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log")

    async def log() -> None:
        book.attach()
        try:
            raise ValueError("a bug")
        except ValueError:
            logging.getLogger("narval.test").exception("broke")
        book.detach()

    asyncio.run(log())
    (message,) = _messages(book)
    assert message.startswith("broke\nTraceback")
    assert message.endswith("ValueError: a bug")
