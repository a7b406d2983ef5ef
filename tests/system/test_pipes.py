"""Descriptors that are watched by one of the loop."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from narval.system.pipes import Descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="epoll is of Linux")


def _count() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_each_that_can_be_read_is_told_of_until_it_is_watched_no_more() -> None:
    async def scene() -> None:
        heard: list[str] = []
        descriptors, before = Descriptors(asyncio.get_running_loop()), _count()
        (first, write_first), (second, write_second) = os.pipe(), os.pipe()
        descriptors.add_reader(first, lambda: heard.append(f"first {os.read(first, 9)!r}"))
        descriptors.add_reader(second, lambda: heard.append("second"))
        os.write(write_first, b"a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert heard == ["first b'a'"]
        descriptors.remove_reader(second)
        os.close(write_second)
        os.close(write_first)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert set(heard[1:]) == {"first b''"}
        descriptors.remove_reader(first)
        descriptors.remove_reader(first)
        os.close(first)
        os.close(second)
        assert _count() == before + 1  # the one that the loop watches; the next program needs it again
        descriptors.close()
        assert _count() == before

    asyncio.run(scene())


def test_one_that_fails_keeps_no_other_from_being_told() -> None:
    async def scene() -> None:
        loop, heard, failed = asyncio.get_running_loop(), list[int](), list[str]()
        loop.set_exception_handler(lambda _, context: failed.append(str(context["exception"])))
        descriptors = Descriptors(loop)
        pipes = [os.pipe() for _ in range(4)]

        def told(number: int) -> None:
            if number % 2:
                raise ValueError(f"pipe {number}")
            heard.append(number)

        for number, (end, feed) in enumerate(pipes):
            descriptors.add_reader(end, lambda number=number: told(number))
            os.close(feed)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (sorted({*heard}), sorted({*failed})) == ([0, 2], ["pipe 1", "pipe 3"])
        for end, _ in pipes:
            descriptors.remove_reader(end)
            os.close(end)

    asyncio.run(scene())


def test_one_that_an_earlier_one_has_closed_is_not_told_of_in_its_place() -> None:
    async def scene() -> None:
        heard: list[str] = []
        descriptors = Descriptors(asyncio.get_running_loop())
        (one, feed_one), (two, feed_two), (quiet, _) = os.pipe(), os.pipe(), os.pipe()

        def end(own: int, other: int) -> None:
            heard.append("ended")
            descriptors.remove_reader(own)
            descriptors.remove_reader(other)
            os.dup2(quiet, other)  # its number is that of a pipe in which there is nothing
            descriptors.add_reader(other, lambda: heard.append("another's"))

        descriptors.add_reader(one, lambda: end(one, two))
        descriptors.add_reader(two, lambda: end(two, one))
        os.close(feed_one)
        os.close(feed_two)
        for _ in range(3):
            await asyncio.sleep(0)
        assert heard == ["ended"]

    asyncio.run(scene())
