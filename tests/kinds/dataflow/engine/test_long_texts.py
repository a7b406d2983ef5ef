"""Texts that operators make have a bound: what would be longer fails, before it is made."""

from __future__ import annotations

import pytest

from narval.kinds.dataflow.engine.network import batches
from narval.kinds.dataflow.engine.network.batches import RowsInMemory
from narval.kinds.dataflow.engine.network.operators.rows import shown
from narval.kinds.dataflow.engine.network.requests import OutputTuples
from tests.kinds.dataflow.engine.flows import FlowDriver
from tests.kinds.dataflow.engine.test_firing import plan

LINES = 12
"""Operators of a row, each of which makes a text ten times as long."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LONGEST_TEXT", 10_000)


def failure(driver: FlowDriver) -> tuple[str, str]:
    over = driver.run().over
    assert over is not None
    assert over.failure is not None
    return over.failure.kind, over.failure.message


def test_a_row_of_formats_each_of_which_repeats_the_last_fails_at_its_bound() -> None:
    body = "\n".join(
        f'sprintf("{"%s" * 10}", ({", ".join([f"t{n}"] * 10)}) : t{n + 1})' for n in range(LINES)
    )
    driver = FlowDriver(plan("String t0", f"String t{LINES}", body)).give(t0="x")
    kind, message = failure(driver)
    assert kind == "too-long"
    assert "expected a text of at most 10,000 characters" in message


def test_a_row_of_formats_of_tuples_fails_at_its_bound() -> None:
    body = "\n".join(f'relsprintf("a", "{"%a%" * 10}", t{n} : t{n + 1})' for n in range(LINES))
    driver = FlowDriver(plan("TupleStream t0", f"TupleStream t{LINES}", body)).feed("t0", [{"a": "x"}])
    assert failure(driver)[0] == "too-long"


def test_a_relation_as_a_text_fails_at_its_bound() -> None:
    kept = RowsInMemory()
    kept.add([(n,) for n in range(2_000)])
    with pytest.raises(batches.FlowError):
        shown(batches.Relation(("a",), kept))


def test_a_tuple_as_a_text_fails_at_its_bound() -> None:
    driver = FlowDriver(plan("TupleStream x", "String h, TupleStream t", "headtail(x : h, t)"))
    driver.feed("x", [{"a": "x" * 9_000, "b": "y" * 9_000}])
    assert failure(driver)[0] == "too-long"


def test_long_texts_of_tuples_go_on_before_all_of_a_batch_are_made() -> None:
    driver = FlowDriver(plan("TupleStream x", "TupleStream y", 'relsprintf("b", "%a%%a%", x : y)'))
    sizes = []
    driver.network.feed("x", batches.batch_of([{"a": f"{n:03d}" * 1000} for n in range(20)]))
    while driver.network.run(1):
        events = driver.network.take()
        sizes += [len(event.batch.rows) for event in events if isinstance(event, OutputTuples)]
    assert sum(sizes) == 20
    assert max(sizes) == 2
