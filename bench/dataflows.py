"""Dataflows: tuples a second through select, project, join and aggregate, in memory (W5).

    python -m bench.dataflows CASE [TUPLES]

CASE is `aggregate`: the operators of the language; its aggregate knows no groups, so two of them give the
count and the sum of all; `groups`: count and sum of each group, as the peers have them, by a function outside
that is called for each tuple; `rows`: as `aggregate`, with each tuple in a batch of its own; `generators`:
plain generators in place of a dataflow; `spill-OPERATOR`: ten times as many tuples through one operator that
keeps them, with what does not fit on the disk; `joined` and `joined-sqlite`: a join of TUPLES with as many;
`transactions`: a thousandth as many transactions at once, of three operators and a call of a plan each.
Tuples, relation and digest are those of the peers' catalogue.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.measure import argument, emit, now, scratch, us
from narval.core.source.text import Source
from narval.kinds.dataflow.calls.spill import DiskSpill
from narval.kinds.dataflow.engine.network.batches import BATCH, TupleBatch
from narval.kinds.dataflow.engine.network.requests import (
    FlowSettings,
    OperatorRequest,
    OutputTuples,
    OutputValue,
    TransactionOver,
)
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.definition import DataflowDefinition
from narval.kinds.dataflow.language.parser import parse

Digest = tuple[int, int]

AGGREGATE = """PLAN w5 { INPUT: TupleStream tuples, TupleStream groups OUTPUT: Object n, Object total BODY {
  select("value > 499", tuples : large)
  project("key, value", large : pairs)
  join("key = key", pairs, groups : joined)
  aggregate("*", "count", joined : n)
  aggregate("value", "sum", joined : total)
} }"""
GROUPS = """PLAN w5 { INPUT: TupleStream tuples, TupleStream groups BODY {
  select("value > 499", tuples : large)
  project("g, value", joined : named)
  join("key = key", pairs, groups : joined)
  project("key, value", large : pairs)
  print((named))
} }"""


def tuples(n: int) -> Iterator[tuple[int, int, int]]:
    """The tuples of the catalogue: (id, key, value)."""
    for i in range(n):
        yield (i, (i * 7919) % 20_000, (i * 31) % 1_000)


def relation() -> dict[int, str]:
    """The relation of the catalogue: the group of a key."""
    return {k: f"g{k % 100}" for k in range(10_000)}


def plan_of(text: str) -> FlowPlan:
    """The wiring of the dataflow in a text."""
    definition = parse(Source.of_text("recipes/w5.plan", text)).definitions[0]
    assert isinstance(definition, DataflowDefinition)
    return FlowPlan(definition)


def grouped(agg: dict[str, Digest], g: str, v: int) -> None:
    """Count a tuple in its group."""
    c = agg.get(g)
    agg[g] = (c[0] + 1, c[1] + v) if c else (1, v)


def whole(agg: dict[str, Digest]) -> Digest:
    """The digest of groups."""
    return sum(count for count, _ in agg.values()), sum(total for _, total in agg.values())


def dataflow(text: str, n: int, size: int) -> Digest:
    """The digest by a dataflow that is fed batches of a size."""
    network = Network(plan_of(text))
    network.start()
    values: dict[str, Any] = {}
    agg: dict[str, Digest] = {}
    ends: list[TransactionOver] = []

    def listen() -> None:
        network.run()
        while events := network.take():
            for event in events:
                if isinstance(event, OutputValue):
                    values[event.output] = event.value
                elif isinstance(event, OperatorRequest):
                    for g, v in event.batch.rows if event.batch is not None else ():
                        grouped(agg, g, v)
                    network.done(event.id)
                elif isinstance(event, TransactionOver):
                    assert event.state == "done", event.failure
                    ends.append(event)
            network.run()

    network.feed("groups", TupleBatch(("key", "g"), list(relation().items())))
    network.end("groups")
    schema = ("id", "key", "value")
    source = tuples(n)
    while rows := list(islice(source, size)):
        network.feed("tuples", TupleBatch(schema, rows))
        listen()
    network.end("tuples")
    while not ends:
        listen()
    return (values["n"], values["total"]) if values else whole(agg)


def generators(n: int) -> Digest:
    """The digest by plain generators, written as in the catalogue."""
    found = relation()

    def sel(it: Iterator[Any]) -> Iterator[Any]:
        for t in it:
            if t[2] > 499:
                yield t

    def proj(it: Iterator[Any]) -> Iterator[Any]:
        for t in it:
            yield (t[1], t[2])

    def join(it: Iterator[Any]) -> Iterator[Any]:
        get = found.get
        for k, v in it:
            g = get(k)
            if g is not None:
                yield (g, v)

    agg: dict[str, Digest] = {}
    for g, v in join(proj(sel(tuples(n)))):
        grouped(agg, g, v)
    return whole(agg)


KEEPING = {
    "accumulate": "accumulate(tuples : y) stream(y : z)",
    "sort": 'accumulate(tuples : all) sort("value", "descending", all : y) stream(y : z)',
    "union": "union((tuples, others) : z)",
    "difference": "difference(tuples, others : z)",
    "join": 'join("id = id", tuples, others : z)',
}
"""Operators that keep tuples, each in a dataflow that gives z."""


def kept(operator: str, n: int, folder: Path) -> int:
    """The tuples that come of an operator given so many, and on its second input every tenth of them."""
    text = (
        "PLAN w5 { INPUT: TupleStream tuples, TupleStream others OUTPUT: Object n BODY "
        f'{{ {KEEPING[operator]} aggregate("*", "count", z : n) }} }}'
    )
    both = "others" in KEEPING[operator]
    spill = DiskSpill(folder)
    network = Network(
        plan_of(text if both else text.replace(", TupleStream others", "")), FlowSettings(spill=spill)
    )
    network.start()
    found = 0

    def listen() -> None:
        nonlocal found
        while network.run():
            pass
        for event in network.take():
            if isinstance(event, OutputValue):
                found = event.value

    source, schema = tuples(n), ("id", "key", "value")
    while rows := list(islice(source, BATCH)):
        network.feed("tuples", TupleBatch(schema, rows))
        if both:
            network.feed("others", TupleBatch(schema, rows[::10]))
        listen()
    for name in ("tuples", "others") if both else ("tuples",):
        network.end(name)
        listen()
    spill.close()
    return found


JOIN = """PLAN w5 { INPUT: TupleStream a, TupleStream b OUTPUT: TupleStream y
  BODY { join("id = id", a, b : y) } }"""


def pairs(n: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Two relations of so many tuples, each of which has one in the other."""
    return [(i, i % 97) for i in range(n)], [((i * 7919) % n, i % 89) for i in range(n)]


