"""A run: one execution of a definition, as the runtime keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from narval.core.definitions.library import Library
from narval.core.elements.element import Element, Origin
from narval.core.engines.effects import InForce
from narval.core.engines.engine import Engine, resumed_from
from narval.core.engines.events import Caller, Cancelled

SNAPSHOT_AFTER = 256
"""Entries after which a run's whole state is saved; more if the state is large."""

BYTES_AN_ENTRY = 200
"""The approximate size of a journal entry: saving states should not write more than the journal does."""


class Run(InForce, eq=False):
    """One execution of a definition: what the runtime keeps in addition to the engine's state.

    `kind` is the engine's kind of runs. `state` is None until it is needed: that of an ended run is read from
    the journal on demand. `library` is what was loaded when the outermost caller began: the run's calls use
    these versions. `decays` says that a job is scheduled to forget it. `unreadable` is why the store could
    not restore it. `entries` counts those since its last snapshot or start; at `save_at` of them the next
    snapshot is made. `shown` is its element while it shows the current state. `by` is who began it from
    outside, `actor` who did so in that person's name (P39). `family` is the top-level run it belongs to;
    `depth` is the number of runs in the chain of calls from there to it, both included. `ancestors` are the
    runs that it descends from by start-plan, since the daemon began: the first for each definition.
    `transient` are objects that code keeps, by token, 0 being the run: they live no longer than the daemon
    (section 8). `past` is who answered it and which run it continues; None until that is asked for, or while
    the run is active. `retry_of` is the run that it retries, while it is active. `laps` counts the starts of
    its definition in a row that led only to its own, since the daemon began.
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
    unreadable: str = ""
    definition: Any = None
    library: Library | None = None
    state: Any = None
    shown: Element | None = None
    save_at: int = 0
    by: str = ""
    actor: str = ""
    family: int = 0
    depth: int = 1
    ancestors: Mapping[str, int] = {}
    transient: dict[int, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    past: tuple[tuple[str, ...], int] | None = None
    retry_of: int = 0
    laps: int = 0

    def __post_init__(self) -> None:
        self.kind, self.save_at = self.engine.kind, SNAPSHOT_AFTER

    @property
    def active(self) -> bool:
        """True until the run has ended."""
        return self.phase == "active"

    def begin(self, definition: Any, library: Library) -> None:
        """Follow a definition from a blank state; calls use the versions in `library`."""
        self.definition, self.library = definition, library
        self.state = self.engine.state_type.blank(self.eid, definition)
        self.status = self.state.status

    # --- what happens to it -----------------------------------------------------------------------------

    def restate(self) -> bool:
        """Drop the rendered element, which has changed; True if the row of the run changed too."""
        if self.shown is not None:
            self.shown = None
        status = self.state.status if self.state is not None else self.status
        if status == self.status and self.phase == "active":
            return False
        self.status = status
        return True

    def end(self, phase: str, at: float, error: int | None) -> None:
        """End the run; `error` is the eid of the element that says why it failed."""
        if self.state is None:
            self.status = phase
        self.phase, self.ended, self.error, self.library = phase, at, error, None
        self.transient.clear()

    def join(self, family: int, depth: int) -> None:
        """Place the run in a family, `depth` calls below the top-level run."""
        self.family, self.depth = family, depth

    def nest(self, nearby: tuple[tuple[int, ...], ...]) -> None:
        """Set the elements nearest to the calling step."""
        if self.caller is not None:
            self.caller = replace(self.caller, nearby=nearby)

    def schedule_forget(self) -> None:
        """Record that a job is scheduled to forget it."""
        self.decays = True

    # --- its state --------------------------------------------------------------------------------------

    def load(self, definition: Any, state: Any = None) -> None:
        """Follow a definition from a state; None: from the state in the journal."""
        self.definition, self.state = definition, state

    def follow(self, definition: Any, library: Library | None = None) -> None:
        """Continue with another version of its definition, calling the versions in `library`; without one,
        the current versions.
        """
        self.definition, self.digest, self.library = definition, definition.digest, library

    def recall(self, past: tuple[tuple[str, ...], int]) -> None:
        """Keep the `past` of a state that no longer changes."""
        self.past = past

    def rebuilt(self, state: Any, in_force: InForce) -> None:
        """Continue from what the store restored."""
        self.state, self.status = state, state.status
        again = resumed_from(self.engine, state)
        self.retry_of = again[0] if again is not None else 0
        if state.caller is not None and not (state.caller.run and state.caller.held is None):
            self.caller = state.caller  # the row has only a part of it
        for field in in_force.__struct_fields__:
            setattr(self, field, getattr(in_force, field))
        self.shown = None

    def snapshot_taken(self, size: int) -> None:
        """Record that its state was saved, in `size` bytes: the next snapshot comes after as much journal."""
        self.entries, self.save_at = 0, max(SNAPSHOT_AFTER, size // BYTES_AN_ENTRY)

    def lose(self, why: str) -> None:
        """Record why the store could not restore it; the first reason is kept."""
        self.unreadable = self.unreadable or why

    # --- its element ------------------------------------------------------------------------------------

    def element(self, render: Callable[[Run], bytes]) -> Element:
        """The element of the run, rendered once for each state."""
        if self.shown is None:
            self.shown = Element(self.eid, render(self), self.started, origin_of(self))
        return self.shown

    def render_anew(self) -> None:
        """Drop the rendered element, because something it shows is gone."""
        self.shown = None


def begin_again(run: Run, of: int) -> None:
    """Mark a run as a retry of another."""
    run.retry_of = of


def given_up_by(run: Run) -> Cancelled:
    """The event for a run that another gives up: it names who cancelled that one, and why."""
    given_up, cause = f"run {run.eid} gave it up", run.cancelled
    if cause is None:
        return Cancelled(0, 0.0, given_up)
    return replace(cause, id=0, at=0.0, reason=f"{given_up}: {cause.reason}" if cause.reason else given_up)


def origin_of(run: Run) -> Origin | None:
    """The origin of a run's element: the step that called the run, or the person or program that began it."""
    if run.caller is None or not run.caller.run:
        return Origin(by=run.by, actor=run.actor) if run.by else None
    return Origin(run.caller.run, run.caller.step, run.caller.call)
