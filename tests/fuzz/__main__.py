"""`python -m tests.fuzz [SURFACE ...] [--count N] [--from SEED]`: hostile input on every surface, counted."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.fuzz.surfaces import SURFACES, tried


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("surfaces", nargs="*", choices=[*SURFACES, []], metavar="SURFACE")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    given = parser.parse_args()
    logging.getLogger("narval").setLevel(logging.CRITICAL)
    began, total = time.monotonic(), 0
    for name in given.surfaces or SURFACES:
        start = time.monotonic()
        total += tried(name, given.first, given.count)
        print(f"{name:<10} {given.count} inputs, {time.monotonic() - start:.1f} s: {SURFACES[name].about}")
    print(f"{total} inputs, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
