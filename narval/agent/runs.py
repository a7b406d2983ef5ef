"""The start and end of runs, and the signals between them (K52)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from narval.agent.agent import AgentState
from narval.agent.incidents import error_of
from narval.agent.run import Run
from narval.agent.transaction import Transaction, inherit
from narval.agent.waiting import unanswered
from narval.core.definitions.library import Definition, RunDefinition
from narval.core.definitions.people.directory import ALWAYS, APPROVED, ONCE, day_of
from narval.core.elements import changes
from narval.core.elements.element import Origin
from narval.core.elements.own_elements import make_failure
from narval.core.engines.commands import SIGNAL, Answer, Call, Finish
from narval.core.engines.decision import Inputs
from narval.core.engines.events import (
    LABELS,
    CallApproved,
    Caller,
    Cancelled,
    Failure,
    HeldCalls,
    Plain,
    Resume,
    Returned,
    Signalled,
    Started,
)
from narval.core.engines.registry import engine_of, engine_of_run, is_standing, runnable, standing_kinds
from narval.core.kinds import UNDOING
from narval.core.memory.labels import NONE, Labels
from narval.core.memory.memory import Memory

_BEHIND = ("raiser", "case")
"""The arguments in which a service run names the run on whose behalf it acts."""

NOT_GRANTED = "not-granted"
"""The error of a definition whose needs are not granted."""


def start_run(
    transaction: Transaction,
    name: str,
    elements: tuple[int, ...] = (),
    *,
    kind: str | None = None,
    run_kind: str = "",
    caller: Caller | None = None,
    attempt: int = 0,
    after: int = 0,
    resume: Resume | None = None,
    environment: Mapping[str, str] | None = None,
    origin: Origin | None = None,
    ancestors: Mapping[str, int] | None = None,
    laps: int = 0,
    inputs: Inputs = (),
    definition: Definition | None = None,
) -> Run | None:
    """Start a run of a definition, in the current version or the one that its caller uses. Return None if
    there is no version, or it `cannot_start` and no service run calls it.

    With a `run_kind` the run is of that kind, if several kinds follow such definitions. Only some kinds have
    an `environment` from the start. `after` is a failed run that caused this start. `origin` is who starts it
    (P30), `ancestors` are the runs from which it descends by start-plan, and `laps` counts the starts of its
    definition that led to it. Its caller gives it `inputs`. With a `definition`, exactly that version runs.
    """
    agent = transaction.agent
    parent = agent.runs.active.get(caller.run) if caller is not None else None
    if definition is None:
        definition_of = agent.lookup.definition
        definition = runnable(agent.library, name) if kind is None else definition_of(parent, kind, name)
    if definition is None:
        return None
    if isinstance(definition, RunDefinition):
        if definition.withheld is not None and is_withheld(definition, parent) and run_kind not in UNDOING:
            return None  # an undoing run may always start: its calls are checked against the grant
        if definition.cannot_start is not None and not (run_kind or (parent and is_standing(parent.kind))):
            return None
    engine = engine_of_run(run_kind) if run_kind else engine_of(definition.kind)
    who = origin or Origin()
    begun = (agent.memory.next_eid, engine, name, definition.digest, transaction.at, caller, attempt)
    again = resume.of if resume is not None else 0
    run = Run(*begun, by=who.by, actor=who.actor, ancestors=ancestors or {}, retry_of=again, laps=laps)
    run.begin(definition, agent.lookup.library_for(definition, parent))
    agent.runs.add(run)
    transaction.alter(run)
    makers = (caller.run if caller is not None else 0, who.run, again, *run.ancestors.values())
    inherit(transaction, run.eid, makers)
    if transaction.comes_with:
        transaction.label(run.eid, transaction.comes_with)
    if parent is not None and environment:
        transaction.label(run.eid, _labels_behind(agent.memory.labels, parent, environment))
    started = Started(
        0,
        0.0,
        elements,
        caller=caller,
        attempt=attempt,
        after=after,
        resume=resume,
        environment=dict(environment or {}),
        by=who.by,
        actor=who.actor,
        inputs=inputs,
        way=who.way,
        session=who.session,
    )
    agent.queue.append((0, run.eid, started))
    return run


def cannot_start(agent: AgentState, definition: Definition) -> tuple[str, str] | None:
    """The reason why no run of a definition can start, as a stable word and as text; None if one can."""
    if not isinstance(definition, RunDefinition):
        return None
    return _withheld(agent, definition) or definition.cannot_start


def cannot_take(agent: AgentState, definition: RunDefinition) -> tuple[str, str] | None:
    """The reason why no object can be put to a definition, as a word and as text; None if one can."""
    return _withheld(agent, definition) or definition.cannot_take


def is_withheld(definition: Definition, parent: Run | None = None) -> bool:
    """True if a definition's needs are not granted. What a run calls was granted with it, in the version
    current when it began.
    """
    if not isinstance(definition, RunDefinition) or definition.withheld is None:
        return False
    if parent is None:
        return True
    library = parent.library
    begun = parent.definition if library is None else library.get(definition.kind, definition.full_name)
    return begun is None or begun.digest != definition.digest


def _withheld(agent: AgentState, definition: RunDefinition) -> tuple[str, str] | None:
    if definition.withheld is None:
        return None
    return NOT_GRANTED, definition.withheld.told(definition.full_name, agent.option)


def end_run(transaction: Transaction, run: Run, command: Finish) -> None:
    """End a run as its engine says, and tell its caller; without a caller, add a failed run's failure."""
    agent = transaction.agent
    run.end(command.phase, transaction.at, command.error)
    if run.calls or agent.signals.heard or agent.signals.standing:
        _end_signals(transaction, run)
    is_renewed = run.caller is not None and agent.runs.by_call.get(run.caller.call, run.eid) != run.eid
    agent.end_run(run)
    transaction.ended.append(run)
    if run.caller is not None and run.caller.run:
        inherit(transaction, run.caller.run, (run.eid,))
    if run.caller is None:
        if command.phase == "failed":
            error = error_of(agent, run)
            element, step = (error.element, error.step) if error is not None else (None, "")
            failure = make_failure(run.eid, run.kind, run.name, element, step, command.after)
            transaction.add(failure, Origin(run.eid), held=run)
    elif is_renewed:
        pass  # another run answers the call
    elif not run.caller.run:
        transaction.remote.append((run, command))
    elif run.caller.held is not None:
        _decide_held(transaction, run, run.caller, run.caller.held, command)
    else:
        caller = agent.runs.active.get(run.caller.run)
        given_up = caller is not None and run.caller.call in caller.abandoned
        problem = None if command.phase == "done" else failure_of(transaction, run)
        back = Returned(0, 0.0, run.caller.call, eids=command.eids, problem=problem, abandoned=given_up)
        agent.queue.append((0, run.caller.run, back))
    if agent.clockwork.idle is not None:
        agent.clockwork.idle.added(run.eid, transaction.at)


