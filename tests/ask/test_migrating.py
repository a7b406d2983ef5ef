"""Runs under way go on with another version of their definition (issue 42)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import narval
from narval.agent import history
from narval.ask.asker import Asker
from narval.core.errors import RequestError, UnreadableError
from narval.kinds.recipe.engine import engine
from narval.surfaces.cli.render import reasons
from narval.surfaces.python.agent import Agent

MODULE = """import asyncio
from narval import Output, action

@action(runs="inline", pure=True)
def nothing(): pass

@action()
async def slow():
    await asyncio.sleep(0.2)

@action(outputs=[Output("note", "note")], runs="inline")
def note():
    return "<note/>"
"""
HEAD = '<cookbook group="r"><recipe name="ask" start_step="a" end_step="z">'
STEPS = '<step id="a" type="action" target="m.note"/><step id="z" type="action" target="m.nothing"/>'
WAITS = (
    '<transition id="yes"><in idref="a"/><out idref="z"/>'
    "<condition><match>{}</match></condition></transition>"
)
TAIL = "</recipe></cookbook>"
FIRST = HEAD + STEPS + WAITS.format("agreed") + TAIL
OTHER = HEAD + STEPS + WAITS.format("signed") + TAIL
RENAMED = OTHER.replace('id="a"', 'id="begin"').replace('"a"', '"begin"')
SPLIT = f"""{HEAD}
  <step id="a" type="action" target="m.note"/>
  <step id="b" type="action" target="m.nothing"/><step id="z" type="action" target="m.nothing"/>
  <transition id="on"><in idref="a"/><out idref="b"/></transition>
  <transition id="yes"><in idref="b"/><out idref="z"/>
    <condition><match>agreed</match></condition></transition>
{TAIL}"""


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path
        for folder, name, text in (("modules", "m.py", MODULE), ("recipes", "r.xml", FIRST)):
            (path / folder).mkdir(exist_ok=True)
            (path / folder / name).write_text(text)

    def write(self, text: str) -> None:
        (self.path / "recipes" / "r.xml").write_text(text)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def agent(home: Home) -> Iterator[Agent]:
    with narval.open(home.path) as agent:
        yield agent


def started(agent: Agent) -> int:
    run = agent.start("r.ask")
    agent.until_idle()
    return run


def migrate(agent: Agent, *runs: int | str, **arguments: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = agent.ask("migrate", runs=[*map(str, runs)], **arguments)["runs"]
    agent.until_idle()
    return rows


def patterns(agent: Agent, run: int) -> list[str]:
    return [one["pattern"] for wait in agent.why(run)["waiting"] for one in wait["conditions"]]


def test_a_waiting_plan_goes_on_with_the_version_that_is_loaded(home: Home, agent: Agent) -> None:
    run = started(agent)
    home.write(OTHER)
    agent.ask("reload")
    assert patterns(agent, run) == ["agreed"]
    [row] = migrate(agent, run, dry=True)
    assert row["outcome"] == "would migrate"
    assert patterns(agent, run) == ["agreed"]
    [row] = migrate(agent, run)
    assert row["outcome"] == "migrated"
    assert {part["part"]: part["state"] for part in row["kept"]} == {"a": "done", "yes": "wait-step"}
    assert patterns(agent, run) == ["signed"]
    agent.add("<agreed/>")
    agent.until_idle()
    assert agent.run(run)["phase"] == "active"
    agent.add("<signed/>")
    agent.until_idle()
    assert agent.run(run)["phase"] == "done"
    assert len(agent.memory("note")) == 1, "nothing is done again"
    told = agent.ask("replay", run=run)["entries"]
    assert any("goes on with version" in entry["what"] for entry in told)


def test_what_was_migrated_is_so_after_a_restart_and_its_past_is_shown_by_its_past_text(home: Home) -> None:
    with narval.open(home.path) as agent:
        run = started(agent)
        home.write(RENAMED)
        agent.ask("reload")
        [row] = migrate(agent, run)
        assert row["outcome"] == "refused"
        assert [(at["part"], at["why"]) for at in row["refused"]] == [
            ("a", "step a is done, and the new version has no such step")
        ]
        assert row["refused"][0]["file"].endswith("r.xml")
        [row] = migrate(agent, run, names={"a": "begin"})
        assert row["outcome"] == "migrated"
    for _ in range(2):  # the text before is dropped from the store when it is opened
        with narval.open(home.path) as agent:
            assert patterns(agent, run) == ["signed"]
            assert [step["id"] for step in agent.run(run)["steps"]] == ["begin", "z"]
            first = agent.history(run)[0]["seq"]
            assert [step["id"] for step in agent.ask("show", run=run, at=first)["steps"]] == ["a", "z"]
    with narval.open(home.path) as agent:
        agent.add("<signed/>")
        agent.until_idle()
        assert agent.run(run)["phase"] == "done"


def test_runs_of_an_older_version_are_listed_until_they_migrate(home: Home, agent: Agent) -> None:
    run = started(agent)
    assert agent.runs(older=True) == []
    home.write(OTHER)
    agent.ask("reload")
    other = started(agent)
    assert [row["eid"] for row in agent.runs(older=True)] == [run]
    assert [row["eid"] for row in agent.runs(older=True, limit=5)] == [run]
    assert agent.runs(older=True, state="failed") == []
    assert {row["outcome"] for row in migrate(agent, "r.*", dry=True)} == {
        "would migrate", "same version"
    }  # fmt: skip
    outcomes = {row["run"]: row["outcome"] for row in migrate(agent, "r.*")}
    assert outcomes == {run: "migrated", other: "same version"}
    assert agent.runs(older=True) == []
    assert migrate(agent, run, undo=True)[0]["outcome"] == "migrated"
    assert [row["eid"] for row in agent.runs(older=True)] == [run]


def test_a_file_is_no_version_where_definitions_are_held_against_grants(home: Home) -> None:
    (home.path / "etc").mkdir()
    (home.path / "etc" / "narval.toml").write_text('grants = "ask"\n')
    module = MODULE.replace("action()", 'action(needs=Needs(hosts=["x.org:443"]))')
    module = module.replace('runs="inline"', 'runs="inline", needs=Needs()').replace(
        "Output", "Needs, Output", 1
    )
    (home.path / "modules" / "m.py").write_text(module)
    with narval.open(home.path) as agent:
        agent.ask("grant", name="r.ask")
        run = started(agent)
        with pytest.raises(RequestError, match=r"put the file into it, grant what it needs"):
            agent.ask("migrate", runs=[str(run)], text=OTHER, path="other.xml")
        home.write(OTHER.replace("m.note", "m.slow"))
        agent.ask("reload")
        [row] = migrate(agent, run)
        assert row["refused"][0]["why"].startswith("what r.ask needs in this version is not granted")
        agent.ask("grant", name="r.ask")
        assert migrate(agent, run)[0]["outcome"] == "migrated"


def test_a_run_that_migrated_twice_is_replayed_though_the_version_between_is_kept_nowhere_else(
    home: Home,
) -> None:
    texts = FIRST, OTHER, RENAMED
    with narval.open(home.path) as agent:
        run = started(agent)
        for text, names in zip(texts[1:], ({}, {"a": "begin"}), strict=True):
            home.write(text)
            agent.ask("reload")
            assert migrate(agent, run, names=names)[0]["outcome"] == "migrated"
    for _ in range(2):  # versions that no run follows are dropped when the store is opened
        with narval.open(home.path) as agent:
            told = agent.ask("replay", run=run)
            assert told["fault"] is None
            assert [len(entry["version"]) for entry in told["entries"] if "version" in entry] == [64, 64]


def test_a_migration_is_taken_back_until_the_run_went_on(home: Home) -> None:
    with narval.open(home.path) as agent:
        run = started(agent)
        home.write(RENAMED)
        agent.ask("reload")
        migrate(agent, run, names={"a": "begin"})
    with narval.open(home.path) as agent:
        [row] = migrate(agent, run, undo=True)
        assert row["outcome"] == "migrated"
        assert [step["id"] for step in agent.run(run)["steps"]] == ["a", "z"]
        assert patterns(agent, run) == ["agreed"]
        [row] = migrate(agent, run, undo=True)
        assert "taken back already" in row["refused"][0]["why"]
        agent.add("<agreed/>")
        agent.until_idle()
        assert agent.run(run)["phase"] == "done"


def test_a_migration_by_which_the_run_went_on_at_once_is_not_taken_back(home: Home, agent: Agent) -> None:
    """The step that began then would be left without anybody who takes its answer."""
    home.write(FIRST.replace("m.nothing", "m.slow"))
    agent.ask("reload")
    run = started(agent)
    agent.add("<signed/>")
    agent.until_idle()
    home.write(OTHER.replace("m.nothing", "m.slow"))
    agent.ask("reload")
    [row] = agent.ask("migrate", runs=[str(run)])["runs"]
    assert row["outcome"] == "migrated"
    [row] = agent.ask("migrate", runs=[str(run)], undo=True)["runs"]
    assert "has gone on since" in row["refused"][0]["why"]
    agent.until_idle()
    assert agent.run(run)["phase"] == "done"


def test_the_time_limit_of_a_run_that_is_called_stays_while_it_is_called(home: Home, agent: Agent) -> None:
    called = STEPS.replace('type="action" target="m.note"', 'type="recipe" target="r.rest" timeout="1h"')
    rest = f'<recipe name="rest" start_step="a" end_step="z">{STEPS}{WAITS.format("rested")}</recipe>'
    text = f"{HEAD}{called}{WAITS.format('agreed')}</recipe>{rest}</cookbook>"
    home.write(text)
    agent.ask("reload")
    run = started(agent)
    home.write(text.replace(' timeout="1h"', ""))
    agent.ask("reload")
    [row] = migrate(agent, run)
    assert [at["why"] for at in row["refused"]] == [
        "step a is under way, and its `timeout` has changed; wait until it ends"
    ]


def test_one_run_that_cannot_be_read_keeps_no_other_from_going_on(home: Home, agent: Agent) -> None:
    runs = [started(agent), started(agent)]
    home.write(OTHER)
    agent.ask("reload")
    migrate(agent, *runs)
    read, broken = history.codec.read_entry, iter((True,))

    def once(data: bytes) -> Any:
        if next(broken, False):
            raise UnreadableError("an entry of the journal cannot be read")
        return read(data)

    with mock.patch.object(history.codec, "read_entry", once):
        first, second = migrate(agent, *runs, undo=True)
    assert (first["outcome"], second["outcome"]) == ("refused", "migrated")
    with pytest.raises(RequestError, match="is active"):
        migrate(agent, "9" * 5_000)


def test_a_step_before_where_the_run_is_has_no_place(home: Home, agent: Agent) -> None:
    run = started(agent)
    home.write(SPLIT)
    agent.ask("reload")
    [row] = migrate(agent, run)
    assert row["outcome"] == "migrated", "the new step comes after what is done"
    assert row["new"] == ["b", "on"]
    assert agent.run(run)["steps"][1]["state"] == "done"


def test_a_file_outside_the_home_is_a_version_too(home: Home, agent: Agent, tmp_path: Path) -> None:
    run = started(agent)
    [row] = migrate(agent, run, text=OTHER, path="other.xml")
    assert row["outcome"] == "migrated"
    assert patterns(agent, run) == ["signed"]
    [row] = migrate(agent, "r.*", text=OTHER, path="other.xml")
    assert row["outcome"] == "same version"
    with pytest.raises(RequestError, match="no run of q"):
        migrate(agent, "q.*")
    [row] = migrate(agent, run, text=OTHER.replace('"ask"', '"asks"'), path="other.xml")
    assert "expected r.ask in other.xml, which has r.asks" in row["refused"][0]["why"]


AUTOMATON = """<AUTOMATON group="r" name="auto">
<state name="start" command="true"><wait signal="go"/></state>{}</AUTOMATON>"""
SHORT = AUTOMATON.format("")
LONG = """<AUTOMATON group="r" name="auto">
<state name="start" command="true"><wait signal="{}"/></state><state name="more" command="true"/>
<TRANSITION from="start" to="more" label="0"/></AUTOMATON>"""


def test_an_automaton_goes_on_from_the_state_that_it_waits_in(home: Home, agent: Agent) -> None:
    (home.path / "recipes" / "a.xml").write_text(SHORT)
    agent.ask("reload")
    run = agent.start("r.auto")
    agent.until_idle()
    (home.path / "recipes" / "a.xml").write_text(LONG.format("stop"))
    agent.ask("reload")
    [row] = migrate(agent, run)
    assert (
        "state start is held, and the signal that it waits for has changed; wait until it ends"
        in row["refused"][0]["why"]
    )
    (home.path / "recipes" / "a.xml").write_text(LONG.format("go"))
    agent.ask("reload")
    [row] = migrate(agent, run)
    assert (row["outcome"], row["new"]) == ("migrated", ["more"])
    agent.signal(run, "go")
    agent.until_idle()
    shown = agent.run(run)
    assert shown["phase"] == "done"
    assert [(state["id"], state["visits"]) for state in shown["states"]] == [("start", 1), ("more", 1)]


JOIN = """<AUTOMATON group="r" name="joins">
<state name="start" command="true"/><state name="a" command="true"/>
<state name="b" command="true"><wait signal="go"/></state>
<state name="c" command="true"><wait signal="go"/></state><state name="{0}" command="true"/>
<TRANSITION from="start" to="a" label="0"/><TRANSITION from="start" to="b" label="0"/>
<TRANSITION from="start" to="c" label="0"/><TRANSITION from="c" signal="anew" to="a"/>
<TRANSITION from="a" to="{0}" label="0"/><TRANSITION from="b" to="{0}" label="0"/></AUTOMATON>"""


def test_what_a_join_had_before_it_has_another_name_is_read_again_and_drawn(home: Home) -> None:
    file = home.path / "recipes" / "a.xml"
    file.write_text(JOIN.format("join"))
    with narval.open(home.path) as agent:
        run = agent.start("r.joins")
        agent.until_idle()
        agent.signal(run, "anew")  # what ended before does not count for the join any more
        agent.until_idle()
        file.write_text(JOIN.format("both"))
        agent.ask("reload")
        [row] = migrate(agent, run, names={"join": "both"})
        assert row["outcome"] == "migrated"
    with narval.open(home.path) as agent:
        agent.signal(run, "go")
        agent.until_idle()
        assert agent.run(run)["phase"] == "done"
        told = agent.ask("replay", run=run)
        assert {part[0] for part in told["parts"]} == {"start", "a", "b", "c", "join"}
        [moved] = [entry for entry in told["entries"] if "version" in entry]
        assert moved["version"] == row["version"]
        last = told["entries"][-1]["seq"]
        states = {part["id"] for part in agent.ask("drawn", run=run, at=last)["parts"]}
        assert states == {"start", "a", "b", "c", "both"}, "what came before the migration is applied to it"
        rest = agent.ask("replay", run=run, after=moved["seq"])
        assert {part[0] for part in rest["parts"]} == {"start", "a", "b", "c", "both"}


PROCESS = """<process-definition group="r" name="sale">
<node name="ask" type="wait" isStart="true">
  <condition><match>{}</match></condition><arc to="pack"/></node>
