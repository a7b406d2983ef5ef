"""The tuples that passed through operators, and what these wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from narval.core.engines.graph import GraphNode
from narval.kinds.dataflow.calls.calls import LiveState, PrintedLines
from narval.kinds.dataflow.engine.explain import parts
from narval.kinds.dataflow.engine.graph import graph
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.counts import Passage
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.state import DataflowState, FlowSession, OperatorCount
from tests.kinds.dataflow.engine.flows import FlowDriver, flow
from tests.kinds.dataflow.engine.flows import definition as of_text

TEXT = """
PLAN Main { INPUT: TupleStream x, String c OUTPUT: TupleStream y BODY {
  select(c, x : some)  query("s", some : found)  t/Sub(found : y) } }
PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY { select("v > 1", a : b) } }
"""


class Rows(tuple[OperatorCount, ...]):
    """The work of operators, which counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[OperatorCount]:
        Rows.times += 1
        return super().__iter__()


def test_the_work_of_operators_is_gone_through_once_however_many_there_are() -> None:
    definition = of_text(TEXT, "Main")
    rows = Rows(OperatorCount(key, "finished", 3, 2) for key in ("select-1", "query-1"))
    state = DataflowState(1, "d", sessions=[FlowSession("1", 2, 1, operators=rows)])
    drawn = {part.id: part.badge for part in graph(definition, state).parts if isinstance(part, GraphNode)}
    assert (drawn["select-1"], drawn["t/Sub-1"]) == ("3 in, 2 out", "")
    assert Rows.times == 1
    assert [row["taken"] for row in parts(definition, state)["operators"]] == [3, 3, 0]
    assert Rows.times == 2


class CountedFrames:
    """The frames of a network in which nothing passed, which counts how often they are counted."""

    def __init__(self) -> None:
        self.times = 0

    def passages(self) -> list[Passage]:
        self.times += 1
        return []

    def streams(self, plan: str) -> dict[str, int]:
        return {}


def test_a_session_is_counted_once_for_those_who_ask_at_about_the_same_time() -> None:
    frames = CountedFrames()
    network = SimpleNamespace(progress=1, frames=frames)
    state = DataflowState(1, "d", sessions=[FlowSession("c", 2, 1)], calls={"c": 0})

    async def asking() -> None:
        live = LiveState("t.Main", cast("Network", network), "c", PrintedLines("t.Main"))
        live(state), live(state)
        assert frames.times == 1
        network.progress = 2
        live(state), live(state)
        assert frames.times == 2

    asyncio.run(asking())


def test_operators_tell_what_they_wait_for_and_what_passed() -> None:
    driver = FlowDriver(flow(TEXT), {"query": lambda request: [TupleBatch(("v",), [(1,), (2,)])]})
    told = {(one.plan, one.key): one for one in driver.network.frames.passages()}
    assert told["t.Main", "select-1"].waits_for == ("c",)
    assert told["t.Main", "query-1"].waits_for == ("the first of some",)
    driver.feed("x", [{"text": "a"}, {"text": "b"}, {"text": ""}]).give(c="text > ''")
    told = {(one.plan, one.key): one for one in driver.network.frames.passages()}
    assert (told["t.Main", "select-1"].taken, told["t.Main", "select-1"].given) == (3, 2)
    assert told["t.Main", "query-1"].waits_for == ("more of some", "2 requests under way, 0 behind them")
    driver.end("x").run()
    assert [
        (one.plan, one.key, dict(one.states), one.taken, one.given, one.requests)
        for one in driver.network.frames.passages()
    ] == [
        ("t.Sub", "select-1", {"finished": 1}, 4, 2, 0),
        ("t.Main", "select-1", {"finished": 1}, 3, 2, 0),
        ("t.Main", "query-1", {"finished": 1}, 2, 4, 2),
        ("t.Main", "t/Sub-1", {"finished": 1}, 4, 2, 0),
    ]


def test_an_attribute_that_no_tuple_had_is_told_at_the_end() -> None:
    plan = flow(
        "PLAN Main { INPUT: Tuple x, Tuple z, String cond OUTPUT: Tuple a, Tuple b, Tuple c, Object d BODY {"
        ' select("m = 1 AND n = 1", x : a) select(cond, x : b) join("n = k", x, z : c)'
        ' aggregate("o", "sum", z : d) } }'
    )
    driver = FlowDriver(plan).feed("x", [{"n": 1}, {"l": 2}], 1).give(cond="o > 1").end("x", "z").run()
    told = [str(one) for one in driver.network.frames.tally.lacking()]
    assert told == [
        "select-1, line 1: none of 2 tuples has m",
        "select-2, line 1: none of 2 tuples has o",
    ], "of z, which had no tuples, nothing is known"
