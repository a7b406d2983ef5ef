"""Rows that do not fit into memory: the same results from a file (TA41)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.kinds.dataflow.calls import spill as spilling
from narval.kinds.dataflow.calls.spill import CHUNK, DiskSpill
from narval.kinds.dataflow.engine.network.batches import MemoryAlone, Spill, TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings
from tests.examples import examples
from tests.kinds.dataflow.engine.flows import FlowDriver, flow

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskSpill]:
    monkeypatch.setattr(spilling, "CHUNK", 16)
    made = DiskSpill(tmp_path, memory=50_000)
    yield made
    made.close()


@settings(max_examples=examples(30))
@given(st.lists(st.lists(st.tuples(VALUES, VALUES), max_size=40), max_size=8))
def test_rows_come_back_as_they_were(parts: list[list[tuple[Any, ...]]]) -> None:
    place = DiskSpill(memory=0)
    many, few = place.kept(), place.kept()
    for part in parts:
        many.add(part * 60)
        few.add(part)
    expected = [row for part in parts for row in part * 60]
    assert [row for batch in many.batches() for row in batch] == expected
    assert [row for batch in many.batches() for row in batch] == expected
    assert [row for batch in few.batches() for row in batch] == [row for part in parts for row in part]
    assert len(many) == len(expected)
    place.close()


def test_little_stays_in_memory(spill: DiskSpill, tmp_path: Path) -> None:
    spill.kept().add([(1, 2)] * 10)
    assert spill.written == 0
    rows = spill.kept()
    rows.add([(1, "x" * 100)] * 4 * CHUNK)
    assert spill.written > 0
    assert not spill.is_full
    assert list(tmp_path.iterdir()) == []
    rows.drop()
    assert len(rows) == 0


BODIES = {
    "accumulate": "accumulate(l : all) stream(all : y) noop() WAIT: r",
    "sort": 'accumulate(l : all) sort("k", "descending", all : in_order) stream(in_order : y) noop() WAIT: r',
    "union": "union((l, r) : y)",
    "difference": "difference(l, r : y)",
    "join": 'join("k = k AND v <> w", l, r : y)',
}


def test_TA41_tuples_that_wait_for_an_operator_to_fire_take_no_memory(spill: DiskSpill) -> None:
    text = (
        "PLAN Main { INPUT: TupleStream x, TupleStream z OUTPUT: TupleStream y "
        'BODY { aggregate("n", "sum", z : sum) select("n > 1", x : y) WAIT: sum } }'
    )
    driver = FlowDriver(flow(text), settings=FlowSettings(spill=spill))
    driver.feed("x", [{"n": n, "t": f"name {n}"} for n in range(6_000)], 10)
    assert spill.written > 100_000
    driver.end("x").feed("z", [{"n": 1}]).end("z").run()
    assert [row["n"] for row in driver.rows["y"]] == list(range(2, 6_000))


@pytest.mark.parametrize("operator", BODIES)
def test_the_results_are_those_in_memory(operator: str, spill: DiskSpill) -> None:
    count = 12_000
    left = [(n * 7919 % 4_000, n, f"name {n % 5_000}") for n in range(count)]
    right = [(n * 31 % 5_000, n, f"name {n % 7_000}") for n in range(count)]

    def run(place: Spill) -> list[dict[str, Any]]:
        other = ("k", "w", "t") if operator == "join" else ("k", "v", "t")
        text = (
            "PLAN Main { INPUT: TupleStream l, TupleStream r OUTPUT: TupleStream y "
            f"BODY {{ {BODIES[operator]} }} }}"
        )
        driver = FlowDriver(flow(text), settings=FlowSettings(spill=place))
        for at in range(0, count, 1000):
            driver.network.feed("l", TupleBatch(("k", "v", "t"), left[at : at + 1000]))
            driver.network.feed("r", TupleBatch(other, right[at : at + 1000]))
            driver.listen()
        return driver.end("r", "l").run().rows["y"]

    found, expected = run(spill), run(MemoryAlone())
    assert spill.written > 100_000
    if operator in ("accumulate", "sort"):
        assert found == expected
    else:
        assert Counter(map(repr, found)) == Counter(map(repr, expected))
