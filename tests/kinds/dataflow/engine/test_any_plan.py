"""Any plan in any order: the same tuples, one end of each output, no trace of errors that pass (T26, T43)."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings, OperatorRequest
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from tests.examples import examples
from tests.kinds.dataflow.engine.flows import FlowDriver, flow
from tests.kinds.dataflow.engine.test_relational import Little

OPERATORS = [
    'select("n > 1", {a} : {o})',
    'select("n <> 2", {a} : {o})',
    "union(({a}, {b}) : {o})",
    "merge(({a}, {b}) : {o})",
    "difference({a}, {b} : {o})",
    'join("n = n", {a}, {b} : {o}j) project("n", {o}j : {o})',
    "atleastone({a} : {o}, {o}n)",
    "atleastone({a} : {o}n, {o})",
    'query("s", {a} : {o})',
    'select("n > 0", {a} : {o}) WAIT: {b}',
    'accumulate({a} : {o}r) sort("n", "ascending", {o}r : {o}s) stream({o}s : {o})',
    "t/Sub({a} : {o})",
    'aggregate("n", "max", {a} : {o}m) formatrelation({o}m, "n" : {o}f) stream({o}f : {o})',
    "t/Down({a} : {o})",
    'aggregate("*", "count", {b} : {o}v) t/Valued({a}, {o}v : {o}, {o}n)',
]


def any_plan(chance: random.Random) -> tuple[str, list[str]]:
    """The text of a plan of random operators, and its outputs: all its data."""
    names = ["x", "z"]
    body, outputs = [], []
    for at in range(chance.randint(1, 9)):
        operator, new = chance.choice(OPERATORS), f"d{at}"
        body.append(operator.format(a=chance.choice(names), b=chance.choice(names), o=new))
        names.append(new)
        outputs.append(new)
        if "{o}n" in operator:
            names.append(f"{new}n")
            outputs.append(f"{new}n")
    body.append('select("n > 5", x : first)')
    body.append('select("n > 5", z : second)')
    outputs += ["first", "second"]
    declared = ", ".join(f"TupleStream {name}" for name in outputs)
    text = (
        f"PLAN Main {{ INPUT: TupleStream x, TupleStream z OUTPUT: {declared}"
        f" BODY {{ {' '.join(body)} }} }}\n"
        "PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY {"
        ' atleastone(a : some, b) query("s", some : found) select("n > 1", found : b) } }\n'
        "PLAN Down { INPUT: TupleStream a OUTPUT: TupleStream b BODY {"
        ' atleastone(a : some, none) query("d", some : less) t/Down(less : deep) union((some, deep) : b1)'
        " merge((b1, none) : b) } }\n"
        "PLAN Valued { INPUT: TupleStream a, Object v OUTPUT: TupleStream b, TupleStream c BODY {"
        ' sprintf("n < %s", (v) : few) join("n = n", a, a : c) select(few, a : b) } }'
    )
    return text, outputs


def query(request: OperatorRequest) -> list[TupleBatch]:
    """Of a number n its neighbours, or all below it."""
    assert request.batch is not None
    n = request.batch.rows[0][0] or 0
    if request.arguments["source"] == "d":
        return [TupleBatch(("n",), [(n - 1,)])] if n > 0 else []
    return [TupleBatch(("n",), [(n,), (n + 1,)])]


def driven(
    plan: FlowPlan,
    rows: dict[str, list[dict[str, Any]]],
    seed: int | None,
    failures: int = 0,
    settings: FlowSettings | None = None,
) -> FlowDriver:
    """A driver that fed its inputs and answered in any order, with so many errors that pass."""
    driver = FlowDriver(plan, {"query": query}, seed, settings)
    chance = random.Random(seed)
    todo: list[tuple[str, dict[str, Any] | None]] = []
    for name, tuples in rows.items():
        mine: list[tuple[str, dict[str, Any] | None]] = [*((name, one) for one in tuples), (name, None)]
        for one in mine:
            after = max((at for at, (other, _) in enumerate(todo) if other == name), default=-1) + 1
            todo.insert(chance.randint(after, len(todo)), one)
    for name, one in todo:
        if one is None:
            driver.end(name)
        else:
            driver.feed(name, [one])
        while chance.random() < 0.4 and driver.answer_one():
            pass
        if failures and driver.waiting and chance.random() < 0.3:
            failures -= 1
            request, _ = driver.waiting.pop(chance.randrange(len(driver.waiting)))
            driver.network.fail(request.id, Failure("gone", "it is gone"))
            driver.listen()
    return driver.run()


NUMBERS = st.lists(st.fixed_dictionaries({"n": st.integers(0, 4)}), max_size=5)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 10**9), NUMBERS, NUMBERS, st.integers(0, 3), st.booleans())
def test_T26_any_plan_gives_the_same_for_all_schedules(
    which: int, seed: int, x: Any, z: Any, failures: int, little: bool
) -> None:
    text, outputs = any_plan(random.Random(which))
    plan, rows = flow(text), {"x": x, "z": z}
    room = FlowSettings(spill=Little(), concurrency=2) if little else None
    one = driven(plan, rows, None)
    other = driven(plan, rows, seed, failures, room)
    assert one.over is not None
    assert one.over.state == "done"
    assert other.over == one.over
    assert set(one.ends) == set(outputs)
    assert other.ends == one.ends
    assert {name: other.bag(name) for name in outputs} == {name: one.bag(name) for name in outputs}
