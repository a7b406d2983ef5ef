"""The changes of a turn, kept twice: applied to memory at once, and as rows of the batch to be committed.

Facts are final once they are *settled*: they become rows, and elements that others watch for become offers.
Until then `undo` reverts them. Nothing outside is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from narval.agent.agent import AgentState
from narval.agent.recovery import row_of
from narval.agent.run import Run
from narval.agent.timers import Job, encode_job
from narval.agent.waiting import DeliveredEvent, PoisonGuard, event_key
from narval.core.elements import changes
from narval.core.elements.changes import Change
from narval.core.elements.element import Element, Origin
from narval.core.elements.names import CONTROLS
from narval.core.elements.own_elements import make_error, read_error
from narval.core.engines.commands import Call, Finish, Outer
from narval.core.engines.events import Failure
from narval.core.engines.registry import is_standing
from narval.core.kinds import KNOWING_INPUTS
from narval.core.memory.labels import NONE, MadeOf
from narval.core.memory.lineage import is_doubtful
from narval.core.memory.retention import IdleTracker
from narval.store.batch import Batch, MomentRow, Offer

log = logging.getLogger("narval.turn")

ERRORS = ("error",)
"""The name of error elements, as memory's index takes it."""

ALIKE_WITHIN = 60.0
"""Seconds within which an error element that repeats the previous one is not added."""


class Pending(msgspec.Struct, eq=False):
    """Facts that can still be undone, elements to offer, and control elements to execute."""

    facts: list[Change] = []
    offered: list[int] = []
    controls: list[Element] = []


class InUse:
    """The elements given to active calls, including those that returned in this turn, and to runs scheduled
    to start.
    """

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent
        self._eids: set[int] | None = None

    def reset(self) -> None:
        """Begin the next turn."""
        self._eids = None

    def eids(self) -> set[int]:
        """All elements in use."""
        if self._eids is None:
            first = (job.elements for job in self._agent.clockwork.starts.values())
            self._eids = self._agent.runs.in_use().union(*first)
        return self._eids

    def add(self, call: Call) -> None:
        """Add the inputs of a call."""
        if self._eids is not None:
            self._eids.update(eid for _, eids in call.inputs for eid in eids)


class CallGivenUp(NamedTuple):
    """A call to another agent that was given up."""

    call: Call


