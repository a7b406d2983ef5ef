"""Relational operators against a slow reference: random tuples, in batches of any size, with little room."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.kinds.dataflow.engine.network.batches import Relation, RowsInMemory
from narval.kinds.dataflow.engine.network.operators import relations
from narval.kinds.dataflow.engine.network.requests import FlowSettings, OutputValue
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from tests.examples import examples
from tests.kinds.dataflow.engine import reference
from tests.kinds.dataflow.engine.flows import FlowDriver, flow, tuples_of

NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, 2.0]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "Ä"]))
TUPLES = st.lists(st.fixed_dictionaries({"n": NUMBERS, "t": TEXTS}), max_size=12)
OTHERS = st.lists(st.fixed_dictionaries({"n": NUMBERS, "m": NUMBERS, "t": TEXTS}), max_size=12)
SIZES = st.integers(1, 5)
COMPARES = st.sampled_from(sorted(reference.HOLDS))


class Little:
    """Room for three rows alone."""

    def room(self, rows: Any) -> int:
        return 3

    def kept(self) -> RowsInMemory:
        return RowsInMemory()


ROOMS = st.sampled_from([FlowSettings(), FlowSettings(spill=Little())])


def plan(inputs: str, outputs: str, body: str) -> FlowPlan:
    """A dataflow of streams with one or two operators."""
    given = ", ".join(f"TupleStream {name}" for name in inputs)
    return flow(f"PLAN Main {{ INPUT: {given} OUTPUT: {outputs} BODY {{ {body} }} }}")


def bag(tuples: Any) -> Counter[Any]:
    return Counter(frozenset(row.items()) for row in tuples)


@given(TUPLES, SIZES, COMPARES, st.integers(-3, 3), st.booleans())
def test_select_is_the_reference(tuples: Any, size: int, how: str, number: int, both: bool) -> None:
    text = f"n {how} {number}" + " AND t <> 'a'" * both
    dataflow = flow(
        f'PLAN Main {{ INPUT: TupleStream x OUTPUT: TupleStream y BODY {{ select("{text}", x : y) }} }}'
    )
    driver = FlowDriver(dataflow).feed("x", tuples, size).end("x").run()
    tests = [("n", how, number), *[("t", "<>", "a")] * both]
    assert driver.rows.get("y", []) == reference.select(tests, tuples)
    assert driver.ends == {"y": "ended"}


def test_no_value_meets_no_comparison() -> None:
    dataflow = plan("x", "TupleStream y", 'select("n <> 1", x : y)')
    driver = FlowDriver(dataflow).feed("x", [{"n": None}, {"n": 2}, {"n": 1}]).end("x").run()
    assert driver.rows["y"] == [{"n": 2}]


def test_a_text_and_a_number_have_no_order() -> None:
    dataflow = plan("x", "TupleStream y", 'select("n < 5", x : y)')
    driver = FlowDriver(dataflow).feed("x", [{"n": "4"}]).run()
    assert driver.over is not None
    assert driver.over.failure is not None
    assert driver.over.failure.kind == "no-order"


@given(TUPLES, SIZES)
def test_project_is_the_reference(tuples: Any, size: int) -> None:
    dataflow = flow(
        "PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y, TupleStream z "
        'BODY { project("t, n", x : y) project("n", x : z) } }'
    )
    driver = FlowDriver(dataflow).feed("x", tuples, size).end("x").run()
    assert driver.rows.get("y", []) == reference.project(["t", "n"], tuples)
    assert driver.rows.get("z", []) == reference.project(["n"], tuples)


JOINS = st.sampled_from(
    [
        [("n", "=", "n")],
        [("n", "=", "n"), ("t", "=", "t")],
        [("n", "=", "m")],
        [("n", "<", "m")],
        [("n", "=", "n"), ("t", "<>", "t")],
        [("n", "=", "m"), ("n", "=", "n")],
        [],
    ]
)


@settings(max_examples=examples(300))
@given(TUPLES, OTHERS, SIZES, JOINS, ROOMS, st.randoms())
def test_join_is_the_reference(
    left: Any, right: Any, size: int, tests: Any, room: FlowSettings, chance: Any
) -> None:
    text = " AND ".join(f"{a} {how} {b}" for a, how, b in tests)
    dataflow = plan("lr", "TupleStream y", f'join("{text}", l, r : y)')
    driver = FlowDriver(dataflow, settings=room)
    waiting = {"l": list(left), "r": list(right)}
    while waiting:
        name = chance.choice(sorted(waiting))
        some, waiting[name] = waiting[name][:size], waiting[name][size:]
        if some:
            driver.feed(name, some)
        else:
            del waiting[name]
            driver.end(name)
    assert bag(driver.run().rows.get("y", [])) == bag(reference.join(tests, left, right))


def test_a_pair_comes_as_soon_as_it_is_certain() -> None:
    dataflow = plan("lr", "TupleStream y", 'join("n = n", l, r : y)')
    driver = FlowDriver(dataflow).feed("l", [{"n": 1, "a": 2}])
    assert driver.rows == {}
    driver.feed("r", [{"n": 1, "a": 3}])
    assert driver.rows == {"y": [{"n": 1, "a": 2, "right_a": 3}]}


@settings(max_examples=examples(200))
@given(TUPLES, TUPLES, SIZES, ROOMS)
def test_union_is_the_reference(left: Any, right: Any, size: int, room: FlowSettings) -> None:
    dataflow = plan("lr", "TupleStream y", "union((l, r) : y)")
    turned = [{"t": row["t"], "n": row["n"]} for row in right]
    driver = (
        FlowDriver(dataflow, settings=room).feed("l", left, size).feed("r", turned, size).end("l", "r").run()
    )
    assert bag(driver.rows.get("y", [])) == bag(reference.distinct([*left, *right]))


OPTIONAL = st.lists(
    st.fixed_dictionaries({}, optional={"n": st.integers(-1, 3), "m": st.integers(-1, 3)}), max_size=12
)


@settings(max_examples=examples(200))
@given(
    st.sampled_from(
        [
            'select("n <> 1 AND m > 0", l : y) accumulate(r : other)',
            'project("m, n", l : y) accumulate(r : other)',
            'relsprintf("t", "%m% %n%", l : y) accumulate(r : other)',
            'group("n", "count(m), max(m)", l : y) accumulate(r : other)',
            'project("n", r : k) join("n = n", l, k : y)',
            'project("n", r : k) join("n = n AND m < n", l, k : y)',
            'project("n", l : k) join("n > m", k, r : y)',
            "union((l, r) : y)",
            "difference(l, r : y)",
            'merge((l, r) : a) aggregate("m", "count", a : c) formatrelation(c, "c" : d) stream(d : y)',
            'accumulate(l : a) sort("m", "descending", a : s) stream(s : y) accumulate(r : other)',
        ]
    ),
    OPTIONAL,
    OPTIONAL,
    SIZES,
    ROOMS,
    st.booleans(),
)
def test_an_absent_attribute_is_no_value_whatever_the_batches(
    body: str, left: Any, right: Any, size: int, room: FlowSettings, right_first: bool
) -> None:
    outputs = "TupleStream y, Relation other" if "other" in body else "TupleStream y"
    inputs = [("r", right), ("l", left)] if right_first else [("l", left), ("r", right)]
    whole, parts = (FlowDriver(plan("lr", outputs, body), settings=room) for _ in range(2))
    for driver, most in ((whole, 1000), (parts, size)):
        for name, tuples in inputs:
            driver.feed(name, tuples, most).end(name)
        driver.run()
    here, there = (
        bag(
            {name: value for name, value in row.items() if value is not None} for row in one.rows.get("y", [])
        )
        for one in (whole, parts)
    )
    assert here == there


def test_a_join_whose_left_side_takes_a_name_of_the_right_late_is_an_error() -> None:
    driver = FlowDriver(plan("lr", "TupleStream y", 'join("n = n", l, r : y)'))
    driver.feed("l", [{"n": 1}]).feed("r", [{"n": 1, "m": 2}]).feed("l", [{"n": 1, "m": 3}]).run()
    assert driver.rows == {"y": [{"n": 1, "m": 2}]}
    assert driver.over is not None
    assert "project the left side before the join" in driver.over.failure.message  # type: ignore[union-attr]


@settings(max_examples=examples(200))
@given(TUPLES, TUPLES, SIZES, ROOMS, st.booleans())
def test_difference_is_the_reference(
    universe: Any, sample: Any, size: int, room: FlowSettings, late: bool
) -> None:
    dataflow = plan("us", "TupleStream y", "difference(u, s : y)")
    driver = FlowDriver(dataflow, settings=room)
    if late:
        driver.feed("u", universe, size)
        assert driver.rows == {}
        driver.feed("s", sample, size).end("s", "u")
    else:
        driver.feed("s", sample, size).end("s").feed("u", universe, size).end("u")
    assert bag(driver.run().rows.get("y", [])) == bag(reference.difference(universe, sample))


@settings(max_examples=examples(200))
@given(TUPLES, SIZES, ROOMS, st.sampled_from([2, 8192]), st.sampled_from(["n", "t"]), st.booleans())
def test_TA17_sort_is_the_reference(
    tuples: Any, size: int, room: FlowSettings, piece: int, name: str, descending: bool
) -> None:
    order = "descending" if descending else "ascending"
    dataflow = flow(
        "PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y, Relation z BODY { accumulate(x : r) "
        f'sort("{name}", "{order}", r : z) stream(z : y) }} }}'
    )
    with patch.object(relations, "PIECE", piece):
        driver = FlowDriver(dataflow, settings=room).feed("x", tuples, size).end("x").run()
    expected = reference.in_order(name, tuples, descending=descending)
    assert driver.rows.get("y", []) == expected
    assert tuples_of(driver.values["z"]) == expected


class Compared(str):
    """A text that counts how often one such is compared."""

    count = 0

    def __lt__(self, other: str) -> bool:
        Compared.count += 1
        return str.__lt__(self, other)


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_no_turn_of_a_sort_grows_with_its_rows(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.setattr(relations, "PIECE", 64)
    text = f'PLAN Main {{ INPUT: Relation x OUTPUT: Relation y BODY {{ sort("a", "{order}", x : y) }} }}'
    network = Network(flow(text), None, "t")
    values = [Compared(f"{at * 7919 % 1999:04d}") for at in range(1999)]
    rows = RowsInMemory()
    rows.add([(value,) for value in values])
    network.start()
    network.give("x", Relation(("a",), rows))
    most, before = 0, Compared.count
    while network.run(1):
        most, before = max(most, Compared.count - before), Compared.count
    (out,) = [event.value for event in network.take() if isinstance(event, OutputValue)]
    made = [row[0] for batch in out.batches() for row in batch.rows]
    assert made == sorted(values, reverse=order == "descending")
    assert 0 < most < 64 * 16


@given(TUPLES, SIZES, st.sampled_from(["count", "sum", "min", "max", "avg", "list", "lines"]))
def test_TA12_aggregate_is_the_reference(tuples: Any, size: int, func: str) -> None:
    dataflow = plan("x", "Object y", f'aggregate("n", "{func}", x : y)')
    driver = FlowDriver(dataflow).feed("x", tuples, size).end("x").run()
    assert driver.values["y"] == reference.aggregate("n", func, tuples)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_sum_does_not_depend_on_the_order(size: int) -> None:
    dataflow = plan("x", "Object y", 'aggregate("n", "sum", x : y)')
    numbers = [{"n": value} for value in [0.1] * 10 + [1e16, 1, -1e16]]
    assert FlowDriver(dataflow).feed("x", numbers, size).end("x").run().values["y"] == 2.0
    numbers = [{"n": value} for value in (9007199254740993, 0.1, 0.2)]
    assert FlowDriver(dataflow).feed("x", numbers, size).end("x").run().values["y"] == 9007199254740994


@given(TUPLES, SIZES, st.sampled_from(["t", "n, t"]), ROOMS)
def test_group_is_the_reference(tuples: Any, size: int, by: str, room: FlowSettings) -> None:
    values = "count(*), count(n) as ns, sum(n) as total, min(t) as first, list(t) as all"
    folds = [("count", "*", "count"), ("count", "n", "ns"), ("sum", "n", "total"), ("min", "t", "first"),
             ("list", "t", "all")]  # fmt: skip
    dataflow = plan("x", "TupleStream y", f'group("{by}", "{values}", x : y)')
    driver = FlowDriver(dataflow, settings=room).feed("x", tuples, size).end("x").run()
    assert bag(driver.rows.get("y", [])) == bag(reference.group(by.split(", "), folds, tuples))


def test_a_group_adds_no_texts_and_says_which() -> None:
    dataflow = plan("x", "TupleStream y", 'group("k", "sum(t) as s", x : y)')
    driver = FlowDriver(dataflow).feed("x", [{"k": 1, "t": "a"}]).end("x").run()
    assert driver.over is not None
    assert driver.over.failure is not None
    assert driver.over.failure.message == """t: expected numbers to add, found 'a', in {"k":1,"t":"a"}"""


RAGGED = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 1)), min_size=1).map(
        lambda row: {"k": 0, **row}
    ),
    max_size=8,
)


@settings(max_examples=examples(200))
@given(RAGGED, RAGGED, ROOMS)
def test_TA13_what_a_tuple_lacks_is_no_value_in_sets(left: Any, right: Any, room: FlowSettings) -> None:
    wide, sample = reference.padded(left, right)
    both = reference.distinct([*wide, *sample])
    driver = FlowDriver(plan("lr", "TupleStream y", "union((l, r) : y)"), settings=room)
    driver.feed("l", left, 1).feed("r", right, 1).end("l").end("r").run()
    assert bag(reference.padded(driver.rows.get("y", []), both)[0]) == bag(both)

    driver = FlowDriver(plan("lr", "TupleStream y", "difference(l, r : y)"), settings=room)
    driver.feed("l", left, 1).feed("r", right, 1).end("r").end("l").run()
    got = reference.padded(driver.rows.get("y", []), wide, sample)[0]
    assert bag(got) == bag(reference.difference(wide, sample))
    own = {name for row in left for name in row}
    assert all(row.keys() <= own for row in driver.rows.get("y", []))


def test_count_of_all_counts_tuples_without_a_value() -> None:
    dataflow = plan("x", "Object y", 'aggregate("*", "count", x : y)')
    assert FlowDriver(dataflow).feed("x", [{"n": None}, {"n": 1}]).end("x").run().values["y"] == 2


def test_TA11_a_format_writes_an_attribute() -> None:
    dataflow = flow(
        "PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y "
        'BODY { relsprintf("u", "http://h/%n%?100%%=%t%", x : y) } }'
    )
    driver = FlowDriver(dataflow).feed("x", [{"n": -0.0, "t": None}, {"n": 1e22, "t": "a"}]).end("x").run()
    assert [row["u"] for row in driver.rows["y"]] == [
        "http://h/0?100%=",
        "http://h/10000000000000000000000?100%=a",
    ]


def test_empty_streams_end_empty() -> None:
    dataflow = flow(
        "PLAN Main { INPUT: TupleStream x "
        "OUTPUT: TupleStream s, TupleStream j, TupleStream u, TupleStream d, Relation a, Object n, Object m "
        'BODY { select("k = 1", x : s) join("k = k", x, x : j) union((x) : u) difference(x, x : d) '
        'accumulate(x : a) aggregate("k", "sum", x : n) aggregate("k", "min", x : m) } }'
    )
    driver = FlowDriver(dataflow).end("x").run()
    assert driver.rows == {}
    assert driver.ends == dict.fromkeys(["s", "j", "u", "d", "a", "n", "m"], "ended")
    assert (driver.values["n"], driver.values["m"], len(driver.values["a"])) == (0, None, 0)
