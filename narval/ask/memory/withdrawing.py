"""Operations that take an element back: withdraw it, preview that, confirm a doubtful one."""

from __future__ import annotations

from collections.abc import Iterable

from narval.agent.agent import AgentState
from narval.agent.relying import UNDO, UNDONE, CallMade, Reliance, left_done, relying_on, to_undo, undo_run
from narval.agent.turn import Turn
from narval.agent.withdrawing import Consequences, consequences, withdraw_and_tell
from narval.agent.withdrawing import confirm as confirm_in
from narval.ask.asker import PROGRAM, Asker
from narval.ask.lookup import find_run, no_element
from narval.ask.memory.changing import outdatable
from narval.ask.memory.element import descent_of
from narval.ask.registry import Form, operation
from narval.core.definitions.action.definition import Action
from narval.core.elements.control_elements import is_sending
from narval.core.elements.outdated_element import NOTES
from narval.core.engines.engine import HasTokens
from narval.core.engines.registry import undoing_kind
from narval.core.errors import RequestError
from narval.core.memory.memory import Memory
from narval.daemon.daemon import Daemon
from narval.system.time_slice import TimeSlice


@operation("write")
async def withdraw(
    daemon: Daemon, eid: int, why: str, cascade: bool = False, *, asker: Asker = PROGRAM
) -> Form:
    """Withdraw an element that should never have counted: no input or condition takes it any more, and it
    stays visible with the reason.

    What was made from it alone becomes doubtful: only patterns that ask for doubtful elements take it, until
    it is confirmed. With `cascade` it is withdrawn too. An element that is withdrawn already stays so.
    """
    reason, time_slice = _reason(why, "the element should never have counted"), TimeSlice()
    await descent_of(daemon.agent.memory, time_slice)

    def work(turn: Turn) -> tuple[Form, list[Reliance]]:
        memory = turn.agent.memory
        if eid not in memory.withdrawn:
            outdatable(daemon, eid)
        what, note, reliances = withdraw_and_tell(turn, (eid,), reason, asker.origin(), cascade=cascade)
        return {**_form(turn.agent, eid, what, reliances), "note": note}, reliances

    agent = daemon.agent
    form, reliances = await daemon.host.submit(work)
    return {**form, "runs": await _with_effects(agent, form["runs"], reliances, time_slice)}


@operation("read")
async def withdrawal(daemon: Daemon, eid: int, cascade: bool = False) -> Form:
    """The consequences of withdrawing an element: the elements that would be doubtful, or withdrawn too, the
    runs that relied on it, the agents it was sent to. Nothing is changed.
    """
    agent, time_slice = daemon.agent, TimeSlice()
    await descent_of(agent.memory, time_slice)
    if eid not in agent.memory.withdrawn:
        outdatable(daemon, eid)
    what = consequences(agent.memory, (eid,), cascade=cascade)
    reliances = relying_on(agent, what.withdrawn)
    form = _form(agent, eid, what, reliances)
    return {**form, "runs": await _with_effects(agent, form["runs"], reliances, time_slice)}


@operation("write")
async def confirm(daemon: Daemon, eid: int, why: str = "", *, asker: Asker = PROGRAM) -> Form:
    """Confirm a doubtful element: it may be taken again, and so may what is doubtful only because of it."""
    await descent_of(daemon.agent.memory, TimeSlice())

    def work(turn: Turn) -> Form:
        memory = turn.agent.memory
        if eid not in memory.doubtful:
            raise RequestError(_not_doubtful(daemon, memory, eid))
        cleared = confirm_in(turn.transaction, (eid,), " ".join(why.split()), asker.origin())
        return {"element": eid, "confirmed": [_row(turn.agent, one) for one in cleared]}

    return dict(await daemon.host.submit(work))


def _reason(text: str, what: str) -> str:
    reason = " ".join(text.split())
    if not reason:
        raise RequestError(f"expected a reason why {what}, got an empty text")
    return reason


def _not_doubtful(daemon: Daemon, memory: Memory, eid: int) -> str:
    element = memory.element(eid)
    if element is None:
        return no_element(daemon, eid)
    if eid in memory.withdrawn:
        return f"element {eid} was withdrawn: {memory.withdrawn[eid]}; add it again if it counts after all"
    return f"element {eid} ({element.name}) is not doubtful, so there is nothing to confirm"


