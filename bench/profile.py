"""Where the time of a step goes: calls of functions a step, and the share of each module.

    python -m bench.profile SHAPE [memory | crash | power] [plain | elements]

The number of calls does not depend on the machine. Shares are of a profiled run, which makes small functions
look dearer than they are.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import Counter

import narval
from bench.measure import argument, home, scratch, us
from bench.steps import MODULE, recipe

SHOWN = 12


def module_of(file: str, function: str) -> str:
    """The part of the house that a function belongs to."""
    if "/narval/" in file:
        return file.rpartition("/narval/")[2]
    if "sqlite" in function:
        return "SQLite"
    if "asyncio" in file:
        return "asyncio"
    return "built in" if file == "~" else "elsewhere"


def main() -> None:
    shape, where, what = argument(1, "1000x10"), argument(2, "memory"), argument(3, "plain")
    runs, steps = map(int, shape.split("x"))
    target = "next" if what == "elements" else "step"
    with scratch() as folder:
        settings = "" if where == "memory" else f'durability = "{where}"\n'
        home(folder, module=MODULE, recipes=recipe(steps, target), settings=settings)
        with narval.open(None if where == "memory" else folder) as agent:
            if where == "memory":
                agent.load(folder / "modules/w.py")
                agent.load(folder / "recipes/w.xml")

            def work() -> None:
                agent.start_each("w.line", ["<x n='0'/>"] * runs)
                agent.until_idle()

            work()
            began = time.process_time()
            work()
            worked = us(time.process_time() - began, runs * steps)
            profile = cProfile.Profile()
            profile.runcall(work)
    stats = pstats.Stats(profile)
    shares: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        shares[module_of(file, function)] += own
    calls = stats.total_calls / (runs * steps)  # type: ignore[attr-defined]
    print(f"{shape} {where} {what}: {calls:.0f} calls a step, {worked} µs of processor time")
    for name, share in shares.most_common(SHOWN):
        print(f"  {share / shares.total():6.1%}  {name}")


if __name__ == "__main__":
    main()
