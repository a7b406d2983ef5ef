"""What an agent may have at most, and what is told when it asks for more (G14, G16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.agent import effects
from narval.agent.agent import AgentState
from narval.agent.timers import StartRun
from narval.agent.transaction import Transaction
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.files.agents.settings import AgentSettings
from narval.files.check import check_home
from narval.store.memory import VolatileStore
from narval.surfaces.cli.render.reasons import why
from tests.daemon.at_work import Scene, in_a_loop
from tests.daemon.test_agents import ask, opened

MODULE = """
import narval
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack", list=True)], runs="inline")
def take(mail):
    return [f"<ack of='{n}'/>" for n in range(int(mail.attributes["n"]))]

@action(runs="inline")
def begin():
    pass

@action(outputs=[Output("late", "late")])
async def wait():
    await narval.sleep(200)
    return "<late/>"

@action(source=True, outputs=[Output("tick", "tick", list=True)])
async def tell():
    while True:
        yield "<tick/>"
"""
STEP = '<step id="{0}" type="{1}" target="{2}"/>'
LINE = """<recipe group="w" name="{0}" start_step="a" end_step="b">
  <step id="a" type="action" target="w.begin"/>{1}
  <transition id="t"><in idref="a"/><out idref="b"/>{2}</transition>
</recipe>"""
RECIPES = f"""<cookbook>
{LINE.format("takes", STEP.format("b", "action", "w.take"), "<condition><match>mail</match></condition>")}
{LINE.format("waits", STEP.format("b", "action", "w.begin"), "<condition><match>never</match></condition>")}
{LINE.format("calls", STEP.format("b", "action", "w.wait"), "")}
{LINE.format("later", STEP.format("b", "action", "w.begin"), '<time after="1d"/>')}
{LINE.format("within", STEP.format("b", "recipe", "w.waits"), "")}
{LINE.format("told", STEP.format("b", "action", "w.tell"), "")}
</cookbook>"""
AGAIN = """<recipe group="w" name="again" start_step="a" end_step="a" restart="yes">
  <step id="a" type="action" target="w.begin"/>
</recipe>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\ncall_timeout = '1h'\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


async def with_limits(scene: Scene, limits: str) -> Daemon:
    """A daemon with an agent ada who may have no more than that, and bob."""
    scene.write("agents/ada/agent.toml", limits)
    daemon = await opened(scene, "bob")
    if "ada" not in daemon.agents.rows:
        await daemon.agents.add("ada")
    assert daemon.files.faults == []
    return daemon


async def used(daemon: Daemon) -> dict[str, tuple[int | None, int | None]]:
    shown = await ask(daemon, "", "show_agent", name="ada")
    return {row["what"]: (row["used"], row["limit"]) for row in shown["limits"]}


async def error_of(daemon: Daemon, run: int) -> str:
    shown = await ask(daemon, "ada", "show", run=run)
    assert shown["state"] == "failed"
    return str(shown["error"]["type"])


@in_a_loop
async def test_G16_elements_beyond_the_limit_are_refused_and_count_again_when_activated(scene: Scene) -> None:
    daemon = await with_limits(scene, "elements = 200\nelement_bytes = 1000\n")
    first = (await used(daemon))["elements"][0] or 0
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"] * (198 - first))
    asked = r"over-limit: 198 of 200 elements are there, and 1 more .*, or set elements higher in agents/ada/"
    with pytest.raises(RequestError, match=asked):
        await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    assert (await used(daemon))["elements"] == (198, 200)
    size = (await used(daemon))["bytes"]
    await ask(daemon, "", "passivate", name="ada")
    assert (await used(daemon))["elements"] == (198, 200)
    assert (await used(daemon))["bytes"] == size
    await ask(daemon, "bob", "add", elements=[b"<mail n='1'/>"] * 300)
    with pytest.raises(RequestError, match=r"an element of at most 1,000 bytes, got one of 1,0\d\d; divide"):
        await ask(daemon, "ada", "add", elements=[b"<mail>%s</mail>" % (b"x" * 1000)])
    with pytest.raises(RequestError, match=r"over-limit: .* elements are there"):
        await ask(daemon, "ada", "start", name="w.takes", elements=[b"<mail n='1'/>"])
    await scene.end()


