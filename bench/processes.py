"""Processes: tokens moved a second.

    python -m bench.processes SHAPE [memory | crash | power]

SHAPE is runs x nodes of each: 1000x10, 1x1000. The clock runs from the start of the first process until the
end of the last is seen. `bench.steps` measures the same of plans: a node is to cost no more than a step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narval
import narval.kinds.process.engine  # a daemon has it since its first process
from bench.measure import argument, emit, home, now, scratch, us


def line(nodes: int) -> str:
    """A process of so many nodes of type `node`, one after another."""
    first = '<node name="n0" isStart="true"><arc to="n1"/></node>'
    others = "".join(f'<node name="n{at}"><arc to="n{at + 1}"/></node>' for at in range(1, nodes - 1))
    return f'<process-definition name="line">{first}{others}<node name="n{nodes - 1}"/></process-definition>'


def measure(runs: int, nodes: int, where: str, folder: Path) -> tuple[float, dict[str, Any]]:
    """Seconds for all nodes of all processes, and what else there is to tell."""
    settings = f'durability = "{where}"\n' if where != "memory" else ""
    made = home(folder, module="", recipes=line(nodes), settings=settings)
    with narval.open(made if where != "memory" else None) as agent:
        if where == "memory":
            agent.load(made / "recipes/w.xml")
        agent.until_idle()
        turns = agent.daemon.host.loop.turns
        began = now()
        started = agent.start_each("w.line", ["<x/>"] * runs)
        agent.until_idle()
        seconds = now() - began
        states = {each["eid"]: each["state"] for each in agent.runs()}
        assert [states[run] for run in started] == ["completed"] * runs
        return seconds, {"turns": agent.daemon.host.loop.turns - turns}


def main() -> None:
    shape, where = argument(1, "1000x10"), argument(2, "memory")
    runs, nodes = map(int, shape.split("x"))
    with scratch() as folder:
        seconds, more = measure(runs, nodes, where, folder)
    emit(f"P1-{shape}", runs * nodes, seconds, us_per_step=us(seconds, runs * nodes), **more)


if __name__ == "__main__":
    main()
