"""What a call gives has the labels of its inputs, whatever kind of run made the call (F2)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval

MODULE = """
from narval import Input, Output, action

@action(outputs=[Output("letter", "letter")], label="mail", outside=False, runs="inline")
def fetch():
    return "<letter to='eve'/>"

@action(inputs=[Input("letter", "letter")], outputs=[Output("note", "note")], pure=True, runs="inline")
def copy(letter):
    return f"<note to='{letter.attributes['to']}'/>"

@action(inputs=[Input("letter", "letter")], outputs=[Output("note", "note")], pure=True, runs="inline")
def quote(letter):
    raise ValueError(f"no {letter.attributes['to']} is known")
"""
FETCH = """<recipe group="w" name="fetch" start_step="fetch" end_step="fetch">
  <step id="fetch" type="action" target="m.fetch"/></recipe>"""
PROCESS = """<process-definition group="w" name="p">
  <node name="first" isStart="true" type="action"><custom><target>m.{}</target></custom></node>
</process-definition>"""
TASK = """
TASK TYPE p
  TASK CODE "m.{}"
  INITIAL working
  STATE working EXPOSED
    ON EVENT done GOTO COMMIT
"""


@pytest.mark.parametrize(("code", "name"), [("copy", "note"), ("quote", "error")])
@pytest.mark.parametrize(("file", "text"), [("w.wf.xml", PROCESS), ("w.task", TASK)])
def test_F2_what_a_call_found_in_memory_labels_its_results_and_errors(
    tmp_path: Path, file: str, text: str, code: str, name: str
) -> None:
    for path, written in {
        "modules/m.py": MODULE, "recipes/f.xml": FETCH, f"recipes/{file}": text.format(code)
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(written)
    with narval.open(tmp_path) as agent:
        agent.start("w.fetch")
        agent.until_idle()
        if text == TASK:
            agent.ask("task_put", name="w.p", elements=[b"<object/>"])
        else:
            agent.start("w.p")
        agent.until_idle()
        (letter,), (made, *_) = agent.memory("letter"), agent.memory(name)
        assert agent.ask("trust", eid=made.eid)["labels"] == ["mail"]
        assert made.origin is not None
        assert letter.eid in made.origin.inputs


def test_F2_a_value_of_the_plan_itself_is_no_content_of_strangers(tmp_path: Path) -> None:
    """Also if the plan gets its first label in the turn in which its argument is made."""
    counts = """<recipe group="w" name="counts" start_step="wait" end_step="copy">
      <step id="wait" type="action" target="m.wait"/>
      <transition id="came"><in idref="wait"/><out idref="copy"/>
        <condition><match>letter</match></condition></transition>
      <step id="copy" type="action" target="m.copy">
        <arguments><letter to="me" steps="{count($plan/step)}"/></arguments></step></recipe>"""
    module = MODULE + "\n@action(pure=True, runs='inline')\ndef wait(): pass\n"
    for path, written in {"modules/m.py": module, "recipes/f.xml": FETCH, "recipes/c.xml": counts}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(written)
    with narval.open(tmp_path) as agent:
        agent.start("w.counts")
        agent.until_idle()
        agent.start("w.fetch")
        agent.until_idle()
        (argument,) = agent.memory("letter[@to='me']")
        labels = agent.ask("trust", eid=argument.eid)
        assert (labels["labels"], labels["decided_by"]) == ([], ["mail"])
