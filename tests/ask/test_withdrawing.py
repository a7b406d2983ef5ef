"""Withdrawing an element, and confirming what is doubtful (F14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.ask.test_story import MODULE, RECIPES
from tests.calls.test_rules import asked
from tests.daemon.at_work import Scene, portrait

DOUBTS = """<cookbook xmlns:al="http://www.logilab.org/namespaces/Narval/1.2">
<recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>answer[@al:doubtful]</match></condition></transition>
</recipe>
<recipe group="w" name="none" start_step="a" end_step="b">
  <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition absent="yes"><match>answer</match></condition></transition>
</recipe>
</cookbook>"""
WHY = "it was forged"
REPLIES = """
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail"), Input("draft", "draft"), Input("identity", "identity")],
        outputs=[Output("reply", "reply")], runs="inline")
def reply(mail, draft, identity):
    return "<reply/>"
"""
REPLYING = """<recipe group="r" name="replies" start_step="a" end_step="reply">
  <step id="a" type="action" target="w.nothing"/>
  <step id="reply" type="action" target="r.reply"><arguments>DRAFT</arguments></step>
  <transition id="t"><in idref="a"/><out idref="reply"/>
    <condition as="identity"><match>identity</match></condition>
    <condition as="hint"><match>hint</match></condition></transition>
</recipe>"""


PAYS = """
from narval import Input, Output, action

@action(inputs=[Input("order", "order", use=True)], outputs=[Output("paid", "paid")], runs="inline")
def pay(order):
    return f"<paid n='{order.attributes['n']}'/>"
"""
PAYING = """<cookbook group="p">
<recipe name="each" start_step="pay" end_step="end">
  <step id="pay" type="action" target="p.pay" foreach="order" approve="p.agree"/>
  <step id="end" type="action" target="w.nothing"/>
  <transition id="t"><in idref="pay"/><out idref="end"/></transition>
</recipe>
<work name="agree"><title>Pay?</title><outcome name="approve"/><outcome name="reject"/></work>
</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    scene.write("recipes/doubts.xml", DOUBTS)
    return scene


@pytest.fixture
def agent(scene: Scene) -> Iterator[Agent]:
    with narval.open(scene.home.path, by="ann") as agent:
        yield agent


def triaged(agent: Agent) -> tuple[int, int, int]:
    mail = agent.add("<mail from='ada'/>")
    agent.start("w.triage")
    agent.until_idle()
    return mail, agent.memory("verdict")[-1].eid, agent.memory("answer")[-1].eid


def test_F14_a_dry_run_tells_what_follows_and_changes_nothing(agent: Agent) -> None:
    mail, verdict, answer = triaged(agent)
    before = portrait(agent.daemon.agent)
    told = agent.ask("withdrawal", eid=mail)
    assert [row["eid"] for row in told["withdrawn"]] == [mail]
    assert [(row["eid"], row["run_of"]) for row in told["doubtful"]] == [
        (verdict, "w.triage"),
        (answer, "w.triage"),
    ]
    cascaded = agent.ask("withdrawal", eid=mail, cascade=True)
    assert [row["eid"] for row in cascaded["withdrawn"]] == [mail, verdict, answer]
    assert portrait(agent.daemon.agent) == before


def test_F14_what_is_withdrawn_stays_in_view_with_the_reason_and_nothing_takes_it(agent: Agent) -> None:
    mail = agent.add("<mail from='ada'/>")
    told = agent.ask("withdraw", eid=mail, why=f" {WHY}\n")
    assert told["doubtful"] == []
    (form,) = agent.ask("memory", xpath="mail")
    assert (form["withdrawn"], form["outdated"]) == (WHY, True)
    run = agent.start("w.triage")
    agent.until_idle()
    assert agent.ask("show", run=run)["state"] == "running"
    (wait,) = agent.why(run)["waiting"]
    assert wait["conditions"][0]["failed"] == "one not withdrawn"
    assert WHY in wait["conditions"][0]["value"]
    note = agent.memory("withdrawn")[0]
    assert (note.attributes["elements"], note.attributes["reason"]) == (str(mail), WHY)
    assert note.origin is not None
    assert note.origin.by == "ann"
    again = agent.ask("withdraw", eid=mail, why="and again")
    assert (again["withdrawn"], again["note"]) == ([], None)
    assert len(agent.memory("withdrawn")) == 1


def test_F14_what_was_made_of_it_alone_is_doubtful_until_it_is_confirmed(agent: Agent) -> None:
    mail, verdict, answer = triaged(agent)
    waits = agent.start("w.waits")
    agent.until_idle()
    none = agent.start("w.none")
    agent.until_idle()
    agent.ask("withdraw", eid=mail, why=WHY)
    agent.until_idle()
    assert agent.ask("show", run=waits)["state"] == "done", "its pattern asks for doubtful ones"
    assert agent.ask("show", run=none)["state"] == "done", "no answer is there that counts"
    assert [form["doubtful"] for form in agent.ask("memory", xpath="answer")] == [True]
    assert [element.eid for element in agent.memory("answer[@al:doubtful]")] == [answer]
    confirmed = agent.ask("confirm", eid=verdict, why="I asked her")
    assert [row["eid"] for row in confirmed["confirmed"]] == [verdict, answer]
    assert [form["doubtful"] for form in agent.ask("memory", xpath="answer")] == [False]
    with pytest.raises(RequestError, match="is not doubtful, so there is nothing to confirm"):
        agent.ask("confirm", eid=verdict)
    with pytest.raises(RequestError, match=f"was withdrawn: {WHY}"):
        agent.ask("confirm", eid=mail)


