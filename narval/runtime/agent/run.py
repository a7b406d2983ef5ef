"""A run: one execution of a definition, as the runtime keeps it."""

from __future__ import annotations

from typing import Any

import msgspec

from narval.definitions.library import Library
from narval.engines.commands import Call, SetTimer, Watch
from narval.engines.engine import Engine
from narval.engines.events import Caller
from narval.memory.elements.element import Element, Origin

SNAPSHOT_AFTER = 1024
"""A run's state is saved whole after so many entries, or more when it is large."""

BYTES_AN_ENTRY = 200
"""About the size of a journal entry: saving states shall not write more than the journal does."""


class Run(msgspec.Struct, eq=False):
    """One execution of a definition: what the runtime keeps beside the engine's own state.

    `kind` is the engine's: plan, process, …. `state` is None until somebody needs it: a run that is over is
    read from the journal on demand. `library` is what was loaded when the outermost caller began: the calls
    of the run are of these versions (N31). `decays` says whether a moment is set at which it is forgotten.
    `entries` lie behind its last snapshot or start, and with `save_at` of them the next is taken.
    """

    eid: int
    engine: Engine
    name: str
    digest: str
    started: float
    caller: Caller | None = None
    attempt: int = 0
    kind: str = ""
    ended: float | None = None
    phase: str = "active"
    status: str = "ready"
    error: int | None = None
    decays: bool = False
    definition: Any = None
    library: Library | None = None
    state: Any = None
    calls: dict[str, Call] = msgspec.field(default_factory=dict)
    abandoned: dict[str, None] = msgspec.field(default_factory=dict)
    watches: dict[str, Watch] = msgspec.field(default_factory=dict)
    wakes: dict[str, SetTimer] = msgspec.field(default_factory=dict)
    version: int = 0
    shown: tuple[int, Element] | None = None
    entries: int = 0
    save_at: int = 0
    reserved: dict[int, None] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind, self.save_at = self.engine.kind, SNAPSHOT_AFTER

    def snapshot_taken(self, size: int) -> None:
        """Its state was saved whole, in so many bytes: the next time is when as much journal has been
        written.
        """
        self.entries, self.save_at = 0, max(SNAPSHOT_AFTER, size // BYTES_AN_ENTRY)

    def release_state(self) -> None:
        """Drop the state and definition of a run that is over: from now on the journal has them."""
        self.state = self.definition = None

    @property
    def active(self) -> bool:
        """Whether it is not over."""
        return self.phase == "active"


def origin_of(run: Run) -> Origin | None:
    """Where the element of a run comes from: the step that called it."""
    if run.caller is None:
        return None
    return Origin(run.caller.run, run.caller.step, run.caller.call)