<node name="pack" type="wait"/></process-definition>"""


def test_a_process_goes_on_from_the_node_that_it_waits_at_and_goes_back(home: Home) -> None:
    file = home.path / "recipes" / "p.xml"
    file.write_text(PROCESS.format("agreed"))
    with narval.open(home.path) as agent:
        run = agent.start("r.sale")
        agent.until_idle()
        file.write_text(PROCESS.format("signed").replace('"ask"', '"sign"'))
        agent.ask("reload")
        [row] = migrate(agent, run)
        assert [(at["line"], at["why"]) for at in row["refused"]] == [
            (2, "a token is on node ask, and the new version has no such node")
        ]
        [row] = migrate(agent, run, names={"ask": "sign"})
        assert row["kept"] == [{"part": "ask", "name": "sign", "state": "active"}]
        assert patterns(agent, run) == ["signed"]
    with narval.open(home.path) as agent:
        assert patterns(agent, run) == ["signed"]
        first = agent.history(run)[0]["seq"]
        assert agent.ask("show", run=run, at=first)["nodes"][0]["id"] == "ask"
        [row] = migrate(agent, run, undo=True)
        assert row["outcome"] == "migrated"
        assert patterns(agent, run) == ["agreed"]
        agent.add("<agreed/>")
        agent.until_idle()
        assert [(node["id"], node["state"]) for node in agent.run(run)["nodes"]] == [
            ("ask", "complete"), ("pack", "active")
        ]  # fmt: skip
        [row] = migrate(agent, run, undo=True)
        assert "has gone on since" in row["refused"][0]["why"]


TASKS = """TASK TYPE desk
  INITIAL looking
  STATE looking EXPOSED
    ON EVENT done GOTO COMMIT
