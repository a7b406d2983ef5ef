"""An agent that has begun a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from tests.ask.processes import HEAD, Agent, At, nodes


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    """An agent that has loaded a module and a process, and the process begun."""
    opened: list[Agent] = []

    def begin(
        process: str, module: str = "", runs: str = "thread", **environment: object
    ) -> tuple[Agent, int]:
        agent = narval.open(clock=narval.SimulatedClock(0))
        opened.append(agent)
        if module:
            (tmp_path / "w.py").write_text(HEAD + module.replace("RUNS", runs))
            agent.load(tmp_path / "w.py")
        (tmp_path / "w.xml").write_text(nodes(process))
        agent.load(tmp_path / "w.xml")
        run = agent.start("w.p", environment=environment)
        agent.until_idle()
        return agent, run

    yield begin
    for agent in opened:
        agent.close()
