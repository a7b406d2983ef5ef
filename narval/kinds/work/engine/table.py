"""The life of an item as a table (P20): for each act, who may do it, and what comes of it in each state.

A cell is the state that follows, or the kind of the problem that the act gets (P82).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Who = Literal["eligible", "claimant", "claimant or admin", "admin"]
"""The people who may do an act: who may answer, who has the item, or administrators."""


class No(NamedTuple):
    """A cell of an act that is refused, by the kind of the problem."""

    kind: str


Cell = str | No


class Act(NamedTuple):
    """A row: who may, and what follows in an item that is offered, claimed by oneself, or by another.

    In an item that several people answer (P26) nothing is claimed: `voted` is what follows there. In one that
    is over, every act gets `over`.
    """

    who: Who
    offered: Cell
    own: Cell
    other: Cell
    voted: Cell


TAKEN, FREE, SHARED = No("claimed"), No("not-claimed"), No("not-exclusive")

ACTS_ON_ITEMS: Mapping[str, Act] = MappingProxyType(
    {
        "claim": Act("eligible", "claimed", "claimed", TAKEN, SHARED),
        "release": Act("claimant or admin", FREE, "offered", TAKEN, SHARED),
        "save": Act("eligible", "claimed", "claimed", TAKEN, "offered"),
        "delegate": Act("eligible", "offered", "offered", TAKEN, SHARED),
        "answer": Act("eligible", "done", "done", TAKEN, "offered"),
        "take-back": Act("eligible", FREE, FREE, TAKEN, "offered"),
        "refuse": Act("eligible", "offered", "offered", TAKEN, "offered"),
        "reassign": Act("admin", "offered", "offered", "offered", "offered"),
    }
)
"""The acts of people, as P20 has them. An administrator may release what another has."""

MOVES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "ready": frozenset({"offered", "failed", "withdrawn"}),
        "offered": frozenset({"claimed", "done", "refused", "expired", "withdrawn", "failed"}),
        "claimed": frozenset({"offered", "done", "expired", "withdrawn", "failed"}),
    }
)
"""For each state of an item, those that may follow."""

PHASES: Mapping[str, str] = MappingProxyType(
    {"done": "done", "refused": "failed", "expired": "failed", "failed": "failed", "withdrawn": "cancelled"}
)
"""The phase of an item that is over."""

DRAWN: tuple[tuple[str, str, str], ...] = (
    ("ready", "offered", "offered"),
    ("ready", "failed", "bad-text, unknown-person, …"),
    ("offered", "claimed", "claim, save"),
    ("claimed", "offered", "release, delegate, refuse, reassign, lease ends"),
    ("offered", "done", "answer, deadline's outcome, enough votes"),
    ("claimed", "done", "answer, deadline's outcome"),
    ("offered", "refused", "nobody is left"),
    ("offered", "failed", "no-quorum"),
    ("offered", "expired", "deadline"),
    ("claimed", "expired", "deadline"),
    ("offered", "withdrawn", "cancel"),
    ("claimed", "withdrawn", "cancel"),
)
"""The ways between states, as the drawing in docs/reference/work.md shows them."""


def rows() -> list[str]:
    """The table as docs/reference/work.md has it."""
    lines = ["| act | who | offered | claimed by oneself | claimed by another | several answer | over |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, act in ACTS_ON_ITEMS.items():
        cells = (f"`{cell.kind}`" if isinstance(cell, No) else cell for cell in act[1:])
        lines.append(f"| {name} | {act.who} | {' | '.join(cells)} | `over` |")
    return lines


def drawing() -> list[str]:
    """The drawing of docs/reference/work.md, in the language of Mermaid."""
    return ["stateDiagram-v2", *(f"    {start} --> {end}: {why}" for start, end, why in DRAWN)]
