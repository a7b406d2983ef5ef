"""Control elements: `start-plan` begins a run (N4), `quit` stops the daemon (N34)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from lxml import etree

from narval.engines.commands import RESTART_PAUSE
from narval.engines.registry import runnable
from narval.errors import ElementError
from narval.memory.elements import changes
from narval.memory.elements.canonical import canonical_given
from narval.memory.elements.control_elements import ACTED, QUIT, TARGET
from narval.memory.elements.element import Element, Origin, children, local_name, parse
from narval.runtime.agent.agent import OVER_LIMIT
from narval.runtime.agent.jobs import StartRun
from narval.runtime.agent.run import RunTable
from narval.runtime.agent.runs import cannot_start, start_run
from narval.runtime.agent.transaction import Transaction

_MOST_PACED = 1000
"""Of so many runs it is kept when they last started their own definition."""

log = logging.getLogger("narval.turn")


class Controls:
    """Executes control elements, within a transaction.

    With one that is `record_only` a start-plan at="start" is left to the next daemon.
    """

    def __init__(self, transaction: Transaction, schema_fault: Callable[[bytes], str | None]) -> None:
        self._transaction, self._schema_fault = transaction, schema_fault
        self._paced: dict[int, float] = {}
        """The beginning of the last that descends from a run and follows its definition, by that run."""

    def execute_all(self) -> None:
        """Execute those that have entered memory."""
        controls = list(self._transaction.pending.controls)
        self._transaction.pending.controls.clear()
        for element in controls:
            self.execute(element)

    def execute(self, element: Element) -> None:
        """Do what one says."""
        if local_name(element.name) == QUIT:
            self._transaction.request_quit()
            return
        root = parse(element.xml)
        if self._transaction.record_only and root.get("at") == "start":
            return  # the next daemon's start is the one it means
        name = root.get(TARGET, "")
        transaction, agent = self._transaction, self._transaction.agent
        definition = runnable(agent.library, name)
        if definition is None:
            why = f"start-plan names {name or 'nothing'}, and no such definition is loaded; it waits for it"
            self._transaction.add_error("unknown-target", why, element.origin, start=element.eid)
            return
        first, wrong = self._first_elements(root, name)
        over = agent.no_room_for_runs() or agent.no_room_for(first)
        refused = cannot_start(definition) or ((OVER_LIMIT, over) if over else None)
        if refused is not None:
            kind, why = refused
            why = f"start-plan: {why}; it waits until it can"
            self._transaction.add_error(kind, why, element.origin, start=element.eid)
            return
        if element.eid not in agent.memory.marks.get(ACTED, ()):
            transaction.change(changes.Used(ACTED, (element.eid,)))
        if wrong is not None:
            self._transaction.add_error(*wrong, element.origin, start=element.eid)
            return
        added = tuple(self.add(child, element.origin) for child in first)
        ancestors = _ancestors(agent.runs, element.origin)
        at = self._moment(definition.full_name, ancestors, element.origin)
        if at is not None:
            by, actor = (element.origin.by, element.origin.actor) if element.origin is not None else ("", "")
            transaction.later(at, StartRun(name, added, 0, by, actor, dict(ancestors)))
            return
        start_run(transaction, name, added, origin=element.origin, ancestors=ancestors)

    def _first_elements(self, root: etree._Element, name: str) -> tuple[list[bytes], tuple[str, str] | None]:
        """The elements that a start-plan holds, or the kind of what is wrong with them and the reason."""
        try:
            first = [canonical_given(child) for child in children(root)]
        except ElementError as error:
            return [], (error.kind, f"start-plan of {name} holds an element that is refused: {error}")
        refusal = next(filter(None, map(self._schema_fault, first)), None)
        if refusal is not None:
            return [], (
                "invalid",
                f"start-plan of {name} holds an element that its schema refuses: {refusal}",
            )
        return first, None

    def _moment(self, name: str, ancestors: Mapping[str, int], giver: Origin | None) -> float | None:
        """The moment for a definition that one of the ancestors has followed (N28): of those that descend
        from one run, one begins a second, unless what `giver` names was fed. None: now.
        """
        first, now = ancestors.get(name), self._transaction.at
        if first is None or giver is None or self._was_fed(giver.run, name, first):
            return None
        last = self._paced.get(first)
        if last is None:
            last = self._last_planned(name, first)
            log.warning("run %d of %s starts its own definition again: one begins a second", first, name)
        if len(self._paced) > _MOST_PACED:
            self._paced = {first: at for first, at in self._paced.items() if at > now - RESTART_PAUSE}
        self._paced[first] = max(last + RESTART_PAUSE, now)
        return self._paced[first] if self._paced[first] > now else None

    def _was_fed(self, run: int, name: str, first: int) -> bool:
        """True if a run has used an element that nothing of its descent made: such runs come to an end."""
        memory, runs = self._transaction.agent.memory, self._transaction.agent.runs
        for eid in memory.contexts.of(run):
            element = memory.element(eid) if any(user == run for _, user in memory.used_by(eid)) else None
            if element is not None:
                maker = runs.get(element.origin.run) if element.origin is not None else None
                if maker is None or first not in (maker.eid, maker.ancestors.get(name)):
                    return True
        return False

    def _last_planned(self, name: str, first: int) -> float:
        """The moment at which the last that descends from a run begins, or at which that began itself."""
        agent = self._transaction.agent
        run = agent.runs.get(first)
        planned = (
            at
            for at, _, job in agent.clockwork.timers.waiting()
            if isinstance(job, StartRun) and job.ancestors.get(name) == first
        )
        return max(planned, default=run.started if run is not None else self._transaction.at)

    def add(self, xml: bytes, origin: Origin | None = None, declared: str = "") -> int:
        """Let an element enter memory, and do what it says if it is a control element; its eid."""
        eid = self._transaction.add(xml, origin, declared)
        self.execute_all()
        return eid


def _ancestors(runs: RunTable, origin: Origin | None) -> Mapping[str, int]:
    """The runs that a start-plan descends from: that which gave it, its callers, and those that they descend
    from; of each definition the first.
    """
    run = runs.get(origin.run) if origin is not None else None
    found: dict[str, int] = {}
    while run is not None:
        found = {**found, run.name: run.eid, **run.ancestors}
        run = runs.get(run.caller.run) if run.caller is not None else None
    return found
