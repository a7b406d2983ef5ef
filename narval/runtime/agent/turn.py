"""One turn of an agent, before it is recorded: events are told, inner commands take effect (§ "One turn").

A turn is what the engines read (`View`) and where their inner commands take effect. Everything it does is
kept twice: in memory at once, and as rows of the batch that will be committed. It touches nothing outside.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from msgspec.structs import replace

from narval.engines import commands
from narval.engines.commands import Command
from narval.engines.events import (
    Caller,
    CallStarting,
    Cancelled,
    Event,
    Matched,
    Plain,
    Produced,
    Resume,
    Returned,
    Started,
    TimerFired,
)
from narval.engines.registry import engine_of, runnable
from narval.errors import ActionError, StoreError, UnreadableError
from narval.memory.elements import changes
from narval.memory.elements.canonical import canonical
from narval.memory.elements.changes import Change, MarkScope
from narval.memory.elements.control_elements import ACTED, CONTROLS, QUIT
from narval.memory.elements.element import Element, Origin, children, local_name, parse
from narval.memory.elements.error_element import make_error
from narval.memory.patterns.pattern import Bound
from narval.memory.retention import IdleTracker
from narval.runtime.agent.agent import PROCESS, AgentState, WatchKey
from narval.runtime.agent.effects import AFTERWARDS, AT_ONCE
from narval.runtime.agent.jobs import Job, encode_deed
from narval.runtime.agent.replay import as_far_as_readable, in_force, rebuild
from narval.runtime.agent.run import Run
from narval.runtime.home.schemas import Schemas
from narval.runtime.store import codec
from narval.runtime.store.batch import Advance, Batch, MomentRow, RunRow, SnapshotRow
from narval.runtime.store.store import Store

log = logging.getLogger("narval.turn")


_BACK = (Returned, Produced, CallStarting)


class Turn:
    """What happens between two commits."""

    def __init__(
        self, agent: AgentState, store: Store, schemas: Schemas, at: float, *, record_only: bool = False
    ) -> None:
        self.agent, self.store, self.schemas, self.at = agent, store, schemas, at
        self.record_only = record_only
        """Nothing is told and nothing performed: what is asked is recorded for the next daemon."""
        self.memory = agent.memory
        self.batch = Batch()
        self.outer: deque[tuple[Run, commands.Outer]] = deque()
        self.ended: list[Run] = []
        self.quit = False
        self._run: Run | None = None
        self._altered: dict[int, Run] = {}
        """Runs whose rows are others now."""
        self._unsettled = False
        """Whether one of the three that follow holds something."""
        self._facts: list[Change] = []
        self._offered: list[int] = []
        self._controls: list[Element] = []
        self._lent: set[int] | None = None

    def use_schemas(self, schemas: Schemas) -> None:
        """Let elements fit these schemas for the rest of the turn."""
        self.schemas = schemas

    # --- what engines read (View) ---------------------------------------------------------------------

    @property
    def next_eid(self) -> int:
        """The eid the next element will have."""
        return self.memory.next_eid

    @property
    def zone(self) -> str:
        """The name of the zone whose calendar the home keeps."""
        return self.agent.zone

    @property
    def up_since(self) -> float:
        """Since when the agent has been at work without a break."""
        return self.agent.since

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
        return bound.test(self.memory.tree(element))

    def fits_since(self, eid: int, bound: Bound, scope: MarkScope | None, known: float = inf) -> float:
        """The moment when an element that fits was added, or the first of those that it replaced (N38)."""
        return self.memory.fits_since(eid, bound, scope, known)

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

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        """Whether a unique output gave this value before."""
        return (name, expression, value) in self.memory.unique_values

    def is_up_to_date(self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...]) -> bool:
        """Whether these files are there now, and none that is needed is newer (A9)."""
        return self.agent.is_up_to_date(directory, creates, needs)

    def definition(self, kind: str, name: str) -> Any:
        """The definition of that kind and name, in the version that counts for the run that asks."""
        return self.agent.definition(self._run, kind, name)

    def pending_call(self, call: str) -> commands.Call | None:
        """A call that the run which is being told has under way."""
        return self._run.calls.get(call) if self._run is not None else None

    def active_watch(self, watch: str) -> commands.Watch | None:
        """A watch that the run which is being told has set."""
        return self._run.watches.get(watch) if self._run is not None else None

    def schema_fault(self, xml: bytes) -> str | None:
        """Why the schema of the element's name refuses it (N7)."""
        return self.schemas.refusal(xml)

    @property
    def listeners(self) -> Mapping[str, int]:
        """Who hears of every process, and the bits of the events they hear of."""
        return self.agent.listeners(self._run)

    def ask(self, function: str, arguments: Mapping[str, Plain], /) -> Plain:
        """What the user's code says now. Raises ActionError."""
        if self._run is None or self.agent.asking is None:
            raise ActionError(f"nobody is there to be asked for {function}", "unknown-function", final=True)
        return self.agent.asking(self._run, function, arguments, self.at)

    # --- events ---------------------------------------------------------------------------------------

    def tell_next(self) -> None:
        """Tell the first event of the queue; of an offer, the next who waits for it and may still have it."""
        agent = self.agent
        row, run, event = agent.queue[0]
        if run == 0 and isinstance(event, Matched):
            if agent.waiters is None:
                agent.waiters = deque(self._waiting_for(event.eid))
            while agent.waiters:
                run, watch = agent.waiters.popleft()
                if self.tell(run, Matched(0, 0.0, watch, event.eid)):
                    break
            if agent.waiters:
                return
            agent.waiters = None
        else:
            self.tell(run, event)
        agent.queue.popleft()
        if row:
            self.batch.dequeued.append(row)

    def _waiting_for(self, eid: int) -> Iterable[WatchKey]:
        element = self.memory.element(eid)
        return self.agent.index.wakes(self.memory.tree(element)) if element is not None else ()

    def tell(self, run_eid: int, event: Event) -> bool:
        """Tell a run one event, and let take effect what follows; False if it says nothing any more.

        Raises StoreError.
        """
        run = self.agent.active.get(run_eid)
        if run is None or not self._still_true(run, event):
            return False
        if run.state is None:
            self.fail_unreadable(run)
            return False
        event = replace(event, id=self.agent.sequence + 1, at=self.at)
        self._run = run
        try:
            decided, wished = run.engine.advance(run.definition, run.state, event, self)
        except StoreError:
            raise
        except ActionError as error:  # what was asked within the decision did not answer
            self._run = None
            log.warning("run %d of %s cannot go on: %s", run.eid, run.name, error)
            self._undo(run, event, error.kind, str(error))
        except Exception as error:
            self._run = None
            log.exception("run %d of %s broke down", run.eid, run.name)
            message = f"narval failed while it followed {run.name}: {error!r}"
            self._undo(run, event, "internal-error", message)
        else:
            self._run = None
            if decided or wished or type(event) is not Matched:
                self._record(run, event, decided, wished)
        return True

    def _undo(self, run: Run, event: Event, kind: str, message: str) -> None:
        """An advance raised: its run goes back to where it was, and fails there."""
        self._take_back(run)
        if run.state is None:
            self.fail_unreadable(run)
        else:
            self._break(run, event, kind, message)

    def _still_true(self, run: Run, event: Event) -> bool:
        """Whether an event still says something: the element may be taken, the call may be back."""
        if isinstance(event, _BACK):
            return event.call in run.calls
        if not isinstance(event, Matched):
            return True
        watch = run.watches.get(event.watch)
        if watch is None:
            return False
        if watch.or_outdated and event.eid in self.memory.outdated:
            return True
        return any(self.memory.is_available(event.eid, scope) for scope in watch.scopes)

    def _record(self, run: Run, event: Event, decided: list[Any], wished: list[Command]) -> None:
        """Keep what one advance decided, and let its remaining commands take effect."""
        if self._unsettled:
            self._flush()
        self.agent.sequence += 1 + len(decided) + len(wished)
        run.entries += 1
        self.batch.journal.append(Advance(run.eid, event.id, event, tuple(decided), tuple(wished)))
        if isinstance(event, Returned):
            run.calls.pop(event.call, None)
            if run.abandoned:
                run.abandoned.pop(event.call, None)
        elif isinstance(event, CallStarting):
            run.calls[event.call] = replace(run.calls[event.call], begun=True)
        for command in wished:
            effect = AFTERWARDS.get(type(command))
            if effect is not None:
                effect(self, run, command)
        if decided or wished:  # its context may have grown though its state is as before
            self._changed(run)
        if self._unsettled:
            self._flush()
        if run.entries >= run.save_at and run.active:
            self._save(run)

    def _save(self, run: Run) -> None:
        """Keep the state of a run whole, so that recovery begins there, and its history is bounded."""
        agent, data = self.agent, codec.encode_snapshot(run.state, in_force(run))
        self.batch.snapshots.append(SnapshotRow(run.eid, agent.sequence, data))
        self.batch.trimmed.append((run.eid, agent.sequence, agent.history_entries))
        run.snapshot_taken(len(data))

    def _changed(self, run: Run) -> None:
        """A run looks different now: those who wait for such an element see it (N2)."""
        run.version += 1
        word = run.state.status if run.state is not None else run.status
        if word != run.status or run.phase != "active":
            run.status = word
            self._altered[run.eid] = run
        if self.agent.index.interested(run.kind):
            element = self.memory.element(run.eid)
            if element is not None:
                self.offer(element)

    def _take_back(self, run: Run) -> None:
        """An advance raised: what it did to memory is undone, and its run is as the journal says."""
        for fact in reversed(self._facts):
            self.memory.revert(fact)
        self._facts.clear()
        self._offered.clear()
        self._controls.clear()
        self.agent.unwait(run)
        pending = [advance for advance in self.batch.journal if advance.run == run.eid]
        try:
            rebuild(self.agent, self.store, run, pending)
        except UnreadableError as error:
            self.agent.unreadable[run.eid] = str(error)

    def fail_unreadable(self, run: Run) -> None:
        """What the store holds of a run cannot be read: the run fails, as far as it is known (N35)."""
        why = self.agent.unreadable.get(run.eid, "its state is not known")
        log.error("run %d of %s is lost: %s", run.eid, run.name, why)
        event = Cancelled(self.agent.sequence + 1, self.at, why)
        run.definition, run.state = as_far_as_readable(self.agent, self.store, run)
        if run.state is not None:
            self._break(run, event, "unreadable", why)
            return
        run.status = "failed"
        eid = self.add(
            make_error("unreadable", why, plan=run.eid, recipe=run.name), Origin(run.eid), held=run
        )
        self._record(run, event, [], [commands.Finish("failed", "failed", (eid,), eid)])

    def _break(self, run: Run, event: Event, kind: str, message: str) -> None:
        """The run fails where it stands; the others go on."""
        eid = self.add(make_error(kind, message, plan=run.eid, recipe=run.name), Origin(run.eid), held=run)
        decided, wished = run.engine.on_engine_error(run.definition, run.state, event, self, eid)
        given_up: list[Command] = [commands.CancelCall(call) for call in run.calls]
        self._record(run, event, decided, [*given_up, *wished])

    # --- what takes effect ----------------------------------------------------------------------------

    def apply(self, command: Command) -> None:
        """An inner command takes effect; those that no decision of this advance can see wait for its end."""
        effect = AT_ONCE.get(type(command))
        if effect is not None and self._run is not None:
            effect(self, self._run, command)

    def fact(self, fact: Change) -> None:
        """Something happens to memory; it stands once the advance does."""
        self.memory.apply(fact)
        self._facts.append(fact)
        self._unsettled = True

    def enter(self, element: Element, declared: str = "", held: Run | None = None) -> None:
        """An element enters memory, and is offered to those who wait."""
        self.fact(changes.Added(element, declared, held.eid if held is not None else 0))
        name = element.name
        if self.agent.index.interested(name):
            self._offered.append(element.eid)
            self._unsettled = True
        if name in CONTROLS:
            self._controls.append(element)
            self._unsettled = True

    def offer(self, element: Element) -> None:
        """Whoever waits for such an element will be told."""
        if self.agent.index.interested(element.name):
            self._offered.append(element.eid)
            self._unsettled = True

    def _flush(self) -> None:
        """What happened to memory stands: it becomes rows, wakes whom it concerns, and is obeyed."""
        self._unsettled = False
        if self._facts:
            for fact in self._facts:
                self.batch.take(fact)
                if self.agent.idle is not None:
                    _note_use(self.agent.idle, fact, self.at)
            self._facts.clear()
        if self._offered:
            self.agent.queue.extend([(0, 0, Matched(0, 0.0, "", eid)) for eid in self._offered])
            self._offered.clear()
        if self._controls:
            controls, self._controls = self._controls, []
            for element in controls:
                self.execute_control(element)

    def close(self) -> None:
        """Nothing more happens in this turn: what runs have come to becomes rows."""
        self.batch.runs.extend(map(row_of, self._altered.values()))

    # --- what the loop and the surfaces do in a turn --------------------------------------------------

    def add(
        self, xml: bytes, origin: Origin | None = None, declared: str = "", held: Run | None = None
    ) -> int:
        """An element enters memory from outside an engine; its eid."""
        eid = self.memory.next_eid
        self.enter(Element(eid, xml, self.at, origin), declared, held)
        self._flush()
        return eid

    def change(self, fact: Change) -> None:
        """A change of memory that no engine asked for: forgetting, declaring."""
        self.fact(fact)
        self._flush()

    def transfer_declaration(self, eid: int, run: Run) -> None:
        """What a run has just made of a declared element, where that is one element of its name, is declared
        from now on, so that decay does not take what memory.xml says is always there (N4, N5).
        """
        old = self.memory.element(eid)
        made = [
            place
            for place, added in enumerate(self.batch.elements)
            if (origin := added.element.origin) is not None
            and origin.run == run.eid
            and eid in origin.inputs
            and old is not None
            and added.element.name == old.name
        ]
        if len(made) == 1:
            new, key = self.batch.elements[made[0]].element, self.memory.declared[eid]
            self.batch.elements[made[0]] = changes.Added(new, key)
            self.memory.declared[new.eid] = key
            self.change(changes.Undeclared((eid,)))

    def wake(self, run_eid: int, event: TimerFired) -> None:
        """A moment has come for a run."""
        run = self.agent.active.get(run_eid)
        if run is not None and run.wakes.pop(event.wake, None) is not None:
            self.tell(run_eid, event)

    def forget(self, fact: changes.Forgotten) -> None:
        """Runs and elements leave memory; numbering goes on behind them (N1)."""
        for eid in (*fact.eids, *fact.runs):  # whoever held them is rendered without them from now on
            for holder in self.memory.contexts.holders(eid):
                self.agent.runs[holder].shown = None
        for unheld in self._let_go(fact):
            self.change(unheld)
        self.change(fact)
        for run in fact.runs:
            self.agent.remove_run(run)
        self.batch.meta[:] = [(key, value) for key, value in self.batch.meta if key != "next_eid"]
        self.batch.meta.append(("next_eid", str(self.memory.next_eid)))

    def _let_go(self, fact: changes.Forgotten) -> list[changes.Unheld]:
        """The contexts that elements leave whose runs stay: but for that of their maker, they have rows."""
        leaving: dict[int, list[int]] = {}
        for eid in (*fact.eids, *fact.runs):
            element = self.memory.element(eid) if eid not in self.agent.runs else None
            maker = element.origin.run if element is not None and element.origin is not None else None
            for holder in self.memory.contexts.holders(eid):
                if holder != maker and holder not in fact.runs:
                    leaving.setdefault(holder, []).append(eid)
        return [changes.Unheld(run, tuple(eids)) for run, eids in leaving.items()]

    def lent(self) -> set[int]:
        """What calls under way were given, those that came back in this turn among them."""
        if self._lent is None:
            self._lent = self.agent.lent()
        return self._lent

    def lend(self, call: commands.Call) -> None:
        """A call begins."""
        if self._lent is not None:
            self._lent.update(eid for _, eids in call.inputs for eid in eids)

    def execute_control(self, element: Element) -> None:
        """Do what a control element says: `start-plan` (N4), `quit` (N34)."""
        if local_name(element.name) == QUIT:
            self.quit = True
            return
        root = parse(element.xml)
        if self.record_only and root.get("at") == "start":
            return  # the next daemon's start is the one it means
        name = root.get("recipe", "")
        first = [canonical(child) for child in children(root)]
        if runnable(self.agent.library, name) is None:
            why = f"start-plan names {name or 'nothing'}, and no such definition is loaded; it waits for it"
            log.warning("%s", why)
            self.add(make_error("unknown-target", why, start=element.eid), element.origin)
            return
        if element.eid not in self.memory.marks.get(ACTED, ()):
            self.change(changes.Used(ACTED, (element.eid,)))
        refusal = next(filter(None, map(self.schema_fault, first)), None)
        if refusal is not None:
            why = f"start-plan of {name} holds an element that its schema refuses: {refusal}"
            self.add(make_error("invalid", why, start=element.eid), element.origin)
            return
        self.start(name, tuple(self.add(child, element.origin) for child in first))

    def start(
        self,
        name: str,
        elements: tuple[int, ...] = (),
        *,
        kind: str | None = None,
        caller: Caller | None = None,
        attempt: int = 0,
        resume: Resume | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Run | None:
        """A run begins: of the current version of a definition, or of the version that counts for its caller;
        None when there is no such definition. A process has its `environment` from the start.
        """
        agent, parent = self.agent, self.agent.active.get(caller.run) if caller is not None else None
        definition = runnable(agent.library, name) if kind is None else agent.definition(parent, kind, name)
        if definition is None:
            return None
        engine = engine_of(definition.kind)
        run = Run(self.memory.next_eid, engine, name, definition.digest, self.at, caller, attempt)
        run.definition = definition
        nested = parent is not None and parent.kind == definition.kind == PROCESS
        run.library = (parent.library if parent is not None and not nested else None) or agent.library
        run.state = engine.begin(run.eid, definition)
        self.agent.add_run(run)
        self._altered[run.eid] = run
        given = dict(environment or {})
        self.agent.queue.append((0, run.eid, Started(0, 0.0, elements, caller, attempt, resume, given)))
        return run

    def later(self, at: float, deed: Job) -> None:
        """Something to be done at a moment, whoever runs then."""
        self.agent.sequence += 1
        identifier = str(self.agent.sequence)
        self.batch.moments.append(MomentRow(identifier, at, encode_deed(deed)))
        self.agent.timers.push(at, (0, identifier), deed)


def _note_use(idle: IdleTracker, fact: Change, at: float) -> None:
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
        state=run.status,
        phase=run.phase,
        started=run.started,
        ended=run.ended,
        parent_run=caller.run if caller else None,
        parent_step=caller.step if caller else "",
        parent_call=caller.call if caller else "",
        attempt=run.attempt,
        error=run.error,
    )
