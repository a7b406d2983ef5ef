"""Relying: the runs that relied on what is withdrawn, what they are told, and what is undone of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.replay import definition_of
from narval.agent.run import Run
from narval.agent.runs import start_run
from narval.agent.turn import Turn
from narval.core.definitions.action.definition import Action
from narval.core.elements import changes
from narval.core.elements.changes import MarkScope
from narval.core.elements.control_elements import is_sending
from narval.core.elements.element import Origin
from narval.core.engines.commands import PROGRAM, SEND
from narval.core.engines.events import Cancelled, Plain, Signalled
from narval.core.engines.registry import is_runnable, is_undoing, undoing_kind
from narval.core.errors import UnreadableError
from narval.store import codec
from narval.store.batch import Advance

UNDONE: MarkScope = ("narval", "undo", "undone")
"""The scope that marks the runs that were undone, each with the run that did."""

IGNORE, SIGNAL, FAIL, UNDO = "ignore", "signal", "fail", "undo"
_STRENGTH = (IGNORE, SIGNAL, FAIL, UNDO)

UNDOES = "undoes"
"""The word by which such a run is told which it undoes."""

WITHDRAWN = "withdrawn"
"""The name of the signal, and of the error, by which a run learns that it relied on something wrong."""


class CallMade(NamedTuple):
    """A call that a run has made, as its journal has it."""

    step: str
    kind: str
    name: str
    given: tuple[int, ...]
    gave: tuple[int, ...]
    state: str
    """One of: done, failed, under way."""
    undo: str
    """The action that undoes it; "": there is none."""


class Reliance(NamedTuple):
    """A run that relied on what is withdrawn, and what becomes of it."""

    run: Run
    how: str
    """One of: ignore, signal, fail, undo; "" for one that is over, of which nothing becomes anything."""
    eids: tuple[int, ...]
    """The elements that it relied on."""
    calls: tuple[CallMade, ...]
    """The calls that would be undone, the last first; those without an undo are among them."""


def relying_on(agent: AgentState, eids: Iterable[int], pending: Iterable[Advance] = ()) -> list[Reliance]:
    """The runs that used these elements, hold them, made something from them, or have a call under way that
    was given them: oldest first.
    """
    relied: dict[int, list[int]] = {}
    pending = list(pending)
    for eid in eids:
        users = (run for scope, run in agent.memory.used_by(eid) if run and not is_sending(scope))
        makers = _makers_of(agent, agent.memory.descent.of(eid))
        for run in {*users, *agent.memory.contexts.holders(eid), *makers, *_given_to(agent, eid)}:
            if run in agent.runs and run != eid:
                relied.setdefault(run, []).append(eid)
    return [_reliance(agent, agent.runs[run], tuple(relied[run]), pending) for run in sorted(relied)]


def _makers_of(agent: AgentState, eids: Iterable[int]) -> Iterator[int]:
    for eid in eids:
        element = agent.memory.element(eid)
        if element is not None and element.origin is not None:
            yield element.origin.run


def _given_to(agent: AgentState, eid: int) -> Iterator[int]:
    for run in agent.runs.active.values():
        for call in run.calls.values():
            if eid in call.elements or any(eid in eids for _, eids in call.inputs):
                yield run.eid


def _reliance(agent: AgentState, run: Run, eids: tuple[int, ...], pending: list[Advance]) -> Reliance:
    try:
        definition = definition_of(agent, run)
    except UnreadableError:
        return Reliance(run, SIGNAL if run.active else "", eids, ())
    how = getattr(definition, "on_withdraw", "") or SIGNAL
    of_steps = getattr(definition, "steps", {}) if undoing_kind(run.kind) else {}
    if any(step.on_withdraw for step in of_steps.values()):
        takers = {call.step for call in calls_of(agent, run, pending) if {*call.given} & {*eids}}
        of_takers = [step.on_withdraw for step in of_steps.values() if step.id in takers and step.on_withdraw]
        how = max(of_takers, key=_STRENGTH.index, default=how)
    if is_undoing(run.kind) or run.eid in agent.memory.marks.get(UNDONE, ()):
        how = ""  # it is undone already
    elif not run.active and how != UNDO:
        how = ""
    if how == UNDO and not _relied(agent, run, eids, pending):
        how = ""
    return Reliance(run, how, eids, tuple(to_undo(agent, run, pending)) if how == UNDO else ())


def _relied(agent: AgentState, run: Run, eids: tuple[int, ...], pending: list[Advance]) -> bool:
    """False of a run that has made the elements, and then done nothing with them."""
    for eid in eids:
        element = agent.memory.element(eid)
        if element is None or element.origin is None or element.origin.run != run.eid:
            return True
        if any(user == run.eid for _, user in agent.memory.used_by(eid)):
            return True
    return any({*call.given} & {*eids} for call in calls_of(agent, run, pending))


def calls_of(agent: AgentState, run: Run, pending: Iterable[Advance] = ()) -> list[CallMade]:
    """The calls that a run has made, as far as its journal goes back, in the order in which they were made;
    `pending` are entries of this turn.
    """
    asked: dict[str, dict[str, Any]] = {}
    states: dict[str, str] = {}
    for line in _lines(agent, run, pending):
        if line["what"] == "Call":
            asked[line["call"]] = line
            states[line["call"]] = "under way"
        elif line["what"] == "Returned" and line["call"] in asked:
            failed = line.get("problem") is not None or line.get("abandoned")
            states[line["call"]] = "failed" if failed else "done"
    gave: dict[str, list[int]] = {}
    for eid in agent.memory.contexts.of(run.eid):
        element = agent.memory.element(eid) if eid not in agent.runs else None
        if element is not None and element.origin is not None and element.origin.run == run.eid:
            gave.setdefault(element.origin.call, []).append(eid)
    return [_call_made(agent, run, line, states[call], gave.get(call, [])) for call, line in asked.items()]


def _lines(agent: AgentState, run: Run, pending: Iterable[Advance]) -> Iterator[dict[str, Any]]:
    for row in agent.store.journal(run.eid):
        yield from codec.describe_entry(row.data, None, row.seq)
    for entry in pending:
        if entry.run == run.eid:
            data = codec.encode_entry(entry.event, entry.changes, entry.commands)
            yield from codec.describe_entry(data, None, entry.seq)


def _call_made(agent: AgentState, run: Run, line: dict[str, Any], state: str, gave: list[int]) -> CallMade:
    inputs = [eid for _, eids in line.get("inputs", ()) for eid in eids]
    taken = tuple(dict.fromkeys((*inputs, *line.get("elements", ()))))
    undo = ""
    try:
        step = getattr(definition_of(agent, run), "steps", {}).get(line["step"])
        undo = getattr(step, "undo", "")
    except UnreadableError:
        pass
    if not undo and line["kind"] == Action.kind:
        action = agent.library.get(Action.kind, line["name"])
        undo = action.undo if isinstance(action, Action) else ""
    return CallMade(line["step"], line["kind"], line["name"], taken, tuple(gave), state, undo)


def to_undo(agent: AgentState, run: Run, pending: Iterable[Advance] = ()) -> Iterator[CallMade]:
    """The calls of a run, and of the runs that it called, that are to be undone: the last first.

    One that failed did nothing. What is pure, or does nothing outside, need not be undone unless it says how.
    """
    pending = list(pending)
    for call in reversed(calls_of(agent, run, pending)):
        if call.state == "failed":
            continue
        if not call.undo and (children := _children(agent, run, call)):
            for child in children:
                for of_child in to_undo(agent, child, pending):
                    yield of_child._replace(step=f"{call.step}/{of_child.step}")
        elif call.undo or _acts_outside(agent, call):
            yield call


def _children(agent: AgentState, run: Run, call: CallMade) -> list[Run]:
    """The runs here that answered a call, the last first."""
    children = (agent.runs[eid] for eid in agent.runs.children.get(run.eid, ()) if eid in agent.runs)
    mine = [child for child in children if child.caller is not None and child.caller.step == call.step]
    return sorted(mine, key=lambda child: -child.eid)


def _acts_outside(agent: AgentState, call: CallMade) -> bool:
    if call.kind != Action.kind:
        return call.kind in (SEND, PROGRAM) or is_runnable(call.kind)
    action = agent.library.get(Action.kind, call.name)
    return isinstance(action, Action) and action.outside


# --- what becomes of them -------------------------------------------------------------------------------


def tell_relying(turn: Turn, reliances: Iterable[Reliance], why: str) -> None:
    """Tell the runs that relied on what was withdrawn, or let them fail, or undo them."""
    for run, how, eids, _ in reliances:
        if how == SIGNAL and run.active and undoing_kind(run.kind):
            element = turn.agent.memory.element(eids[0])
            attributes: dict[str, Plain] = {
                "elements": " ".join(map(str, eids)),
                "named": element.name if element is not None else "",
                "why": why,
            }
            turn.agent.queue.append((0, run.eid, Signalled(0, 0.0, "", WITHDRAWN, arguments=attributes)))
        elif how == FAIL and run.active:
            turn.fail(run, WITHDRAWN, f"it relied on element {eids[0]}, which was withdrawn: {why}")
        elif how == UNDO:
            undo_run(turn, run, f"element {eids[0]}, on which it relied, was withdrawn: {why}")


def undo_run(turn: Turn, run: Run, why: str, origin: Origin | None = None) -> Run | None:
    """Undo what a run has done: cancel it if it is under way, then call what undoes each of its calls, the
    last first. The run that does so; None if it was undone before, or nothing is to be undone.
    """
    agent, transaction = turn.agent, turn.transaction
    if run.eid in agent.memory.marks.get(UNDONE, ()):
        return None
    calls = list(to_undo(agent, run, transaction.batch.journal))
    if run.active:
        turn.tell(run.eid, Cancelled(0, 0.0, why))
    if not calls:
        return None
    inputs = tuple([(f"{call.step} {call.undo}", (*call.given, *call.gave)) for call in calls])
    undoing = start_run(
        transaction,
        run.name,
        definition=definition_of(agent, run),
        run_kind=undoing_kind(run.kind),
        origin=origin,
        environment={UNDOES: str(run.eid)},
        inputs=inputs,
    )
    assert undoing is not None, "a recipe can be followed"
    transaction.change(changes.Used(UNDONE, (run.eid,), undoing.eid))
    return undoing