"""
FLOW = """PLAN Says {
  INPUT: String word
  OUTPUT: said
  BODY { sprintf("so %s", (word) : said) }
}
"""


def test_runs_of_other_kinds_stay_as_they_are_and_it_is_said_what_to_do(home: Home, agent: Agent) -> None:
    recipes = home.path / "recipes"
    (recipes / "w.xml").write_text('<work group="r" name="ok"><title>Well?</title></work>')
    (recipes / "t.task").write_text(TASKS)
    (recipes / "f.plan").write_text(FLOW)
    agent.ask("reload")
    item, flow = agent.start("r.ok"), agent.start("f.Says", environment={"word": "x"})
    [row] = agent.ask("migrate", runs=[str(flow)])["runs"]
    assert row["refused"][0]["why"] == (
        f"run {flow} of f.Says cannot be migrated: it is a dataflow, which keeps the version with which it "
        f"began; `narval renew {flow}` restarts it"
    )
    agent.until_idle()
    agent.ask("task_put", name="t.desk", elements=[b"<paper/>"])
    instance = agent.ask("task_init", name="t.desk")["task"]
    agent.until_idle()
    said = [row["refused"][0]["why"] for row in migrate(agent, item, instance.split(".")[0], "t.desk")]
    assert said[0].endswith(
        f"people answer the text that they were shown; `narval renew {item}` offers it again"
    )
    assert said[1].endswith(
        "it is an instance, which keeps the version with which it began; what begins of t.desk from now on "
        f"has the newest; for its object: narval task stop {instance.partition('.')[0]}"
    )
    assert any("t.desk follows the newest version by itself" in why for why in said)
    assert agent.ask("renew", run=item)["instead_of"] == item


def test_an_instance_whose_file_is_newer_keeps_its_version_and_no_command_that_is_refused_is_advised(
    home: Home, agent: Agent
) -> None:
    file = home.path / "recipes" / "t.task"
    file.write_text(TASKS)
    agent.ask("reload")
    agent.ask("task_put", name="t.desk", elements=[b"<paper/>"])
    instance = int(agent.ask("task_init", name="t.desk")["task"].partition(".")[0])
    file.write_text(TASKS.replace("done", "seen"))
    agent.ask("reload")
    said = "\n".join(reasons.why(agent.why(instance)))
    assert "the file is newer; it is an instance, which keeps the version with which it began" in said
    assert f"for its object: narval task stop {instance}" in said
    assert "narval renew" not in said
    assert "narval migrate" not in said
    with pytest.raises(RequestError, match="which keeps the version with which it began"):
        agent.renew(instance)


def test_a_run_that_fails_as_it_goes_on_is_not_told_to_be_migrated(home: Home, agent: Agent) -> None:
    run = started(agent)

    def breaks(*_: Any) -> None:
        raise ZeroDivisionError

    with mock.patch.object(engine, "advance", breaks):
        [row] = migrate(agent, run, text=OTHER, path="other.xml")
    assert row["outcome"] == "failed"
    assert f"`narval why {run}` says why" in row["refused"][0]["why"]
    assert agent.run(run)["phase"] == "failed"


def test_a_run_has_the_labels_of_who_migrates_it(home: Home, agent: Agent) -> None:
    run = started(agent)
    agent.asker = Asker("bot", labels=("bot",))
    [row] = migrate(agent, run, text=OTHER, path="other.xml")
    assert row["outcome"] == "migrated"
    labels = agent.daemon.agent.memory.labels
    assert "bot" in labels.names(labels.of((run,)))
