"""The tuples that passed through operators, and what these wait for."""

from __future__ import annotations

from narval.kinds.dataflow.engine.network.batches import TupleBatch
from tests.kinds.dataflow.engine.flows import FlowDriver, flow

TEXT = """
PLAN Main { INPUT: TupleStream x, String c OUTPUT: TupleStream y BODY {
  select(c, x : some)  query("s", some : found)  t/Sub(found : y) } }
PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY { select("v > 1", a : b) } }
"""


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
