"""What the library and `data/memory.xml` declare is in memory, protected, and follows its file (N2, N4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import narval
from narval.daemon.daemon import Daemon
from narval.files.check import check_home
from narval.surfaces.python.agent import Agent
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import Scene

MODULE = """
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    return None

@action(inputs=[Input("counter", "counter", outdates=True)], outputs=[Output("counter", "counter")],
        runs="inline")
def count(counter):
    counter = counter.tree()
    counter.set('value', str(int(counter.get('value')) + 1))
    return counter
"""


def _recipe(name: str, target: str, more: str = "") -> str:
    return (
        f'<recipe group="w" name="{name}" start_step="s" end_step="s" {more}>'
        f'<step id="s" type="action" target="{target}"/></recipe>'
    )


SHORT = _recipe("short", "w.count", 'decay="10"')
RECIPES = f"<cookbook>{_recipe('nothing', 'w.nothing')}{_recipe('count', 'w.count')}{SHORT}</cookbook>"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


def declare(scene: Scene, content: str) -> None:
    scene.write("data/memory.xml", f"<memory>{content}</memory>")


def started(scene: Scene) -> Agent:
    """The home at work, and idle."""
    agent = narval.open(scene.home.path, clock=SimulatedClock(0.0))
    agent.until_idle()
    return agent


def runs_of(agent: Agent) -> list[str]:
    return [run["name"] for run in agent.runs()]


# --- memory.xml -----------------------------------------------------------------------------------------


def test_N4_what_memory_xml_declares_is_added_once_and_what_it_drops_loses_its_protection(
    scene: Scene,
) -> None:
    declare(scene, "<rule n='1'/><rule n='1'/><rule n='2'/>")
    with started(scene) as agent:
        assert len(agent.memory("rule")) == 3
    with started(scene) as agent:
        assert len(agent.memory("rule")) == 3
    declare(scene, "<rule n='1'/><rule n='3'/>")
    with started(scene) as agent:
        rules = {rule.eid: rule.attributes["n"] for rule in agent.memory("rule")}
        declared = agent.daemon.agent.memory.declared
        assert sorted(rules.values()) == ["1", "1", "2", "3"]
        assert sorted(n for eid, n in rules.items() if eid in declared) == ["1", "3"]
        assert sorted(rule.attributes["n"] for rule in agent.memory("rule", current=True)) == ["1", "3"]
        (told,) = agent.memory("outdated")
        gone = [eid for eid, n in rules.items() if eid not in declared]
        assert told.attributes["elements"] == " ".join(map(str, gone))
        assert told.attributes["reason"] == "data/memory.xml no longer declares it"
        assert told.origin is not None
        assert told.origin.inputs == tuple(gone)
    with started(scene) as agent:
        assert len(agent.memory("rule")) == 4
        assert len(agent.memory("outdated")) == 1


@pytest.mark.parametrize("known", ["key='a'", "name='a'", "key='a' name='b'", "xmlns='urn:x' name='a'"])
def test_N4_a_declared_element_that_is_changed_replaces_the_one_of_its_key_or_name(
    scene: Scene, known: str
) -> None:
    declare(scene, f"<rule {known} n='1'/><rule name='z'/>")
    with started(scene) as agent:
        (before,) = agent.memory("*[local-name() = 'rule' and @n]")
    declare(scene, f"<rule name='z'/><rule {known} n='2'/>")
    with started(scene) as agent:
        (after,) = agent.memory("*[local-name() = 'rule' and @n]", current=True)
        assert after.attributes["n"] == "2"
        assert after.origin is not None
        assert after.origin.inputs == (before.eid,)
        memory = agent.daemon.agent.memory
        assert before.eid in memory.outdated
        assert before.eid not in memory.declared
        assert after.eid in memory.declared
        assert agent.memory("outdated") == []
        assert len(agent.memory("rule")) == (1 if "xmlns" in known else 3)


def test_N4_what_a_run_made_of_a_declared_element_is_replaced_by_the_changed_declaration(
    scene: Scene,
) -> None:
    declare(scene, "<counter name='n' value='0'/>")
    with started(scene) as agent:
        agent.wait(agent.start("w.count"), 20)
    declare(scene, "<counter name='n' value='40'/>")
    with started(scene) as agent:
        agent.wait(agent.start("w.count"), 20)
        (counter,) = agent.memory("counter", current=True)
        assert counter.attributes["value"] == "41"


def test_N4_a_declared_counter_that_was_replaced_is_not_declared_anew(scene: Scene) -> None:
    declare(scene, "<counter value='0'/>")
    for value in ("1", "2", "3"):
        with started(scene) as agent:
            agent.wait(agent.start("w.count"), 20)
            (counter,) = agent.memory("counter", current=True)
            assert counter.attributes["value"] == value


def test_N4_a_start_plan_acts_once_and_one_for_the_start_acts_at_each(scene: Scene) -> None:
    declare(
        scene, "<start-plan recipe='w.nothing'/><start-plan recipe='w.count' at='start'/><counter value='0'/>"
    )
    for times in (1, 2, 3):
        with started(scene) as agent:
            assert runs_of(agent).count("w.nothing") == 1
            assert runs_of(agent).count("w.count") == times
            agent.load(f"<cookbook>{_recipe('other', 'w.nothing')}</cookbook>")  # is no start
            agent.until_idle()
            assert runs_of(agent).count("w.count") == times
    declare(scene, "<counter value='0'/>")
    with started(scene) as agent:
        assert runs_of(agent).count("w.count") == 3  # dropped, it does not act any more


def test_N4_a_start_plan_that_comes_back_while_its_run_goes_on_begins_no_second_one(scene: Scene) -> None:
    """A file that is saved in two parts, or a checkout of another branch, takes it out for a while."""

    def waits(name: str) -> str:
        steps = "".join(f"<step id='{id}' type='action' target='w.nothing'/>" for id in "abc")
        moves = "".join(
            f"<transition id='{into}'><in idref='{of}'/><out idref='{into}'/>"
            f"<condition use='yes'><match>{into}</match></condition></transition>"
            for of, into in ("ab", "bc")
        )
        said = f"group='w' name='{name}' restart='{name}' start_step='a' end_step='c'"
        return f"<recipe {said}>{steps}{moves}</recipe>"

    scene.write("recipes/waits.xml", f"<cookbook>{waits('no')}{waits('parallel')}</cookbook>")
    starts = "".join(f'<start-plan recipe="w.{name}"/>' for name in ("no", "parallel", "nothing"))
    declare(scene, starts)
    with started(scene) as agent:

        def again(content: str = starts) -> list[str]:
            """The names of all runs, after the start-plans have gone and come back."""
            for text in ("", content):
                declare(scene, text)
                agent.ask("reload")
                agent.until_idle()
            return sorted(runs_of(agent))

        assert again() == ["w.no", "w.nothing", "w.nothing", "w.parallel"]
        agent.add("<b/>")
        agent.until_idle()
        waiting = max(run["eid"] for run in agent.runs() if run["name"] == "w.parallel")
        assert again().count("w.parallel") == 2  # one has taken something, another waits beside it
        agent.ask("cancel", run=waiting)
        assert again().count("w.parallel") == 3  # none waited any more


def test_N4_a_start_plan_that_comes_back_is_not_taken_for_one_with_other_elements(scene: Scene) -> None:
    steps = "".join(f"<step id='{id}' type='action' target='w.nothing'/>" for id in "ab")
    scene.write(
        "recipes/waits.xml",
        f"<recipe group='w' name='waits' start_step='a' end_step='b'>{steps}<transition id='t'>"
        "<in idref='a'/><out idref='b'/><condition><match>go</match></condition></transition></recipe>",
    )
    both = [f"<start-plan recipe='w.waits'><gift n='{n}'/></start-plan>" for n in (1, 2)]
    declare(scene, "".join(both))
    with started(scene) as agent:
        first, second = sorted(run["eid"] for run in agent.runs())

        def declared(*starts: str) -> list[int]:
            declare(scene, "".join(starts))
            agent.ask("reload")
            agent.until_idle()
            return sorted(run["eid"] for run in agent.runs() if run["phase"] == "active")

        assert declared(both[1]) == [first, second]
        assert declared(*both) == [first, second]
        assert declared(both[1]) == [first, second]
        agent.cancel(first)
        assert len(declared(*both)) == 2, "the run of the other one is not its own"
        assert len(declared(*both, both[0])) == 3, "two that are equal have a run each"


def test_an_error_that_names_no_start_is_left_as_it_is(scene: Scene) -> None:
    declare(scene, "<start-plan recipe='w.to-come'/>")
    with started(scene) as agent:
        for number in ("soon", "²", "9" * 30):
            agent.add(f"<error type='unknown-target' start='{number}'>made up</error>")
        declare(scene, "")
        agent.ask("reload")
        left = agent.memory("error[@type='unknown-target']", current=True)
        assert [error.text for error in left] == ["made up"] * 3


@pytest.mark.parametrize("how", ["declared", "added"])
def test_N4_a_home_that_is_only_asked_something_is_no_start(scene: Scene, how: str) -> None:
    start = "<start-plan recipe='w.nothing' at='start'/>"
    if how == "declared":
        declare(scene, start)

    async def asked() -> None:
        daemon = await Daemon.open(scene.home, record_only=True)
        if how == "added":
            await daemon.host.submit(lambda turn: turn.add(start.encode()))
        await daemon.close()

    import asyncio

    asyncio.run(asked())
    with started(scene) as agent:
        assert runs_of(agent) == ["w.nothing"]
    with started(scene) as agent:
        assert runs_of(agent) == ["w.nothing"] * 2


def test_N4_the_children_of_a_start_plan_are_the_first_context_of_its_plan(scene: Scene) -> None:
    declare(scene, "<start-plan recipe='w.nothing'><gift n='1'/><gift n='2'/></start-plan>")
    with started(scene) as agent:
        (run,) = agent.runs()
        assert [each.attributes["n"] for each in agent.memory("gift", context=run["eid"])] == ["1", "2"]


SOURCE = """
import asyncio
from narval import Input, Output, action

