"""How much work is done, counted and not timed: what costs more than this is slower on every machine.

A bound is what it takes today, with room for a little more. Who needs more raises it, and says why.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest

import narval
from bench import agents, automata
from bench.conditions import Hits, arriving, flat, indexed, wanted
from bench.market import Market
from bench.measure import home
from bench.steps import MODULE, recipe
from bench.tasks import Desk, raised
from narval.agent import loop
from narval.agent.loop import WAVE, Loop
from narval.calls.context import call
from narval.core.elements.canonical import canonical
from narval.core.elements.changes import Added
from narval.core.elements.element import Element
from narval.core.engines.engine import Wait
from narval.core.engines.events import Event
from narval.core.index.index import Index
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import condition
from narval.daemon import main_loop, shares
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.store import codec
from narval.store.batch import Batch, Offer
from narval.store.reading import Tables
from narval.surfaces.python.agent import Agent
from tests.counting import CountedCalls

RUNS, STEPS = 20, 10

MOST_OF_A_MESSAGE = 1890
"""The calls of functions of a message in a market, of which the plans that send and take it are the most.

It takes 1,860 to 1,880, as the agents take turns.
"""


MOST_OF_A_PROGRAM = 670
"""The calls of functions of a program of an automaton that runs alone, to its end and what follows.

Those of the event loop do not count, for it waits once more where the end comes later. A program with
three variables takes 658. One beside others has a part of a round, and takes half of that.
"""

_LOOP = ("/asyncio/", "/selectors.py")


MOST_OF_A_LONE_STEP = 168
"""The calls of functions of a step of a lone run in a home on a disk, with its turn and its commit."""


MOST_OF_A_STATE_UP_TO_DATE = 57
"""The calls of functions of a state of an automaton that is up to date, as are those that it needs."""


MOST_OF_AN_EVENT = 524
"""The calls of functions of an event of a task, from its raise until its action is done."""


MOST_AT_A_DATE = 178
"""The calls of functions from the date of a plan to its end, with one step: it takes 177."""


@pytest.fixture(autouse=True)
def the_loop_has_no_turns_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slice of time the event loop has its turns; how many shall not depend on the machine. Nor how
    many turns a request takes.
    """
    monkeypatch.setattr(main_loop, "SLICE", inf)
    monkeypatch.setattr(loop, "DUE_SLICE", inf)
    monkeypatch.setattr(vars(Loop)["_room"], "__defaults__", (inf,))


class Work:
    """What was done while one looked: calls of functions, turns, commits, rows."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.commits = 0
        self.rows: Counter[str] = Counter()
        self.turns = -agent.daemon.host.loop.turns
        self._counting = CountedCalls()
        self._commit = agent.daemon.store.commit
        agent.daemon.store.commit = self._counted

    def _counted(self, batch: Batch) -> None:
        self.commits += 1
        for slot, rows in vars(batch).items():
            self.rows[slot] += len(rows)
        self._commit(batch)

    def __enter__(self) -> Work:
        self._counting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._counting.__exit__()
        self.calls = self._counting.number
        self.turns += self.agent.daemon.host.loop.turns


COMES = """
@action(outputs=[Output("x", "x")], runs="inline", label="mail")
def come():
    return "<x n='0'/>"
