"""What is done in the monitor is kept with the person, the way and the number of the session (M67)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import narval
from narval.ask.asker import Asker
from narval.core.elements.element import Origin
from narval.core.engines.events import Cancelled, Signalled, Started
from narval.core.errors import NarvalError
from narval.store.codec import decode_origin, encode_origin
from narval.surfaces.python.agent import Agent
from tests.ask.processes import LINE, nodes
from tests.surfaces.cli.command_line import make_home, well

RECIPES = """<cookbook group="w">
  <recipe group="w" name="wait" start_step="a" end_step="z">
    <step id="a" type="action" target="talk.nothing"/><step id="z" type="action" target="talk.nothing"/>
    <transition id="t"><in idref="a"/><out idref="z"/>
      <condition use="yes"><match>signal[@name='approve']</match></condition></transition>
  </recipe></cookbook>"""

WHO = {"by": "ann", "way": "web", "session": "7"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "w.xml").write_text(RECIPES)
    (made / "recipes" / "p.xml").write_text(nodes(LINE))
    return made


@contextmanager
def monitor(home: Path) -> Iterator[Agent]:
    """An agent that is asked by Ann, who has logged in to the monitor."""
    with narval.open(home) as agent:
        agent.asker = Asker("root", os.geteuid(), "socket").acting_as("ann", owner=os.geteuid(), session="7")
        yield agent


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with monitor(home) as agent:
        yield agent


def who(line: dict[str, Any] | None) -> dict[str, Any]:
    """By whom and how a line of history, or an origin, says it was."""
    assert line is not None
    return {name: line[name] for name in ("by", "actor", "way", "session") if line.get(name)}


def event(agent: Agent, run: int, what: str) -> dict[str, Any]:
    found: dict[str, Any] = [line for line in agent.history(run) if line["what"] == what][-1]
    return found


def origin(agent: Agent, eid: int) -> dict[str, Any]:
    found: dict[str, Any] = agent.ask("element", eid=eid)["origin"]
    return found


def test_M67_a_run_that_is_started_signalled_and_cancelled_says_so_in_its_history(agent: Agent) -> None:
    run = agent.ask("start", name="w.wait", elements=[b"<first/>"])["eid"]
    agent.until_idle()
    assert who(event(agent, run, "Started")) == WHO
    assert who(origin(agent, agent.memory("first")[0].eid)) == WHO
    agent.signal(run, "refuse")
    assert who(event(agent, run, "Signalled")) == WHO
    assert who(origin(agent, agent.memory("signal")[0].eid)) == WHO
    agent.ask("cancel", run=run, reason="enough")
    assert who(event(agent, run, "Cancelled")) == WHO
    assert "cancelled by ann (web, session 7): enough" in agent.ask("why", run=run)["reason"]
    told = [entry["what"] for entry in agent.ask("replay", run=run)["entries"]]
    assert told[0].startswith("ann (web, session 7) started it, with first ")
    assert "ann (web, session 7) sent it the signal refuse. " in "".join(f"{words} " for words in told)


def test_M67_a_retry_says_so_in_the_history_of_the_new_run(agent: Agent) -> None:
    run = agent.start("demo.fail")
    agent.until_idle()
    assert who(event(agent, agent.retry(run), "Started")) == WHO


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("complete", {"node": "a"}),
        ("backtrack", {"node": "a"}),
        ("rerun", {"node": "a"}),
        ("set_environment", {"values": {"x": "1"}}),
    ],
)
def test_M67_acts_on_a_process_say_so_in_its_history(
    agent: Agent, operation: str, given: dict[str, Any]
) -> None:
    run = agent.start("p.p")
    agent.until_idle()
    with suppress(NarvalError):  # what is refused is recorded as well
        agent.ask(operation, run=run, **given)
    assert who(event(agent, run, "Signalled")) == WHO


def test_M67_what_is_added_outdated_and_acknowledged_is_an_element_that_says_so(home: Path) -> None:
    with monitor(home) as agent:
        rule = agent.add("<rule/>")
        assert who(origin(agent, rule)) == WHO
        rule = agent.add("<rule on='1'/>", replace=rule)
        assert who(origin(agent, rule)) == WHO
        assert who(origin(agent, agent.outdate([rule])["note"])) == WHO
        agent.start("demo.fail")
        agent.until_idle()
        (row,) = agent.ask("incidents")
        agent.ask("acknowledge", incident=row["incident"], reason="known")
        (row,) = agent.ask("incidents", every=True)
        assert who(row["acknowledged"]) == WHO
    assert "ann (web, session 7)" in well(home, "memory", "rule")
    assert "ann (web, session 7)" in well(home, "errors", "show", row["incident"])


def test_M67_what_start_plan_begins_is_by_who_added_it_there(agent: Agent) -> None:
    agent.add("<start-plan recipe='w.wait'><first/></start-plan>")
    agent.until_idle()
    (run,) = agent.ask("runs", name="w.wait")
    assert who(event(agent, run["eid"], "Started")) == WHO


def test_M67_of_any_other_way_nothing_is_kept_and_an_older_home_is_read(home: Path) -> None:
    with narval.open(home, by="bob") as agent:
        run = agent.start("w.wait")
        agent.until_idle()
        agent.ask("cancel", run=run)
        assert [who(event(agent, run, what)) for what in ("Started", "Cancelled")] == [{"by": "bob"}] * 2
    older = {"by": "ann", "step": "inbox/a.xml"}
    assert decode_origin(msgspec.msgpack.encode(older)) == Origin(step="inbox/a.xml", by="ann")
    assert msgspec.msgpack.decode(encode_origin(Origin(by="ann")) or b"") == {"by": "ann"}
    for kind, head in ((Started, {}), (Cancelled, {}), (Signalled, {"signal": "", "name": "go"})):
        written = msgspec.msgpack.encode({"type": kind.__name__, "id": 1, "at": 0.0, "by": "ann", **head})
        assert msgspec.msgpack.decode(written, type=kind).way == ""