def test_F14_an_element_that_others_hold_up_stays(agent: Agent) -> None:
    mail, _, answer = triaged(agent)
    again = agent.add("<mail from='ada'/>")
    agent.start("w.triage")
    agent.until_idle()
    equal = agent.memory("answer")[-1].eid
    agent.ask("withdraw", eid=mail, why=WHY, cascade=True)
    assert {form["eid"]: form["withdrawn"] for form in agent.ask("memory", xpath="answer")} == {
        answer: WHY,
        equal: None,
    }
    assert again not in agent.daemon.agent.memory.doubtful


def test_F14_what_a_call_under_way_makes_of_it_is_doubtful_too(agent: Agent) -> None:
    mail, verdict, _ = triaged(agent)
    agent.ask("withdraw", eid=mail, why=WHY)
    later = agent.add("<note/>", replace=verdict)
    assert agent.ask("element", eid=later)["doubtful"]


@pytest.mark.parametrize(
    ("draft", "doubtful"),
    [
        ("<draft>I have read it.</draft>", True),
        ('<draft at="{$now/@date}" of="{$identity/@name}"/>', True),
        ('<draft about="{$hint/@what}"/>', False),
    ],
)
def test_F14_what_the_author_wrote_and_what_is_declared_are_no_other_sources(
    scene: Scene, draft: str, doubtful: bool
) -> None:
    """A draft that holds something of an element that came from outside is one."""
    scene.write("recipes/r.xml", REPLYING.replace("DRAFT", draft))
    scene.write("modules/r.py", REPLIES)
    scene.write("data/memory.xml", '<memory><identity name="ann"/></memory>')
    with narval.open(scene.home.path, by="ann") as agent:
        mail = agent.add("<mail from='ada'/>")
        agent.add("<hint what='tea'/>")
        agent.start("r.replies")
        agent.until_idle()
        (reply,) = agent.memory("reply")
        assert reply.origin is not None
        assert len(reply.origin.inputs) == 3
        named = [row["eid"] for row in agent.ask("withdrawal", eid=mail)["doubtful"]]
        agent.ask("withdraw", eid=mail, why=WHY)
        assert (agent.ask("element", eid=reply.eid)["doubtful"], reply.eid in named) == (doubtful, doubtful)


def test_F14_it_is_there_again_after_a_restart(scene: Scene) -> None:
    with narval.open(scene.home.path, by="ann") as agent:
        mail, verdict, answer = triaged(agent)
        agent.ask("withdraw", eid=mail, why=WHY)
        known = portrait(agent.daemon.agent)
    with narval.open(scene.home.path, by="ann") as agent:
        memory = agent.daemon.agent.memory
        assert (memory.withdrawn, memory.doubtful) == ({mail: WHY}, {verdict, answer})
        assert portrait(agent.daemon.agent)["outdated"] == known["outdated"]
        agent.ask("confirm", eid=verdict)
    with narval.open(scene.home.path, by="ann") as agent:
        assert agent.daemon.agent.memory.doubtful == set()


@pytest.mark.parametrize("cascade", [False, True])
def test_F14_what_cannot_be_withdrawn_is_refused_with_the_reason(agent: Agent, cascade: bool) -> None:
    run = agent.start("w.triage")
    definition = agent.memory("action[@name='judge']")[0].eid
    for eid, why in ((999, "there is no element 999"), (run, "is a run"), (definition, "alter the file")):
        for operation, more in (("withdrawal", {}), ("withdraw", {"why": WHY})):
            with pytest.raises(RequestError, match=why):
                agent.ask(operation, eid=eid, cascade=cascade, **more)
    with pytest.raises(RequestError, match="expected a reason"):
        agent.ask("withdraw", eid=agent.add("<mail/>"), why=" ")


def test_F14_of_several_calls_that_one_item_asks_for_those_are_made_whose_elements_still_count(
    scene: Scene,
) -> None:
    scene.write("modules/p.py", PAYS)
    scene.write("recipes/p.xml", PAYING)
    scene.write("etc/people.toml", "[people.ann]\n")
    with narval.open(scene.home.path, by="ann") as agent:
        orders = [agent.add(f"<order n='{n}'/>") for n in range(3)]
        agent.start("p.each")
        agent.until_idle()
        (item,) = asked(agent)
        agent.ask("withdraw", eid=orders[1], why=WHY)
        agent.until_idle()
        assert asked(agent) == [item], "it asks for the others too"
        agent.answer(item, "approve")
        agent.until_idle()
        assert sorted(paid.attributes["n"] for paid in agent.memory("paid")) == ["0", "2"]
        (error,) = agent.memory("error")
        assert error.attributes["type"] == "withdrawn"
        assert f"element {orders[1]}, which it is given, was withdrawn: {WHY}".encode() in error.xml


def test_F14_where_nothing_is_undone_no_journal_is_read_within_the_turn(agent: Agent) -> None:
    """What the runs have done outside is read when the turn is over."""
    mail, *_ = triaged(agent)
    store, host = agent.daemon.agent.store, agent.daemon.host
    in_turn, submit = list[bool](), host.submit
    reads = list[bool]()

    async def submitted(work: Callable[[Any], Any]) -> Any:
        def within(turn: Any) -> Any:
            in_turn.append(True)
            try:
                return work(turn)
            finally:
                in_turn.clear()

        return await submit(within)

    def journal(self: Any, *args: Any) -> Any:
        reads.append(bool(in_turn))
        return read(self, *args)

    read = type(store).journal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "submit", submitted)
        patch.setattr(type(store), "journal", journal)
        told = agent.ask("withdraw", eid=mail, why=WHY)
    assert [len(run["outside"]) for run in told["runs"]] == [3]
    assert reads
    assert not any(reads)
