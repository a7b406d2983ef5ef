"""Optimised graphs give the same as those that are not (T54)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.kinds.dataflow.engine.network.batches import batch_of
from narval.kinds.dataflow.engine.network.requests import OperatorRequest
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.compiling.compiler import compile_plans
from narval.kinds.dataflow.language.compiling.vocabulary import PlanVocabulary
from narval.kinds.dataflow.language.conditions import JoinTest, joined
from narval.kinds.dataflow.language.definition import DataflowDefinition
from tests.examples import examples
from tests.kinds.dataflow.engine.flows import FlowDriver, definition


def as_written(found: DataflowDefinition) -> DataflowDefinition:
    """The same dataflow without what the optimiser made of it."""
    vocabulary = PlanVocabulary([found.source], complete=False)
    compiled = compile_plans([found.full_name], vocabulary)
    return msgspec.structs.replace(found, graphs=compiled.graphs)


def keys(found: DataflowDefinition) -> list[str]:
    return [call.key for call in found.graph.calls]


def main(body: str, inputs: str = "TupleStream a, TupleStream b") -> str:
    return f"PLAN Main {{ INPUT: {inputs} OUTPUT: out BODY {{ {body} }} }}"


Tuples = Sequence[Mapping[str, Any]]


def result(found: DataflowDefinition, a: Tuples, b: Tuples, seed: int) -> Counter[Any]:
    driver = FlowDriver(FlowPlan(found), seed=seed)
    for name, tuples in (("a", a), ("b", b)):
        if tuples:
            driver.feed(name, tuples, 2)
        driver.end(name)
    return driver.run().bag("out")


ROWS = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from([None, 1, 2, "x"]), "v": st.sampled_from([None, 1, 2, 2.0, "x", "y"])}
    ),
    max_size=6,
)
TESTS = st.lists(
    st.tuples(st.sampled_from("kv"), st.sampled_from(["=", "<>"]), st.sampled_from(["1", "2", "'x'", "y"])),
    min_size=1,
    max_size=2,
)
BODIES = st.sampled_from(
    [
        'union((a, b) : u) select("{0}", u : out)',
        'project("v, k", a : p) union((p, b) : u) select("{0}", u : out)',
        'difference(a, b : d) select("{0}", d : out)',
        'union((a, b) : u) difference(u, b : d) project("k, v", d : p) select("{0}", p : q) '
        'select("{0}", q : out)',
        'project("k, v", a : left) project("v, k", b : right) join("k = k", left, right : j) '
        'select("{0}", j : out)',
        'project("k, v", a : left) project("v, k", b : right) join("v = k", left, right : j) '
        'select("{0} AND right_v <> 1", j : out)',
        'project("k, v", a : left) project("k", b : right) join("", left, right : j) '
        'select("{0} AND right_k = 1", j : out)',
    ]
)


@given(ROWS, ROWS, TESTS, BODIES, st.integers(0, 1000))
def test_T54_selections_that_are_moved_give_the_same(
    a: Tuples, b: Tuples, tests: list[tuple[str, str, str]], body: str, seed: int
) -> None:
    condition = " AND ".join(" ".join(test) for test in tests)
    found = definition(main(body.format(condition)))
    written = as_written(found)
    assert keys(found) != keys(written)
    assert result(found, a, b, seed) == result(written, a, b, seed)


def test_T54_a_selection_goes_to_the_sides_of_a_join() -> None:
    found = definition(
        main(
            'project("id, price", a : homes) project("id, price, town", b : towns)\n'
            'join("id = id", homes, towns : pairs)\n'
            "select(\"town = 'Berlin' AND right_price <> 3 AND price = 2\", pairs : out)"
        )
    )
    moved = {call.key: call for call in found.graph.calls if call.operator.name == "select"}
    assert {key: call.parsed["cond"] for key, call in moved.items()}.keys() == {"select-1.1", "select-1.2"}
    shown = [(call.arguments["cond"].value, call.arguments["in"].name) for call in moved.values()]  # type: ignore[union-attr]
    assert shown == [("'price' = 2", "a"), ("'town' = 'Berlin' AND 'price' <> 3", "b")]
    assert found.graph.outputs[0].attributes == ("id", "price", "right_price", "town")


def test_T54_a_selection_stays_where_others_see_more_or_it_might_fail() -> None:
    for body in (
        'union((a, b) : u) select("k = 1", u : s) join("k = k", u, s : out)',
        'union((a, b) : u) ENABLE: e select("k = 1", u : out) noop() WAIT: e',
        'project("k", a : left) project("k", b : right)\n'
        'join("k = k", left, right : j) select("k < 1", j : out)',
        'join("k = k", a, b : j) select("k = 1", j : out)',
    ):
        found = definition(main(body))
        assert keys(found) == keys(as_written(found))


def test_T54_what_is_fetched_twice_is_fetched_once() -> None:
    found = definition(
        main(
            'sprintf("%s", (city) : url)\nfetch(url : one) fetch(url : two)\n'
            'extract(one, "record //a\\nhref @href" : links)\n'
            'extract(two, "record //b\\nhref @href" : others)\n'
            "union((links, others) : out)",
            "String city",
        )
    )
    assert [key for key in keys(found) if key.startswith("fetch")] == ["fetch-1"]
    waiting = definition(
        main(
            'noop() ENABLE: e\nfetch("u" : one) fetch("u" : two) WAIT: e\n'
            "union((one, two) : out) print((a, b))"
        )
    )
    assert [key for key in keys(waiting) if key.startswith("fetch")] == ["fetch-1", "fetch-2"]


def test_T54_TheaterLoc_makes_its_query_once() -> None:
    text = main(
        'formatrelation(city, "city" : one) formatrelation(city, "city" : two)\n'
        'retrieve("cuisinenet", one : restaurants) retrieve("yahoo", two : theaters)\n'
        "union((restaurants, theaters) : out)",
        "String city",
    )
    asked: list[str] = []

    def retrieve(request: OperatorRequest) -> list[Any]:
        asked.append(str(request.call.arguments["wrapper"]))
        return [batch_of([{"name": request.call.key}])]

    found = definition(text)
    assert "formatrelation-2" not in keys(found)
    for one in (found, as_written(found)):
        driver = FlowDriver(FlowPlan(one), {"retrieve": retrieve}).give(city="Berlin").run()
        assert driver.bag("out") == Counter(frozenset({("name", f"retrieve-{at}")}) for at in (1, 2))
    assert len(asked) == 4


def test_TA41_what_is_shared_may_spill() -> None:
    found = definition(main('fetch("u" : x) fetch("u" : y) difference(x, y : out) print((a, b))'))
    (difference,) = (call for call in found.graph.calls if call.operator.name == "difference")
    assert difference.spills
    (before,) = (call for call in as_written(found).graph.calls if call.operator.name == "difference")
    assert not before.spills


# --- graphs of all shapes -----------------------------------------------------------------------------------


class Shaper:
    """Somebody who writes plans: calls take streams that are there, and all that is left is an output."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.columns: dict[str, tuple[str, ...]] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        for name in ("a", "b"):
            self.add(f'project("k, v", {name}_ : {{0}})', ("k", "v"))

    def add(self, call: str, columns: tuple[str, ...], *taken: str) -> None:
        name = f"d{len(self.columns)}"
        self.lines.append(call.format(name))
        self.columns[name] = columns
        self.taken.update(taken)

    def stream(self) -> str:
        """A stream, rather one that nobody has taken."""
        free = [name for name in self.columns if name not in self.taken]
        return self.chance.choice(free if free and self.chance.random() < 0.8 else list(self.columns))

    def grow(self) -> None:
        """Write another call."""
        one, other = self.stream(), self.stream()
        columns, others = self.columns[one], self.columns[other]
        kind = self.chance.choice(["select", "select", "project", "union", "difference", "join", "merge"])
        if kind == "select":
            pick = self.chance.choice
            tests = [
                f"{pick(columns)} {pick(['=', '<>'])} {pick(['1', 'x'])}"
                for _ in range(self.chance.randint(1, 2))
            ]
            self.add(f'select("{" AND ".join(tests)}", {one} : {{0}})', columns, one)
        elif kind == "project":
            kept = tuple(self.chance.sample(columns, self.chance.randint(1, len(columns))))
            self.add(f'project("{", ".join(kept)}", {one} : {{0}})', kept, one)
        elif kind == "join" and len(columns) + len(others) < 8 and one != other:
            left, right = self.chance.choice(columns), self.chance.choice(others)
            tests_of = (JoinTest(left, "=", right),)
            self.add(
                f'join("{left} = {right}", {one}, {other} : {{0}})',
                joined(columns, others, tests_of),
                one,
                other,
            )
        elif set(columns) == set(others) and kind == "difference":
            self.add(f"difference({one}, {other} : {{0}})", columns, one, other)
        elif set(columns) == set(others) and kind in ("union", "merge") and one != other:
            self.add(f"{kind}(({one}, {other}) : {{0}})", columns, one, other)

    def text(self) -> str:
        outputs = [name for name in self.columns if name not in self.taken]
        inputs = "TupleStream a_, TupleStream b_"
        body = "\n".join(self.lines)
        return f"PLAN Main {{ INPUT: {inputs} OUTPUT: {', '.join(outputs)} BODY {{\n{body}\n}} }}"


@settings(max_examples=examples(60))
@given(ROWS, ROWS, st.integers(0, 10**6))
def test_T54_graphs_of_all_shapes_give_the_same(a: Tuples, b: Tuples, seed: int) -> None:
    shaper = Shaper(random.Random(seed))
    for _ in range(shaper.chance.randint(1, 12)):
        shaper.grow()
    found = definition(shaper.text())
    results = []
    for one in (found, as_written(found)):
        driver = FlowDriver(FlowPlan(one), seed=seed)
        for name, tuples in (("a_", a), ("b_", b)):
            if tuples:
                driver.feed(name, tuples, 2)
            driver.end(name)
        driver.run()
        results.append({datum.name: driver.bag(datum.name) for datum in found.outputs})
    assert results[0] == results[1]