def joined(n: int, folder: Path) -> int:
    """The pairs of a join, both sides of which come in turns."""
    network = Network(plan_of(JOIN), FlowSettings(spill=DiskSpill(folder)))
    network.start()
    left, right = pairs(n)
    count = 0
    names, others = ("id", "v"), ("id", "w")
    for at in range(0, n, BATCH):
        network.feed("a", TupleBatch(names, left[at : at + BATCH]))
        network.feed("b", TupleBatch(others, right[at : at + BATCH]))
        while network.run():
            pass
        count += sum(len(event.batch.rows) for event in network.take() if isinstance(event, OutputTuples))
    network.end("a")
    network.end("b")
    while network.run():
        pass
    return count + sum(len(event.batch.rows) for event in network.take() if isinstance(event, OutputTuples))


def joined_by_sqlite(n: int) -> int:
    """The same by SQLite, from Python tuples and back."""
    db = sqlite3.connect("")
    db.execute("create table a(id, v)")
    db.execute("create table b(id, w)")
    left, right = pairs(n)
    db.executemany("insert into a values(?, ?)", left)
    db.executemany("insert into b values(?, ?)", right)
    db.execute("create index at on b(id)")
    rows, count = db.execute("select a.id, v, w from a join b on a.id = b.id"), 0
    while some := rows.fetchmany(BATCH):
        count += len(some)
    return count


SMALL = """PLAN Main { INPUT: String name OUTPUT: TupleStream y BODY {
  formatrelation(name, "name" : r) stream(r : s) w5/Sub(s : t) select("name <> 'x'", t : y) } }
PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY { relsprintf("text", "%name%!", a : b) } }"""


def transactions(n: int) -> int:
    """The tuples of so many transactions that are all at work at once."""
    plan = plan_of(SMALL)
    networks = [Network(plan, id=str(at)) for at in range(n)]
    for network in networks:
        network.start()
    for at, network in enumerate(networks):
        network.give("name", f"name {at}")
    count = 0
    going = networks
    while going:
        going = [network for network in going if network.run(1)]
    for network in networks:
        events = list(network.take())
        count += sum(isinstance(event, OutputTuples) for event in events)
        assert any(isinstance(event, TransactionOver) for event in events)
    return count


def main() -> None:
    case, n = argument(1, "aggregate"), argument(2, 1_000_000)
    began = now()
    if case == "generators":
        check: Any = generators(n)
    elif case.startswith("spill-"):
        with scratch() as folder:
            check = kept(case.removeprefix("spill-"), n := 10 * n, folder)
    elif case.startswith("joined"):
        with scratch() as folder:
            check = joined_by_sqlite(n) if case == "joined-sqlite" else joined(n, folder)
    elif case == "transactions":
        check = transactions(n := n // 1000)
    else:
        check = dataflow(GROUPS if case == "groups" else AGGREGATE, n, 1 if case == "rows" else BATCH)
    seconds = now() - began
    emit(f"W5-{case}", n, seconds, us_per_tuple=us(seconds, n), check=check)


if __name__ == "__main__":
    main()
