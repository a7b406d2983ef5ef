"""`python -m tests.simulator [SEED ...] [--verbose] [--count N] [--from SEED]`: simulate, and report.

Seeds in, a summary line out; the first seed that breaks an invariant ends it with its story and status 1.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulator.boundaries import Boundary, every_boundary
from tests.simulator.kinds import KINDS, of
from tests.simulator.many_agents import AgentsBoundary
from tests.simulator.people import PeopledBoundary
from tests.simulator.simulation import OFTEN, BrokenError, Report, run
from tests.simulator.tasks import TaskedBoundary


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator")
    parser.add_argument("seeds", nargs="*", type=int, metavar="SEED")
    parser.add_argument("--count", type=int, default=0, help="so many seeds more, from --from on")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument(
        "--often", type=float, default=OFTEN, help="how many of the turns are compared (0 to 1)"
    )
    for word, kind in KINDS.items():
        about = (kind.__doc__ or "").splitlines()[0]
        parser.add_argument(f"--{word}", action="store_const", const=word, dest="kind", help=about)
    parser.add_argument(
        "--every-commit",
        action="store_true",
        help="a short run for each seed, killed once before and once after each of its commits",
    )
    parser.add_argument("--verbose", action="store_true", help="tell what happens")
    given = parser.parse_args()
    tell = print if given.verbose else None
    began, reports = time.monotonic(), []
    for seed in (*given.seeds, *range(given.first, given.first + given.count)):
        try:
            if given.every_commit:
                killed = {"agents": AgentsBoundary, "people": PeopledBoundary, "tasks": TaskedBoundary}
                kind = killed.get(given.kind, Boundary)
                reports += every_boundary(seed, kind, often=given.often, tell=tell)
            else:
                reports.append(run(seed, of(given.kind), often=given.often, tell=tell))
        except BrokenError as error:
            print(error)
            return 1
    print(summary(reports, time.monotonic() - began))
    return 0


def summary(reports: list[Report], seconds: float) -> str:
    """What so many seeds came to, in a line."""
    total = {name: sum(getattr(each, name) for each in reports) for name in Report._fields}
    return (
        f"{len(reports)} runs: {total['commits']} commits, {total['turns']} turns, {total['calls']} calls, "
        f"{total['messages']} messages, {total['crashes']} crashes, {total['starts']} starts, "
        f"{total['comparisons']} comparisons with what the store would bring back; {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
