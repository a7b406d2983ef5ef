"""Work by which an author has somebody agree to a call: what the rules of the home ask is asked besides."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval import SimulatedClock
from narval.files.shipped import shipped

MODULE = """
from pathlib import Path
from narval import Input, Output, action, call

@action(outputs=[Output("mail", "email[@from]")], label="mail", outside=False)
def fetch():
    return "<email from='mallory@x.org'/>"

@action(inputs=[Input("letter", "letter")], where=["letter/@to"])
def send(letter):
    (Path(call().home) / "sent").write_text(letter.attributes["to"])
"""
RECIPE = """<cookbook group="w">
<work name="yes"><title>ok?</title><outcome name="approve"/><outcome name="reject"/>
  <deadline after="1s" outcome="approve"/></work>
<recipe name="obeys" start_step="fetch" end_step="send">
  <step id="fetch" type="action" target="m.fetch"/>
  <step id="send" type="action" target="m.send"{}><arguments>
    <letter to="{{$fetch/@from}}"/></arguments></step>
  <transition id="then"><in idref="fetch"/><out idref="send"/></transition></recipe></cookbook>"""
RULE = """[[rule]]
from = "*"
part = "where"
then = "ask"
"""


@pytest.mark.parametrize(
    ("step", "people"),
    [(' approve="w.yes"', ""), ("", '[[approval]]\naction = "m.send"\nwork = "w.yes"\n')],
)
def test_work_that_agrees_by_itself_takes_the_place_of_no_rule(
    tmp_path: Path, step: str, people: str
) -> None:
    files = {
        "modules/m.py": MODULE,
        "recipes/w.xml": RECIPE.format(step),
        "recipes/trust.xml": (shipped() / "recipes/trust.xml").read_text(),
        "etc/people.toml": f'[people.ann]\nweb = "operator"\n{people}',
        "etc/trust.toml": RULE,
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with narval.open(tmp_path, by="ann", clock=SimulatedClock(1_790_000_000.0)) as agent:
        agent.start("w.obeys")
        agent.elapse(seconds=5)
        (row,) = agent.worklist()
        assert agent.work_item(row["item"])["work"] == "trust.ask"
        assert not (tmp_path / "sent").exists()
        agent.answer(row["item"], "once")
        agent.until_idle()
    assert (tmp_path / "sent").read_text() == "mallory@x.org"
