"""Acts on many things: they wait, are undone, go on one by one, are stopped, remembered for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from narval.core.errors import DaemonGoneError, RequestError
from narval.surfaces.http import bulk
from narval.surfaces.http.bulk import BulkAct, BulkActs, BulkResult
from tests.surfaces.http.fake_time import run


class Many:
    """The things that are acted on: what was done, and what each is refused with."""

    def __init__(self, **errors: Exception) -> None:
        self.done: list[int] = []
        self.still: Sequence[int] | Exception | None = None
        self._errors = errors

    def act(self, *numbers: int, what: str = "cancel", agent: str = "home") -> BulkAct:
        return BulkAct(agent, what, numbers, "ann", self._begin, self._do)

    async def _begin(self, numbers: Sequence[int]) -> Sequence[int]:
        if isinstance(self.still, Exception):
            raise self.still
        return numbers if self.still is None else self.still

    async def _do(self, number: int) -> int:
        if error := self._errors.get(f"n{number}"):
            raise error
        await asyncio.sleep(1)
        self.done.append(number)
        return number + 100


def played(dialogue: Any) -> None:
    run(dialogue())


def test_M28_nothing_is_done_for_ten_seconds_then_one_after_the_other() -> None:
    async def dialogue() -> None:
        many, acts = Many(n2=RequestError("it is over")), BulkActs()
        act = acts.add(many.act(1, 2, 3))
        await asyncio.sleep(9.5)
        assert (act.state, many.done, act.left) == ("waiting", [], [1, 2, 3])
        await asyncio.sleep(1)
        assert (act.state, many.done, act.left) == ("going on", [], [1, 2, 3])
        await asyncio.sleep(3)
        assert (act.state, act.is_over, many.done) == ("ended", True, [1, 3])
        assert act.results == [BulkResult(1, 101), BulkResult(2, None, "it is over"), BulkResult(3, 103)]

    played(dialogue)


def test_M28_one_is_undone_before_and_stopped_after_its_first() -> None:
    async def dialogue() -> None:
        many, acts = Many(), BulkActs()
        undone, stopped = acts.add(many.act(1, 2)), acts.add(many.act(3, 4))
        await asyncio.sleep(5)
        undone.end()
        await asyncio.sleep(5.5)
        assert (undone.state, undone.left, stopped.state) == ("undone", [1, 2], "going on")
        stopped.end()
        await asyncio.sleep(2)
        assert (stopped.state, stopped.left, many.done) == ("stopped", [4], [3])

    played(dialogue)


@pytest.mark.parametrize(
    ("still", "errors", "state", "whys"),
    [
        ([3], {}, "ended", {1: "it was dealt with meanwhile", 2: "it was dealt with meanwhile"}),
        (RequestError("no"), {}, "stopped", {1: "no", 2: "no", 3: "no"}),
        (None, {"n2": DaemonGoneError("away")}, "stopped", {2: "away"}),
        (None, {"n2": ZeroDivisionError()}, "stopped", {}),
    ],
)
def test_M28_what_goes_wrong_is_said_of_each_and_nothing_goes_on_blindly(
    still: Any, errors: dict[str, Exception], state: str, whys: dict[int, str]
) -> None:
    async def dialogue() -> None:
        many, acts = Many(**errors), BulkActs()
        many.still = still
        act = acts.add(many.act(1, 2, 3))
        await asyncio.sleep(20)
        assert act.state == state
        assert {one.number: one.why for one in act.results if one.became is None} == whys

    played(dialogue)


def test_M28_a_form_that_is_sent_twice_is_one_act_and_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dialogue() -> None:
        many, acts = Many(), BulkActs()
        first = acts.add(many.act(1, 2))
        assert acts.add(many.act(1, 2)) is first
        assert acts.add(many.act(1, 2, agent="other")) is not first
        monkeypatch.setattr(bulk, "AT_A_TIME", 3)
        other = acts.add(many.act(1, 2, what="retry"))
        with pytest.raises(RequestError, match="3 acts on many runs already wait or run"):
            acts.add(many.act(9))
        other.end()
        await asyncio.sleep(0.1)
        assert acts.add(many.act(1, 2, what="retry")) is not other  # it is over
        assert acts.find("home", first.name) is first
        assert acts.find("other", first.name) is None

    played(dialogue)


def test_M28_one_that_is_forgotten_is_not_said_to_have_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "REMEMBERED", 2)

    async def dialogue() -> None:
        many, acts = Many(), BulkActs()
        first = acts.add(many.act(1))
        assert acts.was_never_begun(first.begins)
        for number in (2, 3, 4):
            await asyncio.sleep(20)
            acts.add(many.act(number))
        assert acts.find("home", first.name) is None
        assert not acts.was_never_begun(first.begins)
        assert acts.was_never_begun(first.begins + 100)

    played(dialogue)
