"""What one request may bring: the loop does nothing else while a turn takes it in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.core.elements.canonical import MAX_STARTED, MAX_TOGETHER, MAX_WITHIN
from narval.core.errors import ElementError
from narval.daemon.dropped.drop_folder import Claim, read
from narval.surfaces.python.agent import Agent

RECIPE = """<recipe group="g" name="one" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.nothing"/>
</recipe>"""
PLAN = '<start-plan recipe="g.one"/>'
TOO_MANY = {
    "elements": (f"<memory>{'<note/>' * (MAX_TOGETHER + 1)}</memory>", "20,000 elements at once, got 20,001"),
    "plans": (
        f"<memory>{PLAN * (MAX_STARTED + 1)}</memory>",
        "2,000 runs to begin at once, got 2,001",
    ),
    "children": (f"<list>{'<a/>' * (MAX_WITHIN + 1)}</list>", "250,000 elements within one, got 250,001"),
}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "one.xml").write_text(RECIPE)
    with narval.open(tmp_path) as agent:
        yield agent


@pytest.mark.parametrize("what", TOO_MANY)
def test_more_than_a_turn_takes_is_refused_as_a_whole_and_the_bound_told(agent: Agent, what: str) -> None:
    document, message = TOO_MANY[what]
    for method, about in (("add", {}), ("start", {"name": "g.one"})):
        with pytest.raises(ElementError, match=message) as refused:
            agent.ask(method, elements=[document.encode()], **about)
        assert refused.value.kind == "too-large"
    assert agent.memory("note") == agent.memory("list") == agent.memory("start-plan") == []
    assert agent.runs() == []


def test_so_many_runs_are_begun_of_the_elements_of_one_request(agent: Agent) -> None:
    notes = [b"<memory>" + b"<note/>" * (MAX_STARTED + 1) + b"</memory>"]
    with pytest.raises(ElementError, match="2,000 runs to begin at once, got 2,001"):
        agent.ask("start", name="g.one", elements=notes, each=True)
    assert agent.runs() == []


def test_as_much_as_a_turn_takes_is_taken(agent: Agent) -> None:
    agent.add_all([f"<memory>{PLAN * 100}{'<note/>' * 1_000}</memory>"])
    agent.add(f"<list>{'<a/>' * MAX_WITHIN}</list>")
    assert len(agent.memory("note")) == 1_000


def test_a_file_of_an_inbox_is_bound_as_a_request_is(tmp_path: Path) -> None:
    file = tmp_path / "many.xml"
    for document, message in TOO_MANY.values():
        file.write_text(document)
        with pytest.raises(ElementError, match=message):
            read(Claim(1, "many.xml", file))
