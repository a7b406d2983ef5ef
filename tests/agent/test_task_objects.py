"""An element puts an object to a task (K21): the object enters memory, and the run that is its way begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.kinds import KINDS
from tests.house.countdown import WITH_DESKS

OBJECT = (
    '<al:task-object xmlns:al="http://www.logilab.org/namespaces/Narval/1.2" type="{}">{}</al:task-object>'
)


@pytest.fixture(autouse=True)
def cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "countdown", WITH_DESKS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for part in ("etc", "recipes", "modules", "data"):
        (tmp_path / "home" / part).mkdir(parents=True)
    (tmp_path / "home/recipes/c.countdown").write_text("one from 5 call nothing\n")
    return tmp_path / "home"


@pytest.fixture
def agent(home: Path) -> Iterator[Any]:
    with narval.open(home) as opened:
        yield opened


def error(agent: Any) -> dict[str, str]:
    [found] = agent.memory("error")
    return {"type": found.attributes["type"], "message": found.tree().findtext("message", "")}


def test_K21_the_object_enters_memory_and_a_run_begins_with_it(agent: Any) -> None:
    agent.add(OBJECT.format("c.one", "<loan sum='3'/>"))
    agent.until_idle()
    [loan] = agent.memory("loan[@sum='3']")
    [run] = agent.runs()
    assert (run["name"], run["kind"]) == ("c.one", "countdown-run")
    assert agent.history(run["eid"])[0]["elements"] == [loan.eid]
    assert loan.xml == b'<loan sum="3"/>'


def test_K21_an_object_for_a_task_that_is_not_loaded_waits_for_it(home: Path, agent: Any) -> None:
    agent.add(OBJECT.format("c.two", "<loan/>"))
    agent.until_idle()
    assert "task-object names c.two" in error(agent)["message"]
    (home / "recipes/c.countdown").write_text("two from 5 call nothing\n")
    agent.ask("reload")
    agent.until_idle()
    assert [run["name"] for run in agent.runs()] == ["c.two"]
    agent.ask("reload")
    assert len(agent.runs()) == 1


@pytest.mark.parametrize("inside", ["", "<loan/><loan/>", "<plan/>"])
def test_K21_anything_but_one_object_is_an_error(agent: Any, inside: str) -> None:
    agent.add(OBJECT.format("c.one", inside))
    agent.until_idle()
    assert error(agent)["type"] in ("invalid", "reserved")
    assert agent.runs() == []


def test_K21_an_element_of_memory_xml_puts_its_object_once(home: Path) -> None:
    (home / "data/memory.xml").write_text(f"<memory>{OBJECT.format('c.one', '<loan/>')}</memory>")
    for _ in range(2):
        with narval.open(home) as agent:
            agent.until_idle()
            assert len(agent.runs()) == 1
