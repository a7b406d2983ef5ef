"""The runs of an agent, and their families: the depth of their calls and their number (G14, P29)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from narval.agent.run import Run
from narval.core.elements.element import Element
from narval.core.engines.events import Failure
from narval.core.engines.registry import is_standing
from narval.core.index.sorted_numbers import SortedInts
from narval.core.kinds import ASKS
from narval.core.memory.memory import Memory
from narval.files.settings import CurrentSettings

MOST_FAILURES = 100
"""The most failed runs that are kept in order of failure."""

MOST_RENDERED = 1000
"""The most elements of ended runs that are kept rendered."""


class Families:
    """The families of active runs: a top-level run, and all runs that it called, directly or not.

    A service run has none: each run that it calls begins one. The settings of the home limit the depth of
    calls and the number of active runs of a family.
    """

    def __init__(self, home: CurrentSettings) -> None:
        self._home = home
        self._active: dict[int, int] = {}
        self._items: dict[int, dict[str, dict[int, None]]] = {}
        """The work items of each family that has any, by the step that asked, including ended ones."""
        self._warned: dict[int, None] = {}
        self._full: dict[int, None] = {}
        """Families that reached the size limit: they make no more calls, else a runaway would continue in the
        gaps.
        """

    def join(self, run: Run, caller: Run | None) -> None:
        """Add a run to the family of its caller, if it is known, or to its own."""
        if caller is not None and not is_standing(caller.kind):
            run.join(caller.family, caller.depth + 1)
        else:  # of a forgotten caller, only the eid is known
            top = run.caller.run if run.caller is not None and caller is None else 0
            run.join(top or run.eid, 1)
        if run.caller is not None and run.engine.definition_kind in ASKS:
            self._items.setdefault(run.family, {}).setdefault(run.caller.step, {})[run.eid] = None
        if run.phase == "active":
            self._active[run.family] = self._active.get(run.family, 0) + 1

    def leave(self, run: Run) -> None:
        """Stop counting an ended run."""
        left = self._active.pop(run.family, 0) - 1
        if left > 0:
            self._active[run.family] = left
        else:
            self._warned.pop(run.family, None)
            self._full.pop(run.family, None)

    def forget(self, run: Run) -> None:
        """Forget a work item."""
        steps = self._items.get(run.family, {}) if run.caller is not None else {}
        if run.caller is not None and run.eid in (items := steps.get(run.caller.step, {})):
            del items[run.eid]
            if not items:
                del steps[run.caller.step]
            if not steps:
                del self._items[run.family]

    def items(self, family: int, step: str) -> Iterable[int]:
        """The items that a step has asked for anywhere in a family, oldest first."""
        return self._items.get(family, {}).get(step, ())

    def needs(self, run: Run) -> bool:
        """True for a run of an active family that has asked people: it may still ask who answered."""
        return run.family in self._active and run.family in self._items

    def refusal(self, caller: Run, name: str) -> Failure | None:
        """The failure of a call that would make its family too deep or too large; None if it is allowed."""
        if is_standing(caller.kind):
            return None
        depth, size = (settings := self._home.now).run_depth, settings.run_family
        if caller.depth >= depth:
            why = f"{depth} runs have called one another, down to run {caller.eid} of {caller.name}"
            return Failure("too-deep", f"{why}, and it calls {name}; {_AGAIN} run_depth", final=True)
        if self._active.get(caller.family, 0) >= size:
            self._full[caller.family] = None
        if caller.family in self._full:
            why = f"{size} runs that run {caller.family} has called, directly or not, were under way"
            message = f"{why}, and {caller.name} calls {name}; {_AGAIN} run_family"
            return Failure("too-many-runs", message, final=True)
        return None

    def warning(self, run: Run) -> str | None:
        """The warning that this run brings its family past half of a limit, at most once per family."""
        if run.family in self._warned:
            return None
        depth, size = (settings := self._home.now).run_depth, settings.run_family
        if 2 * run.depth > depth > 1:
            excess = f"{run.depth} runs deep (at most {depth})"
        elif 2 * (active := self._active.get(run.family, 0)) > size > 1:
            excess = f"{active} runs under way (at most {size})"
        else:
            return None
        self._warned[run.family] = None
        return f"run {run.eid} of {run.name} was called {excess} within run {run.family}"


_AGAIN = "see whether a definition calls itself without end, or allow more in etc/narval.toml:"


class RunTable(dict[int, Run]):
    """The runs of an agent by eid; the active ones, those that answer calls, and those called by others."""

    __slots__ = (
        "_failures", "_memory", "_render", "_rendered", "_show", "active", "by_call", "children", "counts",
        "erred", "families", "names", "retrying",
    )  # fmt: skip

    def __init__(self, memory: Memory, render: Callable[[Run], bytes], home: CurrentSettings) -> None:
        super().__init__()
        self._memory, self._render = memory, render
        self._show = self.show
        """One bound method for all runs: memory keeps it for each."""
        self.active: dict[int, Run] = {}
        self.by_call: dict[str, int] = {}
        """The run that answers a call, from call id to eid, while it is active."""
        self.children: dict[int, dict[int, None]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """The number of runs by kind and phase."""
        self.names: Counter[str] = Counter()
        """The number of active runs by the name of their definition."""
        self.erred = SortedInts()
        """The runs that failed or ended with an error."""
        self.families = Families(home)
        self.retrying: dict[int, Run] = {}
        """The active runs that retry another."""
        self._failures: list[int] = []
        self._rendered: OrderedDict[int, None] = OrderedDict()
        """Ended runs whose element is kept rendered, the most recently viewed last."""

    def add(self, run: Run) -> None:
        """Add a run, and show it in memory."""
        self[run.eid] = run
        self.families.join(run, self.get(run.caller.run) if run.caller is not None else None)
        self.counts[run.kind, run.phase] += 1
        if run.phase == "failed" or run.error is not None:
            self._note_error(run)
        if run.phase == "active":
            self.active[run.eid] = run
            self.names[run.name] += 1
            if run.retry_of:
                self.note_retry(run)
        if run.caller is not None:
            self.children.setdefault(run.caller.run, {})[run.eid] = None
            if run.active:
                self.by_call.update(dict.fromkeys(run.caller.calls, run.eid))
        self._memory.show_run(run.eid, run.kind, self._show)

    def note_retry(self, run: Run) -> None:
        """Count an active run among those that retry another."""
        self.retrying[run.eid] = run

    def end(self, run: Run) -> None:
        """Count a run among those that have ended."""
        if self.active.pop(run.eid, None) is not None:
            self.retrying.pop(run.eid, None)
            self.names[run.name] -= 1
            if not self.names[run.name]:
                del self.names[run.name]
            self.families.leave(run)
            self.counts[run.kind, "active"] -= 1
            self.counts[run.kind, run.phase] += 1
            if run.phase == "failed" or run.error is not None:
                self._note_error(run)
        for call in run.caller.calls if run.caller is not None else ():
            if self.by_call.get(call) == run.eid:
                del self.by_call[call]

    def _note_error(self, run: Run) -> None:
        if run.phase == "failed":
            self._failures.append(run.eid)
            del self._failures[:-MOST_FAILURES]
        self.erred.add(run.eid)

    def remove(self, eid: int) -> None:
        """Forget a run."""
        run = self.pop(eid, None)
        if run is None:
            return
        self._memory.hide_run(eid, run.kind)
        self.families.forget(run)
        self.counts[run.kind, run.phase] -= 1
        self.erred.discard(eid)
        self.children.pop(eid, None)
        if run.caller is not None:
            siblings = self.children.get(run.caller.run, {})
            siblings.pop(eid, None)
            if not siblings:
                self.children.pop(run.caller.run, None)

    def show(self, eid: int) -> Element:
        """The element of a run; those of the most recently viewed ended runs are kept rendered."""
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
        """An ended run that `eid` called, directly or not, and that called no ended run; or `eid` itself.

        Runs that stay are skipped.
        """
        while True:
            over = (child for child in self.children.get(eid, ()) if not self[child].active)
            called = (child for child in over if not stays(self[child]))
            child = next(called, None)
            if child is None:
                return eid
            eid = child

    def is_over_within(self, top: int, eid: int) -> bool:
        """True if a run has ended, and is `top` or was called by it, directly or not."""
        run = self.get(eid)
        if run is None or run.active:
            return False
        return any(each.eid == top for each in self.with_callers(run))

    def with_callers(self, run: Run | None) -> Iterator[Run]:
        """A run, its caller, and so on, up to one that is forgotten; nothing without a run."""
        while run is not None:
            yield run
            run = self.get(run.caller.run) if run.caller is not None else None

    def top(self, run: Run) -> int:
        """The top-level run of a run, or the farthest caller that is still known."""
        while run.caller is not None and (caller := self.get(run.caller.run)) is not None:
            if is_standing(caller.kind):
                break
            run = caller
        return run.eid

    def within(self, eid: int) -> Iterator[Run]:
        """A run, and all runs that it called, directly or not, that are not forgotten."""
        if (run := self.get(eid)) is not None:
            yield run
            for child in self.children.get(eid, ()):
                yield from self.within(child)

    def is_awaited(self, run: Run) -> bool:
        """True if its caller waits for the run. A top-level run has no caller; another agent sends a message
        when it stops waiting.
        """
        if run.caller is None or not run.caller.run:
            return True
        caller = self.active.get(run.caller.run)
        return caller is not None and run.caller.call in caller.calls

    # --- over all runs ----------------------------------------------------------------------------------

    def latest_failures(self, most: int) -> list[Run]:
        """Failed runs that are not forgotten, latest first, at most `most`."""
        runs = (self[eid] for eid in reversed(self._failures) if eid in self)
        return list(islice(runs, most))

    def in_use(self) -> set[int]:
        """The elements given to calls that have not returned: a call that is attempted again needs them."""
        in_use = {
            eid
            for run in self.active.values()
            for call in run.calls.values()
            for _, eids in call.inputs
            for eid in eids
        }
        return in_use.union(*(timer.keeps for run in self.active.values() for timer in run.wakes.values()))