def _decide_held(transaction: Transaction, run: Run, caller: Caller, held: HeldCalls, end: Finish) -> None:
    """Tell the run whose calls were held whether they may be made."""
    agent = transaction.agent
    asking = agent.runs.active.get(caller.run)
    refusal = _refusal(transaction, run, held, end)
    for call, inputs in held.calls:
        back: Returned | CallApproved
        if asking is not None and call in asking.abandoned:
            back = Returned(0, 0.0, call, abandoned=True)
        elif (gone := _gone(agent, caller, held, inputs)) is not None:
            back = Returned(0, 0.0, call, problem=gone)
        elif refusal is not None:
            back = Returned(0, 0.0, call, problem=refusal)
        else:
            back = CallApproved(0, 0.0, call, run.name, held.version, _rules_agreed(transaction, held, end))
        agent.queue.append((0, caller.run, back))


def refusal_of_gone(
    memory: Memory, name: str, eids: Iterable[int], but: Container[int] = ()
) -> Failure | None:
    """The reason why a call is refused: it is given withdrawn or doubtful elements. None if it is not.

    Elements in `but`, which were already doubtful when a person was asked, are ignored.
    """
    for eid in eids:
        why = ""
        if eid in memory.withdrawn:
            why = f"was withdrawn: {memory.withdrawn[eid]}"
        elif eid in memory.doubtful and eid not in but:
            why = "is doubtful, for it was made from what was withdrawn"
        if why:
            return Failure(
                "withdrawn", f"{name} is not called: element {eid}, which it is given, {why}", final=True
            )
    return None


