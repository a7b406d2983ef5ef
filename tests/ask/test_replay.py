"""A run as it came about (M34), what a retry would do (M37), and runs by version, moment and error (M27)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent import run as runs
from narval.ask.runs import story
from narval.ask.runs.drawing import graph_of
from narval.core.errors import RequestError
from narval.store.reading import Tables
from narval.store.statements import statements
from narval.store.tables import POSTGRESQL
from narval.system import long_work
from tests.surfaces.cli.command_line import data, make_home, well
from tests.surfaces.cli.command_line import narval as command

MODULE = """
from narval import action, Input

@action(runs="inline")
def fails(): raise ValueError("no ground below")

@action(runs="inline", inputs=[Input("order", "order")])
def takes(order): pass

@action(runs="inline", inputs=[Input("order", "order")])
def takes_in_vain(order): raise ValueError("no ground below")
"""
RECIPE = """<recipe group="r" name="walk" start_step="one" end_step="three">
<step id="one" type="action" target="m.takes"/>
<step id="two" type="action" target="m.fails"/>
<step id="three" type="action" target="basic.nothing"/>
<transition id="a"><in idref="one"/><out idref="two"/></transition>
<transition id="b"><in idref="two"/><out idref="three"/></transition></recipe>"""
MENDED = RECIPE.replace("m.fails", "basic.nothing")


TRIED = """<recipe group="r" name="tried" start_step="one" end_step="one">
<step id="one" type="action" target="m.takes_in_vain" retries="2"/></recipe>"""


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
    assert told["entries"][0]["what"].startswith("It began. one: It called m.takes with order ")
    assert told["entries"][-1]["mark"] == "error"
    assert "no ground below" in told["entries"][-1]["what"]
    assert "The run is failed in step two: ValueError: no ground below" in told["entries"][-1]["what"]
    assert told["first"] == agent.history(run)[0]["seq"]


def test_M34_moments_in_words_are_in_the_zone_of_the_home_and_those_of_a_title_stay(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "etc/narval.toml").write_text('timezone = "Pacific/Kiritimati"\n')  # 14 hours ahead of UTC
    title = "Was it at 2026-02-01T08:00:00+00:00"
    (home / "recipes/w.xml").write_text(
        f'<work group="w" name="ask"><title>{title}</title><deadline after="1h"/></work>'
    )
    with narval.open(home, clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        item = agent.start("w.ask")
        agent.until_idle()
        what = " ".join(entry["what"] for entry in agent.ask("replay", run=item)["entries"])
    assert f"It is offered: {title}" in what
    assert "; its deadline is 2026-03-01 22:00:00." in what


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


def test_M37_what_may_be_used_again_is_named_once_however_often_it_was_tried(agent: Any) -> None:
    agent.load(TRIED)
    order = agent.add("<order/>")
    run = agent.start("r.tried")
    agent.elapse(hours=1)
    assert len([row for row in agent.ask("timeline", run=run)["rows"] if row["call"]]) == 3
    used = {"part": "one", "input": "order", "elements": [order]}
    assert agent.ask("retry_plan", run=run)["reused"] == [used]


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


# --- what it costs ----------------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, int]]:
    """An agent on a disk that saves the state of a run each fifty entries, and a run that was told much."""
    monkeypatch.setattr(runs, "SNAPSHOT_AFTER", 50)
    home = make_home(tmp_path / "home")
    with narval.open(home) as agent:
        run = agent.start("demo.await")
        for number in range(220):
            agent.signal(run, f"s{number}")
        yield agent, run


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that the database has given, one for each time it was asked for some."""
    counts: list[int] = []
    stream = Tables.stream

    def counted(self: Tables, name: str, *given: Any) -> Iterator[list[Any]]:
        for rows in stream(self, name, *given):
            counts.append(len(rows))
            yield rows

    monkeypatch.setattr(Tables, "stream", counted)
    return counts


def test_M34_a_late_page_begins_at_the_state_that_is_kept(told: tuple[Any, int], read: list[int]) -> None:
    agent, run = told
    whole = agent.ask("replay", run=run)
    read.clear()
    late = agent.ask("replay", run=run, after=whole["entries"][-10]["seq"])
    assert sum(read) <= 1 + 50
    assert late["entries"] == whole["entries"][-9:]
    assert (late["first"], late["whole"]) == (whole["first"], True)
    assert moved(late, []) == moved(whole, whole["entries"][:-9])


def test_M34_between_two_graphs_the_loop_may_do_something_else(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = failed(agent)
    drawn, most, turns = graph_of, 0, 0

    def counted(*given: Any) -> Any:
        nonlocal most, turns
        turns, most = turns + 1, max(most, turns + 1)
        return drawn(*given)

    async def beside(task: asyncio.Task[Any]) -> None:
        nonlocal turns
        while not task.done():
            turns = 0
            await asyncio.sleep(0)

    async def both() -> Any:
        task = asyncio.ensure_future(story.replay(agent.daemon, run))
        await beside(task)
        return await task

    monkeypatch.setattr(long_work, "SLICE", 0.0)
    monkeypatch.setattr(story, "graph_of", counted)
    assert len(agent.runner.run(both())["entries"]) > 2
    assert most == 1


@pytest.mark.parametrize("before", [None, 150])
def test_M86_a_page_of_a_long_history_costs_what_it_shows(
    told: tuple[Any, int], read: list[int], before: int | None
) -> None:
    agent, run = told
    lines = [line for line in agent.history(run) if before is None or line["seq"] < before]
    read.clear()
    assert agent.ask("history", run=run, limit=40, before=before) == lines[:-41:-1]
    assert sum(read) <= 50


def test_M86_lines_after_one_are_read_from_there(told: tuple[Any, int], read: list[int]) -> None:
    agent, run = told
    lines = agent.history(run)
    for last in (lines[-1], lines[-2], lines[-9]):
        read.clear()
        after = [line for line in lines if line["seq"] > last["seq"]]
        assert agent.ask("history", run=run, after=last["seq"]) == after
        assert sum(read) <= 10


def test_M86_a_server_is_asked_for_no_more_rows_than_a_page_has() -> None:
    known = statements(POSTGRESQL)
    assert {known[name].split()[-2] for name in ("entries of run", "entries before")} == {"LIMIT"}
