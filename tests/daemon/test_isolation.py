"""Fifty agents, one of them poisoned in each way there is: the others end as they do without it (G19)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent.loop import Loop
from narval.agent.run import Run
from narval.agent.view import TurnView
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError, RequestError
from narval.daemon.agents import agent_host
from narval.daemon.daemon import Daemon
from narval.store.codec import describe_entry
from narval.store.store import Store
from narval.system import stopwatch
from tests.daemon.at_work import Scene

NAMES = tuple(f"a{number}" for number in range(50))
POISONED = "a7"

MODULE = """
import narval
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")], runs="inline")
def take(mail):
    return f"<ack of='{mail.attributes['n']}' by='{narval.call().agent}'/>"

@action(runs="inline")
def begin():
    pass

@action(outputs=[Output("note", "note")])
async def wait():
    await narval.sleep(20)
    return "<note/>"

@action(outputs=[Output("form", "form")], runs="inline")
def fill():
    return "<form>" + "<a/>" * 200 + "</form>"

@action(outputs=[Output("big", "big")], runs="inline")
def overflow():
    return "<big>" + "x" * 20_000_000 + "</big>"
"""
RECIPES = """<cookbook group="w">
<recipe name="takes" start_step="a" end_step="c">
  <step id="a" type="action" target="w.begin"/><step id="b" type="action" target="w.take"/>
  <step id="c" type="action" target="w.wait"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>mail</match></condition></transition>
  <transition id="u"><in idref="b"/><out idref="c"/></transition>
</recipe>
<recipe name="poisoned" start_step="a" end_step="b">
  <step id="a" type="action" target="w.begin"/><step id="b" type="action" target="w.begin"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>mail</match></condition></transition>
