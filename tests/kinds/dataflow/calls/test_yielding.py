"""Code of modules that yields: it streams from a thread of its own, is held back, is stopped (TA41)."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from narval.kinds.dataflow.calls.documents import relation_of
from narval.kinds.dataflow.engine.network.batches import VALUE, TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings, TransactionOver
from tests.kinds.dataflow.calls.driving import drive, session_of
from tests.places import ROOT

PAGE = ROOT / "docs/reference/dataflow-language.md"

PATIENT = 20
"""Seconds that the code of a test waits for what must come; nothing waits for so long unless it fails."""

FORMS = {
    "wrapper": (
        '@wrapper(attributes={"n": "Number"})\ndef numbers(query):\n    yield from numbered()',
        'retrieve("numbers", "" : ns)',
    ),
    "async wrapper": (
        '@wrapper(attributes={"n": "Number"})\n'
        "async def numbers(query):\n    async for row in awaited():\n        yield row",
        'retrieve("numbers", "" : ns)',
    ),
    "operator": (
        '@operator(inputs="Number most", outputs="TupleStream out", io_bound=True)\n'
        "def numbers(most):\n    yield from numbered()",
        "numbers(5 : ns)",
    ),
    "async operator": (
        '@operator(inputs="Number most", outputs="TupleStream out")\n'
        "async def numbers(most):\n    async for row in awaited():\n        yield row",
        "numbers(5 : ns)",
    ),
    "wrapper of a stream": (
        '@wrapper(attributes={"n": "Number"})\ndef numbers(query):\n    yield from numbered()',
        'formatrelation("x", "query" : one) stream(one : queries) retrieve("numbers", queries : ns)',
    ),
    "operator on tuples": (
        '@operator(inputs="TupleStream in", outputs="TupleStream out")\n'
        "class numbers:\n    def on_in(self, row):\n        yield from numbered()",
        'formatrelation("x", "query" : one) stream(one : queries) numbers(queries : ns)',
    ),
    "class": (
        '@operator(inputs="Number most", outputs="TupleStream out")\n'
        "class numbers:\n    def on_init(self, most):\n        yield from numbered()",
        "numbers(5 : ns)",
    ),
}
"""The forms of code that yields numbers, and a call of each."""

MODULE = """
import asyncio, threading
from narval import function, operator, wrapper
from tests.kinds.dataflow.calls.test_yielding import SHARED

def numbered():
    for n in SHARED.numbers():
        yield {"n": n}

async def awaited():
    for n in SHARED.numbers():
        await asyncio.sleep(0)
        yield {"n": n}

@function
def see(row):
    SHARED.see(row)
    return row

"""

SHARED: Any = SimpleNamespace()
"""What the code of a test does: `numbers` that it yields, and `see` for each that came."""


def flow(call: str, outputs: str = "TupleStream out") -> str:
    return f"PLAN P {{ OUTPUT: {outputs}; BODY {{ {call} }} }}"


def until(event: threading.Event) -> None:
    assert event.wait(PATIENT), "it did not come"


@pytest.mark.parametrize("form", [name for name in FORMS if "async" not in name])
def test_what_is_yielded_is_there_before_the_next(tmp_path: Path, form: str) -> None:
    code, call = FORMS[form]
    seen = threading.Event()

    def numbers() -> Any:
        yield 1
        until(seen)
        yield 2

    SHARED.numbers, SHARED.see = numbers, lambda row: seen.set()
    over, taken = drive(tmp_path, flow(f'{call} map("see", ns : out)'), MODULE + code)
    assert over.state == "done", over
    assert taken.rows["out"] == [{"n": 1}, {"n": 2}]


def endless(closed: threading.Event, made: list[int]) -> Any:
    """Numbers without an end, each noted in `made`."""
    try:
        while True:
            made.append(1)
            yield len(made)
    finally:
        closed.set()


@pytest.mark.parametrize("form", FORMS)
def test_what_never_ends_is_held_back_and_stopped_by_its_time_to_live(tmp_path: Path, form: str) -> None:
    code, call = FORMS[form]
    closed, stuck, made = threading.Event(), threading.Event(), list[int]()
    SHARED.numbers, SHARED.see = lambda: endless(closed, made), lambda row: until(stuck)
    settings = FlowSettings(queue=2)
    over, _ = drive(tmp_path, flow(f'{call} map("see", ns : out)'), MODULE + code, ttl=0.3, settings=settings)
    stuck.set()
    assert over.failure is not None
    assert over.failure.kind == "time-to-live"
    until(closed)


@pytest.mark.parametrize("form", FORMS)
def test_T56_what_never_ends_holds_no_other_dataflow_and_is_cancelled(tmp_path: Path, form: str) -> None:
    code, call = FORMS[form]
    closed, came = threading.Event(), threading.Event()
    SHARED.numbers, SHARED.see = lambda: endless(closed, []), lambda row: came.set()

    async def both() -> TransactionOver:
        one, _ = session_of(tmp_path, flow(f'{call} apply("see", ns)', ""), MODULE + code)
        first = asyncio.create_task(one)
        await asyncio.to_thread(until, came)
        (tmp_path / "other").mkdir()
        other, _ = session_of(tmp_path / "other", flow('makestream2("[]" : out)'))
        over = await other
        assert not first.done()
        first.cancel()
        await asyncio.wait([first])
        return over

    assert asyncio.run(both()).state == "done"
    until(closed)


def test_what_was_yielded_before_an_error_has_come(tmp_path: Path) -> None:
    def numbers() -> Any:
        yield 1
        raise OSError("the line went dead")

    SHARED.numbers = numbers
    code, call = FORMS["wrapper"]
    plan = flow(f"{call} print(ns)", "")
    over, taken = drive(tmp_path, plan, MODULE + code, settings=FlowSettings(restarts=0))
    assert over.failure is not None
    assert over.failure.message == "the line went dead"
    assert taken.lines == ['{"n":1}']


def test_the_form_that_the_page_shows_is_the_one_that_runs(tmp_path: Path) -> None:
    (module,) = re.findall(r"```python\n(from narval import function.*?)```", PAGE.read_text(), re.DOTALL)
    plan = """PLAN P { INPUT: TupleStream addresses; OUTPUT: TupleStream places, TupleStream back; BODY {
      geocode(addresses : places)
      retrieve("homes", "" : all)
      filter("is_cheap", all : cheap)
      reverse(cheap : back)
    } }"""
    addresses = relation_of(TupleBatch(VALUE, [("1 Elm Street",), ("2 Oak Road",)]), "addresses")
    over, taken = drive(tmp_path, plan, module, {"addresses": addresses})
    assert over.state == "done", over
    assert taken.rows["places"] == [{"latitude": 52.5, "longitude": 13.4}] * 2
    assert [row["address"] for row in taken.rows["back"]] == ["2 Oak Road", "1 Sea View"]
