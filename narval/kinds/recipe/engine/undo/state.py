"""The state of an undoing run: plain data that only its changes alter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from narval.core.engines.run_state import Moves, RunState


class Undoing(msgspec.Struct, omit_defaults=True, gc=False):
    """A call to undo: its step, the action that undoes it ("" if there is none), its elements."""

    step: str
    undo: str
    eids: tuple[int, ...] = ()
    state: str = "to do"
    """One of: to do, called, undone, failed, no undo."""


class UndoState(RunState, omit_defaults=True):
    """The state of a run that undoes another: the calls to undo, and the progress."""

    KIND: ClassVar[str] = "plan-undo"
    MOVES: ClassVar[Moves] = {
        "ready": frozenset({"undoing", "cancelled", "failed"}),
        "undoing": frozenset({"done", "failed", "cancelled"}),
    }

    undoes: int = 0
    """The run that is undone."""
    steps: list[Undoing] = msgspec.field(default_factory=list)
    """Its calls, last first."""
    call: str = ""
    """The call that is under way."""

    @property
    def undone_run(self) -> int:
        """The run that it undoes."""
        return self.undoes

    def progress(self) -> Iterable[tuple[str, str]]:
        """The steps with their states."""
        return ((each.step, each.state) for each in self.steps)
