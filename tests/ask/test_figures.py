"""Runs over time: how many ended each day, how long they took, the last of them, the last hour as bars."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.runs import figures
from narval.ask.runs.figures import RunEnds, percentile
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import data, make_home, well
from tests.surfaces.cli.command_line import narval as command

RECIPES = """<cookbook>
<recipe group="t" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>go</match></condition></transition>
</recipe>
<recipe group="t" name="ends" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.nothing"/></recipe>
<recipe group="t" name="fails" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.error"/></recipe>
<recipe group="t" name="brief" start_step="a" end_step="a" decay="60">
  <step id="a" type="action" target="basic.nothing"/></recipe>
</cookbook>"""


TELLS = """<recipe group="notify" name="failures" start_step="a" end_step="b" restart="parallel">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>failure[@run]</match></condition></transition>
</recipe>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text('timezone = "Europe/Paris"\n')
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/t.xml").write_text(RECIPES)
    with narval.open(tmp_path, clock=narval.SimulatedClock("2026-03-01T20:30:00Z")) as agent:
        yield agent


def took(agent: Agent, seconds: float) -> int:
    """A run that ends well after so long."""
    run = agent.start("t.waits")
    agent.elapse(seconds=seconds)
    agent.add("<go/>")
    agent.until_idle()
    return run


def days(agent: Agent, **arguments: Any) -> dict[str, tuple[int, int, int]]:
    rows = agent.ask("figures", **arguments)["days"]
    return {row["day"]: (row["done"], row["failed"], row["cancelled"]) for row in rows}


def test_runs_count_on_the_day_of_their_end_in_the_zone_of_the_home(agent: Agent) -> None:
    long = agent.start("t.waits")
    agent.start("t.fails")
    agent.until_idle()
    agent.elapse(hours=3)  # half past midnight in Paris
    agent.add("<go/>")
    cancelled = agent.start("t.waits")
    agent.until_idle()
    agent.cancel(cancelled)
    assert (agent.run(long)["phase"], agent.run(cancelled)["phase"]) == ("done", "cancelled")
    assert days(agent, days=3) == {"2026-02-28": (0, 0, 0), "2026-03-01": (0, 1, 0), "2026-03-02": (1, 0, 1)}
    assert days(agent, name="t.fails", days=1) == {"2026-03-02": (0, 0, 0)}
    assert agent.ask("figures")["zone"] == "Europe/Paris"
    assert len(days(agent)) == 14


def test_the_time_of_a_definition_and_its_last_runs(agent: Agent) -> None:
    runs = [took(agent, seconds) for seconds in range(1, 25)]
    agent.cancel(last := agent.start("t.waits"))
    agent.until_idle()
    agent.start("t.fails")
    agent.until_idle()
    answer = agent.ask("figures", name="t.waits")
    assert (answer["kind"], answer["name"]) == ("recipe", "t.waits")
    assert answer["took"] == {"runs": 24, "p50": 12.0, "p95": 23.0}
    assert [row["run"] for row in answer["last"]] == [last, *runs[:-20:-1]]
    assert answer["last"][0]["phase"] == "cancelled"
    assert answer["last"][1] | {"ended": ""} == {"run": runs[-1], "phase": "done", "ended": "", "took": 24.0}
    assert agent.ask("figures", name="t.ends")["took"] == {"runs": 0, "p50": None, "p95": None}


def test_runs_that_ended_are_listed_in_the_order_of_their_ends(agent: Agent) -> None:
    long, brief = agent.start("t.waits"), []
    for _ in range(2):
        brief.append(agent.start("t.ends"))
        agent.until_idle()
        agent.elapse(seconds=1)
    under_way = agent.start("t.waits")
    agent.cancel(long)
    listed = [run["eid"] for run in agent.ask("runs", ended=True)]
    assert listed == [long, *brief[::-1]]
    assert [run["eid"] for run in agent.ask("runs", ended=True, limit=2)] == listed[:2]
    assert [run["eid"] for run in agent.ask("runs", ended=True, state="done")] == brief[::-1]
    agent.cancel(under_way)
    assert agent.ask("runs", ended=True, limit=1)[0]["eid"] == under_way


