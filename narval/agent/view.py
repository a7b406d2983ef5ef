"""The engines' view while they decide: memory, the library, the run being advanced, the surroundings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.agent.replay import past
from narval.agent.run import Run
from narval.core.definitions.appointment import text_of
from narval.core.definitions.people.directory import Directory
from narval.core.elements.element import Element
from narval.core.engines.commands import Call, Command, Watch
from narval.core.engines.events import Caller, Event, Plain, Produced, Returned
from narval.core.engines.view import FileTimes, GuardVerdict, verdict_of
from narval.core.errors import ActionError
from narval.core.memory.labels import NONE, MadeOf
from narval.core.memory.lineage import current, fits_since
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound
from narval.files.schemas import Schemas

Ask = Callable[[Run, str, Mapping[str, Plain], float], Plain]
"""Answer what an engine asks the user's code while it decides, given the run, the function, its arguments and
the time.
"""

IsUpToDate = Callable[[str, tuple[str, ...], tuple[str, ...], FileTimes], bool]
"""True if the files that a program creates in a folder exist, and are no older than those it needs."""

TellAndSend = Callable[[Any, Run, Returned | Produced], bool]
"""Tell a run the result of a call within a turn, and send to other agents what is addressed to them."""

Hear = Callable[[Any, Returned | Produced], Returned | Produced]
"""Remove from a call's result, within a turn, what is addressed to other runs."""


class HostApi(msgspec.Struct):
    """The sources of decisions besides memory: schemas, the user's code, the files of programs; and the ways
    to other agents.
    """

    schemas: Schemas
    ask: Ask
    is_up_to_date: IsUpToDate | None
    tell_and_send: TellAndSend
    correspond: Callable[[Any], None] = lambda turn: None
    """Send to other agents what the runs of a turn ask for or answer, with what the turn records."""
    hear: Hear = lambda turn, event: event
    """Take answers to work out of the mails in a call's result, and hand them over."""

    def use_schemas(self, schemas: Schemas) -> None:
        """Check elements against other schemas from now on."""
        self.schemas = schemas

    def schema_fault(self, xml: bytes) -> str | None:
        """The reason why the schema for the element's name refuses it, or None (N7)."""
        return self.schemas.refusal(xml)


class LiveMemory:
    """The engines' `MemoryView`, and what a run reads of memory."""

    def __init__(self, memory: Memory, schemas: HostApi) -> None:
        # Bound here because engines call these often: a query costs only its own call.
        self.element, self.fits_since = memory.element, partial(fits_since, memory)
        self.current, self.text_of = partial(current, memory), text_of
        self.matching, self.among = memory.matching, memory.among
        self.reserved, self.context = memory.reserved_for, memory.contexts.of
        self.schema_fault, self.labels = schemas.schema_fault, memory.labels
        self._memory = memory

    @property
    def next_eid(self) -> int:
        """The eid of the next element."""
        return self._memory.next_eid

    def fits(self, element: Element, bound: Bound) -> bool:
        """True if an element matches, whether it is in memory or not yet."""
        return bound.test(self._memory.tree(element))

    def judge(self, eids: Iterable[int], bound: Bound) -> GuardVerdict:
        """The verdict of a guard, for callers whose decision does not depend on it."""
        return verdict_of(eids)

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        """True if a unique output has given this value before (N37)."""
        return (name, expression, value) in self._memory.unique_values


