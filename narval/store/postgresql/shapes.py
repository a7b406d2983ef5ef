"""The shapes of what a commit tells a server: the rows of each slot, as values of a type of its own (G45).

`functions.py` makes the types and the function `record` from them, `record.py` fills them.
"""

from __future__ import annotations

from typing import NamedTuple


class RowShape(NamedTuple):
    """The columns of the rows of a slot, each under its name with the letter of its type; `key` is how many
    of the first columns are a key of which the last row counts.
    """

    columns: tuple[tuple[str, str], ...]
    key: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def types(self) -> str:
        """The letters of their types."""
        return "".join(letter for _, letter in self.columns)


TYPE_NAMES = {"q": "bigint", "d": "double precision", "t": "text", "b": "bytea", "?": "boolean"}
"""The letter of a type, and its name for PostgreSQL; any value may be missing."""


def _shape(columns: str, key: int = 0) -> RowShape:
    parts = (column.partition(":") for column in columns.split())
    return RowShape(tuple((name, letter) for name, _, letter in parts), key)


SHAPES: dict[str, RowShape] = {
    "fence": _shape("agent:q epoch:q turn:q"),
    "agents": _shape("agent:q id:t name:t state:t why:t wake_at:d", 1),
    "texts": _shape("digest:b data:b"),
    "definitions": _shape("agent:q digest:t kind:t name:t path:t text:b loaded:d current:?", 4),
    "retired": _shape("agent:q digest:t kind:t name:t"),
    "elements": _shape("agent:q eid:q name:t xml:b added:d origin:b declared:t outdated:? held_by:q text:b"),
    "outdated": _shape("agent:q eid:q"),
    "undeclared": _shape("agent:q eid:q"),
    "contexts": _shape("agent:q run:q eid:q"),
    "marks": _shape("agent:q definition:t place:t slot:t eid:q run:q"),
    "keys": _shape("agent:q name:t expression:t value:t"),
    "runs": _shape(
        "agent:q eid:q kind:t name:t digest:t state:t phase:t started:d ended:d parent_run:q parent_step:t "
        "parent_call:t attempt:q error:q by:t actor:t",
        2,
    ),
    "journal": _shape("agent:q run:q seq:q at:d data:b"),
    "snapshots": _shape("agent:q run:q seq:q data:b", 2),
    "queue": _shape("agent:q id:q run:q data:b", 2),
    "moments": _shape("agent:q id:t at:d data:b", 2),
    "meta": _shape("agent:q key:t value:t", 2),
    "messages": _shape("agent:q sender:q number:q id:t kind:t at:d until:d origin:b data:b"),
    "taken": _shape("agent:q sender:q number:q", 2),
    "dead_letters": _shape("agent:q receiver:t number:q id:t kind:t reason:t at:d until:d origin:b data:b"),
    "trimmed": _shape("agent:q run:q seq:q keep:q"),
    "dequeued": _shape("agent:q id:q"),
    "moments_done": _shape("agent:q id:t"),
    "letters_settled": _shape("agent:q line:q"),
    "unheld": _shape("agent:q run:q eid:q"),
    "forgotten_elements": _shape("agent:q eid:q"),
    "forgotten_runs": _shape("agent:q run:q"),
    "removed_agents": _shape("agent:q"),
}
"""All that a commit can tell, in the order in which `record` takes it."""
