"""What a network promises whatever the plan: operators are there, tuples are shared, tries are apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings, OperatorRequest, OutputTuples
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE
from tests.kinds.dataflow.engine.flows import FailedError, FlowDriver, flow, tuples_of


def text_given(request: OperatorRequest) -> list[TupleBatch]:
    return [TupleBatch(("text",), [(request.arguments["text"],)])]


def test_T24_all_operators_are_there_before_any_fires_and_one_request_at_a_time_is_enough() -> None:
    calls = ['query("s", x : a1)', *[f'query("s", a{at} : a{at + 1})' for at in range(1, 20)]]
    text = f"PLAN Main {{ INPUT: Stream x OUTPUT: Stream a20 BODY {{ {' '.join(calls)} }} }}"
    driver = FlowDriver(flow(text), {"query": text_given}, settings=FlowSettings(concurrency=1, queue=1))
    there = driver.network.frames.passages()
    assert [passage.key for passage in there] == [f"query-{at}" for at in range(1, 21)]
    assert all(passage.states == {"waiting": 1} for passage in there)
    driver.feed("x", [{"text": str(at)} for at in range(50)]).end("x").run()
    assert sorted(int(row["text"]) for row in driver.rows["a20"]) == list(range(50))


def test_T28_consumers_are_given_the_same_tuples_and_none_can_alter_them() -> None:
    text = """PLAN Main { INPUT: Stream x OUTPUT: Stream a, Stream b BODY {
      select("n > 0", x : a) merge((x) : b) } }"""
    network = Network(flow(text))
    row = (1, "one")
    network.start()
    network.feed("x", TupleBatch(("n", "t"), [row]))
    network.run(100)
    given = [event.batch.rows[0] for event in network.take() if isinstance(event, OutputTuples)]
    assert len(given) == 2
    assert all(one is row for one in given)
    assert isinstance(row, tuple)


def test_TA28_a_restarted_transaction_is_the_same_frame_and_the_next_epoch() -> None:
    left = [FailedError(), None]

    def query(request: OperatorRequest) -> list[TupleBatch]:
        if (error := left.pop(0)) is not None:
            raise error
        return text_given(request)

    text = 'PLAN Main { INPUT: String x OUTPUT: Stream y BODY { query("s", x : y) } }'
    driver = FlowDriver(flow(text), {"query": query}).give(x="a").run()
    first, second = driver.made
    assert first.frame == second.frame
    assert first.epoch < second.epoch
    assert driver.rows["y"] == [{"text": "a"}]


def test_TA18_the_order_of_a_relation_is_kept_by_a_stream_of_it() -> None:
    text = """PLAN Main { INPUT: Relation x OUTPUT: Stream y BODY {
      sort("n", "descending", x : sorted) stream(sorted : y) } }"""
    driver = FlowDriver(flow(text))
    made = FlowDriver(flow("PLAN Main { INPUT: Stream a OUTPUT: Relation b BODY { accumulate(a : b) } }"))
    made.feed("a", [{"n": at * 7919 % 5003} for at in range(5000)]).end("a").run()
    driver.give(x=made.values["b"]).run()
    assert driver.rows["y"] == sorted(tuples_of(made.values["b"]), key=lambda row: -row["n"])


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_TA17_texts_and_numbers_are_not_sorted_among_one_another(order: str) -> None:
    text = f"""PLAN Main {{ INPUT: Stream x OUTPUT: Relation y BODY {{
      accumulate(x : all) sort("n", "{order}", all : y) }} }}"""
    driver = FlowDriver(flow(text)).feed("x", [{"n": 2}, {"n": "1"}, {"n": None}]).end("x").run()
    assert driver.over is not None
    assert driver.over.failure is not None
    assert driver.over.failure.kind == "no-order"


def test_TA36_TA37_an_operator_is_reentrant_only_if_it_says_so_and_blocking_is_apart_from_outside() -> None:
    reentrant = {name for name, operator in OPERATOR_TABLE.items() if operator.reentrant}
    assert reentrant == {"select", "project"}
    blocking = {name for name, operator in OPERATOR_TABLE.items() if operator.kind == "B"}
    outside = {name for name, operator in OPERATOR_TABLE.items() if operator.io}
    assert {"sort", "exportrelation"} <= blocking
    assert {"fetch", "exportrelation"} <= outside
    assert "sort" not in outside
    assert "fetch" not in blocking


def test_T11_an_underscore_stands_for_an_output_that_nobody_needs() -> None:
    text = """PLAN Main { INPUT: Stream x OUTPUT: Stream n BODY { atleastone(x : _, n) } }"""
    for rows, end in (([{"a": 1}], "cancelled"), ([], "ended")):
        driver = FlowDriver(flow(text)).feed("x", rows).end("x").run()
        assert (driver.ends, driver.rows) == ({"n": end}, {})


SIZES: list[tuple[str, Callable[[int], list[int]]]] = [
    ("GRANULARITY: 4;", lambda rows: [4] * (rows // 4) + [rows % 4] * (rows % 4 > 0)),
    ("GRANULARITY: any;", lambda rows: [rows]),
]


@pytest.mark.parametrize(("declared", "sizes"), SIZES)
def test_T27_an_operator_is_given_so_many_tuples_at_once_as_it_is_declared_to_like(
    declared: str, sizes: Callable[[int], list[int]]
) -> None:
    text = f"""OPERATOR count {{ INPUT: TupleStream in; OUTPUT: TupleStream out; {declared} }}
    PLAN Main {{ INPUT: Stream x OUTPUT: Stream y BODY {{ count(x : y) }} }}"""
    driver = FlowDriver(flow(text), {"count": lambda request: []})
    driver.feed("x", [{"n": at} for at in range(10)]).end("x").run()
    batches = [len(request.batch.rows) for request in driver.made if request.batch is not None]
    assert batches == sizes(10)
