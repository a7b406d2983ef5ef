"""The pytest plugin `narval`."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narval.surfaces.python.agent import Agent

_WATCHED = """
import sys
import narval.surfaces.python.pytest_plugin
print({"lxml", "sqlite3", "click"} & set(sys.modules))
"""


def test_the_fixture_agent_is_a_home_in_memory(agent: Agent) -> None:
    eid = agent.add("<email from='a@example.org'/>")
    assert [element.eid for element in agent.memory("email")] == [eid]
    assert agent.daemon.home is None
    assert agent.runs() == []


def test_each_test_has_an_agent_of_its_own(agent: Agent) -> None:
    assert agent.memory("email") == []


def test_pytest_finds_the_plugin_and_it_costs_those_who_do_not_use_it_nothing() -> None:
    (found,) = entry_points(group="pytest11", name="narval")
    assert found.value == "narval.surfaces.python.pytest_plugin"
    done = subprocess.run([sys.executable, "-c", _WATCHED], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


MODULE = """
from narval import action

@action
def breaks():
    raise ValueError("there is no paper")

@action
def works():
    pass
"""
TESTS = """
from pathlib import Path

import pytest

RECIPE = '''<recipe group="w" name="{0}" start_step="s" end_step="s">
<step id="s" type="action" target="w.{0}"/></recipe>'''


def play(agent, name):
    agent.load(Path("w.py"))
    agent.load(RECIPE.format(name))
    agent.start(f"w.{name}")
    agent.until_idle()


def test_unexpected(agent):
    play(agent, "breaks")


def test_wrong_besides(agent):
    play(agent, "breaks")
    assert agent.memory("page")


@pytest.mark.runs_fail("w.breaks")
def test_expected(agent):
    play(agent, "breaks")


@pytest.mark.runs_fail
def test_any_expected(agent):
    play(agent, "breaks")


@pytest.mark.runs_fail("w.works")
def test_another_expected(agent):
    play(agent, "breaks")


@pytest.mark.runs_fail
def test_none_failed(agent):
    play(agent, "works")


def test_well(agent):
    play(agent, "works")


@pytest.mark.clock("2026-03-01T07:00:00Z")
def test_simulated(agent):
    agent.elapse(hours=1)
    assert f"{agent.daemon.rounds.clock.now():.0f}" == "1772352000"
"""


def test_a_test_whose_run_failed_fails_with_its_error_and_its_line_unless_that_is_expected(
    tmp_path: Path,
) -> None:
    module = tmp_path / "w.py"
    module.write_text(MODULE)
    (tmp_path / "test_it.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "-rA", "."]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^(PASSED|FAILED) test_it\.py::test_(\w+)", told, re.M)
    outcomes = {name: outcome for outcome, name in found}
    assert outcomes == {
        "unexpected": "FAILED",
        "wrong_besides": "FAILED",
        "expected": "PASSED",
        "any_expected": "PASSED",
        "another_expected": "FAILED",
        "none_failed": "FAILED",
        "well": "PASSED",
        "simulated": "PASSED",
    }, told
    why = rf"of w\.breaks failed in step s: ValueError: there is no paper \({re.escape(str(module))}:6, "
    assert len(re.findall(why, told)) >= 3, "an assertion that does not hold is told beside it"
    assert '@pytest.mark.runs_fail("w.breaks")' in told
    assert "expected a run of w.works to fail, and none did" in told
    assert "expected a run to fail, and none did" in told