"""


def test_a_program_costs_so_many_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:  # each variable that a program is given costs nine calls
        if name not in ("HOME", "LANG", "PATH"):
            monkeypatch.delenv(name)
    names = ["start", *(f"s{each}" for each in range(1, RUNS))]
    states = [f'<state name="{name}" command="true"/>' for name in names]
    arcs = [f'<transition from="{one}" label="0" to="{two}"/>' for one, two in pairwise(names)]
    home(tmp_path, recipes=f"<automaton>{''.join(states + arcs)}</automaton>")
    with narval.open(tmp_path) as agent:
        agent.start("w.w")
        agent.until_idle()
        fewest = inf
        for _ in range(6):
            with CountedCalls(but=_LOOP) as counted:
                agent.start("w.w")
                agent.until_idle()
            fewest = min(fewest, counted.number / RUNS)
    assert fewest < MOST_OF_A_PROGRAM


def line_of_steps(
    folder: Path, runs: int, steps: int, what: str = "step", *, home: bool = False, first: str = ""
) -> Work:
    """Plans of so many steps each, to their end; the first step may be another."""
    line = recipe(steps, what).replace(f'"w.{what}"', f'"w.{first or what}"', 1)
    for name, text in (("modules/w.py", MODULE + COMES), ("recipes/w.xml", line)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with narval.open(folder if home else None) as agent:
        if not home:
            agent.load(folder / "modules/w.py")
            agent.load(folder / "recipes/w.xml")
        agent.start("w.line", "<x n='0'/>")
        agent.until_idle()
        with Work(agent) as work:
            agent.start_each("w.line", ["<x n='0'/>"] * runs)
            agent.until_idle()
        assert [each["state"] for each in agent.runs()] == ["done"] * (runs + 1)
    return work


@pytest.mark.parametrize(
    ("what", "home", "most"),
    [("step", False, 97), ("next", False, 227), ("step", True, 115), ("next", True, 257)],
)
def test_a_step_takes_so_many_calls_of_functions(tmp_path: Path, what: str, home: bool, most: int) -> None:
    work = line_of_steps(tmp_path, RUNS, STEPS, what, home=home)
    assert work.calls / (RUNS * STEPS) <= most


def test_a_step_of_a_lone_run_that_is_committed_takes_so_many_calls_of_functions(tmp_path: Path) -> None:
    assert line_of_steps(tmp_path, 1, 20 * STEPS, home=True).calls / (20 * STEPS) <= MOST_OF_A_LONE_STEP


def test_a_state_that_is_up_to_date_takes_so_many_calls_of_functions(tmp_path: Path) -> None:
    layers = 3
    home(tmp_path, recipes=automata.automaton(layers * automata.WIDTH))
    (tmp_path / "out").mkdir()
    for layer in range(layers):
        for place in range(automata.WIDTH):
            (tmp_path / automata.name(layer, place)).touch()
    with narval.open(tmp_path) as agent:
        agent.start("w.w")
        agent.until_idle()
        with CountedCalls() as counted:
            agent.start("w.w")
            agent.until_idle()
        assert {run["state"] for run in agent.runs()} == {"done"}
    assert counted.number / (layers * automata.WIDTH) <= MOST_OF_A_STATE_UP_TO_DATE


def test_an_event_of_a_task_takes_so_many_calls_of_functions_to_its_action(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.busy()
    desk.tell(raised("tick", 1))
    with CountedCalls() as counted:
        desk.tell(raised("tick", 5 * RUNS))
    desk.agent.close()
    assert counted.number / (5 * RUNS) <= MOST_OF_AN_EVENT


def test_a_step_that_is_given_an_element_with_labels_takes_so_many_calls_of_functions(tmp_path: Path) -> None:
    work = line_of_steps(tmp_path, RUNS, STEPS, "next", first="come")
    memory = work.agent.daemon.agent.memory
    made = [element.eid for element in work.agent.memory(f"x[@n='{STEPS - 1}']")]
    assert memory.labels.names(memory.labels.of(made)) == ("mail",)
    assert work.calls / (RUNS * STEPS) <= 270


@pytest.mark.parametrize("what", ["step", "next"])
def test_a_step_of_a_long_run_takes_no_more_calls_than_one_of_a_short_run(tmp_path: Path, what: str) -> None:
    short = line_of_steps(tmp_path, 1, 20, what).calls
    middle = line_of_steps(tmp_path, 1, 120, what).calls
    long = line_of_steps(tmp_path, 1, 620, what).calls
    assert (long - middle) / 500 <= 1.05 * (middle - short) / 100


def test_a_step_is_one_row_and_a_turn_one_commit(tmp_path: Path) -> None:
    work = line_of_steps(tmp_path, RUNS, STEPS, home=True)
    assert work.rows["journal"] == RUNS * (STEPS + 1)
    assert work.rows["elements"] == RUNS
    assert work.rows["runs"] <= 3 * RUNS
    assert sum(work.rows[slot] for slot in ("held", "queued", "snapshots", "marks", "moments")) <= RUNS
    assert work.commits <= work.turns


def test_runs_that_go_on_together_share_their_turns(tmp_path: Path) -> None:
    assert line_of_steps(tmp_path / "many", RUNS, STEPS, home=True).turns <= STEPS + 4
    assert line_of_steps(tmp_path / "one", 1, STEPS, home=True).turns <= STEPS + 4


def test_where_nothing_is_recorded_no_step_waits_for_a_turn(tmp_path: Path) -> None:
    assert line_of_steps(tmp_path, RUNS, STEPS).turns <= 3
    assert line_of_steps(tmp_path, 1, 10 * STEPS).turns <= 3


def test_where_nothing_is_recorded_few_runs_go_on_side_by_side(tmp_path: Path) -> None:
    line, module = tmp_path / "w.xml", tmp_path / "w.py"
    line.write_text(recipe(3, "step"))
    module.write_text(MODULE)
    made: list[int] = []
    with narval.open() as agent:
        agent.load(module)
        agent.load(line)
        agent.stub("w.step", lambda: made.append(call().run))
        agent.start_each("w.line", ["<x n='0'/>"] * 3 * WAVE)
        agent.until_idle()
    assert len(made) == 9 * WAVE
    assert len(set(made[: 3 * WAVE])) == WAVE


def test_where_nothing_is_recorded_what_is_left_for_the_next_turn_is_not_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line := tmp_path / "w.xml").write_text(recipe(2, "nothing").replace("w.nothing", "basic.nothing"))
    encoded: list[Event | Offer] = []
    monkeypatch.setattr(codec, "encode_queued", encoded.append)
    with narval.open() as agent:
        agent.load(line)
        agent.daemon.host.loop.set_limit(RUNS // 2)
        agent.start_each("w.line", ["<x/>"] * RUNS)
        agent.until_idle()
        assert len(agent.runs(state="done")) == RUNS
    assert encoded == []


DATED = """<recipe group="w" name="dated" start_step="a" end_step="z">
  <step id="a" type="action" target="basic.nothing"/><step id="z" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="z"/><time hours="7"/></transition></recipe>"""


def calls_at_a_date(recipe: Path, plans: int) -> int:
    """How many calls of functions it takes until all plans that wait for one date are over."""
    clock = narval.SimulatedClock("2026-03-02T05:00:00Z")
    with narval.open(clock=clock) as agent:
        agent.load(recipe)
        agent.start_each("w.dated", ["<x/>"] * plans)
        agent.until_idle()
        clock.set("2026-03-02T07:00:00Z")
        with CountedCalls() as calls:
            agent.until_idle()
        assert len(agent.runs(state="done")) == plans
    return calls.number


def test_a_plan_whose_date_has_come_takes_so_many_calls_of_functions_to_its_end(tmp_path: Path) -> None:
    (recipe := tmp_path / "w.xml").write_text(DATED)
    few, many = (calls_at_a_date(recipe, plans) for plans in (RUNS, 5 * RUNS))
    assert (many - few) / (4 * RUNS) <= MOST_AT_A_DATE


TAKING = """
from narval import Input, Output, action

