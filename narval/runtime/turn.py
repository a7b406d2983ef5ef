"""One turn of an agent, before it is recorded: events are told, inner commands take effect (§ "One turn").

A turn is what the engines read (`View`) and where their inner commands take effect. Everything it does is kept
twice: in memory at once, and as rows of the batch that will be committed. Nothing outside is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from narval.engines import ENGINES, commands, runnable
from narval.engines.commands import Command
from narval.engines.events import Caller, Event, Matched, Problem, Returned, Started, Woken
from narval.memory import change as changes
from narval.memory.change import Change, MarkScope
from narval.memory.decay import Idle
from narval.memory.element import Element, Origin, canonical, children, local_name, parse
from narval.memory.match import Bound
from narval.memory.trouble import make_error, read_error
from narval.runtime import codec
from narval.runtime.agents import Agent, Run, origin_of
from narval.runtime.deeds import Deed, Forgetting, Starting, encode_deed
from narval.runtime.recovery import definition_of, in_force, rebuild, state_of
from narval.runtime.schemas import Schemas
from narval.runtime.store import Batch, MomentRow, RunRow, SnapshotRow, Store

log = logging.getLogger("narval.turn")

ACTED: MarkScope = ("narval", "start-plan", "acted")
"""Marks the `start-plan` elements that have been acted upon (N4)."""

START_PLAN, QUIT = "start-plan", "quit"
SNAPSHOT_AFTER = 1024
"""A run's state is saved whole when its journal has doubled, but not before so many entries."""