@action(source=True, inputs=[Input("box", "box")], outputs=[Output("seen", "seen", list=True)])
async def watch(box):
    yield f"<seen path='{box.attributes['path']}'/>"
    try:
        await asyncio.sleep(3600)
    finally:
        (CLOSED / box.attributes["path"]).touch()
"""


def test_N4_N36_sources_follow_the_file_a_changed_one_is_watched_anew_a_dropped_one_no_more(
    scene: Scene,
) -> None:
    closed = scene.home.path / "var" / "closed"
    closed.mkdir(parents=True)
    scene.write("modules/s.py", SOURCE.replace("CLOSED", f"__import__('pathlib').Path({str(closed)!r})"))
    step = '<step id="s" type="action" target="s.watch" foreach="box[@path]"/>'
    scene.write(
        "recipes/s.xml",
        f'<recipe group="s" name="r" start_step="s" end_step="s" restart="yes">{step}</recipe>',
    )
    with narval.open(scene.home.path) as agent:
        declare(scene, "<box name='a' path='1'/><box name='b' path='2'/>")
        agent.ask("reload")
        run = agent.start("s.r")

        def seen(*paths: str) -> None:
            until_seen(agent, [*paths])

        seen("1", "2")
        declare(scene, "<box name='a' path='3'/><box name='b' path='2'/><box name='c' path='4'/>")
        agent.ask("reload")
        seen("1", "2", "3", "4")
        until_closed(agent, closed, "1")
        declare(scene, "<box name='a' path='3'/>")
        agent.ask("reload")
        until_closed(agent, closed, "1", "2", "4")
        declare(scene, "")
        agent.ask("reload")
        until_closed(agent, closed, "1", "2", "3", "4")
        agent.until_idle()
        assert agent.run(run)["state"] == "running", "it waits for another"
        (waits,) = agent.why(run)["waiting"]
        assert (waits["id"], waits["for"]) == ("s", "input")
        declare(scene, "<box name='a' path='5'/>")
        agent.ask("reload")
        seen("1", "2", "3", "4", "5")
        assert agent.memory("error") == []


def until_seen(agent: Agent, paths: list[str]) -> None:
    """Wait until the sources have given these."""
    worked_until(agent, lambda: sorted(seen.attributes["path"] for seen in agent.memory("seen")) == paths)


def until_closed(agent: Agent, folder: Path, *paths: str) -> None:
    """Wait until these sources have ended."""
    worked_until(agent, lambda: sorted(path.name for path in folder.iterdir()) == [*paths])


def worked_until(agent: Agent, fact: Callable[[], bool]) -> None:
    """Let the home work until something is true, or for a minute."""
    agent.runner.run(agent.daemon.main_loop.work_until(fact, deadline=time.monotonic() + 60))
    assert fact()


# --- the library ----------------------------------------------------------------------------------------


def test_N2_definitions_are_elements_and_a_new_version_outdates_the_old(scene: Scene) -> None:
    with started(scene) as agent:
        (before,) = agent.memory("recipe[@name='count']", current=True)
    scene.write("recipes/w.xml", RECIPES.replace('name="count"', 'name="count" decay="9"'))
    with started(scene) as agent:
        (after,) = agent.memory("recipe[@name='count']", current=True)
        assert after.eid != before.eid
        assert after.attributes["decay"] == "9"
        assert len(agent.memory("recipe[@name='count']")) == 2
        assert len(agent.memory("action", current=True)) == 2
    scene.write("recipes/w.xml", RECIPES)
    with started(scene) as agent:
        (again,) = agent.memory("recipe[@name='count']", current=True)
        assert again.xml == before.xml


def test_N13_versions_that_a_run_needs_are_kept_and_others_dropped(scene: Scene) -> None:
    for decay in range(5):
        scene.write("recipes/w.xml", RECIPES.replace('name="nothing"', f'name="nothing" decay="{decay}"'))
        with started(scene) as agent:
            if decay == 2:
                agent.start("w.nothing")
            kept = [row for row in agent.daemon.agent.store.definitions(None) if row.name == "w.nothing"]
    assert len(kept) <= 3  # the current one, the one before, and that of the run
    with started(scene) as agent:
        (run,) = agent.runs()
        assert agent.run(run["eid"])["state"] == "done"


def test_N4_N5_what_replaces_a_declared_element_is_declared_in_its_place(scene: Scene) -> None:
    declare(scene, "<counter value='0'/>")
    for value in (2, 4):
        with started(scene) as agent:
            for _ in range(2):
                agent.start("w.short")
                agent.until_idle()
                agent.elapse(seconds=60)
            (counter,) = agent.memory("counter")
            assert counter.attributes["value"] == str(value)
            assert agent.memory("plan") == []
    declare(scene, "")
    with started(scene) as agent:
        assert agent.daemon.agent.memory.declared.get(counter.eid) is None


def test_N7_a_declaration_that_its_schema_refuses_is_told_at_its_place(scene: Scene) -> None:
    scene.write(
        "etc/schemas/note.rng",
        '<element name="note" xmlns="http://relaxng.org/ns/structure/1.0"><empty/></element>',
    )
    declare(scene, "\n  <gift\n  n='1'/>\n  <note\n  by='ann'/>\n")
    found = [str(fault) for fault in check_home(scene.home) if fault.path == "data/memory.xml"]
    assert len(found) == 1
    assert found[0].startswith("data/memory.xml:4:3: refused by its schema: <note> is not valid")