class Transaction:
    """The facts, rows and outer commands of one turn.

    `outer` are commands to perform; `remote` those that concern other agents and are sent with the record of
    the turn; `ended` the runs that have ended. `quit` is the control element that asks the daemon to stop.
    With `record_only` no run is told anything. `unsettled` is True while there is something to settle.
    `comes_with` is the number of the label set given to what is added now.
    """

    def __init__(self, agent: AgentState, *, record_only: bool = False) -> None:
        self.agent, self.record_only = agent, record_only
        self.in_use = InUse(agent)
        self.telling = PoisonGuard()
        self.made_of: dict[int, MadeOf] = {}
        """The sources of the parts of elements that are not settled yet."""
        self.begin(0.0)

    def begin(self, at: float) -> None:
        """Begin the next turn, at a moment."""
        self.at = at
        self.batch = Batch(self.agent.store.agent)
        self.outer: list[tuple[Run, Outer]] = []
        self.remote: list[tuple[Run, Call | CallGivenUp | Finish | Failure]] = []
        self.taken_back: dict[str, set[int]] = {}
        """The elements whose doubt or withdrawal has changed, by the agent that was sent them."""
        self.ended: list[Run] = []
        self.quit: Element | None = None
        self.unsettled = False
        self.comes_with = NONE
        self.pending = Pending()
        if self.made_of:
            self.made_of.clear()
        self._altered: dict[int, Run] = {}
        """Runs whose rows have changed."""
        self.in_use.reset()

    # --- facts of memory --------------------------------------------------------------------------------

    def fact(self, fact: Change) -> None:
        """Apply a change to memory unless it already holds; it can be undone until it is settled."""
        news = self.agent.memory.apply(fact)
        if news is not None:
            self.pending.facts.append(news)
            self.unsettled = True

    def offer(self, element: Element) -> None:
        """Offer an element of memory to the runs that watch for it."""
        if self.agent.watches.index.interested(element.name):
            self.pending.offered.append(element.eid)
            self.unsettled = True

    def settle(self) -> None:
        """Make the facts final: add their rows and queue the offers, new elements first."""
        self.unsettled = False
        pending, idle = self.pending, self.agent.clockwork.idle
        if pending.facts:
            memory = self.agent.memory
            may_spread = self.comes_with or memory.labels.pages or self.agent.lookup.secrets
            may_doubt = memory.withdrawn or memory.doubtful
            for fact in pending.facts:
                self.batch.record(fact)
                if type(fact) is changes.Added:
                    self._enter(fact.element)
                if may_spread:
                    self._spread(fact)
                if may_doubt and type(fact) is changes.Added and is_doubtful(memory, fact.element):
                    self._doubt(fact.element)
                if idle is not None:
                    _note_use(idle, fact, self.at)
            pending.facts.clear()
        if pending.offered:
            self.agent.queue.extend([(0, 0, Offer(eid)) for eid in pending.offered])
            pending.offered.clear()

    def _enter(self, element: Element) -> None:
        """Offer a new element to the runs that watch for it, and queue it for execution if it is a control
        element.
        """
        name = element.name
        if self.agent.watches.index.interested(name):
            self.pending.offered.append(element.eid)
        if name in CONTROLS:
            self.pending.controls.append(element)

    def _doubt(self, element: Element) -> None:
        """Mark a new element doubtful if it was made only from doubtful elements."""
        fact = changes.Doubted((element.eid,))
        if self.agent.memory.apply(fact) is not None:
            self.batch.record(fact)

    def _spread(self, fact: Change) -> None:
        """Label everything that a fact gives labels to."""
        knows, made_of = False, None
        if type(fact) is changes.Added:
            knows = _knows_inputs(self.agent, fact.element)
            made_of = self.made_of.pop(fact.element.eid, None) if self.made_of else None
            made_of = made_of or declared_parts(self.agent, fact.element)
        labels = self.agent.memory.labels
        for eid, number in labels.spread(fact, self.comes_with, knows_inputs=knows, made_of=made_of):
            if number:
                self.label(eid, number)
        if type(fact) is changes.Added:
            for name, bound in self.agent.lookup.secrets:
                if bound.test(self.agent.memory.tree(fact.element)):
                    for eid in (fact.element.eid, fact.held):
                        self.label(eid, labels.number((name,)))

    def label(self, eid: int, labels: int) -> None:
        """Add labels to an element or a run; a service run serves everyone and never has labels."""
        memory = self.agent.memory
        own = memory.labels.own(eid) if labels else NONE
        if own == labels or eid not in memory:
            return
        run = self.agent.runs.get(eid)
        if run is not None:
            if is_standing(run.kind):
                return
            labels = memory.labels.whole(labels)
            if own == labels:
                return
        if not own or memory.labels.join(own, labels) != own:
            news = memory.apply(changes.Labelled(eid, memory.labels.names(labels)))
            if news is not None:
                self.batch.record(news)

    @contextmanager
    def coming_with(self, labels: int) -> Iterator[None]:
        """Add these labels, and those of the enclosing block, to everything added within the block."""
        before = self.comes_with
        of_memory = self.agent.memory.labels
        self.comes_with = of_memory.come_with(of_memory.join(before, labels))
        try:
            yield
        finally:
            self.comes_with = of_memory.come_with(before)

    def undo(self) -> None:
        """Revert what is not settled."""
        for fact in reversed(self.pending.facts):
            self.agent.memory.revert(fact)
        self.pending = Pending()
        self.made_of.clear()

    # --- changes that no engine asked for ---------------------------------------------------------------

    def add(
        self, xml: bytes, origin: Origin | None = None, declared: str = "", held: Run | None = None
    ) -> int:
        """Add an element to memory from outside an engine, and return its eid."""
        eid = self.agent.memory.next_eid
        element = Element(eid, xml, self.at, origin)
        self.change(changes.Added(element, declared, held.eid if held is not None else 0))
        return eid

    def add_error(self, kind: str, why: str, origin: Origin | None = None, **where: str | int) -> None:
        """Report an error to memory and the log; only to the log if the newest error element is the same and
        less than a minute old.
        """
        memory = self.agent.memory
        newest = next(memory.index.newest_named(ERRORS), None)
        last = memory.element(newest) if newest is not None else None
        said = read_error(last)[:2] if last is not None and self.at - last.added < ALIKE_WITHIN else None
        if last is not None and said == (kind, " ".join(why.split())):
            log.warning("%s (as element %d says; not added again)", why, last.eid)
            return
        log.warning("%s", why)
        self.add(make_error(kind, why, **{name: str(value) for name, value in where.items()}), origin)

    def change(self, fact: Change) -> None:
        """Change memory without an engine's request: forgetting, declaring."""
        self.fact(fact)
        self.settle()

    # --- runs and jobs ------------------------------------------------------------------------------

    def alter(self, run: Run) -> None:
        """Record the row of a run again at the end of the turn."""
        self._altered[run.eid] = run

    def suspected(self) -> list[DeliveredEvent]:
        """The events that may have made the turn fail: the one being delivered, else all of them."""
        if self.telling.blamed is not None:
            return [self.telling.blamed]
        return [event_key(advance.run, advance.event) for advance in self.batch.journal]

    def rows(self) -> Batch:
        """The complete batch of the turn, which ends here."""
        if self._altered:
            self.batch.runs.extend(map(row_of, self._altered.values()))
        return self.batch

    def later(self, at: float | None, job: Job) -> None:
        """Schedule a job; with None a run starts as soon as it is allowed to, tried at each daemon start."""
        identifier = str(self.agent.numbers.draw())
        self.batch.moments.append(MomentRow(identifier, self.at if at is None else at, encode_job(job)))
        self.agent.clockwork.plan(at, identifier, job)

    def request_quit(self, element: Element) -> None:
        """Ask the daemon to stop, as a control element demands."""
        self.quit = element


