"""Classes of modules that are operators with any number of streams (T12, T57)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from narval.kinds.dataflow.calls.documents import relation_of
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from tests.kinds.dataflow.calls.driving import drive
from tests.places import ROOT
from tests.surfaces.cli.command_line import narval

PAGE = (ROOT / "docs/reference/dataflow-language.md").read_text(encoding="utf-8")

GIVEN = {
    "a": relation_of(TupleBatch(("n",), [(1,), (2,)]), "a"),
    "b": relation_of(TupleBatch(("n",), [(3,)]), "b"),
}


def run(folder: Path, body: str, module: str, outputs: str) -> Any:
    plan = f"PLAN P {{ INPUT: Stream a, Stream b; OUTPUT: {outputs}; BODY {{ {body} }} }}"
    return drive(folder, plan, module, {"a": GIVEN["a"], "b": GIVEN["b"]})


def test_T57_the_union_of_the_source_gives_all_inputs_to_all_outputs(tmp_path: Path) -> None:
    (module,) = re.findall(r"```python\n(from narval import operator\n.*?)```", PAGE, re.DOTALL)
    body = 'VarUnion((a, b) : (one, other)) select("n > 1", other : rest)'
    over, taken = run(tmp_path, body, module, "Stream one, Stream rest")
    assert over.state == "done", over
    assert sorted(row["n"] for row in taken.rows["one"]) == [1, 2, 3]
    assert sorted(row["n"] for row in taken.rows["rest"]) == [2, 3]


DEAL = """
from narval import operator

@operator(inputs="TupleStream in*, Number least", outputs="TupleStream out*, TupleStream ends")
class deal:
    def on_init(self, least, **names):
        self.least = least

    def on_in(self, row, number):
        if row["n"] >= self.least:
            yield "out", number, {"from": number, **row}

    def on_in_eos(self, number):
        yield "ends", {"end": number}
"""


def test_T12_a_method_may_ask_for_the_number_of_its_stream_and_give_to_one(tmp_path: Path) -> None:
    body = "deal((a, b), 2 : (x, y), ends)"
    over, taken = run(tmp_path, body, DEAL, "Stream x, Stream y, Stream ends")
    assert over.state == "done", over
    assert taken.rows["x"] == [{"from": 1, "n": 2}]
    assert taken.rows["y"] == [{"from": 2, "n": 3}]
    assert sorted(row["end"] for row in taken.rows["ends"]) == [1, 2]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('yield "cut", row', "expected an output of deal (out, ends), found 'cut'"),
        ('yield "out", 3, row', "expected a number from 1 to 2 for out, found 3"),
        ('yield "out", "first", row', "expected a number from 1 to 2 for out, found 'first'"),
    ],
)
def test_an_output_that_is_not_there_is_told(tmp_path: Path, line: str, why: str) -> None:
    module = DEAL.replace('yield "out", number, {"from": number, **row}', line)
    over, _ = run(tmp_path, "deal((a, b), 2 : (x, y), ends)", module, "Stream x, Stream y, Stream ends")
    assert over.failure is not None
    assert over.failure.message == why


COUNT = """
from narval import operator

@operator(inputs="TupleStream in", outputs="TupleStream out")
class count:
    def on_init(self):
        self.tuples = 0

    def on_in(self, row):
        self.tuples += 1

    def on_in_eos(self):
        yield {"tuples": self.tuples}
"""


def test_T33_each_transaction_has_a_state_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "code.py").write_text(COUNT)
    file = tmp_path / "p.plan"
    file.write_text("PLAN P { INPUT: Stream in; OUTPUT: Stream out; BODY { count(in : out) } }")
    relation = '<session><relation name="in">{}</relation></session>'
    sessions = [relation.format("<tuple><n>1</n></tuple>" * count) for count in (3, 1, 2)]
    (tmp_path / "in.xml").write_text(f"<plan_input>{''.join(sessions)}</plan_input>")
    found = narval(tmp_path, "dataflow", file, "--input", tmp_path / "in.xml")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert {row["session"]: row["tuple"]["tuples"] for row in rows} == {
        "session 1": 3,
        "session 2": 1,
        "session 3": 2,
    }


FOLD = """
from narval import function

@function
def longer(row, text):
    return f"{text}{row['n']}"
"""


def test_TA16_a_fold_gives_its_function_the_value_and_then_what_came_before(tmp_path: Path) -> None:
    plan = 'PLAN P { INPUT: Stream a; OUTPUT: Object out; BODY { fold("longer", a, ">" : out) } }'
    over, taken = drive(tmp_path, plan, FOLD, {"a": GIVEN["a"]})
    assert over.state == "done", over
    assert taken.values["out"] == ">12"
