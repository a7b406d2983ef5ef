"""Networks are driven: functions of modules, classes as operators, time to live, restarts, room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from narval.kinds.dataflow.calls.documents import relation_of
from narval.kinds.dataflow.engine.network.batches import VALUE, TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings
from tests.kinds.dataflow.calls.driving import drive

NUMBERS = relation_of(TupleBatch(("n",), [(n,) for n in range(6)]), "ns")


def flow(body: str, inputs: str = "INPUT: TupleStream ns;", outputs: str = "TupleStream out") -> str:
    return f"PLAN P {{ {inputs} OUTPUT: {outputs}; BODY {{ {body} }} }}"


def test_T57_functions_of_modules_answer_the_operators_that_name_them(tmp_path: Path) -> None:
    module = """
from narval.kinds.dataflow.language.code import function

@function(pure=True)
def even(row):
    return row["n"] % 2 == 0

@function
async def doubled(row):
    return {"n": 2 * row["n"]} if row["n"] else None

@function
def total(row, before):
    return before + row["n"]

@function
def third(row):
    return row["n"] % 3
"""
    body = 'filter("even", ns : some) map("doubled", some : out) fold("total", some, 100 : sum)'
    body += ' partition("third", ns : (one, two)) merge((one, two) : parts)'
    over, taken = drive(
        tmp_path,
        flow(body, outputs="TupleStream out, Object sum, TupleStream parts"),
        module,
        {"ns": NUMBERS},
    )
    assert over.state == "done", over
    assert taken.rows["out"] == [{"n": 4}, {"n": 8}]
    assert taken.values["sum"] == 106
    assert sorted(row["n"] for row in taken.rows["parts"]) == [1, 2, 4, 5]


def test_T57_a_class_has_methods_for_its_queues_and_their_ends(tmp_path: Path) -> None:
    module = """
from narval import operator

@operator(inputs="String word, TupleStream in", outputs="TupleStream out")
class Count:
    def on_init(self, word):
        self.word, self.count = word, 0
    def on_in(self, row):
        self.count += 1
    def on_in_eos(self):
        yield {"word": self.word, "count": self.count}
"""
    over, taken = drive(tmp_path, flow('Count("n", ns : out)'), module, {"ns": NUMBERS})
    assert over.state == "done", over
    assert taken.rows["out"] == [{"word": "n", "count": 6}]


def test_T31_T42_an_error_that_may_pass_begins_the_transaction_again(tmp_path: Path) -> None:
    module = """
from narval.kinds.dataflow.language.code import function
tries = []

@function
def shaky(row):
    tries.append(row)
    if len(tries) == 1:
        raise OSError("not yet")
    return row
"""
    over, taken = drive(tmp_path, flow('map("shaky", ns : out)'), module, {"ns": NUMBERS})
    assert over.state == "done", over
    assert [row["n"] for row in taken.rows["out"]] == [0, 1, 2, 3, 4, 5]


def test_T25_an_error_says_why(tmp_path: Path) -> None:
    module = """
from narval import ActionError
from narval.kinds.dataflow.language.code import function

@function
def never(row):
    raise ActionError("it is closed", final=True)
"""
    over, taken = drive(tmp_path, flow('map("never", ns : out)'), module, {"ns": NUMBERS})
    assert over.state == "failed"
    assert over.failure is not None
    assert over.failure.message == "it is closed"
    assert "out" not in taken.rows


def test_T30_a_transaction_that_does_not_move_is_over(tmp_path: Path) -> None:
    module = """
import asyncio
from narval.kinds.dataflow.language.code import function

@function
async def stuck(row):
    await asyncio.sleep(3600)
"""
    over, _ = drive(tmp_path, flow('map("stuck", ns : out)'), module, {"ns": NUMBERS}, ttl=0.05)
    assert over.state == "failed"
    assert over.failure is not None
    assert over.failure.kind == "time-to-live"


def test_TA41_a_source_waits_while_those_behind_it_are_busy(tmp_path: Path) -> None:
    module = """