class Turn:
    """What happens between two commits."""

    def __init__(self, agent: Agent, store: Store, schemas: Schemas, at: float) -> None:
        self.agent, self.store, self.schemas, self.at = agent, store, schemas, at
        self.memory = agent.memory
        self.batch = Batch()
        self.outer: list[tuple[Run, commands.Outer]] = []
        self.ended: list[Run] = []
        self.quit = False
        self._run: Run | None = None
        self._facts: list[Change] = []
        self._woken: list[tuple[int, Event]] = []
        self._controls: list[Element] = []

    # --- what engines read (View) ---------------------------------------------------------------------

    @property
    def next_eid(self) -> int:
        """The eid the next element will have."""
        return self.memory.next_eid

    def element(self, eid: int) -> Element | None:
        """The element, or None when it was forgotten."""
        return self.memory.element(eid)

    def matching(self, bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """All of memory that fits and may be taken, oldest first."""
        return self.memory.matching(bound, scope)

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """Those of `eids` that fit and may be taken."""
        return self.memory.among(eids, bound, scope)

    def fits(self, element: Element, bound: Bound) -> bool:
        """Whether an element fits."""
        return self.memory.fits(element, bound)

    def context(self, run: int) -> Iterable[int]:
        """The eids a run holds."""
        return self.memory.contexts.of(run)

    def caller(self, run: int) -> Caller | None:
        """Who called a run."""
        known = self.agent.runs.get(run)
        return known.caller if known is not None else None

    def reserved(self, bound: Bound, scope: MarkScope | None) -> bool:
        """Whether some element would fit if it were not reserved."""
        return self.memory.reserved_for(bound, scope)

    def keyed(self, name: str, expression: str, value: str) -> bool:
        """Whether a unique output gave this value before."""
        return (name, expression, value) in self.memory.keys

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of that kind and name."""
        return self.agent.library.get(kind, name)

    def schema_fault(self, xml: bytes) -> str | None:
        """Why the schema of the element's name refuses it (N7)."""
        return self.schemas.refusal(xml)

    # --- events ---------------------------------------------------------------------------------------

    def tell(self, run_eid: int, event: Event) -> None:
        """Tell a run one event, and let take effect what follows from it."""
        run = self.agent.active.get(run_eid)
        if run is None or not self._still_true(run, event):
            return
        event = msgspec.structs.replace(event, id=self.agent.sequence + 1, at=self.at)
        self._run = run
        try:
            decided, wished = run.engine.advance(run.definition, run.state, event, self)
        except Exception as error:
            log.exception("run %d of %s broke down", run.eid, run.name)
            self._take_back(run)
            self._break(run, event, error)
        else:
            self._record(run, event, decided, wished)
        self._run = None

    def _still_true(self, run: Run, event: Event) -> bool:
        """Whether a match still stands: another run may have taken the element meanwhile."""
        if not isinstance(event, Matched):
            return True
        watch = run.watches.get(event.watch)
        return watch is not None and any(self.memory.may_take(event.eid, scope) for scope in watch.scopes)

    def _record(self, run: Run, event: Event, decided: list[Any], wished: list[Command]) -> None:
        """Keep what one advance decided, and let its remaining commands take effect."""
        self._flush()
        self.agent.sequence += 1 + len(decided) + len(wished)
        run.entries += 1
        self.batch.journal.append((run.eid, event.id, event, decided, wished))
        if isinstance(event, Returned):
            run.calls.pop(event.call, None)
            run.abandoned.discard(event.call)
        for command in wished:
            effect = _EFFECTS.get(type(command))
            if effect is not None:
                effect(self, run, command)
        if decided:
            self._changed(run)
        if run.active and run.entries - run.saved >= max(SNAPSHOT_AFTER, run.saved):
            run.saved = run.entries
            data = codec.encode_snapshot(run.state, in_force(run))
            self.batch.snapshots.append(SnapshotRow(run.eid, self.agent.sequence, data))

    def _changed(self, run: Run) -> None:
        """A run looks different now: those who wait for such an element see it (N2)."""
        run.version += 1
        word = run.engine.word(run.state)
        if word != run.word or not run.active:
            run.word = word
            self.batch.runs.append(row_of(run))
        if self.agent.index.interested(run.kind):
            element = self.memory.element(run.eid)
            if element is not None:
                self.offer(element)

    def _take_back(self, run: Run) -> None:
        """An advance raised: what it did to memory is undone, and its run is as the journal says."""
        for fact in reversed(self._facts):
            self.memory.revert(fact)
        self._facts.clear()
        self._woken.clear()
        self._controls.clear()
        self.agent.unwait(run)
        pending = [advance for advance in self.batch.journal if advance[0] == run.eid]
        rebuild(self.agent, self.store, run, pending)

    def _break(self, run: Run, event: Event, error: Exception) -> None:
        """The run fails where it stands; the others go on."""
        kind, message = "internal-error", f"narval failed while it followed {run.name}: {error}"
        eid = self.add(make_error(kind, message, plan=run.eid, recipe=run.name), Origin(run.eid), held=run)
        decided = run.engine.broken(run.state, self.at, eid)
        for change in decided:
            run.engine.apply(run.state, change)
        wished: list[Command] = [commands.Abandon(call) for call in run.calls]
        if run.reserved:
            self.take(commands.Release(tuple(run.reserved)))
        wished.append(commands.Finish(run.engine.word(run.state), "failed", (eid,), eid))
        self._record(run, event, decided, wished)

    # --- inner commands -------------------------------------------------------------------------------

    def take(self, command: Command) -> None:
        """An inner command takes effect; those that no decision of the same advance can see wait for its end."""
        effect = _AT_ONCE.get(type(command))
        if effect is not None and self._run is not None:
            effect(self, self._run, command)

    def _fact(self, fact: Change) -> None:
        self.memory.apply(fact)
        self._facts.append(fact)

    def _flush(self) -> None:
        """What an advance did to memory stands: it becomes rows, and wakes whom it concerns."""
        for fact in self._facts:
            self.batch.take(fact)
            if self.agent.idle is not None:
                _note_use(self.agent.idle, fact, self.at)
        self._facts.clear()
        for run, event in self._woken:
            self.agent.queue.append((0, run, event))
        self._woken.clear()
        controls, self._controls = self._controls, []
        for element in controls:
            self.obey(element)

    def _take_add(self, run: Run, command: commands.Add) -> None:
        self._enter(command.element, "", run if command.held else None)

    def _take_hold(self, run: Run, command: commands.Hold) -> None:
        self._hold(run, command.eids)

    def _hold(self, run: Run, eids: Iterable[int]) -> None:
        new = tuple(eid for eid in eids if eid in self.memory and not self.memory.contexts.holds(run.eid, eid))
        if new:
            self._fact(changes.Held(run.eid, new))

    def _take_mark(self, run: Run, command: commands.Mark) -> None:
        marked = self.memory.marks.get(command.scope, ())
        new = tuple(eid for eid in command.eids if eid not in marked)
        if new:
            self._fact(changes.Used(command.scope, new))

    def _take_reserve(self, run: Run, command: commands.Reserve) -> None:
        self._fact(changes.Reserved(tuple(eid for eid in command.eids if eid not in self.memory.reserved)))
        run.reserved.update(dict.fromkeys(command.eids))

    def _take_release(self, run: Run, command: commands.Release) -> None:
        self._free(run, command.eids)
        for eid in command.eids:
            element = self.memory.element(eid)
            if element is not None:
                self.offer(element)

    def _take_outdate(self, run: Run, command: commands.Outdate) -> None:
        self._free(run, command.eids)
        self._fact(changes.Outdated(tuple(eid for eid in command.eids if eid not in self.memory.outdated)))

    def _free(self, run: Run, eids: tuple[int, ...]) -> None:
        self._fact(changes.Released(tuple(eid for eid in eids if eid in self.memory.reserved)))
        for eid in eids:
            run.reserved.pop(eid, None)

    def _take_key(self, run: Run, command: commands.Key) -> None:
        key = (command.name, command.expression, command.value)
        if key not in self.memory.keys:
            self._fact(changes.Keyed(*key))

    def _take_watch(self, run: Run, command: commands.Watch) -> None:
        run.watches[command.watch] = command
        for bound in command.conditions:
            self.agent.index.add((run.eid, command.watch), bound)

    def _take_unwatch(self, run: Run, command: commands.Unwatch) -> None:
        if run.watches.pop(command.watch, None) is not None:
            self.agent.index.discard((run.eid, command.watch))

    # --- commands that take effect when the advance is over -------------------------------------------

    def _wake(self, run: Run, command: commands.Wake) -> None:
        run.wakes[command.wake] = command
        self.agent.moments.push(command.at, (run.eid, command.wake), None)

    def _unwake(self, run: Run, command: commands.Unwake) -> None:
        if run.wakes.pop(command.wake, None) is not None:
            self.agent.moments.discard((run.eid, command.wake))

    def _forget(self, run: Run, command: commands.Forget) -> None:
        self.later(command.at, Forgetting(run.eid))

    def _start(self, run: Run, command: commands.Start) -> None:
        if command.at is None:
            self.start(command.name, command.elements, attempt=command.attempt)
        else:
            self.later(command.at, Starting(command.name, command.elements, command.attempt))

    def _finish(self, run: Run, command: commands.Finish) -> None:
        run.phase, run.ended, run.error = command.phase, self.at, command.error
        self.agent.retire(run)
        self.ended.append(run)
        if run.caller is not None:
            problem = None if command.phase == "done" else self._problem_of(run)
            back = Returned(0, 0.0, run.caller.call, eids=command.eids, problem=problem)
            self.agent.queue.append((0, run.caller.run, back))

    def _problem_of(self, run: Run) -> Problem:
        element = self.memory.element(run.error) if run.error is not None else None
        if element is None:
            return Problem(f"run-{run.phase}", f"run {run.eid} of {run.name} was {run.phase}")
        kind, message, _ = read_error(element)
        return Problem(kind, message)

    def _call(self, run: Run, command: commands.Call) -> None:
        run.calls[command.call] = command
        self.outer.append((run, command))

    def _abandon(self, run: Run, command: commands.Abandon) -> None:
        run.abandoned.add(command.call)
        self.outer.append((run, command))

    def _answer(self, run: Run, command: commands.Answer) -> None:
        self.outer.append((run, command))

    # --- what the loop and the surfaces do in a turn --------------------------------------------------

    def add(self, xml: bytes, origin: Origin | None = None, declared: str = "", held: Run | None = None) -> int:
        """An element enters memory from outside an engine; its eid."""
        eid = self.memory.next_eid
        self._enter(Element(eid, xml, self.at, origin), declared, held)
        if self._run is None or held is not None:
            self._flush()
        return eid

    def _enter(self, element: Element, declared: str, held: Run | None) -> None:
        self._fact(changes.Added(element, declared))
        if held is not None:
            self._fact(changes.Held(held.eid, (element.eid,)))
        self.offer(element)
        if local_name(element.name) in (START_PLAN, QUIT):
            self._controls.append(element)

    def offer(self, element: Element) -> None:
        """Let the index say which watches an element may satisfy; their runs will be told."""
        index = self.agent.index
        if len(index) and index.interested(element.name):
            for run, watch in index.wakes(self.memory.tree(element)):
                self._woken.append((run, Matched(0, 0.0, watch, element.eid)))
            if self._run is None:
                self._flush()

    def wake(self, run_eid: int, event: Woken) -> None:
        """A moment has come for a run."""
        run = self.agent.active.get(run_eid)
        if run is not None and run.wakes.pop(event.wake, None) is not None:
            self.tell(run_eid, event)

    def forget(self, fact: changes.Forgotten) -> None:
        """Runs and elements leave memory; numbering goes on behind them (N1)."""
        self.change(fact)
        for run in fact.runs:
            self.agent.dismiss(run)
        self.batch.meta.append(("next_eid", str(self.memory.next_eid)))

    def change(self, fact: Change) -> None:
        """A change of memory that no engine asked for: forgetting, declaring."""
        self._fact(fact)
        self._flush()

    def obey(self, element: Element) -> None:
        """Do what a control element says: `start-plan` (N4), `quit` (N34)."""
        if local_name(element.name) == QUIT:
            self.quit = True
            return
        root = parse(element.xml)
        name = root.get("recipe", "")
        if runnable(self.agent.library, name) is None:
            message = f"start-plan names {name or 'nothing'}, and no such definition is loaded; it waits for it"
            self.add(make_error("unknown-target", message, start=str(element.eid)))
            return
        if element.eid not in self.memory.marks.get(ACTED, ()):
            self._fact(changes.Used(ACTED, (element.eid,)))
        first = tuple(self.add(child) for child in _children_of(element))
        self.start(name, first)

    def start(
        self,
        name: str,
        elements: tuple[int, ...] = (),
        *,
        kind: str | None = None,
        caller: Caller | None = None,
        attempt: int = 0,
    ) -> Run | None:
        """A run of the current version of a definition begins; None when there is no such definition."""
        library = self.agent.library
        definition = library.get(kind, name) if kind is not None else runnable(library, name)
        if definition is None:
            return None
        engine = ENGINES[definition.kind]
        run = Run(self.memory.next_eid, engine, name, definition.digest, self.at, caller, attempt)
        run.definition = definition
        run.state = engine.begin(run.eid, definition)
        self.agent.enlist(run, self.render)
        self.batch.runs.append(row_of(run))
        self.agent.queue.append((0, run.eid, Started(0, 0.0, elements, caller, attempt)))
        return run

    def later(self, at: float, deed: Deed) -> None:
        """Something to be done at a moment, whoever runs then."""
        self.agent.sequence += 1
        identifier = str(self.agent.sequence)
        self.batch.moments.append(MomentRow(identifier, at, encode_deed(deed)))
        self.agent.moments.push(at, (0, identifier), deed)

    def render(self, run: Run) -> Element:
        """A run as an element of memory, rendered once for each version of its state (N2)."""
        if run.shown is None or run.shown[0] != run.version:
            state, definition = state_of(self.agent, self.store, run), definition_of(self.agent, self.store, run)
            xml = run.engine.render(definition, state, self.memory.contexts.of(run.eid))
            run.shown = (run.version, Element(run.eid, xml, run.started, origin_of(run)))
            if not run.active:
                run.state = run.definition = None
        return run.shown[1]


def _note_use(idle: Idle, fact: Change, at: float) -> None:
    if isinstance(fact, changes.Added):
        idle.added(fact.element.eid, at)
    elif isinstance(fact, changes.Held | changes.Used | changes.Reserved):
        idle.used(fact.eids, at)


def row_of(run: Run) -> RunRow:
    """A run as a row of the store."""
    caller = run.caller
    return RunRow(
        eid=run.eid,
        kind=run.kind,
        name=run.name,
        digest=run.digest,
        state=run.word,
        phase=run.phase,
        started=run.started,
        ended=run.ended,
        parent_run=caller.run if caller else None,
        parent_step=caller.step if caller else "",
        parent_call=caller.call if caller else "",
        attempt=run.attempt,
        error=run.error,
    )


def _children_of(element: Element) -> list[bytes]:
    return [canonical(child) for child in children(parse(element.xml))]


_AT_ONCE: dict[type, Any] = {
    commands.Add: Turn._take_add,
    commands.Hold: Turn._take_hold,
    commands.Mark: Turn._take_mark,
    commands.Reserve: Turn._take_reserve,
    commands.Release: Turn._take_release,
    commands.Outdate: Turn._take_outdate,
    commands.Key: Turn._take_key,
    commands.Watch: Turn._take_watch,
    commands.Unwatch: Turn._take_unwatch,
}
_EFFECTS: dict[type, Any] = {
    commands.Wake: Turn._wake,
    commands.Unwake: Turn._unwake,
    commands.Forget: Turn._forget,
    commands.Start: Turn._start,
    commands.Finish: Turn._finish,
    commands.Call: Turn._call,
    commands.Abandon: Turn._abandon,
    commands.Answer: Turn._answer,
}
