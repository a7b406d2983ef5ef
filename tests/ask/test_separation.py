"""Separation of duties across runs: plans beside one another, retries, restarts, forgetting (P29)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from tests.ask.test_work import PEOPLE, Home

WORK = """<cookbook group="w">
<work name="first"><title>First look</title><for roles="approver"/></work>
<work name="second"><title>Second look</title><for roles="approver" not="step:look"/></work>
<recipe name="looks" start_step="look" end_step="look" decay="1">
  <step id="look" type="work" target="w.first"/></recipe>
<recipe name="signs" start_step="sign" end_step="sign">
  <step id="sign" type="work" target="w.second"/></recipe>
<recipe name="both" start_step="a" end_step="two">
  <step id="a" type="action" target="m.nothing"/>
  <step id="one" type="recipe" target="w.looks"/><step id="two" type="recipe" target="w.signs"/>
  <transition id="t"><in idref="a"/><out idref="one"/></transition>
  <transition id="u"><in idref="one"/><out idref="two"/></transition>
</recipe>
<recipe name="fails" start_step="look" end_step="sign">
  <step id="look" type="work" target="w.first"/><step id="no" type="action" target="m.fails"/>
  <step id="sign" type="work" target="w.second"/>
  <transition id="t"><in idref="look"/><out idref="no"/></transition>
  <transition id="u"><in idref="no"/><out idref="sign"/></transition>
</recipe></cookbook>"""
MODULE = """from narval import action
@action(runs="inline")
def nothing(): pass
@action(runs="inline")
def fails():
    if not __import__("pathlib").Path(__file__).with_name("well").exists(): raise ValueError("not yet")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    parts = {"etc/people.toml": PEOPLE, "recipes/w.xml": WORK, "modules/m.py": MODULE}
    for path, text in (parts | {"etc/narval.toml": 'work_kept = "0s"\n'}).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_P29_who_answered_is_known_though_the_plan_was_to_be_forgotten_and_after_a_restart(
    home: Path,
) -> None:
    made = Home(home)
    with made.agent:
        made.start("w.both")
        made.agent.until_idle()
        (first,) = made.items("ann")
        made.does("ann", "answer", first)
        made.agent.elapse(hours=1)
        assert made.items("ann") == []
        (second,) = made.items("ben")
        assert made.refusal("ann", "claim", second) == "excluded"
        assert made.does("cleo", "forget_person", "ann")["forgotten"] == []
    with narval.open(home, clock=made.clock) as made.agent:
        made.agent.until_idle()
        assert made.refusal("ann", "claim", second) == "excluded"
        assert made.does("ann", "work_item", second)["may"] == ["refuse"]
        made.does("ben", "answer", second)
        made.agent.until_idle()
        assert made.does("cleo", "forget_person", "ann")["forgotten"] == [first]


def test_P29_who_answered_before_a_retry_may_not_answer_after_it(home: Path) -> None:
    made = Home(home)
    with made.agent:
        plan = made.start("w.fails")
        made.agent.until_idle()
        (first,) = made.items("ann")
        made.does("ann", "answer", first)
        made.agent.until_idle()
        again = made.agent.retry(plan, "no")
        made.agent.until_idle()
        (home / "modules/well").touch()
        made.agent.retry(again, "no")
        made.agent.until_idle()
        (second,) = made.items("ben")
        assert made.refusal("ann", "answer", second) == "excluded"
    with narval.open(home, clock=made.clock) as made.agent:
        made.agent.until_idle()
        assert made.refusal("ann", "answer", second) == "excluded"
        made.does("ben", "answer", second)