def test_a_percentile_is_a_number_that_there_is() -> None:
    assert percentile([], 50) is None
    assert [percentile([3.0], percent) for percent in (50, 95)] == [3.0, 3.0]
    assert [percentile([1.0, 2.0, 3.0, 4.0], percent) for percent in (50, 95)] == [2.0, 4.0]
    assert percentile([float(number) for number in range(1, 101)], 95) == 95.0


def test_what_is_kept_is_what_looking_at_all_gives_whatever_comes_and_goes(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> dict[str, Any]:
        kept = agent.ask("figures"), agent.ask("figures", name="t.brief")
        with monkeypatch.context() as patched:
            patched.setattr(figures, "RunEnds", type("Anew", (RunEnds,), {}))
            assert (agent.ask("figures"), agent.ask("figures", name="t.brief")) == kept
        return kept[0]

    check()
    agent.start("t.brief")
    agent.until_idle()
    agent.start("t.ends")
    agent.until_idle()
    assert check()["took"]["runs"] == 2
    agent.elapse(seconds=40)
    agent.start("t.fails")
    agent.until_idle()
    assert [row["phase"] for row in check()["last"]] == ["failed", "done", "done"]
    agent.elapse(seconds=30)  # the brief one is forgotten
    assert [row["phase"] for row in check()["last"]] == ["failed", "done"]
    agent.elapse(minutes=5)  # nobody has asked for a while: all is looked at anew
    agent.start("t.ends")
    agent.until_idle()
    assert check()["took"]["runs"] == 2


def test_a_look_costs_what_changed_and_of_very_many_the_newest_are_counted(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "RUNS_LOOKED_AT", 30)
    agent.start_each("t.ends", ["<x/>"] * 40)
    agent.until_idle()
    noted = list[int]()
    put = RunEnds.put

    def counted(self: RunEnds, run: figures.Run) -> Any:
        noted.append(run.eid)
        return put(self, run)

    monkeypatch.setattr(RunEnds, "put", counted)
    answer = agent.ask("figures")
    assert (answer["more"], answer["took"]["runs"], len(noted)) == (True, 30, 30)
    new = agent.start("t.ends")
    agent.until_idle()
    noted.clear()
    assert agent.ask("figures")["took"]["runs"] == 31
    assert noted == [new]


def test_the_last_hour_has_each_run_that_was_under_way_with_its_calls(agent: Agent) -> None:
    old, long = agent.start("t.ends"), agent.start("t.waits")
    agent.until_idle()
    agent.elapse(minutes=70)
    agent.add("<go/>")
    agent.until_idle()
    failed = agent.start("t.fails")
    agent.until_idle()
    under_way = agent.start("t.waits")
    agent.until_idle()
    agent.elapse(minutes=20)
    answer = agent.ask("gantt")
    assert [run["eid"] for run in answer["runs"]] == [long, failed, under_way]
    assert old not in [run["eid"] for run in answer["runs"]]
    calls = [[call["part"] for call in run["calls"]] for run in answer["runs"]]
    assert calls == [["b"], ["a"], ["a"]]  # the first call of the first was before that hour
    assert [call["part"] for call in agent.ask("gantt", minutes=120)["runs"][1]["calls"]] == ["a", "b"]
    newest = agent.ask("gantt", limit=2)
    assert ([run["eid"] for run in newest["runs"]], newest["left_out"]) == ([failed, under_way], 1)
    assert [run["eid"] for run in agent.ask("gantt", minutes=10)["runs"]] == [under_way]


def test_runs_that_only_tell_of_failures_are_left_out_where_nobody_asks_for_them(agent: Agent) -> None:
    agent.load(TELLS)
    agent.start("notify.failures")
    own = [agent.start(name) for name in ("t.fails", "t.ends", "t.fails")]
    agent.until_idle()
    assert [run["eid"] for run in agent.ask("runs", limit=5, notices=False)] == own[::-1]
    assert len(agent.ask("runs")) == 6  # two that told, and one that waits
    over_time = agent.ask("gantt", limit=2, notices=False)
    assert [run["eid"] for run in over_time["runs"]] == own[1:]
    assert (over_time["left_out"], over_time["notices"]) == (1, 3)
    assert (agent.ask("gantt")["notices"], agent.ask("figures")["notices"]) == (0, 2)
    for name, target in (
        ("one-way", "error"),
        ("own", "nothing"),
    ):  # one that failed, and one of the home's own
        agent.load(
            f'<recipe group="notify" name="{name}" start_step="a" end_step="a">'
            f'<step id="a" type="action" target="basic.{target}"/></recipe>'
        )
        agent.start(f"notify.{name}")
        agent.until_idle()
        assert agent.ask("runs", limit=1, notices=False)[0]["name"] == f"notify.{name}"


@pytest.mark.parametrize(
    ("operation", "arguments", "said"),
    [
        ("figures", {"days": 0}, "expected days to be from 1 to 366, got 0"),
        ("figures", {"name": "t.none"}, "there is no definition t.none"),
        ("figures", {"kind": "recipe"}, "expected the name of a definition along with kind"),
        ("gantt", {"minutes": 2000}, "expected minutes to be from 1 to 1440, got 2000"),
        ("gantt", {"limit": 0}, "expected limit to be from 1 to 200, got 0"),
    ],
)
def test_what_cannot_be_told_is_refused(
    agent: Agent, operation: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        agent.ask(operation, **arguments)


def test_commands_tell_of_runs_over_time(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    well(home, "start", "demo.greet", "-", "--wait", given="<name>Ann</name>")
    assert command(home, "start", "demo.fail", "--wait").exit_code == 1
    day, *rest = well(home, "figures").splitlines()[1:]
    assert day.split()[1:] == ["1", "1"]
    assert (rest[0].startswith("took  p50 "), rest[0].endswith(", of 1 run done")) == (True, True)
    assert rest[1] == "last  ox (o done, x failed, - cancelled; the newest at the right)"
    assert data(home, "figures", "demo.fail", "--days", 1)["days"][0]["failed"] == 1
    assert command(home, "figures", "demo.await").stderr == "no run ended in 14 days\n"
    assert command(home, "figures", "--days", 0).exit_code == 2
    heading, *rows = well(home, "gantt").splitlines()
    assert heading.split() == ["run", "name", "state", "lasted", "calls"]
    assert [row.split()[1] for row in rows] == ["demo.greet", "demo.fail"]
    bars = [row.split()[-1] for row in rows]
    assert all(re.fullmatch(r"\.+[=-]*=[=-]*\.*", bar) and len(bar) == 40 for bar in bars)
    assert command(home, "gantt", "--limit", 1).stderr == "1 older run left out\n"


def test_commands_say_that_runs_which_only_tell_of_failures_are_left_out(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes" / "notify.xml").write_text(TELLS)
    well(home, "start", "notify.failures")
    assert command(home, "start", "demo.fail", "--wait").exit_code == 1
    for words in (("runs",), ("gantt",)):
        listed = command(home, *words)
        assert ("demo.fail" in listed.stdout, "notify.failures" in listed.stdout) == (True, False)
        assert "of failures" in listed.stderr
        with_them = command(home, *words, "--notices")
        assert ("notify.failures" in with_them.stdout, with_them.stderr) == (True, "")
    assert "notify.failures" in well(home, "runs", "--state", "active")
    as_json = command(home, "runs", "--json")
    assert [row["name"] for row in json.loads(as_json.stdout)] == ["demo.fail"]
    assert as_json.stderr == "runs that only tell of failures are left out: --notices lists them\n"
    assert len(data(home, "runs", "--notices")) == 3
