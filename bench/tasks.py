"""W20: what events, windows and queues of tasks cost.

    python -m bench.tasks [raise | windows | queue]

`raise`: events raised at a task, from the raise until their actions are done, in memory; beside them plans of
three steps, each as often. `windows`: rules that wait for their windows: registered, then all due at once;
beside them moments that are rows of the store, as in W4. `queue`: the next of a queue of 100,000, taken
and committed, and of one of ten.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import narval
from bench.measure import argument, emit, home, now, scratch, us
from bench.moments import store
from bench.steps import MODULE, recipe
from narval.agent.turn import Turn
from narval.core.engines.events import PersonsAct, Signalled

EVENTS, WAITING, MANY, FEW, TAKEN, AT_ONCE = 3_000, 100_000, 100_000, 10, 10, 1_000
TASKS = """
TASK TYPE desk
  INITIAL open
  STATE open EXPOSED
    ON EVENT tick CONDITION ACTION { if (obj.n == "1") w.step(); }
    ON EVENT later AFTER 1 HRS RELATIVE CONDITION ACTION { if (obj.n == "1") w.step(); }
    ON EVENT end GOTO COMMIT
"""
Said = tuple[str, dict[str, Any]]


class Desk:
    """A home with a task type, and an instance of it whose program is this one."""

    def __init__(self, folder: Path) -> None:
        made = home(folder, module=MODULE, recipes=recipe(3, "step"))
        (made / "recipes/w.task").write_text(TASKS)
        self.clock = narval.SimulatedClock("2026-03-02T05:00:00Z")
        self.agent = narval.open(made, clock=self.clock)
        self.host = self.agent.daemon.host
        self.agent.until_idle()
        self.server = self.agent.daemon.agent.signals.standing["w.desk"]
        self.task = self.agent.ask("task_init", name="w.desk", lease=1e9)["task"]

    def put(self, count: int) -> None:
        """Put objects into the queue, of no case."""
        for first in range(0, count, AT_ONCE):
            eids = self.agent.add_all(["<o n='0'/>"] * min(AT_ONCE, count - first))
            self.tell([("put", {"object": eid, "case": 0}) for eid in eids])

    def tell(self, said: list[Said]) -> None:
        """Tell the standing run so many things, a thousand in a turn."""
        for first in range(0, len(said), AT_ONCE):
            self.agent.runner.run(self.host.submit(partial(self._say, said[first : first + AT_ONCE])))
        self.agent.until_idle()

    def _say(self, said: list[Said], turn: Turn) -> None:
        act = PersonsAct("program")
        for name, arguments in said:
            turn.signal(self.server, Signalled(0, 0.0, "", name, (), arguments, act=act))

    def take(self) -> None:
        """Take the next object, and commit it."""
        assert self.agent.ask("task_get", task=self.task)["object"]
        self.agent.ask("task_assert", task=self.task, state="COMMIT")

    def busy(self) -> None:
        """Be at work on an object, so that events are taken."""
        self.put(1)
        self.agent.ask("task_get", task=self.task)


def raised(event: str, count: int) -> list[Said]:
    """An event raised so often."""
    return [("raise", {"event": event, "parameters": [], "mode": "async"})] * count


def each(desk: Desk, event: str, count: int) -> float:
    """Microseconds for an event raised so often, until nothing is to be done now."""
    began = now()
    desk.tell(raised(event, count))
    return us(now() - began, count)


def raise_to_action(desk: Desk) -> dict[str, Any]:
    """Events, and as many plans of three steps, in turn."""
    desk.busy()
    events, steps = list[float](), list[float]()
    for _ in range(3):
        events.append(each(desk, "tick", EVENTS))
        began = now()
        for _ in range(0, EVENTS, AT_ONCE):
            desk.agent.start_each("w.line", ["<x n='0'/>"] * AT_ONCE)
        desk.agent.until_idle()
        steps.append(us(now() - began, EVENTS))
    return {
        "event_us": min(events),
        "three_steps_us": min(steps),
        "ratio": round(min(events) / min(steps), 3),
    }


def windows(desk: Desk) -> dict[str, Any]:
    """Rules that wait for their windows, and a raise beside them; then all due at once."""
    desk.busy()
    alone = min(each(desk, "tick", EVENTS) for _ in range(3))
    register = each(desk, "later", WAITING)
    beside = min(each(desk, "tick", EVENTS) for _ in range(3))
    began = now()
    desk.clock.set("2026-03-02T08:00:00Z")
    desk.agent.until_idle()
    due = us(now() - began, WAITING)
    assert not desk.agent.ask("task_events", name="w.desk")
    moments = store()
    return {
        "register_us": register,
        "moment_us": moments["register_us"],
        "due_us": due,
        "moment_due_us": round(moments["late_max_ms"] / 10, 3),
        "raise_us": alone,
        "raise_beside_us": beside,
    }


def queue(desk: Desk) -> dict[str, Any]:
    """The next object of a short queue, and of a long one."""
    taken = dict[int, float]()
    for waiting in (FEW, MANY):
        desk.put(waiting)
        times = []
        for _ in range(TAKEN):
            began = now()
            desk.take()
            times.append(now() - began)
        taken[waiting] = min(times)
    return {
        "next_of_10_us": us(taken[FEW], 1),
        "next_of_many_us": us(taken[MANY], 1),
        "ratio": round(taken[MANY] / taken[FEW], 3),
    }


WHAT = {"raise": (raise_to_action, EVENTS), "windows": (windows, WAITING), "queue": (queue, MANY)}


def main() -> None:
    what = argument(1, "raise")
    measured, count = WHAT[what]
    with scratch() as folder:
        desk = Desk(folder)
        began = now()
        figures = measured(desk)
        seconds = now() - began
        desk.agent.close()
    emit(f"W20-{what}", count, seconds, **figures)


if __name__ == "__main__":
    main()