class TurnView(LiveMemory):
    """The engines' `View` within a turn, for one run after another.

    `apply` applies a command of a run, `label` adds labels to a run, `note_sources` gives the parts of a new
    element the labels of their sources.
    """

    def __init__(
        self,
        agent: AgentState,
        host_api: HostApi,
        apply: Callable[[int, Command], None],
        label: Callable[[int, int], None],
        note_sources: Callable[[int, MadeOf], None],
    ) -> None:
        super().__init__(agent.memory, host_api)
        self.apply, self._label, self.note_sources = apply, label, note_sources
        self._agent, self._host_api = agent, host_api
        self._run: Run | None = None
        self._at = 0.0
        self.library = agent.library

    def decision(self, run: Run, event: Event) -> Any:
        """The decision object of a run's engine for an event; this view serves it until `leave`."""
        self._run, self._at = run, event.at
        self.library = run.library if run.library is not None else self._agent.library
        return run.engine.decision_type(run.definition, run.state, event, self)

    def leave(self) -> None:
        """Stop viewing for a run."""
        self._run = None

    def judge(self, eids: Iterable[int], bound: Bound) -> GuardVerdict:
        """The verdict of a guard, with the labels of its variables' elements and of a matching element. One
        match is enough, so the labels are those of the match with the fewest, preferably without hearsay.
        """
        labels = self._memory.labels
        if not labels.pages:
            return verdict_of(eids)
        named = (element.eid for _, elements in bound.variables for element in elements)
        deciding, fewest = labels.of(named), None
        for eid in eids:
            of = labels.of((eid,))
            if fewest is None or labels.weight(of) < labels.weight(fewest):
                fewest = of
            if not of:
                break
        deciding = labels.join(deciding, fewest or NONE)
        if deciding and self._run is not None:
            self._label(self._run.eid, deciding)
        return GuardVerdict(fewest is not None, labels.names(deciding))

    # --- runs and definitions ---------------------------------------------------------------------------

    def caller(self, run: int) -> Caller | None:
        """The caller of a run."""
        record = self._agent.runs.get(run)
        return record.caller if record is not None else None

    def started_by(self, run: int) -> str:
        """The person who started the top-level run of a run."""
        record = self._agent.runs.get(run)
        while record is not None and record.caller is not None:
            record = self._agent.runs.get(record.caller.run)
        return record.by if record is not None else ""

    def answered_at(self, run: int, step: str) -> Iterator[str]:
        """The people who answered other items of a step in the top-level run of a run."""
        agent, record = self._agent, self._agent.runs.get(run)
        while record is not None:
            for eid in agent.runs.families.items(record.family, step):
                if eid != run:
                    yield from past(agent, agent.runs[eid])[0]
            top = agent.runs.get(record.family)
            record = agent.runs.get(past(agent, top)[1]) if top is not None else None

    def definition(self, kind: str, name: str) -> Any:
        """The definition of a kind and name, in the version that the asking run uses."""
        return self._agent.lookup.definition(self._run, kind, name)

    def name_of(self, run: int) -> str | None:
        """The name of the definition that a run follows."""
        record = self._agent.runs.get(run)
        return record.name if record is not None else None

    @property
    def people(self) -> Directory:
        """The current directory of people."""
        return self._agent.lookup.people

    @property
    def listeners(self) -> Mapping[str, int]:
        """The listeners to every run, each with the bits of the events it listens to."""
        return self._agent.lookup.listeners(self._run)

    def pending_call(self, call: str) -> Call | None:
        """An active call of the run."""
        return self._run.calls.get(call) if self._run is not None else None

    def active_watch(self, watch: str) -> Watch | None:
        """A watch that the run has set."""
        return self._run.watches.get(watch) if self._run is not None else None

    # --- the surroundings -------------------------------------------------------------------------------

    @property
    def zone(self) -> str:
        """The name of the home's time zone."""
        return self._agent.clockwork.zone

    @property
    def up_since(self) -> float:
        """The moment from which the agent has run without a break."""
        return self._agent.clockwork.since

    def was_missed(self, moment: float) -> bool:
        """True if the agent was not running at a moment."""
        return moment < self._agent.clockwork.since

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes
    ) -> bool:
        """True if these files exist now, and no needed file is newer."""
        test = self._host_api.is_up_to_date
        return test is not None and test(directory, creates, needs, times)

    def ask(self, function: str, arguments: Mapping[str, Plain], /) -> Plain:
        """The answer of the user's code. Raises ActionError."""
        if self._run is None:
            raise ActionError(f"nothing here can answer {function}", "unknown-function", final=True)
        return self._host_api.ask(self._run, function, arguments, self._at)