def _form(agent: AgentState, eid: int, what: Consequences, reliances: list[Reliance]) -> Form:
    memory = agent.memory
    return {
        "element": eid,
        "withdrawn": [_row(agent, one) for one in what.withdrawn],
        "doubtful": [_row(agent, one) for one in what.doubtful],
        "also_made_from": [_row(agent, one) for one in _others(memory, (eid, *what.cascaded), what)],
        "sent_to": _sent(memory, (*what.withdrawn, *what.doubtful)),
        "runs": [_reliance(agent, reliance) for reliance in reliances],
    }


def _reliance(agent: AgentState, reliance: Reliance) -> Form:
    run, how, eids, calls = reliance
    return {
        "run": run.eid,
        "run_of": run.name,
        "state": run.status,
        "how": how or None,
        "relied_on": list(eids),
        "undo": [_undo(agent, call) for call in calls],
    }


async def _with_effects(
    agent: AgentState, rows: list[Form], reliances: list[Reliance], time_slice: TimeSlice
) -> list[Form]:
    """The runs that relied on it, with the effects outside of those not undone, read from their journals
    outside the turn.
    """
    rows_with_effects = []
    for row, reliance in zip(rows, reliances, strict=True):
        await time_slice.yield_if_due()
        calls = to_undo(agent, reliance.run) if reliance.how != UNDO else ()
        rows_with_effects.append({**row, "outside": [_undo(agent, call) for call in calls]})
    return rows_with_effects


def _undo(agent: AgentState, call: CallMade) -> Form:
    undo = call.undo if agent.library.get(Action.kind, call.undo) is not None else None
    return {"step": call.step, "target": call.name, "state": call.state, "undo": undo}


@operation("write")
async def undo(daemon: Daemon, run: int, why: str, *, asker: Asker = PROGRAM) -> Form:
    """Undo the calls of a recipe's run: cancel it if it is active, then call the undoing action of each of
    its calls, the last first. A run is undone once.

    `undo` are its calls with an effect outside, each with the action that undoes it, or null if there is
    none. `stays` are completed calls without an undo that are declared to have no effect outside.
    """
    undone, reason = find_run(daemon, run), _reason(why, "the run is to be undone")
    if not undoing_kind(undone.kind):
        instead = "; `narval backtrack` takes it back" if isinstance(undone.engine, HasTokens) else ""
        raise RequestError(f"run {run} of {undone.name} is a {undone.kind}: only plans are undone{instead}")

    def work(turn: Turn) -> Form:
        if (by := turn.agent.memory.marks.get(UNDONE, {}).get(run)) is not None:
            raise RequestError(f"run {run} of {undone.name} was undone before, by run {by}")
        pending = turn.transaction.batch.journal
        calls = [_undo(turn.agent, call) for call in to_undo(turn.agent, undone, pending)]
        stays = [{"step": one.step, "target": one.name} for one in left_done(turn.agent, undone, pending)]
        undoing = undo_run(turn, undone, reason, asker.origin())
        by = undoing.eid if undoing is not None else None
        return {"run": run, "undoing": by, "undo": calls, "stays": stays}

    return dict(await daemon.host.submit(work))


def _others(memory: Memory, eids: Iterable[int], what: Consequences) -> list[int]:
    """The still valid elements that were made from withdrawn or doubtful ones and from others too."""
    taken = {*what.withdrawn, *what.doubtful, *memory.withdrawn, *memory.doubtful}
    sources = {*eids, *what.withdrawn, *what.doubtful}
    made = {one for source in sources for one in memory.descent.of(source)}
    notes = (one for one in made - taken if (element := memory.element(one)) and element.name not in NOTES)
    return sorted(notes)


def _sent(memory: Memory, eids: Iterable[int]) -> list[str]:
    eids = set(eids)
    sendings = ((scope[2], runs) for scope, runs in memory.marks.items() if is_sending(scope))
    return sorted({receiver for receiver, runs in sendings if not runs.keys().isdisjoint(eids)})


def _row(agent: AgentState, eid: int) -> Form:
    element = agent.memory.element(eid)
    run = element.origin.run if element is not None and element.origin is not None else 0
    made_by = agent.runs.get(run) if run else None
    return {
        "eid": eid,
        "name": element.name if element is not None else None,
        "run": run or None,
        "run_of": made_by.name if made_by is not None else None,
    }