@in_a_loop
async def test_G16_a_step_whose_output_is_over_is_in_error_with_that(scene: Scene) -> None:
    daemon = await with_limits(scene, "elements = 100\n")
    run = (await ask(daemon, "ada", "start", name="w.takes"))["eid"]
    await ask(daemon, "ada", "add", elements=[b"<mail n='200'/>"])
    await daemon.main_loop.until_idle()
    assert await error_of(daemon, run) == "over-limit"
    assert await ask(daemon, "ada", "memory", xpath="ack") == []
    await scene.end()


@in_a_loop
async def test_G16_a_source_that_gives_more_than_memory_holds_is_given_up(scene: Scene) -> None:
    daemon = await with_limits(scene, "elements = 100\n")
    run = (await ask(daemon, "ada", "start", name="w.told"))["eid"]
    await daemon.main_loop.elapse(1.0)
    assert await error_of(daemon, run) == "over-limit"
    assert 0 < len(await ask(daemon, "ada", "memory", xpath="tick")) < 100
    assert daemon.calls.counts.running == 0
    await scene.end()


@in_a_loop
async def test_G16_bytes_count_as_elements_come_and_go(scene: Scene) -> None:
    daemon = await with_limits(scene, "bytes = 5000\n")
    with pytest.raises(RequestError, match=r"over-limit: [\d,]+ of 5,000 bytes of elements are there"):
        await ask(daemon, "ada", "add", elements=[b"<mail>%s</mail>" % (b"x" * 1000)] * 5)
    before = (await used(daemon))["bytes"][0] or 0
    eids = (await ask(daemon, "ada", "add", elements=[b"<mail>%s</mail>" % (b"x" * 1000)]))["eids"]
    assert (await used(daemon))["bytes"] == (before + 1013, 5000)
    async with daemon.of("ada") as seen:
        from narval.core.elements.changes import Forgotten

        await seen.host.submit(lambda turn: turn.transaction.change(Forgotten(tuple(eids), ())))
    assert (await used(daemon))["bytes"] == (before, 5000)
    await scene.end()


@in_a_loop
async def test_G16_a_run_too_many_is_refused_whoever_starts_it(scene: Scene) -> None:
    daemon = await with_limits(scene, "runs = 2\n")
    for _ in range(2):
        await ask(daemon, "ada", "start", name="w.waits")
    with pytest.raises(RequestError, match=r"over-limit: 2 of 2 active runs are there, and 1 more"):
        await ask(daemon, "ada", "start", name="w.waits")
    await ask(daemon, "ada", "add", elements=[b"<start-plan recipe='w.waits'/>"])
    await daemon.main_loop.until_idle()
    errors = await ask(daemon, "ada", "memory", xpath="error[@type='over-limit']")
    assert len(errors) == 1
    assert (await used(daemon))["runs"] == (2, 2)
    [run, _] = await ask(daemon, "ada", "runs")
    await ask(daemon, "ada", "cancel", run=run["eid"])
    nesting = (await ask(daemon, "ada", "start", name="w.within"))["eid"]
    await daemon.main_loop.until_idle()
    assert await error_of(daemon, nesting) == "over-limit"
    await scene.end()


@in_a_loop
async def test_G16_a_run_that_would_wait_for_a_moment_too_many_fails(scene: Scene) -> None:
    daemon = await with_limits(scene, "moments = 1\n")
    first, second = [(await ask(daemon, "ada", "start", name="w.later"))["eid"] for _ in range(2)]
    await daemon.main_loop.until_idle()
    assert (await used(daemon))["moments"] == (1, 1)
    assert (await ask(daemon, "ada", "show", run=first))["state"] == "running"
    assert await error_of(daemon, second) == "over-limit"
    await scene.end()


