"""How many examples a property is tried on: a sixth of them in `make test`, all of them in `make soak`.

The examples of `make test` are the same each time, and show that what held goes on to hold. Those that look
for what nobody has seen yet are fresh ones, in the run that has the time for many.
"""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
FEWEST = 10


def examples(most: int) -> int:
    """The number to try of so many examples."""
    return min(most, max(FEWEST, most // 6)) if PROFILE == "same" else most
