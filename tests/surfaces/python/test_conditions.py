"""Conditions with names, of lists, of absence, as one uses them: across restarts, explained, retried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval import SimulatedClock
from narval.surfaces.python.agent import Agent

MODULE = """
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    pass

@action(runs="inline", inputs=[Input("alarm", "alarm")], outputs=[Output("told", "told")])
def tell(alarm):
    return f"<told host='{alarm.attributes['host']}' text='{alarm.text}'/>"
"""
RECIPES = """<cookbook group="w">
<recipe name="logins" start_step="wait" end_step="tell" restart="yes">
  <step id="wait" type="action" target="w.nothing"/>
  <transition id="third"><in idref="wait"/><out idref="tell"/>
    <condition as="first" use="yes"><match>failed-login</match></condition>
    <condition as="second" use="yes"><match>failed-login[@host = $first/@host]</match></condition>
    <condition as="third" use="yes"><match>failed-login[@host = $first/@host]</match></condition>
  </transition>
  <step id="tell" type="action" target="w.tell">
    <arguments>
      <alarm host="{$first/@host}">{$first/@user}, {$second/@user}, {$third/@user}</alarm>
    </arguments>
  </step>
</recipe>
<recipe name="calm" start_step="wait" end_step="tell">
  <step id="wait" type="action" target="w.nothing"/>
  <transition id="none"><in idref="wait"/><out idref="tell"/>
    <condition absent="yes"><match>fire</match></condition>
    <condition absent="yes"><match>plan[@recipename='w.digest'][@state='running']</match></condition>
  </transition>
  <step id="tell" type="action" target="w.tell">
    <arguments><alarm host="all">calm</alarm></arguments>
  </step>
</recipe>
<recipe name="digest" start_step="wait" end_step="tell" restart="yes">
  <step id="wait" type="action" target="w.nothing"/>
  <transition id="due"><in idref="wait"/><out idref="tell"/>
    <condition use="yes"><match>evening</match></condition>
    <condition as="mails" list="yes" use="yes"><match>mail</match></condition>
  </transition>
  <step id="tell" type="action" target="w.tell">
    <arguments><alarm host="{$mails/@topic}">{$mails/@subject}</alarm></arguments>
  </step>
