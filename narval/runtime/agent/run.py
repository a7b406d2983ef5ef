"""A run: one execution of a definition, as the runtime keeps it; and the table of an agent's runs."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from narval.definitions.kinds import ASKS
from narval.definitions.library import Library
from narval.engines.effects import InForce
from narval.engines.engine import Engine
from narval.engines.events import Caller, Failure
from narval.memory.elements.element import Element, Origin
from narval.memory.memory import Memory

SNAPSHOT_AFTER = 1024
"""A run's state is saved whole after so many entries, or more when it is large."""

BYTES_AN_ENTRY = 200
"""About the size of a journal entry: saving states shall not write more than the journal does."""

MOST_FAILURES = 100
"""So many of the runs that failed are known by when they did."""

MOST_RENDERED = 1000
"""Elements of runs that are over which are kept rendered."""


class Run(InForce, eq=False):
    """One execution of a definition: what the runtime keeps beside the engine's own state.

    `kind` is the engine's kind of runs. `state` is None until it is needed: a run that is over is read from
    the journal on demand. `library` is what was loaded when the outermost caller began: the calls of the run
    are of these versions (N31). `decays` says that a job is set to forget it. `unreadable` is why the store
    could not give it back. `entries` lie behind its last snapshot or start, and with `save_at` of them the
    next is made. `shown` is its element, with the version of the state that it shows. `by` is who began it
    from outside, `actor` who did so in that person's name (P39). `family` is the top-level run it belongs to,
    and `depth` how many called one another down to it, both counted. `ancestors` are the runs that it
    descends from by start-plan, since the daemon began: of each definition the first. `transient` are objects
    that code keeps, by token, 0 being the run: they live no longer than the daemon (section 8). `past` is who
    answered it and which run it goes on from, as others ask; None until they did, or while it is active.
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
    version: int = 0
    shown: tuple[int, Element] | None = None
    save_at: int = 0
    by: str = ""
    actor: str = ""
    family: int = 0
    depth: int = 1
    ancestors: Mapping[str, int] = {}
    transient: dict[int, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    past: tuple[tuple[str, ...], int] | None = None

    def __post_init__(self) -> None:
        self.kind, self.save_at = self.engine.kind, SNAPSHOT_AFTER

    @property
    def active(self) -> bool:
        """True while it is not over."""
        return self.phase == "active"

    def begin(self, definition: Any, library: Library) -> None:
        """Follow a definition from a blank state; its calls are of the versions in `library`."""
        self.definition, self.library = definition, library
        self.state = self.engine.begin(self.eid, definition)

    # --- what happens to it -----------------------------------------------------------------------------

    def restate(self) -> bool:
        """Look different from now on; True if the row of the run is another too."""
        self.version += 1
        status = self.state.status if self.state is not None else self.status
        if status == self.status and self.phase == "active":
            return False
        self.status = status
        return True

    def end(self, phase: str, at: float, error: int | None) -> None:
        """Be over: `error` is the eid of the element that says why it failed."""
        if self.state is None:
            self.status = phase
        self.phase, self.ended, self.error, self.library = phase, at, error, None
        self.transient.clear()

    def wait_for_nothing(self) -> None:
        """Drop calls, watches and timers."""
        self.wakes.clear()
        self.watches.clear()
        self.calls.clear()
        self.abandoned.clear()

    def nest(self, nearby: tuple[tuple[int, ...], ...]) -> None:
        """Know the elements nearest to the calling step."""
        if self.caller is not None:
            self.caller = replace(self.caller, nearby=nearby)

    def schedule_forget(self) -> None:
        """A job is set to forget it."""
        self.decays = True

    # --- its state --------------------------------------------------------------------------------------

    def load(self, definition: Any, state: Any = None) -> None:
        """Follow a definition from a state; None: from one that the journal has."""
        self.definition, self.state = definition, state

    def follow(self, definition: Any) -> None:
        """Go on by another version of its definition, and call the current ones of others."""
        self.definition, self.digest, self.library = definition, definition.digest, None

    def recall(self, past: tuple[tuple[str, ...], int]) -> None:
        """Know of a state that does not change any more."""
        self.past = past

    def rebuilt(self, state: Any, in_force: InForce) -> None:
        """Go on from what the store gave back."""
        self.state, self.status = state, state.status
        if state.caller is not None and not (state.caller.run and state.caller.held is None):
            self.caller = state.caller  # the row has but a part of it
        for field in in_force.__struct_fields__:
            setattr(self, field, getattr(in_force, field))
        self.version += 1

    def snapshot_taken(self, size: int) -> None:
        """Its state was saved whole, in `size` bytes: the next time is when as much journal is written."""
        self.entries, self.save_at = 0, max(SNAPSHOT_AFTER, size // BYTES_AN_ENTRY)

    def lose(self, why: str) -> None:
        """Note why the store could not give it back; the first reason stays."""
        self.unreadable = self.unreadable or why

    # --- its element ------------------------------------------------------------------------------------

    def element(self, render: Callable[[Run], bytes]) -> Element:
        """The element of the run, rendered once for each version of its state (N2)."""
        if self.shown is None or self.shown[0] != self.version:
            self.shown = (self.version, Element(self.eid, render(self), self.started, origin_of(self)))
        return self.shown[1]

    def render_anew(self) -> None:
        """Drop the rendered element: something it shows is gone."""
        self.shown = None


def origin_of(run: Run) -> Origin | None:
    """The origin of the element of a run: the step that called it, or who began it from outside."""
    if run.caller is None or not run.caller.run:
        return Origin(by=run.by, actor=run.actor) if run.by else None
    return Origin(run.caller.run, run.caller.step, run.caller.call)


class Families:
    """The families of runs under way: a top-level run, and all that were called by it, directly or not.

    `depth` is how deep runs may call one another, `size` how many of one family may be under way.
    """

    def __init__(self, depth: int = 100, size: int = 10_000) -> None:
        self._depth, self._size = depth, size
        self._active: dict[int, int] = {}
        self._items: dict[int, dict[str, dict[int, None]]] = {}
        """The items of each family that has any, by the step that asked, over or not."""
        self._warned: dict[int, None] = {}
        self._full: dict[int, None] = {}
        """Families that met the limit of size: they call no more, else a runaway would go on in the gaps."""

    def limit(self, depth: int, size: int) -> None:
        """Have other limits from now on, for runs that begin."""
        self._depth, self._size = depth, size

    def join(self, run: Run, caller: Run | None) -> None:
        """Know a run as one of the family of who called it, if that is known, or of its own."""
        if caller is not None:
            run.family, run.depth = caller.family, caller.depth + 1
        else:  # of one that is forgotten, what it called is all that is known
            run.family = (run.caller.run if run.caller is not None else 0) or run.eid
        if run.caller is not None and run.engine.definition_kind in ASKS:
            self._items.setdefault(run.family, {}).setdefault(run.caller.step, {})[run.eid] = None
        if run.active:
            self._active[run.family] = self._active.get(run.family, 0) + 1

    def leave(self, run: Run) -> None:
        """Count a run no more: it is over."""
        left = self._active.pop(run.family, 0) - 1
        if left > 0:
            self._active[run.family] = left
        else:
            self._warned.pop(run.family, None)
            self._full.pop(run.family, None)

    def forget(self, run: Run) -> None:
        """Know an item no more."""
        steps = self._items.get(run.family, {}) if run.caller is not None else {}
        if run.caller is not None and run.eid in (items := steps.get(run.caller.step, {})):
            del items[run.eid]
            if not items:
                del steps[run.caller.step]
            if not steps:
                del self._items[run.family]

    def items(self, family: int, step: str) -> Iterable[int]:
        """The items that a step has asked for anywhere in a family, the oldest first (P29)."""
        return self._items.get(family, {}).get(step, ())

    def needs(self, run: Run) -> bool:
        """True of a run whose family goes on and has asked people: who answered is asked for (P29)."""
        return run.family in self._active and run.family in self._items

    def refusal(self, caller: Run, name: str) -> Failure | None:
        """The failure of a call that would make its family too deep or too large; None if it may be made."""
        if caller.depth >= self._depth:
            why = f"{self._depth} runs have called one another, down to run {caller.eid} of {caller.name}"
            return Failure("too-deep", f"{why}, and it calls {name}; {_AGAIN} run_depth", final=True)
        if self._active.get(caller.family, 0) >= self._size:
            self._full[caller.family] = None
        if caller.family in self._full:
            why = f"{self._size} runs that run {caller.family} has called, directly or not, were under way"
            message = f"{why}, and {caller.name} calls {name}; {_AGAIN} run_family"
            return Failure("too-many-runs", message, final=True)
        return None

    def warning(self, run: Run) -> str | None:
        """The words for a family that has come half the way to a limit with this run, once for each."""
        if run.family in self._warned:
            return None
        if 2 * run.depth > self._depth > 1:
            found = f"{run.depth} runs deep (at most {self._depth})"
        elif 2 * (active := self._active.get(run.family, 0)) > self._size > 1:
            found = f"{active} runs under way (at most {self._size})"
        else:
            return None
        self._warned[run.family] = None
        return f"run {run.eid} of {run.name} was called {found} within run {run.family}"


_AGAIN = "see whether a definition calls itself without end, or allow more in etc/narval.toml:"


class RunTable(dict[int, Run]):
    """The runs of an agent by eid; those under way, those that answer calls, those that others called."""

    __slots__ = (
        "_failures", "_memory", "_render", "_rendered", "_show", "active", "by_call", "children", "counts",
        "families",
    )  # fmt: skip

    def __init__(self, memory: Memory, render: Callable[[Run], bytes]) -> None:
        super().__init__()
        self._memory, self._render = memory, render
        self._show = self.show
        """One bound method for all: memory keeps it for each run."""
        self.active: dict[int, Run] = {}
        self.by_call: dict[str, int] = {}
        """The run that answers a call: call id to eid, while it is active."""
        self.children: dict[int, dict[int, None]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """The number of runs by kind and phase."""
        self.families = Families()
        self._failures: list[int] = []
        self._rendered: OrderedDict[int, None] = OrderedDict()
        """Runs that are over and whose element is kept rendered, the one looked at last at the end."""

    def add(self, run: Run) -> None:
        """Know a run from now on, and show it in memory (N2)."""
        self[run.eid] = run
        self.families.join(run, self.get(run.caller.run) if run.caller is not None else None)
        self.counts[run.kind, run.phase] += 1
        if run.phase == "failed":
            self._note_failure(run)
        if run.active:
            self.active[run.eid] = run
        if run.caller is not None:
            self.children.setdefault(run.caller.run, {})[run.eid] = None
            if run.active:
                self.by_call.update(dict.fromkeys(run.caller.calls, run.eid))
        self._memory.show_run(run.eid, run.kind, self._show)

    def end(self, run: Run) -> None:
        """Count a run among those that are over."""
        if self.active.pop(run.eid, None) is not None:
            self.families.leave(run)
            self.counts[run.kind, "active"] -= 1
            self.counts[run.kind, run.phase] += 1
            if run.phase == "failed":
                self._note_failure(run)
        for call in run.caller.calls if run.caller is not None else ():
            if self.by_call.get(call) == run.eid:
                del self.by_call[call]

    def _note_failure(self, run: Run) -> None:
        self._failures.append(run.eid)
        del self._failures[:-MOST_FAILURES]

    def remove(self, eid: int) -> None:
        """Forget a run."""
        run = self.pop(eid, None)
        if run is None:
            return
        self._memory.hide_run(eid, run.kind)
        self.families.forget(run)
        self.counts[run.kind, run.phase] -= 1
        self.children.pop(eid, None)
        if run.caller is not None:
            siblings = self.children.get(run.caller.run, {})
            siblings.pop(eid, None)
            if not siblings:
                self.children.pop(run.caller.run, None)

    def show(self, eid: int) -> Element:
        """The element of a run; of those that are over, so many looked at last are kept rendered."""
        run = self[eid]
        element = run.element(self._render)
        if not run.active:
            self._rendered[eid] = None
            self._rendered.move_to_end(eid)
            if len(self._rendered) > MOST_RENDERED:
                oldest = self.get(self._rendered.popitem(last=False)[0])
                if oldest is not None:
                    oldest.render_anew()
        return element

    # --- who called whom --------------------------------------------------------------------------------

    def innermost(self, eid: int, stays: Callable[[Run], bool]) -> int:
        """Of those a run called, directly or not, one that is over and called none that is; or itself.

        A run that stays counts as none that was called.
        """
        while True:
            over = (child for child in self.children.get(eid, ()) if not self[child].active)
            called = (child for child in over if not stays(self[child]))
            child = next(called, None)
            if child is None:
                return eid
            eid = child

    def is_over_within(self, top: int, eid: int) -> bool:
        """True if a run is over, and is `top` or was called by it, directly or not."""
        run = self.get(eid)
        if run is None or run.active:
            return False
        while run is not None and run.eid != top:
            run = self.get(run.caller.run) if run.caller is not None else None
        return run is not None

    def top(self, run: Run) -> int:
        """The top-level run that a run belongs to, or the farthest caller that is still known."""
        while run.caller is not None and (caller := self.get(run.caller.run)) is not None:
            run = caller
        return run.eid

    def is_awaited(self, run: Run) -> bool:
        """True if its caller waits for the run; a top-level run belongs to itself, and another agent says so
        when it waits no more (G35).
        """
        if run.caller is None or not run.caller.run:
            return True
        caller = self.active.get(run.caller.run)
        return caller is not None and run.caller.call in caller.calls

    # --- of all of them ---------------------------------------------------------------------------------

    def latest_failures(self, most: int) -> list[Run]:
        """Runs that failed and are not forgotten, the latest first."""
        found = (self[eid] for eid in reversed(self._failures) if eid in self)
        return list(islice(found, most))

    def in_use(self) -> set[int]:
        """The elements that calls not back were given: a call that is tried again needs them (N5)."""
        given = {
            eid
            for run in self.active.values()
            for call in run.calls.values()
            for _, eids in call.inputs
            for eid in eids
        }
        return given.union(*(timer.keeps for run in self.active.values() for timer in run.wakes.values()))
