"""All that can happen to a memory. Each is a fact: applying it decides nothing, and it can be taken back."""

from __future__ import annotations

import msgspec

from narval.memory.elements.element import Element

MarkScope = tuple[str, str, str]
"""Who used an element (N18): definition, step or transition id, input id or condition position.

It names the definition, not its version, so that marks survive new versions of a recipe.
"""


class Added(msgspec.Struct, frozen=True, gc=False):
    """An element entered memory; `declared` protects it and says by what (a declaration of memory.xml, the
    library). If `held` by a run, it has joined the context of that at once (N3)."""

    element: Element
    declared: str = ""
    held: int = 0


class Held(msgspec.Struct, frozen=True, gc=False):
    """These elements joined the context of a run (N3)."""

    run: int
    eids: tuple[int, ...]


class Unheld(msgspec.Struct, frozen=True):
    """These elements left the context of a run that is being forgotten part by part (N5)."""

    run: int
    eids: tuple[int, ...]


class Used(msgspec.Struct, frozen=True, gc=False):
    """These elements were given to that input or condition, and will not be given to it again (N18)."""

    scope: MarkScope
    eids: tuple[int, ...]


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """These elements are about to be outdated by a call: nobody else may take them until it is over (N18)."""

    eids: tuple[int, ...]


class Released(msgspec.Struct, frozen=True, gc=False):
    """The call that reserved these elements failed: they may be taken again."""

    eids: tuple[int, ...]


class Outdated(msgspec.Struct, frozen=True, gc=False):
    """These elements have been replaced: no input or condition will take them any more (N18)."""

    eids: tuple[int, ...]


class Keyed(msgspec.Struct, frozen=True, gc=False):
    """An output with `unique` gave this value: an equal one will be dropped, even after forgetting (N37)."""

    name: str
    expression: str
    value: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """The output's name, its expression and the value, as `Memory.unique_values` keeps them."""
        return self.name, self.expression, self.value


class Undeclared(msgspec.Struct, frozen=True, gc=False):
    """What declared these elements does not do so any more: they lose their protection (N4)."""

    eids: tuple[int, ...]


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """These elements, and these runs with their contexts, left memory (N5)."""

    eids: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()


Change = Added | Held | Unheld | Used | Reserved | Released | Outdated | Keyed | Undeclared | Forgotten