def _gone(agent: AgentState, caller: Caller, held: HeldCalls, inputs: Inputs) -> Failure | None:
    """The reason why a held call is not made, whatever the answer; None without one. A run that undoes
    another is exempt: it is given withdrawn elements.
    """
    memory, asking = agent.memory, agent.runs.get(caller.run)
    if not (memory.withdrawn or memory.doubtful) or (asking is not None and asking.kind in UNDOING):
        return None
    input_eids = (eid for _, eids in inputs for eid in eids)
    return refusal_of_gone(memory, held.name, input_eids, held.doubtful)


def withdraw_questions(transaction: Transaction, eids: tuple[int, ...]) -> None:
    """Withdraw each item that asks whether calls may be made, if all these calls are given elements that are
    now withdrawn or doubtful. If only some are, those are refused when the answer comes.
    """
    agent = transaction.agent
    for run in agent.runs.active.values():
        caller = run.caller
        held = caller.held if caller is not None else None
        if caller is None or held is None or held.given().isdisjoint(eids):
            continue
        if all(_gone(agent, caller, held, inputs) is not None for _, inputs in held.calls):
            why = "what the call is given was withdrawn, or is doubtful"
            agent.queue.append((0, run.eid, Cancelled(0, 0.0, why)))


def _refusal(transaction: Transaction, run: Run, held: HeldCalls, end: Finish) -> Failure | None:
    """The reason why held calls are not made; None if all agreed."""
    if end.phase != "done":
        return msgspec.structs.replace(failure_of(transaction, run), final=True)
    answer = transaction.agent.memory.element(end.eids[0]) if end.eids else None
    said = answer.attributes if answer is not None else {}
    if said.get("outcome") in (APPROVED, *((ONCE, ALWAYS) if held.parts else ())):
        return None
    whom = f" by {said['by']}" if said.get("by") else ""
    message = f"{held.name} is not called: {run.name} ({run.eid}) was answered {said.get('outcome')}{whom}"
    return Failure("rejected", message, final=True)


def _rules_agreed(transaction: Transaction, held: HeldCalls, end: Finish) -> str:
    """The rules to add because the answer is `always`, with a line that names who gave it."""
    answer = transaction.agent.memory.element(end.eids[0]) if end.eids else None
    if answer is None or not held.always or answer.attributes.get("outcome") != ALWAYS:
        return ""
    day = day_of(transaction.at, transaction.agent.clockwork.zone)
    return f"# added {day} by {answer.attributes.get('by', '')}\n{held.always}"


def failure_of(transaction: Transaction, run: Run) -> Failure:
    """The reason why a run did not end as done, as reported to its caller."""
    error = error_of(transaction.agent, run)
    if error is None:
        why = f"run {run.eid} of {run.name} was {run.phase}"
        return Failure(f"run-{run.phase}", why, final=run.phase == "cancelled")
    return Failure(error.kind, error.message)


# --- signals between runs -----------------------------------------------------------------------------------


