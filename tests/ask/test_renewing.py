"""An item offered anew in another version, under the call that waits for it (P79)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.errors import WorkRefusedError
from tests.ask.test_work import PEOPLE, Home

Asking = tuple[Home, int, int]
TITLE = "<title>Look at {$r/@n}</title>"
WORK = f"""<cookbook group="w">
<work name="look">{TITLE}<input id="r"><match>request</match></input><for roles="approver"/></work>
<recipe name="asks" start_step="look" end_step="z">
  <step id="look" type="work" target="w.look"/><step id="late" type="action" target="m.nothing"/>
  <step id="z" type="action" target="m.nothing"/>
  <transition id="t"><in idref="look"/><out idref="z"/></transition>
  <transition id="e"><in idref="look" on-error="yes"/><out idref="late"/></transition>
  <transition id="f"><in idref="late"/><out idref="z"/></transition>
</recipe></cookbook>"""
MODULE = """from narval import action
@action(runs="inline")
def nothing(): pass
"""


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    """A home whose plan asks for a look; the plan and the item."""
    for path, text in {"etc/people.toml": PEOPLE, "recipes/w.xml": WORK, "modules/m.py": MODULE}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    made = Home(tmp_path)
    with made.agent:
        plan = made.start("w.asks", "<request n='1'/>")
        made.agent.until_idle()
        yield made, plan, made.items("ann")[0]


def changed(made: Home, place: Path, before: str, after: str) -> None:
    """The definition is another."""
    (place / "recipes/w.xml").write_text(WORK.replace(before, after))
    assert made.agent.ask("reload")["changed"]


def steps(made: Home, plan: int) -> dict[str, str]:
    return {step["id"]: step["state"] for step in made.agent.ask("show", run=plan)["steps"]}


def test_P79_a_version_that_cannot_be_offered_ends_the_call_once(asking: Asking, tmp_path: Path) -> None:
    made, plan, item = asking
    changed(made, tmp_path, TITLE, "<title>{$r/@nothing}</title>")
    again = made.does("cleo", "renew", item)["run"]
    made.agent.until_idle()
    assert made.does("ann", "work_item", item)["state"] == "withdrawn"
    assert made.agent.run(again)["state"] == "failed"
    assert steps(made, plan)["late"] == "history"
    types = [error.attributes["type"] for error in made.agent.memory("error")]
    assert sorted(types) == ["bad-text", "withdrawn"]


def test_P79_what_another_version_asks_for_besides_is_found(asking: Asking, tmp_path: Path) -> None:
    made, plan, item = asking
    made.agent.add("<budget left='9'/>")
    more = '<title>Look at {$r/@n} of {$b/@left}</title><input id="b"><match>budget</match></input>'
    changed(made, tmp_path, TITLE, more)
    again = made.does("cleo", "renew", item)["run"]
    made.agent.until_idle()
    assert made.does("ann", "work_item", again)["title"] == "Look at 1 of 9"
    made.does("ann", "answer", again)
    made.agent.until_idle()
    assert made.agent.run(plan)["phase"] == "done"
    assert made.refusal("cleo", "renew", again) == "over"


def test_P79_a_cancelled_caller_withdraws_what_is_offered_anew(asking: Asking) -> None:
    made, plan, item = asking
    again = made.does("cleo", "renew", item)["run"]
    third = made.does("cleo", "renew", again)["run"]
    made.does("cleo", "cancel", plan, "wrong amount")
    made.agent.until_idle()
    assert [made.agent.run(eid)["state"] for eid in (item, again, third)] == ["withdrawn"] * 3
    with pytest.raises(WorkRefusedError, match=r"withdrawn by cleo since .*gave it up: wrong amount"):
        made.does("ann", "answer", third)
    assert made.agent.run(plan)["phase"] == "cancelled"
