"""The life of an item as a table: for each act, who may do it, its fields, and its result in each state.

A cell is the next state, or the kind of the problem that the act gets (P82). The operations, the commands
below `narval work`, the forms of the web and the methods in Python are made from the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Doer = Literal["eligible", "claimant", "claimant or admin", "admin"]
"""The people who may do an act: those who may answer, the claimant, or administrators."""


class No(NamedTuple):
    """A cell of a refused act, with the kind of the problem."""

    kind: str


Cell = str | No


class Field(NamedTuple):
    """A field of an act: a parameter of its operation."""

    name: str
    type: str = "str"
    """Its type, as it is written in Python."""
    default: str | None = ""
    is_required: bool = False
    label: str = ""
    """Its name in forms and options, if that differs."""
    note: str = ""
    """A sentence about it, for the text of its operation."""

    @property
    def asked_as(self) -> str:
        """Its name in forms and options."""
        return self.label or self.name

    @property
    def is_list(self) -> bool:
        """True if it has several values."""
        return self.type.startswith("list[")


SHOWN = Field("shown", "str | None", None, note="With `shown`, only if that is the text of the item.")
CLAIMED = Field("claimed", note="With `claimed`, only while that person, the asker, has the item.")
REASON = Field("reason")
WORD = Field("word", label="reason")
TO = Field("to", is_required=True)
ALL_TO = Field("to", "list[str]", is_required=True)
OUTCOME = Field("outcome")
STATE = Field("state", is_required=True)
VALUES = Field("fields", "dict[str, str | list[str]] | None", None)


class ActOnItem(NamedTuple):
    """A row: the people who may do the act, the cells for an item that is offered, claimed by oneself, or
    claimed by another, the fields of the act, and what it does.

    An item that several people answer is never claimed; its cell is `voted`. In an item that has ended, every
    act gets `over`.
    """

    who: Doer
    offered: Cell
    own: Cell
    other: Cell
    voted: Cell
    fields: tuple[Field, ...]
    does: str

    def cell(self, claimant: str | None, person: str, *, is_voted: bool) -> Cell:
        """The cell for a person, by the claimant of the item if it has one."""
        if is_voted:
            return self.voted
        if claimant is None:
            return self.offered
        return self.own if claimant == person else self.other


TAKEN, FREE, SHARED = No("claimed"), No("not-claimed"), No("not-exclusive")

ACTS_ON_ITEMS: Mapping[str, ActOnItem] = MappingProxyType(
    {
        "claim": ActOnItem(
            "eligible", "claimed", "claimed", TAKEN, SHARED, (SHOWN,),
            "Take an item for yourself.",
        ),
        "release": ActOnItem(
            "claimant or admin", FREE, "offered", TAKEN, SHARED, (REASON,),
            "Give an item back; the draft stays. An administrator may give back what another has.",
        ),
        "save": ActOnItem(
            "eligible", "offered", "claimed", TAKEN, "offered", (VALUES, SHOWN),
            "Keep a draft of the fields, which is the asker's own and takes nothing from others.",
        ),
        "move": ActOnItem(
            "eligible", "claimed", "claimed", TAKEN, SHARED, (STATE, SHOWN),
            "Move the task that asks to another of its states, and take the item.",
        ),
        "delegate": ActOnItem(
            "eligible", "offered", "offered", TAKEN, SHARED, (TO, WORD),
            "Hand an item to another person, with a word.",
        ),
        "answer": ActOnItem(
            "eligible", "done", "done", TAKEN, "offered", (OUTCOME, VALUES, SHOWN, CLAIMED),
            "Answer an item with an outcome and the values of its fields.",
        ),
        "take-back": ActOnItem(
            "eligible", FREE, FREE, TAKEN, "offered", (),
            "Take back what one has answered, where several answer and the item goes on.",
        ),
        "refuse": ActOnItem(
            "eligible", "offered", "offered", TAKEN, "offered", (REASON,),
            "Take oneself out for good, with a reason.",
        ),
        "reassign": ActOnItem(
            "admin", "offered", "offered", "offered", "offered", (ALL_TO, REASON),
            "Offer an item to others, as an administrator.",
        ),
    }
)  # fmt: skip
"""The acts of people: what each does in each phase of an item. An administrator may release the claim
of another.
"""

PHASES: Mapping[str, str] = MappingProxyType(
    {"done": "done", "refused": "failed", "expired": "failed", "failed": "failed", "withdrawn": "cancelled"}
)
"""The phase of an item that has ended."""

DRAWN: tuple[tuple[str, str, str], ...] = (
    ("ready", "offered", "offered"),
    ("ready", "failed", "bad-text, unknown-person, …"),
    ("ready", "withdrawn", "cancel"),
    ("offered", "claimed", "claim, move"),
    ("claimed", "offered", "release, delegate, refuse, reassign, lease ends"),
    ("offered", "done", "answer, deadline's outcome, enough votes"),
    ("claimed", "done", "answer, deadline's outcome"),
    ("offered", "refused", "nobody is left"),
    ("offered", "failed", "no-quorum, bad answer of the deadline, internal-error"),
    ("claimed", "failed", "bad answer of the deadline, internal-error"),
    ("offered", "expired", "deadline"),
    ("claimed", "expired", "deadline"),
    ("offered", "withdrawn", "cancel"),
    ("claimed", "withdrawn", "cancel"),
)
"""The transitions between states, as the drawing in docs/reference/work.md shows them."""

MOVES: Mapping[str, frozenset[str]] = MappingProxyType(
    {start: frozenset(end for other, end, _ in DRAWN if other == start) for start, _, _ in DRAWN}
)
"""The states that may follow each state of an item."""
