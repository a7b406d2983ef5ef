"""One advance of a service run: what it tells others, and the present versions of objects."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Plain
from narval.kinds.task.engine.server.changes import ServerChange
from narval.kinds.task.engine.server.state import TaskServerState
from narval.kinds.task.language.definition import TaskDefinition


class ServerDecision(Decision[TaskDefinition, TaskServerState, ServerChange], kw_only=True, eq=False):
    """One advance of a service run.

    `fired` is the rule whose timer has fired and is not set again; `loose` are events that are no longer
    bound to a state.
    """

    fired: str = ""
    loose: list[int] = msgspec.field(default_factory=list)

    @property
    def now(self) -> float:
        """The moment of the event."""
        return self.event.at

    def tell(
        self,
        signal: str,
        said: dict[str, Plain],
        *,
        run: int = 0,
        name: str = "",
        elements: tuple[int, ...] = (),
    ) -> str:
        """Send a signal to a run, or to the service run of that name; return the id of the call."""
        call, target = self.identifier(), name or self.definition.full_name
        self.command(commands.telling(call, target, signal, signal, said, elements, run=run))
        return call

    def elements(self, eid: int) -> tuple[int, ...]:
        """The present version of an object; () if it is gone or `eid` is 0."""
        current = self.view.current(eid) if eid else None
        return () if current is None or self.view.element(current) is None else (current,)

    def reply(self, signal: str, **value: Any) -> None:
        """Answer an earlier signal."""
        self.ask(commands.Answer(signal, value))
