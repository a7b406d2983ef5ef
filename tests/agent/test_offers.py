"""An element is offered to those who wait for it, one after another, and not to those whom it is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import narval
from narval.agent import turn
from narval.agent.turn import Turn
from narval.calls.context import call
from narval.core.engines.events import Matched

MODULE = """
from narval import action

@action(runs="inline")
def nothing():
    pass

@action(runs="inline")
def told():
    pass
"""


def listening(name: str, *conditions: str, match: str = "order") -> str:
    """A recipe whose plans wait for an order, and take it by conditions of these attributes."""
    asked = "".join(f"<condition {condition}><match>{match}</match></condition>" for condition in conditions)
    return f"""<recipe group="w" name="{name}" start_step="a" end_step="b">
      <step id="a" type="action" target="w.nothing"/><step id="b" type="action" target="w.told"/>
      <transition id="t"><in idref="a"/><out idref="b"/>{asked}</transition></recipe>"""


RECIPES = {
    "uses": listening("uses", 'use="yes"'),
    "also": listening("also", 'use="yes"'),
    "looks": listening("looks", 'use="no"'),
    "two": listening("two", 'use="yes"', 'use="yes"'),
    "both": listening("both", 'use="yes"', 'use="no"'),
}


def who_is_told(folder: Path, names: list[str], orders: int) -> list[int]:
    """The plans that go on, in order, where so many orders come at once and one by one."""
    (module := folder / "w.py").write_text(MODULE)
    in_order: list[int] = []
    with narval.open() as agent:
        agent.load(module)
        for text in RECIPES.values():
            agent.load(text)
        agent.stub("w.told", lambda: in_order.append(call().run))
        for name in names:
            agent.start(f"w.{name}")
            agent.until_idle()
        agent.add_all(["<order/>"] * orders)
        agent.until_idle()
        agent.add("<order/>")
        agent.until_idle()
    return in_order


def told_one_by_one(a_turn: Turn, eid: int) -> None:
    """Tell the next in line, and ask each."""
    waiters = a_turn.agent.queue.waiters
    while waiters:
        run, watch = waiters.popleft()
        if a_turn.tell(run, Matched(0, 0.0, watch, eid)):
            break


@pytest.mark.parametrize("seed", range(4))
def test_those_who_are_not_asked_would_have_been_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    names = random.Random(seed).choices(list(RECIPES), k=24)
    in_order = who_is_told(tmp_path, names, 2)
    monkeypatch.setattr(turn, "_tell_next", told_one_by_one)
    assert in_order == who_is_told(tmp_path, names, 2)
    assert 0 < len(in_order) < len(names)


def test_a_doubtful_element_is_offered_to_each_version_of_a_recipe(tmp_path: Path) -> None:
    (module := tmp_path / "w.py").write_text(MODULE)
    with narval.open() as agent:
        agent.load(module)
        for match in ("order", "order[@al:doubtful]"):
            agent.load(listening("uses", 'use="yes"', match=match))
            last = agent.start("w.uses")
            agent.until_idle()
        source = agent.add("<source/>")
        agent.daemon.agent.memory.doubtful.add(source)
        order = agent.add("<order/>", replace=source)
        agent.until_idle()
        assert order in agent.daemon.agent.memory.doubtful
        assert [run["eid"] for run in agent.runs(state="done")] == [last]