</recipe>
<recipe name="pattern" start_step="a" end_step="b">
  <step id="a" type="action" target="w.begin"/><step id="b" type="action" target="w.begin"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition><match>odd[//b[//b[//b[@x = @y]]]]</match></condition>
  </transition>
</recipe>
<recipe name="deep" start_step="s" end_step="s"><step id="s" type="recipe" target="w.deep"/></recipe>
<recipe name="fills" start_step="s" end_step="s"><step id="s" type="action" target="w.fill"/></recipe>
<recipe name="overflows" start_step="s" end_step="s"><step id="s" type="action" target="w.overflow"/></recipe>
</cookbook>"""
FORM = """<element name="form" xmlns="http://relaxng.org/ns/structure/1.0">
  <zeroOrMore><choice>
    <group><zeroOrMore><element name="a"><empty/></element></zeroOrMore></group>
    <oneOrMore><element name="a"><empty/></element></oneOrMore>
  </choice></zeroOrMore>
  <element name="b"><empty/></element>
</element>"""

Poison = Callable[[Daemon, pytest.MonkeyPatch], Awaitable[None]]


async def ask(daemon: Daemon, agent: str, operation: str, /, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


def number(daemon: Daemon) -> int:
    return daemon.agents.rows[POISONED].agent


def alter(daemon: Daemon, statement: str) -> None:
    """Alter rows of the poisoned agent, past the daemon."""
    assert daemon.home is not None
    with closing(sqlite3.connect(daemon.home.store)) as other, other:
        other.execute(statement.replace("AGENT", str(number(daemon))))


# --- the poisons ----------------------------------------------------------------------------------------


def running(name: str) -> Poison:
    """A definition that meets its bound."""

    async def poison(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
        await ask(daemon, POISONED, "start", name=name)

    return poison


async def a_pattern_meets_its_bound(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    run = (await ask(daemon, POISONED, "start", name="w.pattern"))["eid"]
    await ask(daemon, POISONED, "add", elements=[b"<odd>" + b"<b x='1' y='2'/>" * 4_000 + b"</odd>"])
    assert (await ask(daemon, POISONED, "show", run=run))["state"] == "running"


async def a_limit_is_met(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    assert daemon.home is not None
    settings = daemon.home.path / "agents" / POISONED / "agent.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("elements = 5\n")
    await ask(daemon, "", "reload")
    with pytest.raises(RequestError, match=r"over-limit|at most"):
        await ask(daemon, POISONED, "add", elements=[b"<mail n='0'/>"])


async def an_engine_raises(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    decision, poisoned = TurnView.decision, set[int]()

    def decided(view: TurnView, run: Run, event: Any) -> Any:
        if run.name == "w.poisoned" and run.eid not in poisoned:
            poisoned.add(run.eid)
            raise ValueError("poisoned")
        return decision(view, run, event)

    patch.setattr(TurnView, "decision", decided)
    await ask(daemon, POISONED, "start", name="w.poisoned")


async def a_turn_raises(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    note = Run.note

    def noted(run: Run, event: Any) -> None:
        if run.name == "w.poisoned" and type(event).__name__ == "Matched":
            raise RecursionError("poisoned")
        note(run, event)

    patch.setattr(Run, "note", noted)
    await ask(daemon, POISONED, "start", name="w.poisoned")


async def every_turn_raises(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    short_of_memory(daemon, patch, 100)


async def memory_is_short(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    short_of_memory(daemon, patch, 2)


def short_of_memory(daemon: Daemon, patch: pytest.MonkeyPatch, times: int) -> None:
    decide, left = Loop.decide, [None] * times

    def decided(loop: Loop, *given: Any) -> Any:
        if left and loop.agent.store.agent == number(daemon):
            left.pop()
            raise MemoryError
        return decide(loop, *given)

    patch.setattr(Loop, "decide", decided)


async def memory_is_short_at_activation(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    restore, left = agent_host.blank, [None]

    def restored(library: Any, store: Any, **settings: Any) -> Any:
        if left and store.agent == number(daemon):
            left.pop()
            raise MemoryError
        return restore(library, store, **settings)

    patch.setattr(agent_host, "blank", restored)
    await ask(daemon, "", "passivate", name=POISONED)


async def rows_are_refused(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    alter(
        daemon,
        "INSERT INTO elements (agent, eid, name, xml, added, declared, outdated) "
        "VALUES (AGENT, 1 + (SELECT max(eid) FROM runs WHERE agent = AGENT), 't', X'3c742f3e', 1.0, '', 0)",
    )


async def a_row_is_damaged(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    await ask(daemon, "", "passivate", name=POISONED)
    alter(daemon, "UPDATE elements SET xml = 5, text = NULL WHERE agent = AGENT")


async def a_journal_is_damaged(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    await ask(daemon, "", "passivate", name=POISONED)
    alter(daemon, "UPDATE journal SET data = X'c1' WHERE agent = AGENT")


POISONS: dict[str, tuple[Poison, str]] = {
    "an engine raises": (an_engine_raises, "active"),
    "an advance meets its bound": (running("w.deep"), "active"),
    "a pattern meets its bound": (a_pattern_meets_its_bound, "active"),
    "a schema meets its bound": (running("w.fills"), "active"),
    "outputs are over a limit": (a_limit_is_met, "active"),
    "an output is too large": (running("w.overflows"), "active"),
    "a turn raises": (a_turn_raises, "active"),
    "every turn raises": (every_turn_raises, "suspended"),
    "memory is short": (memory_is_short, "active"),
    "memory is short at activation": (memory_is_short_at_activation, "active"),
    "rows are refused": (rows_are_refused, "active"),
    "a row is damaged": (a_row_is_damaged, "passive"),
    "a journal is damaged": (a_journal_is_damaged, "active"),
}


# --- the story ------------------------------------------------------------------------------------------


async def mail(daemon: Daemon, n: int, names: Iterable[str]) -> None:
    """A mail for each agent, all asked for at once; who is poisoned need not get it."""

    async def add(name: str) -> None:
        with suppress(NarvalError):
            await ask(daemon, name, "add", elements=[f"<mail n='{n}' to='{name}'/>".encode()])

    over = asyncio.Event()
    work = asyncio.create_task(daemon.main_loop.work_until(over.is_set))
    await asyncio.sleep(0)
    await asyncio.gather(*map(add, names))
    over.set()
    daemon.main_loop.wake()
    await work


def portraits(store: Store) -> dict[str, Any]:
    """All that the store knows of each agent but the poisoned: memory, runs, journals."""
    found = {}
    for row in store.agents():
        own = store.of(row.agent)
        if row.name != POISONED:
            found[row.name] = (
                row.state,
                [(kept.element.eid, kept.element.xml, kept.element.added) for kept in own.elements()],
                own.runs(),
                [
                    (of.run, of.at, describe_entry(of.data))
                    for run in own.runs()
                    for of in own.journal(run.eid)
                ],
                sorted(own.marks()),
                own.queue(),
                own.moments(),
            )
    return found


async def story(
    folder: Path, poison: Poison | None, patch: pytest.MonkeyPatch, names: Sequence[str] = NAMES
) -> tuple[Any, str]:
    """The portraits at the end, and the state of the poisoned agent."""
    patch.setattr(stopwatch, "seconds", lambda: 1.0)  # no turn is cut short: lines have the same numbers
    scene = Scene(folder, settings="timezone = 'UTC'\nidle_after = 1000\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    scene.write("etc/schemas/form.rng", FORM)
    daemon = await scene.open()
    for name in names:
        await ask(daemon, "", "add_agent", name=name)
        await ask(daemon, name, "start", name="w.takes")
        await ask(daemon, name, "start", name="w.takes")
    if poison is not None:
        await poison(daemon, patch)
    for n in (1, 2):
        await mail(daemon, n, names)
        await daemon.main_loop.elapse(50.0)
    states = {row["name"]: row["state"] for row in await ask(daemon, "", "agents")}
    found = portraits(daemon.store)
    await scene.end()
    return found, states.get(POISONED, "")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        found, state = asyncio.run(story(tmp_path_factory.mktemp("sound"), None, patch))
    assert state == "active"
    for name, (_, elements, runs, *_) in found.items():
        of = [xml for _, xml, _ in elements]
        assert [sum(xml.startswith(each) for xml in of) for each in (b"<ack", b"<note")] == [
            2,
            2,
        ] or name == "narval"
        assert {run.phase for run in runs} <= {"done"}
    return found


@pytest.mark.parametrize("way", POISONS)
def test_G19_what_poisons_one_agent_is_not_felt_by_the_others(
    tmp_path: Path, undisturbed: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, expected = POISONS[way]
    found, state = asyncio.run(story(tmp_path, poison, monkeypatch))
    assert state == expected
    assert found.keys() == undisturbed.keys()
    for name, portrait in undisturbed.items():
        assert found[name] == portrait, name


def test_G97_an_agent_alone_ends_as_it_does_among_fifty(
    tmp_path: Path, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = asyncio.run(story(tmp_path, None, monkeypatch, ["a3"]))
    assert found["a3"] == undisturbed["a3"]