import asyncio
from narval.kinds.dataflow.language.code import function
given, done, most = [], [], [0]

@function
async def numbers():
    given.append(1)
    return {"n": len(given)} if len(given) <= 200 else None

@function
async def slow(row):
    most[0] = max(most[0], len(given) - len(done))
    await asyncio.sleep(0)
    done.append(row)
    return {"most": most[0]}
"""
    body = 'makestream("numbers" : ns) map("slow", ns : out)'
    over, taken = drive(tmp_path, flow(body, inputs=""), module, settings=FlowSettings(queue=4))
    assert over.state == "done", over
    assert len(taken.rows["out"]) == 200
    assert max(row["most"] for row in taken.rows["out"]) < 20


def test_TA7_so_many_requests_are_under_way_at_once(tmp_path: Path) -> None:
    module = """
import threading
from narval import operator
meet = threading.Barrier(5, timeout=60)

@operator(inputs="Number n", outputs="TupleStream out", reentrant=True)
def together(n):
    meet.wait()
    return n
"""
    ten = relation_of(TupleBatch(VALUE, [(n,) for n in range(10)]), "ns")
    settings = FlowSettings(concurrency=5)
    over, taken = drive(tmp_path, flow("together(ns : out)"), module, {"ns": ten}, settings=settings)
    assert over.state == "done", over
    assert sorted(row["value"] for row in taken.rows["out"]) == list(range(10))


def test_print_and_sleep(tmp_path: Path) -> None:
    began = monotonic()
    over, taken = drive(
        tmp_path, flow('sleep("20" : ) ENABLE: go print(ns) WAIT: go', outputs=""), "", {"ns": NUMBERS}
    )
    assert over.state == "done", over
    assert taken.lines == [f'{{"n":{n}}}' for n in range(6)]
    assert monotonic() - began >= 0.02


@pytest.mark.parametrize("raised", ["SystemExit(3)", "StopIteration()", "KeyboardInterrupt()"])
def test_whatever_a_function_raises_is_its_own_failure(tmp_path: Path, raised: str) -> None:
    module = f"""
from narval.kinds.dataflow.language.code import function

@function
def odd(row):
    raise {raised}
"""
    plan, settings = flow('map("odd", ns : out)'), FlowSettings(restarts=0)
    over, _ = drive(tmp_path, plan, module, {"ns": NUMBERS}, settings=settings)
    assert over.failure is not None
    assert raised in over.failure.message


def test_a_program_ends_though_a_function_does_not_come_back(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/code.py").write_text(
        "import time\nfrom narval.kinds.dataflow.language.code import function\n\n"
        "@function\ndef stuck(row):\n    time.sleep(3600)\n"
    )
    (tmp_path / "w.plan").write_text(flow('map("stuck", ns : out)'))
    document = (
        b'<plan_input><session><relation name="ns"><tuple><n>1</n></tuple></relation></session></plan_input>'
    )
    command = [sys.executable, "-m", "narval", "dataflow", "w.plan", "--input", "-", "--ttl", "0.1s"]
    done = subprocess.run(
        command, cwd=tmp_path, input=document, capture_output=True, timeout=100, check=False
    )
    assert done.returncode == 1
    assert b"nothing has moved for 0.1 s" in done.stderr


def test_T30_TA26_a_transaction_that_moves_may_go_on_for_longer(tmp_path: Path) -> None:
    module = """
import asyncio
from narval.kinds.dataflow.language.code import function
given = []

@function
async def numbers():
    await asyncio.sleep(0.2)
    given.append(1)
    return {"n": len(given)} if len(given) <= 12 else None
"""
    over, taken = drive(tmp_path, flow('makestream("numbers" : out)', inputs=""), module, ttl=2.0)
    assert over.state == "done", over
    assert len(taken.rows["out"]) == 12
