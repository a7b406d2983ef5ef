"""The recorder of one advance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from narval.engines.commands import Command, Outer
from narval.engines.events import Event
from narval.engines.run_state import RunState
from narval.engines.view import View

State = TypeVar("State", bound=RunState)


Change = TypeVar("Change")


class Recorder(msgspec.Struct, Generic[State, Change], eq=False):
    """The `changes` and `commands` of one advance, in order.

    `apply` is the engine's table of what each type of change does to a state.
    """

    state: State
    apply: Mapping[type, Callable[[State, Any], None]]
    event: Event
    view: View
    ordinal: int = 0
    changes: list[Change] = []
    commands: list[Command] = []

    def change(self, change: Change) -> None:
        """Decide a fact, which is applied at once."""
        self.apply[type(change)](self.state, change)
        self.changes.append(change)

    def command(self, command: Command) -> None:
        """Give a command; an inner one takes effect at once."""
        self.view.apply(self.state.eid, command)
        self.commands.append(command)

    def ask(self, command: Outer) -> None:
        """Give an outer command, performed once the turn is recorded."""
        self.commands.append(command)

    def identifier(self) -> str:
        """Make a new identifier, unique in the home, derived from the event's id and an ordinal."""
        self.ordinal += 1
        return f"{self.event.id}.{self.ordinal}"
