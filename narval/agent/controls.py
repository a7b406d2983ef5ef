"""Control elements: `start-plan` starts a run (N4), `task-object` puts an object to a task (K21), `quit`
stops the daemon (N34).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy

from lxml import etree

from narval.agent.agent import OVER_LIMIT, AgentState
from narval.agent.run import Run
from narval.agent.run_table import RunTable
from narval.agent.runs import cannot_start, cannot_take, start_run
from narval.agent.timers import StartRun
from narval.agent.transaction import Transaction
from narval.core.definitions.library import Library
from narval.core.elements import changes
from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import Element, Origin, children, local_name, parse
from narval.core.elements.names import ACTED, QUIT, START_PLAN, TARGET, TASK, TASK_OBJECT
from narval.core.engines.registry import runnable, taking
from narval.core.errors import ElementError
from narval.core.memory.memory import Memory

log = logging.getLogger("narval.turn")


class Controls:
    """The executor of control elements, within a transaction.

    With `record_only`, a start-plan at="start" is left to the next daemon.
    """

    def __init__(self, transaction: Transaction, schema_fault: Callable[[bytes], str | None]) -> None:
        self._transaction, self._schema_fault = transaction, schema_fault

    def execute_all(self) -> None:
        """Execute the control elements that have entered memory."""
        controls = list(self._transaction.pending.controls)
        self._transaction.pending.controls.clear()
        for element in controls:
            self.execute(element)

    def execute(self, element: Element) -> None:
        """Do what an element says; everything that results from it gets its labels."""
        transaction = self._transaction
        with transaction.coming_with(transaction.agent.memory.labels.of((element.eid,))):
            self._execute(element)

    def _execute(self, element: Element) -> None:
        if local_name(element.name) == QUIT:
            self._transaction.request_quit(element)
            return
        root = parse(element.xml)
        if self._transaction.record_only and root.get("at") == "start":
            return  # it is for the start of the next daemon
        word, name = _target(root)
        transaction, agent = self._transaction, self._transaction.agent
        if not is_known(agent.library, root):
            why = f"{word} names {name or 'nothing'}, and no such definition is loaded; it waits until one "
            why = f"{why}is, or until this {word} is outdated"
            self._transaction.add_error("unknown-target", why, element.origin, start=element.eid)
            return
        first, wrong = self._first_elements(root, f"{word} of {name}")
        if root.tag == START_PLAN and (under_way := _under_way_from_before(agent, element, name, first)):
            transaction.change(changes.Used(ACTED, (element.eid,)))
            log.info("a start-plan of %s is there again: %s, so no second one begins", name, under_way)
            return
        over = agent.excess_of_runs() or agent.excess_of_elements(first)
        refused = _refusal(agent, root) or ((OVER_LIMIT, over) if over else None)
        if refused is not None:
            kind, why = refused
            why = f"{word}: {why}; it waits until then"
            self._transaction.add_error(kind, why, element.origin, start=element.eid)
            return
        if element.eid not in agent.memory.marks.get(ACTED, ()):
            transaction.change(changes.Used(ACTED, (element.eid,)))
        if wrong is not None:
            self._transaction.add_error(*wrong, element.origin, start=element.eid)
            return
        added = tuple(self.add(child, element.origin) for child in first)
        if root.tag == TASK_OBJECT:
            self._put(name, added, element.origin)
        else:
            self._start(name, added, element.origin)

    def _start(self, name: str, added: tuple[int, ...], origin: Origin | None) -> None:
        """Start a run, or schedule it."""
        transaction, agent = self._transaction, self._transaction.agent
        definition = runnable(agent.library, name)
        ancestors = _ancestors(agent.runs, origin)
        at, laps = None, 0
        if definition is not None:
            at, laps = agent.pacing.space(definition.full_name, ancestors, origin, transaction.at)
        if at is not None and definition is not None:
            by, actor, giver = (origin.by, origin.actor, origin.run) if origin is not None else ("", "", 0)
            labels = agent.memory.labels.names(transaction.comes_with)
            before = dict(ancestors)
            job = StartRun(name, added, 0, by, actor, before, labels=labels, laps=laps, after=giver)
            transaction.later(*agent.pacing.slow(job, definition.digest, (), transaction.at, at))
            return
        start_run(transaction, name, added, origin=origin, ancestors=ancestors, laps=laps)

    def _put(self, name: str, added: tuple[int, ...], origin: Origin | None) -> None:
        """Put an object to a task: start the run that takes it."""
        taken = taking(self._transaction.agent.library, name)
        if taken is not None:
            definition, run_kind = taken
            start_run(self._transaction, name, added, definition=definition, run_kind=run_kind, origin=origin)

    def _first_elements(self, root: etree._Element, of: str) -> tuple[list[bytes], tuple[str, str] | None]:
        """The elements within a control element, and the type and reason of a fault, if there is one."""
        try:
            first = [canonical_given(_alone(child)) for child in children(root)]
        except ElementError as error:
            return [], (error.kind, f"{of} holds an element that is refused: {error}")
        refusal = next(filter(None, map(self._schema_fault, first)), None)
        if refusal is not None:
            return [], ("invalid", f"{of} holds an element that its schema refuses: {refusal}")
        if root.tag == TASK_OBJECT and len(first) != 1:
            return [], ("invalid", f"expected one object within a {of}, found {len(first)}")
        return first, None

    def add(self, xml: bytes, origin: Origin | None = None, declared: str = "") -> int:
        """Add an element to memory, execute it if it is a control element, and return its eid."""
        eid = self._transaction.add(xml, origin, declared)
        self.execute_all()
        return eid


def _under_way_from_before(agent: AgentState, element: Element, name: str, first: list[bytes]) -> str:
    """The words for an active or scheduled run from an equal start-plan that was removed from
    `data/memory.xml` and is back; "" if a run should start. Equal start-plans still declared have a run each.
    """
    memory, acted = agent.memory, agent.memory.marks.get(ACTED, ())
    if element.eid not in memory.declared or element.eid in acted:
        return ""
    before = (memory.element(eid) for eid in memory.named((element.name,)) if eid in acted)
    equal = [one.eid for one in before if one is not None and one.xml == element.xml]
    still_there = sum(eid not in memory.outdated for eid in equal)
    if still_there == len(equal):
        return ""
    runs = [
        run.eid
        for run in agent.runs.active.values()
        if run.name == name and run.caller is None and not _has_successor(run)
        if run.state is not None and _xml_of(memory, run.state.first) == first
    ]
    due = [
        job
        for job in agent.clockwork.starts.values()
        if job.name == name and _xml_of(memory, job.elements) == first
    ]
    if len(runs) + len(due) <= still_there:
        return ""
    return f"run {runs[0]} is under way" if runs else "the next run is due"


def _xml_of(memory: Memory, eids: Iterable[int]) -> list[bytes]:
    """The bytes of elements, without forgotten ones."""
    elements = map(memory.element, eids)
    return [element.xml for element in elements if element is not None]


def _has_successor(run: Run) -> bool:
    """True for a plan whose recipe says `restart="parallel"`, once the next has started beside it."""
    state = run.state
    is_parallel = state is not None and getattr(run.definition, "restart", "") == "parallel"
    return is_parallel and (state.followed or state.has_fired)


def _ancestors(runs: RunTable, origin: Origin | None) -> Mapping[str, int]:
    """The runs that a start-plan descends from, the first for each definition: the run that gave it, that
    run's callers, and the runs that those descend from.
    """
    ancestors: dict[str, int] = {}
    for run in runs.with_callers(runs.get(origin.run) if origin is not None else None):
        ancestors |= {run.name: run.eid, **run.ancestors}
    return ancestors


def _alone(child: etree._Element) -> etree._Element:
    """An element without the namespaces that only its parent needs."""
    copy = deepcopy(child)
    etree.cleanup_namespaces(copy)
    return copy


def can_start(agent: AgentState, root: etree._Element) -> bool:
    """True if the definition that an element names is loaded, and a run of it can start."""
    return is_known(agent.library, root) and _refusal(agent, root) is None


def _target(root: etree._Element) -> tuple[str, str]:
    """The word for an element that starts a run, and the full name of its target."""
    if root.tag == TASK_OBJECT:
        return "task-object", root.get(TASK, "")
    return START_PLAN, root.get(TARGET, "")


def is_known(library: Library, root: etree._Element) -> bool:
    """True if the definition that an element starts is loaded, whether it can start or not."""
    _, name = _target(root)
    return (taking if root.tag == TASK_OBJECT else runnable)(library, name) is not None


def _refusal(agent: AgentState, root: etree._Element) -> tuple[str, str] | None:
    """The reason why no run can start as an element says, if its target is loaded."""
    _, name = _target(root)
    if root.tag == TASK_OBJECT:
        taken = taking(agent.library, name)
        return cannot_take(agent, taken[0]) if taken is not None else None
    definition = runnable(agent.library, name)
    return cannot_start(agent, definition) if definition is not None else None
