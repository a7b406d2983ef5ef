"""Plans that follow each other: what the next is given, and that nothing of it is lost meanwhile (N28)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval import SimulatedClock
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.daemon.home_in_time import HomeInTime

MODULE = """
from narval import Input, Output, action

@action(runs="inline", inputs=[Input("count", "count", outdates=True)], outputs=[Output("count", "count")])
def more(count):
    return f"<count of='{count.attributes['of']}' n='{int(count.attributes['n']) + 1}'/>"

@action(runs="inline", inputs=[Input("count", "count")], outputs=[Output("seen", "seen")])
def look(count):
    if count.attributes["n"] == "bad":
        raise ValueError("bad")
    return f"<seen of='{count.attributes['of']}' n='{count.attributes['n']}'/>"

@action(runs="inline")
def nothing():
    pass

@action(runs="inline", outputs=[Output("start", "start-plan")])
def itself():
    return "<start-plan recipe='w.itself'/>"
"""
SOURCE = """
import narval
from narval import Input, Output, action

@action(inputs=[Input("box", "box")], outputs=[Output("seen", "seen", list=True)], source=True)
async def watch(box):
    yield f"<seen path='{box.attributes['path']}'/>"
    while True:
        await narval.sleep(3600)
"""
WAITS = """<step id="wait" type="action" target="w.nothing"/>
  <transition id="t"><in idref="wait"/><out idref="do"/>
    <condition use="yes"><match>tick</match></condition></transition>"""
RECIPES = f"""<cookbook group="w">
<recipe name="more" start_step="wait" end_step="do" restart="yes">{WAITS}
  <step id="do" type="action" target="w.more"/>
</recipe>
<recipe name="look" start_step="wait" end_step="do" restart="yes">{WAITS}
  <step id="do" type="action" target="w.look"/>
</recipe>
<recipe name="fails" start_step="do" end_step="do" restart="yes" decay="0">
  <step id="do" type="action" target="w.look"/>
</recipe>
<recipe name="itself" start_step="do" end_step="do" restart="yes">
  <step id="do" type="action" target="w.itself"/>
</recipe>
</cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    path = tmp_path / "w.py"
    path.write_text(MODULE)
    with narval.open(clock=SimulatedClock("2026-03-02T10:00:00Z")) as agent:
        agent.load(path)
        agent.load(RECIPES)
        yield agent


def values(agent: Agent, pattern: str) -> list[tuple[str, str]]:
    """Owner and number of the elements that fit and count, oldest first."""
    known = agent.daemon.agent.memory
    found = [element for element in agent.memory(pattern) if element.eid not in known.outdated]
    return [(element.attributes["of"], element.attributes["n"]) for element in found]


def ticks(agent: Agent) -> None:
    agent.add("<tick/>")
    agent.until_idle()


def test_N28_the_next_plan_is_given_what_replaced_the_elements_of_the_first(agent: Agent) -> None:
    agent.add("<count of='other' n='1'/>")
    agent.start("w.more", "<count of='mine' n='1'/>")
    for _ in range(3):
        ticks(agent)
    assert values(agent, "count") == [("other", "1"), ("mine", "4")]


def test_N28_what_a_person_replaced_counts_too_and_what_was_outdated_is_left_out(agent: Agent) -> None:
    agent.add("<count of='other' n='1'/>")
    agent.start("w.look", "<count of='mine' n='1'/>")
    ticks(agent)
    (mine,) = [count.eid for count in agent.memory("count[@of='mine']")]
    newer = agent.add("<count of='mine' n='2'/>", replace=mine)
    ticks(agent)  # the plan under way began with the one before
    ticks(agent)
    assert values(agent, "seen")[-1] == ("mine", "2")
    agent.ask("outdate", eids=[newer])
    ticks(agent)
    ticks(agent)
    assert values(agent, "seen")[-1] == ("other", "1")


def test_N5_N28_what_the_next_plan_is_given_is_not_forgotten_before_it_begins(agent: Agent) -> None:
    agent.start("w.fails", "<count of='mine' n='bad'/>")
    agent.elapse(minutes=20)
    (mine,) = [count.eid for count in agent.memory("count")]
    assert {error.attributes["type"] for error in agent.memory("error")} == {"ValueError"}
    agent.add("<count of='mine' n='1'/>", replace=mine)
    agent.elapse(minutes=6)
    assert values(agent, "seen")[:1] == [("mine", "1")]


def test_N28_a_recipe_that_restarts_and_starts_itself_does_not_double_each_second(agent: Agent) -> None:
    agent.start("w.itself")
    agent.elapse(seconds=12)
    assert len(agent.runs()) < 600


