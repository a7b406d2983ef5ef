"""When operators fire, what cancels them, and how a transaction ends (T26, T31, T32, T40)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings, OperatorRequest
from tests.examples import examples
from tests.kinds.dataflow.engine.flows import FailedError, FlowDriver, flow, tuples_of


def plan(inputs: str, outputs: str, body: str) -> Any:
    return flow(f"PLAN Main {{ INPUT: {inputs} OUTPUT: {outputs} BODY {{ {body} }} }}")


def pages(request: OperatorRequest) -> list[TupleBatch]:
    """Two rows for whatever is asked."""
    asked = request.arguments.get("text") or request.arguments.get("url")
    return [TupleBatch(("page", "line"), [(asked, 1), (asked, 2)])]


def test_T31_tuples_wait_for_a_value() -> None:
    driver = FlowDriver(plan("TupleStream x, String c", "TupleStream y", "select(c, x : y)"))
    driver.feed("x", [{"n": 1}, {"n": 5}])
    assert driver.rows == {}
    driver.give(c="n > 2")
    assert driver.rows == {"y": [{"n": 5}]}
    assert driver.end("x").run().over is not None


def test_T31_no_input_fires_at_the_start() -> None:
    driver = FlowDriver(plan("", "TupleStream y", """makestream2("[{\\"a\\": 1}, {\\"a\\": null}]" : y)"""))
    assert driver.run().rows == {"y": [{"a": 1}, {"a": None}]}


def test_T31_values_alone_fire_when_all_are_there() -> None:
    driver = FlowDriver(plan("String a, Number b", "String y", 'sprintf("%s is %s (100%%)", (a, b) : y)'))
    assert driver.give(a="x").values == {}
    assert driver.give(b=2.50).run().values == {"y": "x is 2.5 (100%)"}


def test_T40_one_of_two_is_cancelled() -> None:
    body = 'atleastone(x : yes, no) select("n > 9", yes : y) select("n > 9", no : z)'
    some = FlowDriver(plan("TupleStream x", "TupleStream y, TupleStream z", body))
    some.feed("x", [{"n": 1}]).end("x").run()
    assert some.ends == {"y": "ended", "z": "cancelled"}
    none = FlowDriver(plan("TupleStream x", "TupleStream y, TupleStream z", body)).end("x").run()
    assert none.ends == {"y": "cancelled", "z": "ended"}


@pytest.mark.parametrize(
    ("a", "how", "b", "chosen"),
    [(1, "<", 2, "t"), (1, "=", "1", "t"), ("10", "<", 9, "t"), (10, "<", 9, "f"), ("b", ">=", "c", "f")],
)
def test_T8_compare_enables_one(a: Any, how: str, b: Any, chosen: str) -> None:
    driver = FlowDriver(
        plan("Object a, Object b", "Enablement t, Enablement f", f'compare(a, b, "{how}" : t, f)')
    )
    driver.give(a=a, b=b).run()
    assert driver.values == {chosen: True}
    assert sorted(driver.ends.values()) == ["cancelled", "ended"]


@pytest.mark.parametrize("size", [1, 2])
def test_TA14_a_head_is_the_same_whatever_the_tuples_behind_it_have(size: int) -> None:
    driver = FlowDriver(flow("PLAN Main { INPUT: Tuple x OUTPUT: Object h BODY { headtail(x : h, _) } }"))
    driver.feed("x", [{"n": 1}, {"n": 2, "text": "two"}], size).end("x").run()
    assert driver.values == {"h": 1}


def test_TA14_TA15_headtail_leaves_no_head_of_nothing() -> None:
    body = 'headtail(x : h, t) sprintf("%s", (h) : y)'
    assert FlowDriver(plan("TupleStream x", "String y, TupleStream t", body)).end("x").run().ends == {
        "y": "cancelled",
        "t": "ended",
    }
    driver = FlowDriver(plan("TupleStream x", "String y, TupleStream t", body)).feed(
        "x", [{"a": 1}, {"a": 2}]
    )
    assert (driver.values, driver.rows) == ({"y": "1"}, {"t": [{"a": 2}]})


def test_TA3_a_merge_takes_a_cancelled_input_as_ended() -> None:
    body = 'atleastone(x : _, no) select("n > 0", no : some) merge((some, z) : y)'
    driver = FlowDriver(plan("TupleStream x, TupleStream z", "TupleStream y", body))
    driver.feed("x", [{"n": 1}]).feed("z", [{"m": 1}]).end("x", "z").run()
    assert (driver.rows, driver.ends) == ({"y": [{"m": 1}]}, {"y": "ended"})


def test_TA3_a_join_with_one_side_cancelled_is_cancelled() -> None:
    body = 'atleastone(x : _, no) join("n = n", no, z : y)'
    driver = FlowDriver(plan("TupleStream x, TupleStream z", "TupleStream y", body))
    driver.feed("z", [{"n": 1}]).feed("x", [{"n": 1}]).end("x", "z").run()
    assert driver.ends == {"y": "cancelled"}


def test_TA3_a_difference_takes_a_cancelled_sample_as_empty() -> None:
    body = "atleastone(x : _, no) difference(z, no : y)"
    driver = FlowDriver(plan("TupleStream x, TupleStream z", "TupleStream y", body))
    driver.feed("z", [{"n": 1}]).feed("x", [{"n": 1}]).end("x", "z").run()
    assert (driver.rows, driver.ends) == ({"y": [{"n": 1}]}, {"y": "ended"})


def test_one_name_of_exclusive_branches_ends_once() -> None:
    body = 'atleastone(x : some, y) select("n > 1", some : y)'
    driver = FlowDriver(plan("TupleStream x", "TupleStream y", body))
    driver.feed("x", [{"n": 1}, {"n": 2}]).end("x").run()
    assert (driver.rows, driver.ends) == ({"y": [{"n": 2}]}, {"y": "ended"})
    assert FlowDriver(plan("TupleStream x", "TupleStream y", body)).end("x").run().ends == {"y": "ended"}


# --- clauses ----------------------------------------------------------------------------------------------


def test_T10_TA2_a_tuple_satisfies_wait_and_the_end_alone_does_not() -> None:
    body = 'query("s", "q" : y) WAIT: x'
    driver = FlowDriver(plan("TupleStream x", "TupleStream y", body), {"query": pages})
    assert driver.made == []
    driver.feed("x", [{"n": 1}])
    assert [request.call.operator.name for request in driver.made] == ["query"]
    assert driver.end("x").run().ends == {"y": "ended"}
    empty = FlowDriver(plan("TupleStream x", "TupleStream y", body), {"query": pages}).end("x").run()
    assert (empty.ends, empty.made) == ({"y": "cancelled"}, [])


def test_T10_TA1_enable_comes_at_the_end_and_started_at_the_first_firing() -> None:
    body = 'query("s", "q" : y) ENABLE: e STARTED: s'
    driver = FlowDriver(plan("", "TupleStream y, Enablement e, Enablement s", body), {"query": pages})
    assert driver.values == {"s": True}
    assert driver.run().values == {"s": True, "e": True}


def fails(request: OperatorRequest) -> list[TupleBatch]:
    raise FailedError


def test_T10_TA24_on_error_takes_the_place_of_void_and_restart() -> None:
    body = 'query("s", "q" : y) ENABLE: e ON_ERROR: bad  makestream2("[{\\"a\\": 1}]" : z) WAIT: bad'
    driver = FlowDriver(plan("", "TupleStream y, TupleStream z, Enablement e", body), {"query": fails}).run()
    assert driver.ends == {"y": "cancelled", "z": "ended", "e": "cancelled"}
    assert driver.rows == {"z": [{"a": 1}]}
    assert driver.over is not None
    assert (driver.over.state, driver.restarts) == ("done", [])


def test_without_an_error_its_consumers_are_cancelled() -> None:
    body = 'query("s", "q" : y) ON_ERROR: bad  makestream2("[]" : z) WAIT: bad'
    driver = FlowDriver(plan("", "TupleStream y, TupleStream z", body), {"query": pages}).run()
    assert driver.ends == {"y": "ended", "z": "cancelled"}


# --- outside ----------------------------------------------------------------------------------------------


def test_TA7_a_stream_runs_the_operator_for_each_tuple_a_bounded_number_at_once() -> None:
    driver = FlowDriver(
        plan("TupleStream x", "TupleStream y", 'query("s", x : y)'),
        {"query": pages},
        settings=FlowSettings(concurrency=3),
    )
    driver.feed("x", [{"text": f"p{n}", "other": n} for n in range(10)]).end("x")
    assert len(driver.waiting) == 3
    driver.run()
    assert driver.bag("y") == Counter(
        frozenset({"page": f"p{n}", "line": line}.items()) for n in range(10) for line in (1, 2)
    )
    assert driver.ends == {"y": "ended"}


def test_TA41_who_is_behind_holds_sources_back() -> None:
    driver = FlowDriver(
        plan("TupleStream x", "TupleStream y", 'query("s", x : y)'),
        {"query": pages},
        settings=FlowSettings(concurrency=1, queue=2),
    )
    driver.feed("x", [{"text": "a"}, {"text": "b"}, {"text": "c"}])
    assert not driver.network.is_crowded
    driver.feed("x", [{"text": "d"}])
    assert driver.network.is_crowded
    driver.answer_one()
    driver.answer_one()
    assert not driver.network.is_crowded


def test_T58_TA6_what_comes_of_each_need_not_share_attributes() -> None:
    def two(request: OperatorRequest) -> list[TupleBatch]:
        return [TupleBatch((request.arguments["text"],), [(1,)])]

    driver = FlowDriver(plan("TupleStream x", "TupleStream y", 'query("s", x : y)'), {"query": two})
    driver.feed("x", [{"text": "a"}, {"text": "b"}]).end("x").run()
    assert driver.rows == {"y": [{"a": 1}, {"a": None, "b": 1}]}


def test_TA6_what_one_lacks_of_the_attributes_of_another_is_no_value() -> None:
    def some(request: OperatorRequest) -> list[TupleBatch]:
        schema = ("k", *[name for name in "ab" if name in request.arguments["text"]])
        return [TupleBatch(schema, [tuple(range(len(schema)))])]

    body = 'query("s", x : y) accumulate(y : z)'
    driver = FlowDriver(plan("TupleStream x", "TupleStream y, Relation z", body), {"query": some})
    driver.feed("x", [{"text": "k"}, {"text": "a"}, {"text": "b"}, {"text": "a"}]).end("x").run()
    assert driver.rows["y"] == [
        {"k": 0},
        {"k": 0, "a": 1},
        {"k": 0, "a": None, "b": 1},
        {"k": 0, "a": 1, "b": None},
    ]
    (relation,) = driver.values["z"].batches()
    assert relation.schema == ("k", "a", "b")
    assert relation.rows == [(0, None, None), (0, 1, None), (0, None, 1), (0, 1, None)]


def test_the_end_of_a_stream_is_told_after_all_its_tuples() -> None:
    body = 'notify("mailto:pat@example.org", x) ENABLE: e noop() WAIT: e'
    driver = FlowDriver(
        flow(f"PLAN Main {{ INPUT: TupleStream x BODY {{ {body} }} }}"),
        {"notify": lambda request: []},
        seed=3,
    )
    driver.feed("x", [{"n": 1}, {"n": 2}, {"n": 3}], 1).end("x").run()
    assert [(one.phase, one.batch and one.batch.rows) for one in driver.made] == [
        ("batch", [(1,)]),
        ("batch", [(2,)]),
        ("batch", [(3,)]),
        ("eos", None),
    ]


def test_a_relation_of_a_value_and_of_tuples() -> None:
    driver = FlowDriver(plan("String c", "Relation y", 'formatrelation(c, "city" : y)')).give(c="Ulm").run()
    assert tuples_of(driver.values["y"]) == [{"city": "Ulm"}]
    driver = FlowDriver(plan("TupleStream x", "TupleStream y", 'formatrelation(x, "city" : y)'))
    driver.feed("x", [{"a": 1}, {"a": 2}]).end("x").run()
    assert driver.rows == {"y": [{"city": 1}, {"city": 2}]}


# --- all schedules ----------------------------------------------------------------------------------------

WHOLE = """
PLAN Main {
  INPUT: TupleStream x, TupleStream z, String limit
  OUTPUT: TupleStream pairs, TupleStream few, Object sum, TupleStream rest
  BODY {
    atleastone(x : some, none)
    query("s", some : found)
    select("line > 1", found : lines)
    union((lines, found) : both)
    join("page = key", both, z : pairs)
    aggregate("line", "sum", pairs : sum)
    select(limit, z : chosen)
    difference(chosen, none : few) WAIT: sum
    relsprintf("page", "%page%!", lines : rest)
  }
}
"""


@settings(max_examples=examples(150))
@given(st.integers(0, 10**9), st.integers(0, 4), st.integers(1, 4))
def test_T26_the_result_is_the_same_for_all_schedules(seed: int, count: int, size: int) -> None:
    x = [{"text": f"p{n % 3}"} for n in range(count)]
    z = [{"key": f"p{n % 5}", "w": n} for n in range(8)]

    def driven(seed: int | None, size: int) -> FlowDriver:
        driver = FlowDriver(flow(WHOLE), {"query": pages}, seed)
        todo = [
            *[(driver.feed, ("x", [one])) for one in x],
            *[(driver.feed, ("z", z[at : at + size])) for at in range(0, len(z), size)],
        ]
        driver.chance.shuffle(todo)
        for act, arguments in todo:
            act(*arguments)
            if driver.chance.random() < 0.3:
                driver.answer_one()
        ends = ["x", "z"]
        driver.chance.shuffle(ends)
        driver.end(ends[0]).give(limit="w < 6").end(ends[1])
        return driver.run()

    one, other = driven(None, 8), driven(seed, size)
    assert one.ends == other.ends
    assert one.values == other.values
    assert all(one.bag(name) == other.bag(name) for name in ("pairs", "few", "rest"))


def test_a_long_chain_does_not_grow_the_stack() -> None:
    chain = " ".join(f'select("n > 0", x{at} : x{at + 1})' for at in range(600))
    text = f"PLAN Main {{ INPUT: TupleStream x0 OUTPUT: TupleStream x600 BODY {{ {chain} }} }}"
    whole = flow(text)
    driver = FlowDriver(whole).feed("x0", [{"n": 1}, {"n": 0}], 1).end("x0").run()
    assert (driver.rows, driver.ends) == ({"x600": [{"n": 1}]}, {"x600": "ended"})
    driver = FlowDriver(whole)
    driver.network.cancel("x0")
    assert driver.run().ends == {"x600": "cancelled"}