@action(inputs=[Input("last", "x", outdates=True)], outputs=[Output("next", "{name}")], runs="inline")
def take(last):
    return "<{name} n='%d'/>" % (int(last.attributes["n"]) + 1)
"""
TAKES = """<recipe group="w" name="takes" start_step="take" end_step="take">
  <step id="take" type="action" target="w.take"/></recipe>"""


def taking_turns(folder: Path, name: str, runs: int = RUNS) -> tuple[Work, list[str]]:
    """Plans that each replace the one `x` there is by an element of some name; their states in the end."""
    for path, text in (("modules/w.py", TAKING.format(name=name)), ("recipes/w.xml", TAKES)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    with narval.open(folder) as agent:
        agent.add("<x n='0'/>")
        with Work(agent) as work:
            agent.start_each("w.takes", ["<turn/>"] * runs)
            agent.until_idle()
        states = sorted(run["state"] for run in agent.runs())
    return work, states


def test_where_many_take_turns_at_one_element_each_is_told_when_it_is_its_turn(tmp_path: Path) -> None:
    work, states = taking_turns(tmp_path, "x")
    assert states == ["done"] * RUNS
    assert work.rows["journal"] <= 3 * RUNS  # begun, told, returned


def test_a_turn_at_one_element_costs_the_same_however_many_wait_for_theirs(tmp_path: Path) -> None:
    few, many = (taking_turns(tmp_path / str(runs), "x", runs)[0].calls / runs for runs in (RUNS, 5 * RUNS))
    assert many <= 1.1 * few


def test_who_waits_for_what_is_replaced_by_something_else_is_told_of_it(tmp_path: Path) -> None:
    _, states = taking_turns(tmp_path, "y")
    assert states == ["done"] + ["failed"] * (RUNS - 1)


LISTENS = """<recipe group="w" name="listens" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition use="yes"><match>order</match></condition>
  </transition></recipe>"""


def calls_where_so_many_listen(recipe: Path, plans: int) -> int:
    """How many calls of functions an element costs that one plan takes, though others wait for it too."""
    with narval.open() as agent:
        agent.load(recipe)
        agent.start_each("w.listens", ["<turn/>"] * plans)
        agent.add("<order/>")
        agent.until_idle()
        with CountedCalls() as calls:
            agent.add("<order/>")
            agent.until_idle()
        assert len(agent.runs(state="done")) == 2
    return calls.number


def test_an_element_that_one_of_many_plans_takes_costs_little_for_each_of_the_others(tmp_path: Path) -> None:
    (recipe := tmp_path / "w.xml").write_text(LISTENS)
    few, many = (calls_where_so_many_listen(recipe, plans) for plans in (RUNS, 5 * RUNS))
    assert (many - few) / (4 * RUNS) <= 5


async def calls_of_a_message(folder: Path, sellers: int) -> float:
    """How many calls of functions a message between agents costs, with the plans that send and take it."""
    market = await Market.opened(folder, sellers)
    await market.order()
    with CountedCalls() as calls:
        messages = await market.order()
    await market.daemon.close()
    return calls.number / messages


def test_a_message_with_its_plans_costs_so_many_calls_however_many_agents_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "SLICE", inf)  # as many rounds and turns on each machine
    few = asyncio.run(calls_of_a_message(tmp_path / "few", 5))
    many = asyncio.run(calls_of_a_message(tmp_path / "many", 40))
    assert many <= MOST_OF_A_MESSAGE
    assert many <= 1.05 * few


@pytest.mark.parametrize("waiting", [200, 2000])
def test_no_condition_that_can_be_indexed_is_tried(waiting: int) -> None:
    memory, index, hits = Memory(), Index[int](), Hits()
    for number, each in enumerate(wanted(waiting)):
        index.add(number, condition(indexed(each)).bind())
    for number, each in enumerate(arriving(300)):
        element = Element(number + 1, canonical(flat(*each)))
        memory.apply(Added(element))
        for satisfied in index.wakes(memory.tree(element)):
            index.discard(satisfied)
            hits.add(satisfied, number)
    assert hits.count > 0
    assert index.tried == 0


def calls_of_adding(waiting: int) -> float:
    """How many calls of functions an element costs that concerns nobody, with so many who wait."""
    memory, index = Memory(), Index[int]()
    for number, each in enumerate(wanted(waiting)):
        index.add(number, condition(indexed(each)).bind())
    with CountedCalls() as calls:
        for number in range(100):
            element = Element(number + 1, canonical(f"<email subject='none' size='1' sender='a{number}'/>"))
            memory.apply(Added(element))
            assert index.wakes(memory.tree(element)) == []
    return calls.number / 100


def test_an_element_costs_no_more_where_ten_times_as_many_wait() -> None:
    few, many = calls_of_adding(2_000), calls_of_adding(20_000)
    assert many <= 60
    assert many <= 1.2 * few


def looked_through(folder: Path, waiting: int) -> float:
    """The waits that are looked through for each window of a task, where so many are late at once."""
    desk = Desk(folder)
    desk.busy()
    desk.tell(raised("later", waiting))
    numbers = []
    with pytest.MonkeyPatch.context() as patch:
        engine = desk.agent.daemon.agent.runs.active[desk.server].engine
        waiting_for = engine.waiting_for

        def counted(*arguments: Any) -> list[Wait]:
            waits = list(waiting_for(*arguments))
            numbers.append(len(waits))
            return waits

        patch.setattr(engine, "waiting_for", counted, raising=True)
        desk.clock.set("2026-03-02T08:00:00Z")
        desk.agent.until_idle()
    desk.agent.close()
    return sum(numbers) / waiting


def test_counting_all_of_memory_looks_at_no_element() -> None:
    with narval.open() as agent:
        agent.add("<x/>")
        agent.ask("count")
        with CountedCalls() as few:
            agent.ask("count")
        agent.add_all(["<x/>"] * 10 * RUNS)
        with CountedCalls() as many:
            agent.ask("count")
        assert agent.ask("count") == {"count": len(agent.memory())}
    assert many.number <= few.number + RUNS


def test_an_agent_that_comes_back_reads_nothing_of_its_store_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, queries = Tables.read, list[str]()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/w.xml").write_text(agents.RECIPES.replace("w.nothing", "basic.nothing"))

    async def activated() -> None:
        daemon = await Daemon.open(Home(tmp_path))
        await agents.make(daemon, "ada", elements=5, runs=2)
        await agents.ask(daemon, "", "passivate", name="ada")
        monkeypatch.setattr(
            Tables, "read", lambda of, name, *given: queries.append(name) or read(of, name, *given)
        )
        await agents.ask(daemon, "ada", "count")
        await daemon.close()

    asyncio.run(activated())
    assert "meta" in queries
    assert len({*queries}) == len(queries)


def test_where_a_task_waits_for_many_windows_a_late_one_is_not_looked_for_among_all(tmp_path: Path) -> None:
    assert looked_through(tmp_path, 500) < 2