</recipe>
</cookbook>"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A home."""
    for name, text in {"modules/w.py": MODULE, "recipes/w.xml": RECIPES, "etc/narval.toml": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def agent(path: Path) -> Iterator[Agent]:
    with narval.open(path) as agent:
        yield agent


def fail(agent: Agent, *logins: str) -> None:
    """Failed logins, of which each is HOST/USER."""
    for login in logins:
        host, _, user = login.partition("/")
        agent.add(f"<failed-login host='{host}' user='{user}'/>")
        agent.until_idle()


def told(agent: Agent) -> list[tuple[str, str]]:
    return [(each.attributes["host"], each.attributes["text"]) for each in agent.memory("told")]


def test_N42_three_failed_logins_of_one_host_make_one_alarm(agent: Agent) -> None:
    agent.start("w.logins")
    fail(agent, "web/ann", "db/bob", "web/cid", "db/dan", "mail/eve")
    assert told(agent) == []
    fail(agent, "db/fay", "web/gus")
    assert told(agent) == [("db", "bob, dan, fay"), ("web", "ann, cid, gus")]


def test_N42_names_and_what_is_waited_for_hold_across_a_restart(path: Path) -> None:
    with narval.open(path) as agent:
        agent.start("w.logins")
        fail(agent, "web/ann", "web/cid")
    with narval.open(path) as agent:
        fail(agent, "web/gus")
        assert told(agent) == [("web", "ann, cid, gus")]


def test_N42_why_says_what_is_waited_for_and_what_was_taken_as_what(agent: Agent) -> None:
    run = agent.start("w.logins")
    agent.until_idle()
    (wait,) = agent.why(run)["waiting"]
    lacking = [(condition["failed"], condition["value"]) for condition in wait["conditions"]]
    assert lacking == [
        ("an element named failed-login", "none in memory"),
        *[("an element named failed-login", "none, because $first is empty")] * 2,
    ]
    fail(agent, "web/ann", "db/bob")
    for waiting in (agent.why(run)["waiting"], agent.why(run, "third")["waiting"]):
        (wait,) = waiting
        assert wait["text"].endswith("by one choice of $first (here each is judged by itself)")
        assert [condition["pattern"] for condition in wait["conditions"]] == [
            "failed-login",
            "failed-login[@host = $first/@host]",
            "failed-login[@host = $first/@host]",
        ]
    fail(agent, "db/cid", "db/dan")
    reason = agent.why(run, "third")["reason"]
    names = [found.eid for found in agent.memory("failed-login[@host='db']")]
    assert reason == (
        f"transition third is fired: it was taken with elements {names[0]} as first, "
        f"{names[1]} as second, {names[2]} as third"
    )


def test_N42_why_names_the_transition_that_used_what_is_used_for_all_its_conditions(agent: Agent) -> None:
    run, other = agent.start("w.logins"), agent.start("w.logins")
    fail(agent, "db/bob", "db/cid", "db/dan")
    agent.until_idle()
    (wait,) = agent.why(other)["waiting"]
    assert wait["conditions"][0]["value"] == f"used by w.logins third in run {run}"


def test_N42_a_retry_knows_the_names(agent: Agent) -> None:
    run = agent.start("w.logins")
    fail(agent, "db/bob", "db/cid", "db/dan")
    agent.retry(run, "tell")
    agent.until_idle()
    assert told(agent) == [("db", "bob, cid, dan")] * 2


def test_N42_the_drawing_has_the_names(agent: Agent) -> None:
    run = agent.start("w.logins")
    agent.until_idle()
    assert "as first" in str(agent.ask("graph", run=run))


# --- lists ------------------------------------------------------------------------------------------------


def test_N43_a_digest_of_all_that_came(path: Path) -> None:
    with narval.open(path) as agent:
        run = agent.start("w.digest")
        for subject in ("one", "two"):
            agent.add(f"<mail topic='t' subject='{subject}'/>")
        agent.until_idle()
        assert told(agent) == []
    with narval.open(path) as agent:
        agent.add("<evening/>")
        agent.until_idle()
        assert told(agent) == [("t t", "one two")]
        (evening,), mails = agent.memory("evening"), [mail.eid for mail in agent.memory("mail")]
        assert agent.why(run, "due")["reason"] == (
            f"transition due is fired: it was taken with elements {evening.eid}, "
            f"{', '.join(map(str, mails))} as mails"
        )
        agent.add("<evening/>")
        agent.until_idle()
        assert len(told(agent)) == 1, "all of them are used: there is none to tell of"
        agent.add("<mail topic='u' subject='three'/>")
        agent.until_idle()
        assert told(agent)[1] == ("u", "three")


# --- absence ----------------------------------------------------------------------------------------------

CALM = [("all", "calm")]


def test_N44_the_last_that_fits_goes_and_why_names_it_until_then(agent: Agent) -> None:
    fire = agent.add("<fire/>")
    run = agent.start("w.calm")
    agent.until_idle()
    for waiting in (agent.why(run)["waiting"], agent.why(run, "none")["waiting"]):
        (wait,) = waiting
        assert wait["text"] == "nothing to fit any more"
        burning, digesting = wait["conditions"]
        assert (burning["met"], burning["absent"], burning["nearest"]) == (False, True, fire)
        assert digesting["met"]
    (waiting,) = agent.why(fire)["waiting"]
    assert waiting["pattern"] == "none fits fire"
    agent.add("<water/>", replace=fire)
    agent.until_idle()
    assert told(agent) == CALM


def test_N44_a_run_is_there_until_its_element_does_not_fit_any_more(agent: Agent) -> None:
    other, run = agent.start("w.digest"), agent.start("w.calm")
    agent.until_idle()
    assert told(agent) == []
    (wait,) = agent.why(run)["waiting"]
    assert [condition["nearest"] for condition in wait["conditions"]] == [None, other]
    agent.ask("cancel", run=other)
    agent.until_idle()
    assert told(agent) == CALM


def test_N44_what_is_forgotten_goes_too(path: Path) -> None:
    clock = SimulatedClock("2026-03-02T10:00:00Z")
    (path / "etc/narval.toml").write_text("forget_after = 60\n")
    with narval.open(path, clock=clock) as agent:
        agent.add("<fire/>")
        agent.start("w.calm")
        agent.until_idle()
        assert told(agent) == []
        clock.advance(3600)
        agent.until_idle()
        assert agent.memory("fire") == []
        assert told(agent) == CALM


def test_N44_the_wait_holds_across_a_restart(path: Path) -> None:
    with narval.open(path) as agent:
        fire = agent.add("<fire/>")
        agent.start("w.calm")
        agent.until_idle()
    with narval.open(path) as agent:
        agent.until_idle()
        assert told(agent) == []
        agent.add("<water/>", replace=fire)
        agent.until_idle()
        assert told(agent) == CALM


def test_N42_N43_N44_a_simulation_plays_them(path: Path) -> None:
    logins = "".join(f'<failed-login host="web" user="{user}"/>' for user in "abc")
    with narval.open(path) as agent:
        report = agent.simulate(
            f"""<scenario at="2026-03-02T08:00" until="2h">
            <start recipe="w.logins"/><start recipe="w.digest"/>
            <arrive><fire/></arrive><start at="+1m" recipe="w.calm"/>
            <arrive at="+5m">{logins}</arrive>
            <arrive at="+10m"><mail topic="t" subject="one"/><mail topic="t" subject="two"/></arrive>
            <arrive at="+20m"><evening/></arrive><outdate at="+30m" match="fire"/>
            <expect at="+15m"><call action="w.tell" count="1"/></expect>
            <expect at="+25m"><call action="w.tell" count="2"/></expect>
            <expect>
              <call action="w.tell" match="alarm[@host='web'][.='a, b, c']" count="1"/>
              <call action="w.tell" match="alarm[.='one two']" count="1"/>
              <call action="w.tell" match="alarm[@host='all']" count="0"/>
            </expect></scenario>"""
        )
        assert report["well"], report


def test_N42_a_retry_may_take_again_what_the_conditions_had_taken(agent: Agent) -> None:
    run = agent.start("w.logins")
    fail(agent, "db/bob", "db/cid", "db/dan")
    agent.retry(run, "wait")
    agent.until_idle()
    assert told(agent) == [("db", "bob, cid, dan")] * 2