@in_a_loop
async def test_G14_why_says_for_what_a_call_waits_and_a_changed_limit_counts_at_once(scene: Scene) -> None:
    daemon = await with_limits(scene, "calls = 1\n")
    first, second = [(await ask(daemon, "ada", "start", name="w.calls"))["eid"] for _ in range(2)]
    other = (await ask(daemon, "bob", "start", name="w.calls"))["eid"]
    await daemon.main_loop.elapse(1.0)

    async def places(agent: str, run: int) -> list[str | None]:
        answer = await ask(daemon, agent, "why", run=run)
        return [call.get("place") for wait in answer["waiting"] for call in wait["calls"]]

    assert await places("ada", first) == await places("bob", other) == [None]
    assert (await used(daemon))["calls"] == (1, 1)
    assert await places("ada", second) == ["1 of 1 calls of ada are under way"]
    said = "\n".join(why(await ask(daemon, "ada", "why", run=second)))
    assert "it waits: 1 of 1 calls of ada are under way" in said
    await daemon.main_loop.elapse(205.0)
    assert [(await ask(daemon, "ada", "show", run=run))["state"] for run in (first, second)] == [
        "done",
        "running",
    ]
    await daemon.main_loop.elapse(205.0)
    assert (await ask(daemon, "ada", "show", run=second))["state"] == "done"
    await scene.end()


@in_a_loop
async def test_G16_elements_of_a_signal_are_refused_where_there_is_no_room(scene: Scene) -> None:
    daemon = await with_limits(scene, "elements = 200\n")
    run = (await ask(daemon, "ada", "start", name="w.waits"))["eid"]
    with pytest.raises(RequestError, match=r"over-limit: .* 200 more would be too many"):
        await ask(daemon, "ada", "signal", run=run, name="hello", elements=[b"<mail n='1'/>"] * 200)
    await scene.end()


@in_a_loop
async def test_G16_a_start_plan_whose_first_elements_are_over_begins_nothing(
    scene: Scene,
) -> None:
    daemon = await with_limits(scene, "elements = 200\n")
    there = (await used(daemon))["elements"][0] or 0
    first = b"<mail n='1'/>" * (200 - there)
    await ask(daemon, "ada", "add", elements=[b"<start-plan recipe='w.waits'>%s</start-plan>" % first])
    await daemon.main_loop.until_idle()
    assert await ask(daemon, "ada", "runs") == []
    assert await ask(daemon, "ada", "memory", xpath="mail") == []
    assert len(await ask(daemon, "ada", "memory", xpath="error[@type='over-limit']")) == 1
    await scene.end()


@in_a_loop
async def test_G16_a_run_that_begins_again_waits_until_there_is_room(scene: Scene) -> None:
    scene.write("recipes/again.xml", AGAIN)
    daemon = await with_limits(scene, "runs = 1\n")

    async def begun() -> int:
        return sum(run["name"] == "w.again" for run in await ask(daemon, "ada", "runs"))

    await ask(daemon, "ada", "start", name="w.again")
    await daemon.main_loop.until_idle()
    other = (await ask(daemon, "ada", "start", name="w.waits"))["eid"]
    await daemon.main_loop.elapse(3600.0)
    first = await ask(daemon, "ada", "runs")
    assert await begun() == 1
    again = next(run["eid"] for run in first if run["name"] == "w.again")
    said = "\n".join(why(await ask(daemon, "ada", "why", run=again)))
    assert "w.again starts again as soon as it is allowed to: over-limit: 1 of 1 active" in said
    with pytest.raises(RequestError, match="ada still has work"):
        await ask(daemon, "", "passivate", name="ada")
    await ask(daemon, "ada", "cancel", run=other)
    await daemon.main_loop.until_idle()
    assert await begun() > 1
    await scene.end()


def test_G16_runs_that_wait_for_room_are_not_looked_at_while_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(effects, "keeps_from_beginning", lambda agent, job, *_: asked.append(job.name) or "")
    agent = AgentState()
    agent.use_settings(AgentSettings(runs=2))
    for number in range(5):
        agent.clockwork.plan(None, str(number), StartRun(f"w.{number}"))
    effects.start_what_may(Transaction(agent))
    assert asked == ["w.0", "w.1"]


