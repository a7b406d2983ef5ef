"""Calls about which somebody is asked: what follows a rejection is said before, and no program may agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

import narval
from narval.core.errors import RequestError, WorkRefusedError
from narval.system.logins import login

MODULE = "from narval import action\n\n@action(runs='inline')\ndef send(): pass\n"
RECIPES = """<cookbook>
<recipe group="t" name="sends" start_step="a" end_step="a">
  <step id="a" type="action" target="m.send" approve="t.agree"/></recipe>
<recipe group="t" name="cares" start_step="a" end_step="b">
  <step id="a" type="action" target="m.send" approve="t.agree"/>
  <step id="b" type="action" target="basic.nothing"/>
  <transition id="not"><in idref="a" on-error="yes"/><out idref="b"/></transition></recipe>
<work group="t" name="agree"><title>Send?</title><for roles="operator"/><outcome name="approve"/>
<outcome name="reject"/></work></cookbook>"""


def test_what_follows_if_a_call_is_rejected_is_said_and_comes_so(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    with narval.open(by=login(os.geteuid())) as agent:
        agent.load(tmp_path / "m.py")
        agent.load(RECIPES)
        for name, follows, ends in (("t.sends", ", and with it run {}", "failed"), ("t.cares", "", "done")):
            run = agent.start(name)
            agent.until_idle()
            (item,) = agent.runs(kind="work", state="active")
            line = f"If it is rejected: m.send is not called, and step a fails{follows.format(run)}\n"
            assert line in agent.ask("work_item", item=item["eid"])["text"]
            agent.ask("answer", item=item["eid"], outcome="reject")
            agent.until_idle()
            assert agent.run(run)["phase"] == ends


def test_a_program_of_a_run_does_not_agree_to_a_call_nor_grant_in_the_name_of_its_user(
    tmp_path: Path,
) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    (tmp_path / "etc").mkdir()
    with narval.open(tmp_path, by=login(os.geteuid())) as agent:
        agent.load(tmp_path / "m.py")
        agent.load(RECIPES)
        agent.start("t.cares")
        agent.until_idle()
        (item,) = agent.runs(kind="work", state="active")
        person, agent.asker = agent.asker, replace(agent.asker, call="00000000.9")
        for act, given in (("claim", {}), ("answer", {"outcome": "approve"})):
            with pytest.raises(
                WorkRefusedError, match=r"a program of a run .* may not agree to what .* is for people"
            ):
                agent.ask(act, item=item["eid"], **given)
        with pytest.raises(
            RequestError,
            match=r"may not grant, accept a proposal, .* that is for the owner",
        ):
            agent.ask("grant", name="t.cares")
        agent.asker = person
        assert agent.ask("answer", item=item["eid"], outcome="approve")["item"] == item["eid"]