def deliver_signal(transaction: Transaction, run: Run, call: Call) -> None:
    """Queue the signal that a run sends another by a call of kind `signal`, to be heard within the turn."""
    agent, payload = transaction.agent, call.payload or {}
    hearer = agent.runs.active.get(agent.signals.hearer(call))
    if hearer is None and not payload.get("run"):
        hearer = _standing_for(transaction, call.name)
    if hearer is None:
        whom = f"run {payload['run']}" if payload.get("run") else f"a standing run of {call.name}"
        problem = Failure("unknown-target", f"expected {whom} that is under way, and there is none")
        agent.queue.append((0, run.eid, Returned(0, 0.0, call.call, problem=problem)))
        return
    agent.signals.add(hearer.eid, call.call, run.eid)
    there = tuple(eid for eid in call.elements if eid in agent.memory)
    labels = agent.memory.labels
    behind = labels.join(labels.of((run.eid,)), _labels_behind(labels, run, payload.get("arguments")))
    if behind:  # a service run serves everyone and has no labels: it passes on what it is given
        for eid in there if is_standing(hearer.kind) else (hearer.eid,):
            transaction.label(eid, behind)
    if there and not is_standing(hearer.kind):  # a service run would keep them for ever
        transaction.fact(changes.Held(hearer.eid, there))
        hearer.render_anew()
    said: Any = payload.get("arguments") or {}
    arguments: dict[str, Plain] = {**said, "from": run.eid}
    signal = Signalled(
        0, 0.0, call.call, str(payload["signal"]), (), arguments, run.by, run.actor, None, run.eid
    )
    agent.queue.append((0, hearer.eid, signal))


def _labels_behind(labels: Labels, run: Run, said: Any) -> int:
    """The labels for what a service run signals or starts: those of the run on whose behalf it acts, and
    those that it names.
    """
    if not said or not is_standing(run.kind):
        return NONE
    named = (str(said.get(word) or "") for word in _BEHIND)
    behind = labels.of(int(eid) for eid in named if eid.isdecimal())
    return labels.join(behind, labels.number(str(said.get(LABELS) or "").split()))


def _standing_for(transaction: Transaction, name: str) -> Run | None:
    """The service run of a definition, started now if the daemon's start had not reached it yet."""
    for kind, run_kind in standing_kinds().items():
        if (definition := transaction.agent.library.get(kind, name)) is not None:
            return begin_service_run(transaction, definition, run_kind)
    return None


def begin_service_run(transaction: Transaction, definition: Definition, run_kind: str) -> Run:
    """Start the service run of the current version of a definition."""
    run = start_run(transaction, definition.full_name, definition=definition, run_kind=run_kind)
    assert run is not None, definition
    run.follow(definition)
    transaction.agent.signals.standing[run.name] = run.eid
    return run


def take_back(transaction: Transaction, run: Run, call: Call) -> None:
    """Give up a call of kind `signal`: tell the run that was to answer, and return the call to its caller as
    abandoned.
    """
    agent = transaction.agent
    hearer = agent.signals.hearer(call)
    if agent.signals.settle(hearer, call.call):
        arguments: dict[str, Plain] = {"signal": call.call, "from": run.eid}
        agent.queue.append((0, hearer, Signalled(0, 0.0, "", "gone", arguments=arguments, sender=run.eid)))
        if run.active:
            agent.queue.append((0, run.eid, Returned(0, 0.0, call.call, abandoned=True)))


def _end_signals(transaction: Transaction, run: Run) -> None:
    """Drop the signals that an ended run has sent, and fail those that wait for its answer."""
    agent = transaction.agent
    for call in run.calls.values():
        if call.kind == SIGNAL:
            take_back(transaction, run, call)
    for signal, waiting in agent.signals.ended(run.eid).items():
        agent.queue.append((0, waiting, Returned(0, 0.0, signal, problem=unanswered(run.eid))))
    if agent.signals.standing.get(run.name) == run.eid:
        del agent.signals.standing[run.name]


def answer_run(transaction: Transaction, run: Run, answer: Answer) -> bool:
    """Answer the run that called by a signal, within the turn; False if no run waits for that answer."""
    waiting = transaction.agent.signals.settle(run.eid, answer.signal)
    if not waiting:
        return False
    inherit(transaction, waiting, (run.eid,))
    value = dict(answer.value) if answer.value is not None else None
    eids: Any = value.pop("eids", ()) if value is not None else ()
    back = Returned(0, 0.0, answer.signal, eids=tuple(eids), problem=answer.problem, value=value)
    transaction.agent.queue.append((0, waiting, back))
    return True
