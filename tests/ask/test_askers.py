"""Who asked is kept with what was added, started and signalled, by whatever way it was asked (P30, P39)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.asker import PROGRAM, Asker, person_name, user
from narval.ask.operations import invoke
from narval.core.elements.element import Origin
from narval.core.errors import RequestError
from narval.store.codec import encode_origin
from narval.surfaces.python.agent import Agent
from tests.ask.processes import HEAD, LINE, nodes

FILES = {
    "modules/w.py": f"""{HEAD}
@action(runs="inline")
def nothing():
    return None

@action(runs="inline")
def fails():
    raise ValueError("never well")
""",
    "recipes/w.xml": """<cookbook group="w">
  <recipe group="w" name="order" start_step="a" end_step="z">
    <step id="a" type="action" target="w.nothing"/><step id="z" type="recipe" target="w.call"/>
    <transition id="t"><in idref="a"/><out idref="z"/>
      <condition use="yes"><match>signal[@name='approve']</match></condition></transition>
  </recipe>
  <recipe group="w" name="call" start_step="a" end_step="a">
    <step id="a" type="action" target="w.nothing"/></recipe>
  <recipe group="w" name="fail" start_step="a" end_step="a" restart="yes">
    <step id="a" type="action" target="w.fails"/></recipe>
</cookbook>""",
    "recipes/p.xml": nodes(LINE),
    "recipes/wait.xml": """<automaton>
