"""`narval.now`: the moment by the clock that runs go by, wherever an action runs (N46)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import narval
from narval import SimulatedClock
from narval.surfaces.python.agent import Agent

MODULE = """
from narval import Output, action, now, sleep

@action(runs="{runs}", outputs=[Output("told", "told")])
def tell():
    moment = now()
    return f"<told at='{{moment.isoformat()}}' zone='{{moment.tzinfo}}'/>"

@action(outputs=[Output("told", "told")])
async def wait():
    await sleep(120)
    return f"<told at='{{now().isoformat()}}' zone='{{now().tzinfo}}'/>"

@action(outputs=[Output("told", "told", list=True)], source=True)
async def tick():
    await sleep(60)
    yield f"<told at='{{now().isoformat()}}' zone='{{now().tzinfo}}'/>"

@action(outputs=[Output("told", "told")], pure=True)
def plan():
    return f"<told at='{{now().isoformat()}}'/>"
"""


def recipe(action: str) -> str:
    step = f'<step id="a" type="action" target="w.{action}"/>'
    return f'<recipe group="w" name="{action}" start_step="a" end_step="a">{step}</recipe>'


def opened(folder: Path, runs: str = "inline", clock: SimulatedClock | None = None) -> Agent:
    actions = ("tell", "wait", "tick", "plan")
    files = {
        "modules/w.py": MODULE.format(runs=runs),
        "etc/narval.toml": 'timezone = "Europe/Paris"\n',
        **{f"recipes/{name}.xml": recipe(name) for name in actions},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return narval.open(folder, clock=clock)


@pytest.mark.parametrize("runs", ["inline", "thread", "worker"])
def test_N46_it_is_the_clock_of_the_run_wherever_the_action_runs(tmp_path: Path, runs: str) -> None:
    with opened(tmp_path, runs, SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        agent.start("w.tell")
        agent.until_idle()
        agent.elapse(days=1)
        agent.start("w.tell")
        agent.until_idle()
        told = [(each.attributes["at"], each.attributes["zone"]) for each in agent.memory("told")]
        moments = ["2026-07-01T14:00:00+02:00", "2026-07-02T14:00:00+02:00"]
        assert told == [(moment, "Europe/Paris") for moment in moments]


@pytest.mark.parametrize(("action", "moment"), [("wait", "14:02"), ("tick", "14:01")])
def test_N46_coroutines_see_time_pass(tmp_path: Path, action: str, moment: str) -> None:
    with opened(tmp_path, clock=SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        agent.start(f"w.{action}")
        agent.elapse(hours=2)
        (told,) = agent.memory("told")
        assert (told.attributes["at"], told.attributes["zone"]) == (
            f"2026-07-01T{moment}:00+02:00",
            "Europe/Paris",
        )


def test_N46_a_simulation_tells_its_own_moment(tmp_path: Path) -> None:
    scenario = """<scenario at="2030-01-01T08:00" until="1h"><start recipe="w.plan" at="+5m"/>
      <expect><element match="told[@at='2030-01-01T08:05:00+01:00']" count="1"/></expect></scenario>"""
    with opened(tmp_path, clock=SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        report = agent.simulate(scenario)
        assert report["well"], report["happened"]


@pytest.mark.parametrize("runs", ["inline", "thread", "worker"])
def test_N46_of_a_daemon_it_is_that_of_the_machine(tmp_path: Path, runs: str) -> None:
    with opened(tmp_path, runs) as agent:
        agent.start("w.tell")
        agent.until_idle()
        (told,) = agent.memory("told")
        moment = datetime.fromisoformat(told.attributes["at"])
        assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)
        assert moment.utcoffset() == datetime.now(ZoneInfo("Europe/Paris")).utcoffset()


def test_N46_a_stub_is_told_too(tmp_path: Path) -> None:
    with opened(tmp_path, clock=SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        agent.stub("w.tell", lambda: f"<told at='{narval.now().isoformat()}'/>")
        agent.start("w.tell")
        agent.until_idle()
        assert [each.attributes["at"] for each in agent.memory("told")] == ["2026-07-01T14:00:00+02:00"]


def test_N46_outside_of_a_call_it_is_the_machine_s() -> None:
    assert abs(datetime.now(UTC) - narval.now()) < timedelta(minutes=1)
