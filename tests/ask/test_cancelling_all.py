"""All runs are cancelled at once: those that nobody called, or those of a definition."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.core.errors import RequestError
from tests.surfaces.cli.command_line import well

RECIPES = """<cookbook group="w">
<recipe name="inner" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>
<recipe name="outer" start_step="call" end_step="call">
  <step id="call" type="recipe" target="w.inner"/>
</recipe>
<recipe name="again" start_step="a" end_step="b" restart="yes">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>
<work name="ask"><title>So?</title><outcome name="yes"/></work>
</cookbook>"""


def test_all_runs_end_but_for_items_of_work_and_those_called_end_with_their_callers(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/w.xml").write_text(RECIPES)
    with narval.open(tmp_path) as agent:
        assert agent.cancel_all() == []
        outer, inner, item = agent.start("w.outer"), agent.start("w.inner"), agent.start("w.ask")
        agent.until_idle()
        called = next(row["eid"] for row in agent.ask("runs", name="w.inner") if row["eid"] != inner)
        assert [row["eid"] for row in agent.cancel_all(dry=True)] == [outer, inner]
        assert {row["eid"] for row in agent.cancel_all("w.inner", dry=True)} == {inner, called}
        assert {row["phase"] for row in agent.ask("runs")} == {"active"}
        with pytest.raises(RequestError, match=r"did you mean w\.inner"):
            agent.cancel_all("w.iner")

        rows = agent.cancel_all(reason="enough")
        agent.until_idle()
        assert [row["eid"] for row in rows] == [outer, inner]
        assert {row["phase"] for row in agent.ask("runs")} == {"cancelled"}
        assert "enough" in str(agent.ask("why", run=outer))
        assert [row["item"] for row in agent.ask("worklist")] == [item]


def test_it_is_told_what_begins_no_more_by_itself_and_how_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/w.xml").write_text(RECIPES)
    with narval.open(tmp_path) as agent:
        agent.start("w.again")
        agent.start("w.inner")
        agent.until_idle()
    told = well(tmp_path, "cancel", "--all", given="y\n")
    restarts = (
        "These restart by themselves, and {} for good; each is started again by:\n  narval start w.again\n"
    )
    assert restarts.format("would end") in told
    assert told.endswith(restarts.format("end"))
    with narval.open(tmp_path) as agent:
        assert agent.ask("runs", state="active") == []
