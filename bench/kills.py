"""W2-kill: a plan goes on after SIGKILL, wherever that hits; not a timing.

    python -m bench.kills [POINTS]

A daemon follows a plan of 60 steps of 10 ms, each of which writes its number to a file when it begins. It is
killed once so many have begun, and another daemon takes the home. Told are the steps that ran twice and those
that were lost, over all the points at which it was killed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from bench import programs
from bench.measure import argument, emit, home, now, scratch

STEPS = 60
MODULE = """
import time
from pathlib import Path
from narval import Input, action

@action(inputs=[Input("number", "number")])
def mark(number):
    with Path({seen!r}).open("a") as seen:
        print(number.attributes["n"], file=seen)
    time.sleep(0.01)
"""


class Ending(NamedTuple):
    """What became of a plan whose daemon was killed."""

    done: bool
    twice: int
    lost: int


def recipe() -> str:
    """A recipe of steps that each know their number."""
    steps = "".join(
        f'<step id="s{n}" type="action" target="w.mark"><arguments><number n="{n}"/></arguments></step>'
        for n in range(STEPS)
    )
    arrows = "".join(
        f'<transition id="t{n}"><in idref="s{n}"/><out idref="s{n + 1}"/></transition>'
        for n in range(STEPS - 1)
    )
    return f'<recipe group="w" name="line" start_step="s0" end_step="s{STEPS - 1}">{steps}{arrows}</recipe>'


def begun(folder: Path) -> list[int]:
    """The numbers of the steps that have begun, as they came."""
    seen = folder / "seen"
    return list(map(int, seen.read_text().split())) if seen.exists() else []


def killed_at(point: int) -> Ending:
    """A plan whose daemon is killed once so many steps have begun."""
    with scratch() as folder:
        made = home(folder / "home", module=MODULE.format(seen=str(folder / "seen")), recipes=recipe())
        daemon = programs.begin(made)
        with programs.reached(made, daemon) as client:
            run = client.ask("start", name="w.line")["eid"]
            while len(begun(folder)) < point:
                time.sleep(0.001)
        daemon.kill()
        daemon.wait()
        with programs.running(made) as (_, client):
            done = client.ask("wait", run=run, timeout=30.0)["state"] == "done"
        steps = begun(folder)
        return Ending(done, len(steps) - len(set(steps)), STEPS - len(set(steps)))


def main() -> None:
    points = argument(1, 12)
    at = sorted({1 + number * (STEPS - 1) // max(1, points - 1) for number in range(points)})
    began = now()
    endings = [killed_at(point) for point in at]
    emit(
        "W2-kill",
        STEPS,
        now() - began,
        killed_at=at,
        steps_run_twice=max(each.twice for each in endings),
        steps_lost=max(each.lost for each in endings),
        came_to_end=all(each.done for each in endings),
    )


if __name__ == "__main__":
    main()