def test_N36_a_source_begins_anew_when_the_element_it_watches_is_edited(tmp_path: Path, agent: Agent) -> None:
    path = tmp_path / "s.py"
    path.write_text(SOURCE)
    agent.load(path)
    agent.load(
        """<recipe group="s" name="watch" start_step="watch" end_step="watch">
        <step id="watch" type="action" target="s.watch"/></recipe>"""
    )
    box = agent.add("<box path='a'/>")
    run = agent.start("s.watch")
    agent.elapse(seconds=1)
    agent.add("<box path='b'/>", replace=box)
    agent.elapse(seconds=1)
    assert [seen.attributes["path"] for seen in agent.memory("seen")] == ["a", "b"]
    assert agent.ask("show", run=run)["state"] == "running"


HEARS = f"""<recipe group="w" name="hears" start_step="wait" end_step="do" restart="parallel">
  {WAITS.replace("tick", "count")}<step id="do" type="action" target="w.look"/></recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> HomeInTime:
    """A home with a recipe that listens for counts."""
    plan = '<memory><start-plan recipe="w.hears"/></memory>'
    files = {"modules/w.py": MODULE, "recipes/hears.xml": HEARS, "data/memory.xml": plan}
    return HomeInTime(tmp_path, "2026-03-02T10:00:00Z", files)


def without_its_file(home: HomeInTime, agent: Agent) -> None:
    """A run ends while the file of its definition is away."""
    agent.until_idle()
    (home.path / "recipes/hears.xml").unlink()
    agent.ask("reload")
    agent.add("<count of='mine' n='1'/>")
    agent.add("<count of='mine' n='2'/>")
    agent.until_idle()
    assert values(agent, "seen") == [("mine", "1")]


def test_N28_after_failures_a_new_version_begins_at_once() -> None:
    fails = """<recipe group="w" name="looks" start_step="do" end_step="do" restart="yes">
      <step id="do" type="action" target="w.look"/></recipe>"""
    with narval.open(clock=SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        agent.load(MODULE, name="w")
        agent.load(fails)
        agent.start("w.looks")
        agent.elapse(seconds=200)
        assert {run["state"] for run in agent.runs()} == {"failed"}
        agent.load(fails.replace('start_step="do"', 'start_step="wait"').replace("<step", f"{WAITS}<step", 1))
        agent.until_idle()
        assert [run["state"] for run in agent.runs(state="active")] == ["running"]


def test_N28_what_restarts_waits_for_its_definition_while_the_file_is_away(home: HomeInTime) -> None:
    with home.open() as agent:
        without_its_file(home, agent)
        (away,) = agent.ask("attention")
        assert (away["what"], away["grave"]) == ("file", "high")
        assert away["text"].startswith("w.hears waits to start again: no definition w.hears is loaded; ")
        (over,) = agent.runs(name="w.hears")
        assert "no definition w.hears is loaded" in str(agent.ask("why", run=over["eid"]))
    with home.open() as agent:
        agent.until_idle()
        assert values(agent, "seen") == [("mine", "1")]
        home.write("recipes/hears.xml", HEARS)
        agent.ask("reload")
        agent.until_idle()
        assert values(agent, "seen") == [("mine", "1"), ("mine", "2")]
        assert agent.ask("attention") == []
        assert len(agent.runs(name="w.hears", state="active")) == 1


def test_N28_a_definition_that_is_gone_for_good_begins_no_more_by_a_word(home: HomeInTime) -> None:
    with home.open() as agent:
        without_its_file(home, agent)
        assert agent.ask("cancel", name="w.hears") == {"name": "w.hears", "starts": 1}
        assert agent.ask("attention") == []
        with pytest.raises(RequestError, match=r"no run of w\.hears is active"):
            agent.ask("cancel", name="w.hears")
    home.write("recipes/hears.xml", HEARS)
    with home.open() as agent:
        agent.until_idle()
        assert agent.runs(name="w.hears", state="active") == []


def test_N28_what_failed_and_waits_for_room_is_not_planned_again_by_each_reading(
    home: HomeInTime, caplog: pytest.LogCaptureFixture
) -> None:
    fails = """<recipe group="w" name="fails" start_step="do" end_step="do" restart="yes">
      <step id="do" type="action" target="w.look"/></recipe>"""
    home.write("recipes/fails.xml", fails)
    with home.open() as agent:
        agent.start("w.fails")
        agent.elapse(seconds=200)
        home.write("etc/narval.toml", "[agent]\nruns = 1\n")
        for seconds in (900, 901, 902):
            home.write("recipes/fails.xml", fails.replace("restart", f'decay="{seconds}" restart'))
            agent.ask("reload")
        (line,) = [line for line in caplog.messages if "starts again, and waits" in line]
        assert line.startswith("w.fails ")
