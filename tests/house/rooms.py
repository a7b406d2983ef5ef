"""The rooms of the house, in the order in which they may import."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

ORDER: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("kinds.*.language",),
    ("kinds.*.engine",),
    ("trials.explore",),
    ("system",),
    ("store",),
    ("files",),
    ("agent",),
    ("calls",),
    ("people",),
    ("kinds.*.calls",),
    ("daemon",),
    ("ask", "kinds.*.operations"),
    ("trials.simulate",),
    ("trials.past",),
    ("trials.propose",),
    ("surfaces", "kinds.*.cli", "kinds.*.python", "kinds.*.page"),
)
"""From the inside out; an import stays in its row, or goes to one above.

`system` is the machine (clock, files, processes), and `files` a home as it is read: store, agent and calls
need both. An agent is inside of the calls that it makes, and people are reached by calls. A simulation tells
its story by the operations, so it stands behind `ask`; a past is played by simulations. A draft of a
model is judged as operations judge it.
"""

PURE = ("core", "kinds.*.language", "kinds.*.engine", "trials.explore")
"""The rooms without clock, chance, files, threads, sockets and logging."""

PURE_MODULES = (
    "narval.daemon.agents.lifecycle", "narval.trials.propose.protocol",
)  # fmt: skip
"""Modules of other rooms that are as pure, for what they decide is explored."""

PACKAGES = (
    "core", "kinds", "system", "store", "files", "agent", "calls", "people", "daemon",
    "ask", "trials", "surfaces",
)  # fmt: skip
"""The folders of the house, from the inside out, as the map shows them."""


@cache
def room_of(module: str) -> str:
    """The pattern of the room in which a module is; "" of one that is in none."""
    inner = module.removeprefix("narval.")
    for patterns in ORDER:
        for pattern in patterns:
            depth = pattern.count(".") + 1
            if fnmatchcase(".".join(inner.split(".")[:depth]), pattern):
                return pattern
    return ""


def rank(module: str) -> int:
    """The row of a module's room in the order."""
    room = room_of(module)
    return next(at for at, patterns in enumerate(ORDER) if room in patterns)


def is_pure(module: str) -> bool:
    """True of a module that may not touch the world."""
    return room_of(module) in PURE or module in PURE_MODULES


def kind_of(module: str) -> str:
    """The kind to whose folder a module belongs; "" of one in another room."""
    parts = module.split(".")
    return parts[2] if parts[1] == "kinds" and len(parts) > 2 else ""
