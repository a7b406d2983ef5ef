"""Relying: the runs that relied on withdrawn elements, what they are told, and what is undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from narval.agent.agent import OVER_LIMIT, AgentState
from narval.agent.incidents import error_of
from narval.agent.replay import as_far_as_readable, definition_of
from narval.agent.run import Run
from narval.agent.runs import start_run
from narval.agent.turn import Turn
from narval.core.definitions.action.definition import Action
from narval.core.elements import changes
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Origin
from narval.core.elements.names import is_sending
from narval.core.engines.commands import PROGRAM, SEND
from narval.core.engines.events import UNDOES, Cancelled, Plain, Signalled
from narval.core.engines.registry import is_runnable, undoing_kind
from narval.core.errors import UnreadableError
from narval.core.kinds import ASKS, UNDOING
from narval.core.source.secrets import without_secrets
from narval.store import codec
from narval.store.batch import Advance

UNDONE: MarkScope = ("narval", "undo", "undone")
"""The scope that marks undone runs, each with the run that undid it."""

IGNORE, SIGNAL, FAIL, UNDO = "ignore", "signal", "fail", "undo"
_STRENGTH = (IGNORE, SIGNAL, FAIL, UNDO)

WITHDRAWN = "withdrawn"
"""The name of the signal, and of the error, that tells a run that it relied on a withdrawn element."""

NOT_UNDONE = "not-undone"
"""The error of a run that should be undone and cannot be."""

UNCERTAIN = frozenset(
    {"timeout", "interrupted", "crashed", "cancelled", "no-worker", OVER_LIMIT, "bad-output", "reserved"}
)
"""The errors of calls that may still have had their effect."""


class CallMade(NamedTuple):
    """A call that a run has made, as recorded in its journal."""

    call: str
    """The id of the call."""
    step: str
    kind: str
    name: str
    given: tuple[int, ...]
    gave: tuple[int, ...]
    state: str
    """One of: done, failed, under way; held, while a person is asked first or it waits for a slot; unknown,
    if it was given up or ended by an error that leaves open what it did.
    """
    undo: str
    """The action that undoes it; "" if there is none."""


class Reliance(NamedTuple):
    """A run that relied on withdrawn elements, and its treatment."""

    run: Run
    how: str
    """One of: ignore, signal, fail, undo; "" for no effect (the run has ended)."""
    eids: tuple[int, ...]
    """The elements it relied on."""
    calls: tuple[CallMade, ...]
    """The calls that would be undone, last first, including those without an undo."""


def relying_on(agent: AgentState, eids: Iterable[int], pending: Iterable[Advance] = ()) -> list[Reliance]:
    """The runs that used these elements, hold them, made something from them, or have an active call that was
    given them: oldest first.

    The calls of a called run are listed under the first run that is undone with it.
    """
    eids, pending = tuple(eids), list(pending)
    relied: dict[int, set[int]] = {}
    for eid in eids:
        users = (run for scope, run in agent.memory.used_by(eid) if run and not is_sending(scope))
        makers = _makers_of(agent, agent.memory.descent.of(eid))
        for run in {*users, *agent.memory.contexts.holders(eid), *makers}:
            relied.setdefault(run, set()).add(eid)
    for run, inputs in _given(agent, {*eids}):
        relied.setdefault(run, set()).update(inputs)
    undone: dict[int, None] = {}
    reliances = []
    for eid in sorted(relied.keys() & agent.runs.keys()):
        if of_run := relied[eid] - {eid}:
            reliances.append(_reliance(agent, agent.runs[eid], tuple(sorted(of_run)), pending, undone))
    return reliances


def _makers_of(agent: AgentState, eids: Iterable[int]) -> Iterator[int]:
    for eid in eids:
        element = agent.memory.element(eid)
        if element is not None and element.origin is not None:
            yield element.origin.run


def _given(agent: AgentState, eids: set[int]) -> Iterator[tuple[int, set[int]]]:
    """The active runs that have given some of these elements to calls, each with those elements."""
    for run in agent.runs.active.values():
        for call in run.calls.values():
            relied_on = eids.intersection(chain(call.elements, *(inputs for _, inputs in call.inputs)))
            if relied_on:
                yield run.eid, relied_on


def _reliance(
    agent: AgentState, run: Run, eids: tuple[int, ...], pending: list[Advance], undone: dict[int, None]
) -> Reliance:
    """The treatment of a run; the runs that are undone with it are added to `undone`."""
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
    if run.kind in UNDOING or run.eid in agent.memory.marks.get(UNDONE, ()):
        how = ""  # it is undone already
    elif not run.active and how != UNDO:
        how = ""
    if how == UNDO and not _relied(agent, run, eids, pending):
        how = ""
    if how != UNDO or run.eid in undone:
        return Reliance(run, how, eids, ())
    return Reliance(run, how, eids, tuple(to_undo(agent, run, pending, undone)))


def _relied(agent: AgentState, run: Run, eids: tuple[int, ...], pending: list[Advance]) -> bool:
    """False for a run that has made the elements and done nothing more with them."""
    for eid in eids:
        element = agent.memory.element(eid)
        if element is None or element.origin is None or element.origin.run != run.eid:
            return True
        if any(user == run.eid for _, user in agent.memory.used_by(eid)):
            return True
    return any({*call.given} & {*eids} for call in calls_of(agent, run, pending))


def calls_of(agent: AgentState, run: Run, pending: Iterable[Advance] = ()) -> list[CallMade]:
    """The calls that a run has made, in order, as far back as its journal goes; `pending` are entries of this
    turn.
    """
    asked: dict[str, dict[str, Any]] = {}
    states: dict[str, str] = {}
    agreed: Counter[str] = Counter()
    uncertain: set[str] = set()
    begun: set[str] = set()  # or may have: for a call that can be undone, an entry records the start
    for line in _lines(agent, run, pending):
        call = line.get("call", "")
        if line["what"] == "Call":
            asked[call] = line
            states[call] = "under way"
            (begun.discard if line.get("undoable") else begun.add)(call)
        elif line["what"] == "CallApproved":
            agreed[call] += 1
        elif line["what"] == "CallStarting":
            begun.add(call)
        elif line["what"] == "Returned" and call in asked:
            problem = line.get("problem")
            failed = problem is not None or line.get("abandoned")
            if failed and call in begun and (problem is None or problem["kind"] in UNCERTAIN):
                uncertain.add(call)  # and stays so, if another attempt fails
            states[call] = "done" if not failed else "unknown" if call in uncertain else "failed"
    for call, state in states.items():
        if state == "under way" and call not in begun:
            states[call] = "unknown" if call in uncertain else "held"
        elif state == "under way" and _is_held(agent, run, asked[call], agreed[call]):
            states[call] = "held"
        elif state == "under way" and not run.active:
            states[call] = "unknown"
    gave: dict[str, list[int]] = {}
    for eid in agent.memory.contexts.of(run.eid):
        element = agent.memory.element(eid) if eid not in agent.runs else None
        if element is not None and element.origin is not None and element.origin.run == run.eid:
            gave.setdefault(element.origin.call, []).append(eid)
    return [_call_made(agent, run, line, states[call], gave.get(call, [])) for call, line in asked.items()]


def _is_held(agent: AgentState, run: Run, line: dict[str, Any], agreed: int) -> bool:
    """True for a call that was not made because a person is asked first, or was until the run ended; `agreed`
    people have agreed to it.
    """
    asking = 0
    for child in _children(agent, run):
        if child.caller is None or child.engine.definition_kind not in ASKS:
            continue
        if child.caller.step == line["step"] and line["kind"] not in ASKS:
            caller = child.caller
            if caller.held is None:  # the row it was restored from does not say so
                caller = as_far_as_readable(agent, child)[1].caller or caller
            asking += caller.held is not None and line["call"] in caller.calls
    return asking > agreed


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
    return CallMade(line["call"], line["step"], line["kind"], line["name"], taken, tuple(gave), state, undo)


def to_undo(
    agent: AgentState, run: Run, pending: Iterable[Advance] = (), runs: dict[int, None] | None = None
) -> Iterator[CallMade]:
    """The calls to undo of a run and of the runs that it called, last first. Their runs are added to `runs`.

    A failed call did nothing, unless a run answered it; neither did one that still waits for a person to
    agree, or for a slot. A pure call, or one without effect outside, is undone only if it says how. What was
    undone before is not undone again.
    """
    pending, marked = list(pending), agent.memory.marks.get(UNDONE, {})
    runs = runs if runs is not None else {}
    if run.eid in marked:
        return
    runs[run.eid] = None
    for call in reversed(calls_of(agent, run, pending)):
        answering = _answering(agent, run, call)
        if call.state == "held" or (call.state == "failed" and not answering):
            continue
        if not call.undo and answering:
            for child in answering:
                for of_child in to_undo(agent, child, pending, runs):
                    yield of_child._replace(step=f"{call.step}/{of_child.step}")
        elif call.undo and answering:
            if not any(child.eid in marked for child in answering):
                for child in answering:
                    runs.update(dict.fromkeys(one.eid for one in agent.runs.within(child.eid)))
                yield call
        elif call.undo or _acts_outside(agent, call):
            yield call


def left_done(agent: AgentState, run: Run, pending: Iterable[Advance] = ()) -> Iterator[CallMade]:
    """The completed calls of a run to actions that have no undo and no declared effect outside: they stay
    done.
    """
    for call in calls_of(agent, run, pending):
        action = agent.library.get(Action.kind, call.name) if call.kind == Action.kind else None
        is_inner = isinstance(action, Action) and not action.outside and not action.pure
        if is_inner and call.state == "done" and not call.undo:
            yield call


def _answering(agent: AgentState, run: Run, call: CallMade) -> list[Run]:
    """The local runs that answered a call, last first."""
    if not is_runnable(call.kind):
        return []
    children = (child for child in _children(agent, run) if child.engine.definition_kind == call.kind)
    mine = [child for child in children if child.caller is not None and child.caller.call == call.call]
    return sorted(mine, key=lambda child: -child.eid)


def _children(agent: AgentState, run: Run) -> Iterator[Run]:
    """The local runs that a run has called."""
    return (agent.runs[eid] for eid in agent.runs.children.get(run.eid, ()) if eid in agent.runs)


def _acts_outside(agent: AgentState, call: CallMade) -> bool:
    if call.kind != Action.kind:
        return call.kind in (SEND, PROGRAM) or is_runnable(call.kind)
    action = agent.library.get(Action.kind, call.name)
    return isinstance(action, Action) and action.outside


# --- the effects on these runs --------------------------------------------------------------------------


def tell_relying(turn: Turn, reliances: Iterable[Reliance], why: str) -> None:
    """Signal the runs that relied on what was withdrawn, fail them, or undo them."""
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
    """Undo what a run has done: cancel it if it is active, then call what undoes each of its calls, last
    first. Return the run that does so; None if it was undone before, or there is nothing to undo.
    """
    agent, transaction = turn.agent, turn.transaction
    if run.eid in agent.memory.marks.get(UNDONE, ()):
        return None
    runs: dict[int, None] = {}
    calls = list(to_undo(agent, run, transaction.batch.journal, runs))
    for one in list(agent.runs.within(run.eid)):
        turn.tell(one.eid, Cancelled(0, 0.0, why if one is run else f"run {run.eid} is undone: {why}"))
    if not calls:
        return None
    undoing, problem = None, "no run can begin that undoes it"
    inputs = tuple([(f"{call.step} {call.undo}", (*call.given, *call.gave)) for call in calls])
    try:
        undoing = start_run(
            transaction,
            run.name,
            definition=definition_of(agent, run),
            run_kind=undoing_kind(run.kind),
            origin=origin,
            environment={UNDOES: str(run.eid)},
            inputs=inputs,
        )
    except UnreadableError as error:
        problem = str(error)
    if undoing is None:
        transaction.add_error(NOT_UNDONE, f"run {run.eid} of {run.name} is not undone: {problem}")
        return None
    transaction.change(changes.Used(UNDONE, tuple(runs), undoing.eid))
    return undoing


def undoing_told(agent: AgentState, run: Run) -> str:
    """The run that undoes a run or should have, and its progress, as text; "" if there is none."""
    by = agent.memory.marks.get(UNDONE, {}).get(run.eid)
    if by is None:
        return ""
    undoing = agent.runs.get(by)
    if undoing is None:
        return f"run {by} was to undo it; that run is forgotten"
    if undoing.phase == "failed":
        error = error_of(agent, undoing)
        why = f"{error.where}: {error.kind}: {without_secrets(error.message)}" if error is not None else ""
        return f"run {by} was to undo it and failed{why}; what could not be undone stays done"
    if undoing.phase == "cancelled":
        return f"run {by} was to undo it and was cancelled; what it had not undone stays done"
    return f"run {by} undoes it" if undoing.active else f"run {by} has undone it"


def undone_run(agent: AgentState, undoing: int) -> int:
    """The run that a run undoes or should have undone; 0 if there is none."""
    marked = agent.memory.marks.get(UNDONE, {}).items()
    return min((run for run, by in marked if by == undoing), default=0)