def inherit(transaction: Transaction, eid: int, others: Iterable[int]) -> None:
    """Give an element or a run the labels of others."""
    labels = transaction.agent.memory.labels
    if labels.pages:
        transaction.label(eid, labels.of(others))


def _knows_inputs(agent: AgentState, element: Element) -> bool:
    """True if all content of an element comes from the inputs that its origin names."""
    origin = element.origin
    if origin is None or not origin.step or (element.name == ERRORS[0] and not origin.call):
        return False
    maker = agent.runs.get(origin.run)
    return maker is not None and maker.kind in KNOWING_INPUTS


def declared_parts(agent: AgentState, element: Element) -> MadeOf | None:
    """The sources of the parts of a call's result, as its action or transform declares them; None if it
    declares none.
    """
    origin = element.origin
    run = agent.runs.active.get(origin.run) if origin is not None and origin.call else None
    call = run.calls.get(origin.call) if run is not None and origin is not None else None
    prototype = call and getattr(agent.lookup.definition(run, call.kind, call.name), "prototype", None)
    if call is None or not prototype or not prototype.declares_parts or prototype.output_variables:
        return None
    tree = agent.memory.tree(element)
    output = next((output for output, bound in prototype.bound_outputs if bound.test(tree)), None)
    if output is None:
        return None
    inputs = dict(call.inputs)
    parts = {
        keep.part.path: [(eid, source.path) for source in keep.sources for eid in inputs.get(source.slot, ())]
        for keep in prototype.keeps
        if keep.part.slot == output.id
    }
    return MadeOf(parts, output.own)


def _note_use(idle: IdleTracker, fact: Change, at: float) -> None:
    if isinstance(fact, changes.Added):
        idle.added(fact.element.eid, at)
    elif isinstance(fact, changes.Held | changes.Used | changes.Reserved):
        idle.used(fact.eids, at)
