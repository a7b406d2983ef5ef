"""`narval signal`: something is said to a run, through every surface; recorded once, answered when it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval as library
from narval.core.errors import ElementError, RequestError
from narval.surfaces.control.client import Client
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import daemon, data, make_home, narval, run_of, well

RECIPE = """<recipe group="s" name="order" start_step="a" end_step="z">
  <step id="a" type="action" target="talk.nothing"/><step id="z" type="action" target="talk.nothing"/>
  <transition id="approved"><in idref="a"/><out idref="z"/>
    <condition use="yes"><match>signal[@name='approve'][not(by) or by='ann']</match></condition></transition>
</recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "s.xml").write_text(RECIPE)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home) as agent:
        yield agent


def test_a_signal_reaches_one_run_and_is_told_what_it_did(agent: Agent) -> None:
    one, other = agent.start("s.order"), agent.start("s.order")
    agent.until_idle()
    answer = agent.signal(other, "approve", "<by>ann</by>")
    agent.until_idle()
    assert answer == {"run": other, "signal": "approve", "eid": answer["eid"], "taken_by": "approved"}
    assert [agent.run(run)["state"] for run in (one, other)] == ["running", "done"]
    (element,) = agent.memory("signal")
    assert element.xml == f'<signal name="approve" run="{other}"><by>ann</by></signal>'.encode()
    assert element.origin is not None
    assert element.origin.run == other


def test_N2_a_signal_that_nothing_waits_for_is_seen_in_the_context_of_the_run_at_once(agent: Agent) -> None:
    run = agent.start("s.order")
    agent.until_idle()
    agent.element(run)
    signal = agent.signal(run, "hello")["eid"]
    plan = agent.element(run)
    assert plan is not None
    assert f'<element eid="{signal}"/>'.encode() in plan.xml


def test_N35_a_signal_is_recorded_once_and_survives(home: Path) -> None:
    with library.open(home) as agent:
        run = agent.start("s.order")
        agent.until_idle()
        agent.signal(run, "approve", "<by>bob</by>")
    with library.open(home) as agent:
        assert agent.run(run)["state"] == "running"
        assert len(agent.memory("signal")) == 1
        other = agent.start("s.order")
        agent.until_idle()
        (wait,) = agent.why(other)["waiting"]
        assert wait["for"] == "signal"
        assert wait["conditions"][0]["failed"] == "an element named signal"
        (condition,) = agent.why(run)["waiting"][0]["conditions"]
        assert (condition["failed"], condition["met"]) == ("not(by) or by='ann'", False)
        assert [line["what"] for line in agent.history(run)].count("Signalled") == 1


def test_who_may_not_be_told_is_said_plainly(agent: Agent) -> None:
    run = agent.start("demo.fail")
    agent.until_idle()
    with pytest.raises(RequestError, match="over already: it is failed"):
        agent.signal(run, "approve")
    with pytest.raises(RequestError, match="there is no run 9999"):
        agent.signal(9999, "approve")
    waiting = agent.start("s.order")
    for name in ("", " ", "a\nb", "\ud800", "\x00"):
        with pytest.raises(RequestError, match="expected the name of a signal"):
            agent.signal(waiting, name)
    with pytest.raises(ElementError):
        agent.signal(waiting, "approve", "<by>")
    assert agent.memory("signal") == []


def test_arguments_are_attributes_of_the_signal(home: Path) -> None:
    with library.open(home) as agent:
        run = agent.start("s.order")
        agent.until_idle()
        agent.signal(run, "later", by="ann", note='<&"')
        (element,) = agent.memory("signal[@by='ann']")
        assert element.xml == f'<signal name="later" run="{run}" by="ann" note="&lt;&amp;&quot;"/>'.encode()
        for key in ("name", "run", "eid", "", "a b", "a:b", "{urn:a}b", "xmlns", "1"):
            with pytest.raises(RequestError, match=r"attribute"):
                agent.ask("signal", run=run, name="later", arguments={key: "x"})
        for value in ("\x00", "\ud800"):
            with pytest.raises(RequestError, match="the text of an attribute"):
                agent.ask("signal", run=run, name="later", arguments={"by": value})
        with pytest.raises(RequestError, match="expected arguments to be"):
            agent.ask("signal", run=run, name="later", arguments={"by": 1})
    assert "transition approved" in well(
        home, "signal", run, "approve", "--set", "by=ann", "--set", "why=a=b"
    )
    (found,) = data(home, "memory", "signal[@name='approve']")
    assert found["xml"].startswith(f'<signal name="approve" run="{run}" by="ann" why="a=b"')
    for wrong in (["--set", "by"], ["--set", "by=a", "--set", "by=b"]):
        assert narval(home, "signal", run, "approve", *wrong).exit_code == 2


def test_the_command_says_what_became_of_it(home: Path) -> None:
    with daemon(home):
        well(home, "start", "s.order")
        run = run_of(home, "s.order")
        assert well(home, "signal", run, "later").endswith(f"nothing in run {run} has taken it yet\n")
        answer = data(home, "signal", run, "approve", "-", given="<by>ann</by>")
        assert (answer["run"], answer["signal"], answer["taken_by"]) == (run, "approve", "approved")
        waiting = well(home, "start", "s.order").strip()
        refused = narval(home, "signal", waiting, "approve", "-", given="<by>")
        assert (refused.exit_code, refused.stderr[:22]) == (1, "narval: <stdin>:1:5: n")


def test_the_socket_takes_signals(home: Path) -> None:
    with daemon(home), Client(home / "var" / "control.sock") as client:
        run = client.ask("start", name="s.order")["eid"]
        client.ask("history", run=run, wait=5.0)
        assert client.ask("signal", run=run, name="approve", elements=[b"<by>ann</by>"])["run"] == run
        assert client.ask("wait", run=run, timeout=60.0)["phase"] == "done"


def test_without_a_daemon_a_signal_is_recorded_and_the_next_one_goes_on(home: Path) -> None:
    with library.open(home) as agent:
        run = agent.start("s.order")
        agent.until_idle()
    assert "transition approved took it" in well(home, "signal", run, "approve")
    assert data(home, "show", run)["state"] == "running"
    with library.open(home) as agent:
        agent.until_idle()
        assert agent.run(run)["state"] == "done"


def test_a_run_that_has_only_been_asked_for_can_be_told_already(home: Path) -> None:
    run = int(well(home, "start", "s.order"))
    well(home, "signal", run, "approve")
    with library.open(home) as agent:
        agent.until_idle()
        assert agent.run(run)["state"] == "done"
