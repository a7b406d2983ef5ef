"""The pytest plugin `narval`."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narval.surfaces.python.agent import Agent

_WATCHED = """
import sys
import narval.surfaces.python.pytest_plugin
print({"lxml", "sqlalchemy", "click"} & set(sys.modules))
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