<state name="start" command="sh"><wait signal="go"/>true</state>
<state name="end" command="sh">true</state>
<transition from="start" label="0" to="end"/>
</automaton>""",
}
ANN = Origin(by="ann")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for part in ("etc", "data"):
        (tmp_path / part).mkdir()
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with narval.open(home, by="ann") as agent:
        yield agent


def origin_of(agent: Agent, eid: int) -> Origin | None:
    element = agent.element(eid)
    assert element is not None
    return element.origin


def events(agent: Agent, run: int, what: str) -> list[dict[str, Any]]:
    return [line for line in agent.history(run) if line["what"] == what]


# --- what a person gives ----------------------------------------------------------------------------------


def test_what_a_program_gives_whose_call_is_over_is_of_unknown_origin(agent: Agent) -> None:
    agent.asker = Asker("ann", call="00000000.9")
    (added,) = agent.ask("add", elements=[b"<note/>"])["eids"]
    labels = agent.daemon.agent.memory.labels
    assert labels.names(labels.own(added)) == ("program", "unknown")


def test_P30_what_a_person_adds_is_known_as_theirs(agent: Agent) -> None:
    assert origin_of(agent, agent.add("<question/>")) == ANN
    (shown,) = agent.ask("memory", xpath="question")
    assert shown["origin"] == {"run": None, "step": None, "by": "ann"}


def test_P30_what_a_person_starts_is_known_as_theirs_and_so_are_its_elements(agent: Agent) -> None:
    run = agent.start("w.order", "<question/>")
    (given,) = agent.memory("question")
    assert given.origin == origin_of(agent, run) == ANN
    assert agent.run(run)["by"] == "ann"
    assert agent.runs()[0]["by"] == "ann"
    assert [line["by"] for line in events(agent, run, "Started")] == ["ann"]
    each = agent.start_each("w.order", ["<n>1</n>", "<n>2</n>"])
    assert [agent.run(run)["by"] for run in each] == ["ann", "ann"]


def test_P30_a_run_that_another_calls_was_started_by_nobody(agent: Agent) -> None:
    top = agent.start("w.order")
    agent.until_idle()
    agent.signal(top, "approve")
    agent.until_idle()
    (called,) = (run for run in agent.runs() if run["name"] == "w.call")
    assert (called["by"], called["parent"]["run"]) == (None, top)


def test_P30_a_signal_that_becomes_an_element_is_known_as_theirs(agent: Agent) -> None:
    run = agent.start("w.order")
    agent.until_idle()
    eid = agent.signal(run, "approve")["eid"]
    origin = origin_of(agent, eid)
    assert origin is not None
    assert (origin.run, origin.by) == (run, "ann")
    assert [line["by"] for line in events(agent, run, "Signalled")] == ["ann"]
    (shown,) = agent.ask("memory", xpath="signal", context=run)
    assert shown["origin"] == {"run": run, "step": "", "call": origin.call, "inputs": [], "by": "ann"}


def test_P30_what_comes_with_a_signal_to_an_automaton_is_known_as_theirs(agent: Agent) -> None:
    run = agent.start("wait.wait")
    agent.until_idle()
    agent.signal(run, "go", "<note/>")
    (note,) = agent.memory("note")
    assert note.origin is not None
    assert (note.origin.run, note.origin.by) == (run, "ann")


def test_P30_an_operation_on_tokens_is_a_signal_too(agent: Agent) -> None:
    run = agent.start("p.p")
    agent.until_idle()
    agent.environment(run, values={"paid": "yes"})
    agent.complete(run, "a")
    agent.backtrack(run, "a")
    told = events(agent, run, "Signalled")
    assert [(line["name"], line["by"]) for line in told] == [
        ("environment", "ann"), ("complete", "ann"), ("backtrack", "ann"),
    ]  # fmt: skip


def test_P30_who_cancels_and_who_begins_again_is_in_the_history(agent: Agent) -> None:
    run = agent.start("w.order")
    agent.until_idle()
    agent.cancel(run, "enough")
    assert [line["by"] for line in events(agent, run, "Cancelled")] == ["ann"]
    assert agent.why(run)["reason"].startswith("it was cancelled by ann: enough; it ended at 2")
    again = agent.retry(run, "a")
    assert agent.run(again)["by"] == "ann"
    assert [line["by"] for line in events(agent, again, "Started")] == ["ann"]


def test_P30_start_plan_begins_a_run_for_who_added_it(agent: Agent) -> None:
    agent.add("<start-plan recipe='w.order'><question/></start-plan>")
    (run,) = agent.runs()
    (question,) = agent.memory("question")
    assert run["by"] == "ann"
    assert question.origin == ANN


def test_P30_a_run_that_begins_again_by_itself_is_still_theirs(home: Path) -> None:
    with narval.open(home, clock=narval.SimulatedClock(0), by="ann") as agent:
        agent.start("w.fail")
        agent.elapse(minutes=1)
        assert [run["by"] for run in agent.runs()][:2] == ["ann", "ann"]


def test_P30_a_signal_that_a_person_adds_is_addressed_to_nobody(agent: Agent) -> None:
    run = agent.start("w.order")
    agent.until_idle()
    agent.add("<signal name='approve'/>")
    agent.until_idle()
    assert agent.run(run)["phase"] == "done"


def test_P30_it_survives_the_end_of_the_program(home: Path) -> None:
    with narval.open(home, by="ann") as agent:
        eid, run = agent.add("<question/>"), agent.start("w.order")
        agent.until_idle()
    with narval.open(home) as agent:
        assert origin_of(agent, eid) == origin_of(agent, run) == ANN
        assert agent.run(run)["by"] == "ann"


def test_P30_a_program_that_speaks_for_nobody_leaves_no_origin(home: Path) -> None:
    with narval.open(home) as agent:
        eid, run = agent.add("<question/>"), agent.start("w.order")
        assert origin_of(agent, eid) is origin_of(agent, run) is None
        assert agent.ask("memory", xpath="question")[0]["origin"] is None
        assert agent.run(run)["by"] is None
        assert "by" not in events(agent, run, "Started")[0]


def test_a_login_costs_at_most_twelve_bytes_in_the_row_of_an_element() -> None:
    assert len(encode_origin(Origin(by="charles")) or b"") <= 12
    assert encode_origin(Origin(7, "s", "7.1")) == encode_origin(Origin(7, "s", "7.1", by="", actor=""))


# --- in another's name ------------------------------------------------------------------------------------


def test_P39_who_acts_in_anothers_name_is_recorded_beside_it(agent: Agent) -> None:
    operator = Asker("root", 0, "socket").acting_as("bob", owner=1000)

    def asked(operation: str, **arguments: Any) -> Any:
        return agent.runner.run(invoke(agent.daemon, operator, operation, arguments))

    (eid,) = asked("add", elements=[b"<question/>"])["eids"]
    run = asked("start", name="w.order")["eid"]
    assert origin_of(agent, eid) == Origin(by="bob", actor="root")
    assert [(line["by"], line["actor"]) for line in events(agent, run, "Started")] == [("bob", "root")]
    assert origin_of(agent, run) == Origin(by="bob", actor="root")
    assert [agent.run(run)[key] for key in ("by", "actor")] == ["bob", "root"]
    (shown,) = agent.ask("memory", xpath="question")
    assert shown["origin"] == {"run": None, "step": None, "by": "bob", "actor": "root"}


def test_P39_only_the_owner_and_root_may_act_in_anothers_name() -> None:
    own = os.geteuid()
    assert Asker("me", own).acting_as("bob", owner=own).actor == "me"
    assert Asker("me", own).acting_as("me", owner=own).actor == ""
    for stranger in (own + 1234, None):
        with pytest.raises(RequestError, match=r"^only .*, whose home this is, and root may act"):
            Asker("me", stranger).acting_as("bob", owner=own)


@pytest.mark.parametrize("name", ["", " ", " ann", "ann\n", "a\x1bb", "a\u202eb", "x" * 65, "\udcff"])
def test_P39_a_name_can_be_shown_and_told_apart(name: str) -> None:
    with pytest.raises(RequestError, match="expected the name of a person, 1 to 64 printable characters"):
        person_name(name)
    assert [person_name(good) for good in ("ann", "Ann Droid", "Ännchen", "x" * 64)]


def test_a_name_that_is_none_is_refused_before_the_home_is_opened(home: Path) -> None:
    with pytest.raises(RequestError, match="expected the name of a person"):
        narval.open(home, by="")
    with narval.open(home, by="ann") as agent:
        assert agent.runs() == []


def test_a_user_without_a_login_is_a_number() -> None:
    assert user(4_000_000_001, "socket").person == "4000000001"
    assert user(0, "socket").person == "root"


# --- the agent that is meant ------------------------------------------------------------------------------


def test_G21_an_agent_that_is_not_there_is_refused(agent: Agent) -> None:
    async def asked(name: str) -> Any:
        return await invoke(agent.daemon, PROGRAM.asking(name), "count", {})

    assert agent.runner.run(asked("narval")) == agent.runner.run(asked(""))
    with pytest.raises(RequestError, match="there is no agent 'bob' here; this home has narval"):
        agent.runner.run(asked("bob"))
