"""Changes: everything that can happen to a memory. Each is a fact: applying it decides nothing."""

from __future__ import annotations

import msgspec

from narval.core.elements.element import Element

MarkScope = tuple[str, str, str]
"""The user of an element: definition, step or transition id, input id or condition position.

It has the definition's name, not its version, so that marks survive new versions of a definition.
"""


class Added(msgspec.Struct, frozen=True, gc=False):
    """An element entered memory, and with `held` the context of that run.

    `declared` names the declaration (of memory.xml, of the library) that protects it.
    """

    element: Element
    declared: str = ""
    held: int = 0


class Held(msgspec.Struct, frozen=True, gc=False):
    """These elements joined the context of a run."""

    run: int
    eids: tuple[int, ...]


class Unheld(msgspec.Struct, frozen=True):
    """These elements left the context of a run that is being forgotten in chunks."""

    run: int
    eids: tuple[int, ...]


class Used(msgspec.Struct, frozen=True, gc=False):
    """These elements were given to an input or condition, and will not be given to it again.

    `run` is the run they were given to; 0 if there was none, for a control element.
    """

    scope: MarkScope
    eids: tuple[int, ...]
    run: int = 0


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """A call is going to replace these elements: no other call gets them until it has returned."""

    eids: tuple[int, ...]


class Released(msgspec.Struct, frozen=True, gc=False):
    """The call that reserved these elements failed: they are available again."""

    eids: tuple[int, ...]


class Outdated(msgspec.Struct, frozen=True, gc=False):
    """These elements have been replaced: inputs and conditions no longer get them."""

    eids: tuple[int, ...]


class Withdrawn(msgspec.Struct, frozen=True, gc=False):
    """These elements should never have counted, and `why`: inputs and conditions no longer get them."""

    eids: tuple[int, ...]
    why: str = ""


class Doubted(msgspec.Struct, frozen=True, gc=False):
    """These elements were made from what was withdrawn or is doubtful: only patterns that ask for doubtful
    elements get them.
    """

    eids: tuple[int, ...]


class Confirmed(msgspec.Struct, frozen=True, gc=False):
    """These elements are no longer doubtful."""

    eids: tuple[int, ...]


class Keyed(msgspec.Struct, frozen=True, gc=False):
    """An output with `unique` gave this value: an equal one is dropped, even after forgetting."""

    name: str
    expression: str
    value: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """The output's name, its expression and the value, in the form of `Memory.unique_values`."""
        return self.name, self.expression, self.value


class Undeclared(msgspec.Struct, frozen=True, gc=False):
    """These elements are no longer declared: they lose their protection."""

    eids: tuple[int, ...]


class Labelled(msgspec.Struct, frozen=True, gc=False):
    """An element or a run has these labels in addition to its earlier ones."""

    eid: int
    labels: tuple[str, ...]


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """These elements, and these runs with their contexts, left memory."""

    eids: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()


Change = (
    Added
    | Held
    | Unheld
    | Used
    | Reserved
    | Released
    | Outdated
    | Withdrawn
    | Doubted
    | Confirmed
    | Keyed
    | Undeclared
    | Labelled
    | Forgotten
)