def test_G16_the_name_of_an_agent_is_read_once_for_what_is_told_of_its_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = AgentState(store=VolatileStore().of(2))
    agent.use_settings(AgentSettings(runs=0))
    identities = [agent.store.identity()._replace(name="ada")]
    monkeypatch.setattr(agent.store, "identity", identities.pop)
    for _ in range(2):
        assert effects.keeps_from_beginning(agent, StartRun("w.again")).endswith("agents/ada/agent.toml")
    assert agent.option == " --agent ada"


def declared(count: int) -> str:
    return f"<memory>{'<guest/>' * count}</memory>"


@in_a_loop
async def test_G16_what_memory_xml_declares_is_not_taken_over_where_there_is_no_room(scene: Scene) -> None:
    scene.write("agents/ada/data/memory.xml", declared(2))
    daemon = await with_limits(scene, "elements = 200\n")
    assert len(await ask(daemon, "ada", "memory", xpath="guest")) == 2
    scene.write("agents/ada/data/memory.xml", declared(199))
    assert await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    [fault] = map(str, daemon.files.faults)
    assert fault.startswith(
        "agents/ada/data/memory.xml:1:1: over-limit: expected at most 198 elements, found 199; declare less"
    )
    assert [str(found) for found in check_home(scene.home)] == [fault]
    assert len(await ask(daemon, "ada", "memory", xpath="guest")) == 2
    scene.write("agents/ada/data/memory.xml", declared(190))  # with what is there already, too many
    assert await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    assert daemon.files.faults == []
    assert len(await ask(daemon, "ada", "memory", xpath="guest")) == 2
    told = "error[@type='over-limit' and @path='data/memory.xml']"
    assert len(await ask(daemon, "ada", "memory", xpath=told)) == 1
    scene.write("agents/ada/data/memory.xml", declared(3))
    assert await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    assert len(await ask(daemon, "ada", "memory", xpath="guest")) == 3
    await scene.end()


@in_a_loop
async def test_G16_more_definitions_than_an_agent_may_follow_are_a_fault(scene: Scene) -> None:
    daemon = await with_limits(scene, "")
    scene.write("agents/ada/agent.toml", "definitions = 2\n")
    scene.write("etc/narval.toml", "timezone = 'UTC'\n[agent]\ndefinitions = 3\n")
    assert await daemon.reloader.reload()
    faults = list(map(str, daemon.files.faults))
    for path, most, setting in (
        ("agents/ada/agent.toml", 2, "definitions"),
        ("etc/narval.toml", 3, "definitions below [agent]"),
    ):
        said = f"{path}:1:1: over-limit: expected at most {most} definitions, found "
        then = f", which are loaded all the same; follow fewer collections, or set {setting} higher"
        assert any(fault.startswith(said) and fault.endswith(then) for fault in faults), faults
    assert list(map(str, check_home(scene.home))) == faults
    await scene.end()


@in_a_loop
async def test_G16_an_error_like_the_one_before_within_a_minute_is_not_added_again(scene: Scene) -> None:
    daemon = await with_limits(scene, "")
    plan = b"<start-plan recipe='w.gone'/>"

    async def errors() -> int:
        await daemon.main_loop.until_idle()
        return len(await ask(daemon, "ada", "memory", xpath="error[@type='unknown-target']"))

    await ask(daemon, "ada", "add", elements=[plan] * 3)
    assert await errors() == 1
    await ask(daemon, "ada", "add", elements=[b"<start-plan recipe='w.other'/>", plan])
    assert await errors() == 3
    await daemon.main_loop.elapse(61.0)
    await ask(daemon, "ada", "add", elements=[plan])
    assert await errors() == 4
    log = (scene.home.path / "var/narval.log").read_text()
    assert log.count("start-plan names w.gone") == 5
    assert log.count("not added again") == 2
    await scene.end()
