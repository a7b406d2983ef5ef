"""Relational operators beside SQLite: random relations with no value, duplicates, numbers and texts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.kinds.dataflow.engine.network.batches import TupleBatch
from tests.examples import examples
from tests.kinds.dataflow.engine.flows import FlowDriver, flow

Rows = list[tuple[Any, ...]]

NUMBERS = st.one_of(st.none(), st.integers(-2, 2), st.sampled_from([0.5, -1.5, 2.0]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "B", "é", "10"]))
RELATIONS = st.lists(st.tuples(NUMBERS, TEXTS), max_size=15)

CASES = {
    "select(\"n >= 0 AND t <> 'a'\", l : y)": "select n, t from l where n >= 0 and t <> 'a'",
    "select(\"t < 'b'\", l : y)": "select n, t from l where t < 'b'",
    'project("t", l : y)': "select t from l",
    'join("n = n", l, r : y)': "select l.n, l.t, r.t as right_t from l join r on l.n = r.n",
    'join("n = n AND t = t", l, r : y)': "select l.n, l.t from l join r on l.n = r.n and l.t = r.t",
    'join("n < n AND t = t", l, r : y)': "select l.n, l.t, r.n from l join r on l.n < r.n and l.t = r.t",
    'join("", l, r : y)': "select l.n, l.t, r.n, r.t from l, r",
    "union((l, r) : y)": "select n, t from l union select n, t from r",
    "merge((l, r) : y)": "select n, t from l union all select n, t from r",
    "difference(l, r : y)": "select n, t from l except select n, t from r",
    'accumulate(l : a) sort("n", "descending", a : s) stream(s : y)': (
        "select n, t from l order by n is null, n desc, rowid"
    ),
    'accumulate(l : a) sort("t", "ascending", a : s) stream(s : y)': (
        "select n, t from l order by t is null, t, rowid"
    ),
    'aggregate("n", "avg", l : v) formatrelation(v, "v" : a) stream(a : y)': "select avg(n) from l",
    'aggregate("t", "count", l : v) formatrelation(v, "v" : a) stream(a : y)': "select count(t) from l",
    'aggregate("t", "max", l : v) formatrelation(v, "v" : a) stream(a : y)': "select max(t) from l",
}


def of_sqlite(query: str, left: Rows, right: Rows) -> Rows:
    db = sqlite3.connect(":memory:")
    for name, rows in (("l", left), ("r", right)):
        db.execute(f"create table {name}(n, t)")
        db.executemany(f"insert into {name} values(?, ?)", rows)
    found = db.execute(query).fetchall()
    db.close()
    return found


def of_flow(body: str, left: Rows, right: Rows, size: int) -> Rows:
    inputs = {"l": left, "r": right} if "r" in names_in(body) else {"l": left}
    declared = ", ".join(f"TupleStream {name}" for name in inputs)
    text = f"PLAN Main {{ INPUT: {declared} OUTPUT: TupleStream y BODY {{ {body} }} }}"
    driver = FlowDriver(flow(text))
    for name, rows in inputs.items():
        for at in range(0, len(rows), size):
            driver.network.feed(name, TupleBatch(("n", "t"), rows[at : at + size]))
            driver.listen()
    driver.end(*inputs).run()
    return [tuple(row.values()) for row in driver.rows.get("y", [])]


def names_in(body: str) -> Iterator[str]:
    return iter(body.replace("(", " ").replace(")", " ").replace(",", " ").split())


@pytest.mark.parametrize("body", CASES)
@settings(max_examples=examples(60), deadline=None)
@given(RELATIONS, RELATIONS, st.integers(1, 6))
def test_operators_are_as_in_sqlite(body: str, left: Rows, right: Rows, size: int) -> None:
    found, expected = of_flow(body, left, right, size), of_sqlite(CASES[body], left, right)
    if "sort" in body:
        assert found == expected
    else:
        assert Counter(found) == Counter(expected)
