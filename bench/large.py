"""W8: a memory of a million elements.

    python -m bench.large [ELEMENTS] [MARKS]

Elements of five attributes, each with an origin, are put into the store of a home on a disk; then another
program opens the home. It measures the time until the home is ready; the bytes that are resident for each
element with its eid, its origin and its name indexed, and once each of the five attributes has been asked
for; the time to add the next element in a turn of its own; and the time to start a plan whose step is
assigned the oldest element that it has not used, when it has used MARKS. What a program with a home of
FEW elements has resident is not counted.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import narval
from bench.measure import argument, emit, home, memory_of, now, scratch
from narval.agent.turn import Turn
from narval.core.elements.changes import Used
from narval.core.elements.element import Origin

AT_ONCE, TRIES, FEW = 10_000, 300, 1_000
MODULE = """
from narval import Input, action

@action(inputs=[Input("mail", "email[@list='no']", use=True)], runs="inline")
def take(mail):
    taken.append(mail.eid)

taken = []
"""
RECIPE = """<recipe group="w" name="one" start_step="a" end_step="a">
  <step id="a" type="action" target="w.take"/>
</recipe>"""
ATTRIBUTES = ("id", "subject", "from", "size", "list")


def mail(number: int) -> bytes:
    """An element of five attributes, 177 bytes long: one value is its own, the others are shared."""
    xml = (
        f'<email id="m{number:07d}@example.com" from="person-{number % 1000:04d}@example.org" '
        f'size="{number % 20_000:06d}" list="no" '
        f'subject="What became of the matter, number {number % 20_000:06d}'
    )
    return f'{xml:.<174}"/>'.encode()


def fill(folder: Path, count: int) -> None:
    """Put so many into the store, as steps of runs would."""
    more = "[agent]\nelements = 2_000_000\n"  # by default a million
    with narval.open(home(folder, module=MODULE, recipes=RECIPE, settings=more)) as agent:

        def enter(numbers: range, turn: Turn) -> None:
            origin = Origin(1, "step", f"{numbers.start}-0")
            for number in numbers:
                turn.add(mail(number), origin)

        for first in range(0, count, AT_ONCE):
            agent.runner.run(
                agent.daemon.host.submit(partial(enter, range(first, min(count, first + AT_ONCE))))
            )


def each(tries: int, work: Callable[[int], object]) -> float:
    """Microseconds for one, in the middle of so many."""
    taken = []
    for number in range(tries):
        began = now()
        work(number)
        taken.append(now() - began)
    return round(median(taken) * 1e6, 1)


def resident(folder: Path) -> float:
    """Megabytes that are resident while a home is open."""
    with narval.open(folder):
        gc.collect()
        return memory_of(field="VmRSS")


def measure(folder: Path, count: int, marks: int, few: float) -> dict[str, Any]:
    """Open a home that is filled, and measure its memory; `few` is what is resident with `FEW` elements."""
    began = now()
    with narval.open(folder) as agent:
        figures: dict[str, Any] = {"seconds": now() - began, "ready_s": round(now() - began, 3)}
        gc.collect()

        def bytes_each() -> int:
            return round((memory_of(field="VmRSS") - few) * 2**20 / max(1, count - FEW))

        memory = agent.daemon.agent.memory
        first = next(iter(memory.named(["email"])))
        figures["b_per_element"] = bytes_each()
        figures["add_us"] = each(TRIES, lambda number: agent.add(mail(count + number)))
        agent.start("w.one")
        agent.until_idle()
        [scope] = [scope for scope in memory.marks if scope[2] == "mail"]
        used = tuple(range(first + 1, first + marks))
        for at in range(0, len(used), AT_ONCE):
            some = Used(scope, used[at : at + AT_ONCE])
            agent.runner.run(agent.daemon.host.submit(lambda turn, some=some: turn.transaction.change(some)))

        def assign(_: int) -> None:
            agent.start("w.one")
            agent.until_idle()

        figures["assign_us"] = each(TRIES, assign)
        taken = agent.daemon.files.loaded.functions["w.take"].__globals__["taken"]
        assert taken == [first, *range(first + marks, first + marks + TRIES)], taken[:5]
        for attribute in ATTRIBUTES:
            assert agent.memory(f"email[@{attribute}='nothing of the kind']") == []
        gc.collect()
        figures["b_per_element_indexed"] = bytes_each()
    return figures


def made(*words: object) -> str:
    """What this module prints in a program of its own."""
    command = [sys.executable, "-m", "bench.large", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    match sys.argv[1:]:
        case ["fill", folder, count]:
            fill(Path(folder), int(count))
            return
        case ["resident", folder]:
            print(resident(Path(folder)))
            return
    count, marks = argument(1, 1_000_000), argument(2, 0)
    marks = marks or min(100_000, count // 2)
    with scratch() as place:
        made("fill", place / "few", FEW)
        made("fill", place / "home", count)
        few = float(made("resident", place / "few"))
        figures = measure(place / "home", count, marks, few)
    emit(f"W8-{count}", count, figures.pop("seconds"), marks=marks, xml_bytes=len(mail(0)), **figures)


if __name__ == "__main__":
    main()
