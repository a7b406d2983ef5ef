"""A run as it came about (M34), what a retry would do (M37), and runs by version, moment and error (M27)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.errors import RequestError
from tests.surfaces.cli.command_line import data, well
from tests.surfaces.cli.command_line import narval as command

MODULE = """
from narval import action, Input

@action(runs="inline")
def fails(): raise ValueError("no ground below")

@action(runs="inline", inputs=[Input("order", "order")])
def takes(order): pass
"""
RECIPE = """<recipe group="r" name="walk" start_step="one" end_step="three">
<step id="one" type="action" target="m.takes"/>
<step id="two" type="action" target="m.fails"/>
<step id="three" type="action" target="basic.nothing"/>
<transition id="a"><in idref="one"/><out idref="two"/></transition>
<transition id="b"><in idref="two"/><out idref="three"/></transition></recipe>"""
MENDED = RECIPE.replace("m.fails", "basic.nothing")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "m.py").write_text(MODULE)
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as opened:
        opened.load(tmp_path / "m.py")
        opened.load(RECIPE)
        yield opened


def failed(agent: Any) -> int:
    agent.add("<order/>")
    run = int(agent.start("r.walk"))
    agent.until_idle()
    assert agent.run(run)["phase"] == "failed"
    return run


def moved(stands: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The parts as they stand after these entries."""
    now = {part[0]: part[1:] for part in stands["parts"]}
    for row in rows:
        now.update({part[0]: part[1:] for part in row["parts"]})
    return now


def test_M34_replay_gives_what_each_entry_changed_and_so_each_moment(agent: Any) -> None:
    run = failed(agent)
    told = agent.ask("replay", run=run)
    assert (told["whole"], told["more"], told["fault"]) == (True, False, None)
    assert {part[2] for part in told["parts"]} == {"idle"}
    for count, entry in enumerate(told["entries"], 1):
        drawn = agent.ask("drawn", run=run, at=entry["seq"])
        then = {part["id"]: [part["state"], part["tone"], part["badge"]] for part in drawn["parts"]}
        assert moved(told, told["entries"][:count]) == then, entry
    assert [entry["what"] for entry in told["entries"]][:2] == ["started", told["entries"][1]["what"]]
    assert told["entries"][-1]["mark"] == "error"
    assert "no ground below" in told["entries"][-1]["what"]
    assert told["entries"][-1]["what"].endswith("; the run is failed")
    assert told["first"] == agent.history(run)[0]["seq"]


def test_M34_a_page_begins_where_the_one_before_it_ended(agent: Any) -> None:
    run = failed(agent)
    whole = agent.ask("replay", run=run)["entries"]
    first = agent.ask("replay", run=run, limit=1)
    assert (first["more"], first["entries"]) == (True, whole[:1])
    rest = agent.ask("replay", run=run, after=whole[0]["seq"])
    assert rest["entries"] == whole[1:]
    assert moved(rest, []) == moved(first, first["entries"])
    after = agent.ask("replay", run=run, after=whole[-1]["seq"])
    assert after["entries"] == []
    with pytest.raises(RequestError, match="expected limit to be 1 or more"):
        agent.ask("replay", run=run, limit=0)


def test_M37_a_plan_of_a_retry_says_what_it_would_do_and_does_nothing(agent: Any) -> None:
    run = failed(agent)
    plan = agent.ask("retry_plan", run=run)
    assert (plan["from"], plan["again"]) == ("two", ["two"])
    assert [part["id"] for part in plan["kept"]] == ["one", "a"]
    assert (plan["differences"], plan["definition"]) == ([], plan["before"])
    whole = agent.ask("retry_plan", run=run, step="one")
    assert (whole["kept"], whole["again"]) == ([], ["one", "two", "a"])
    assert whole["reused"][0]["input"] == "order"
    agent.load(MENDED)
    mended = agent.ask("retry_plan", run=run)
    assert mended["definition"] != mended["before"] == agent.run(run)["definition"]
    assert any(line.startswith("-") and "m.fails" in line for line in mended["differences"])
    assert len(agent.runs(name="r.walk")) == 1
    again = agent.retry(run)
    agent.until_idle()
    assert agent.run(again)["definition"] == mended["definition"]
    with pytest.raises(RequestError, match="has no step 'nine'"):
        agent.ask("retry_plan", run=run, step="nine")


def test_M27_runs_are_found_by_version_moment_and_error(agent: Any) -> None:
    run = failed(agent)
    agent.load(MENDED)
    agent.elapse(days=1)
    agent.add("<order/>")
    good = agent.start("r.walk")
    agent.until_idle()

    def found(**query: Any) -> list[int]:
        return [row["eid"] for row in agent.ask("runs", name="r.walk", **query)]

    assert found(definition=agent.run(run)["definition"][:12]) == [run]
    assert found(since="2026-03-02T00:00:00Z") == [good]
    assert found(error="ValueError") == [run]
    assert found(error="KeyError") == found(text="sky") == []
    assert found(text="NO GROUND", limit=5) == [run]
    with pytest.raises(RequestError, match="expected a moment"):
        found(since="soon")


def test_M27_M34_M37_the_command_line_has_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder in ("recipes", "modules"):
        (home / folder).mkdir(parents=True)
    (home / "modules" / "m.py").write_text(MODULE)
    (home / "recipes" / "r.xml").write_text(RECIPE)
    (tmp_path / "order.xml").write_text("<order/>")
    well(home, "add", tmp_path / "order.xml")
    run = data(home, "start", "r.walk")["eid"]
    command(home, "run", "--until-idle")
    assert "→ one" in well(home, "history", run, "--replay")
    assert data(home, "history", run, "--replay", "--limit", "1")["more"]
    assert "kept" in well(home, "retry", run, "--dry")
    assert data(home, "retry", run, "--dry")["from"] == "two"
    assert [row["eid"] for row in data(home, "runs", "--error", "ValueError", "--text", "ground")] == [run]
    assert data(home, "runs", "--since", "2999-01-01") == []
