"""Operations that change memory: add elements, outdate them, take them back.

An element is taken back by withdrawing it, which can be previewed; a doubtful one is confirmed. What a run
did is undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from narval.agent.agent import AgentState
from narval.agent.declared import LIBRARY, outdate_elements, replace_element
from narval.agent.relying import UNDO, UNDONE, CallMade, Reliance, left_done, relying_on, to_undo, undo_run
from narval.agent.request_keys import check_key
from narval.agent.turn import Turn
from narval.agent.withdrawing import Consequences, consequences, withdraw_and_tell
from narval.agent.withdrawing import confirm as confirm_in
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import admitted, raise_if_over_limit, raise_if_refused
from narval.ask.lookup import files_of, find_run, nothing_at
from narval.ask.memory.element import descent_of
from narval.ask.registry import Form, operation
from narval.ask.text import article
from narval.core.definitions.action.definition import Action
from narval.core.definitions.known_attributes import known_attributes, unread_attributes
from narval.core.elements.element import Element, Origin
from narval.core.elements.names import is_sending
from narval.core.elements.own_elements import NOTES
from narval.core.engines.engine import HasTokens
from narval.core.engines.registry import undoing_kind
from narval.core.errors import NotFoundError, RequestError
from narval.core.memory.memory import Memory
from narval.daemon.daemon import Daemon
from narval.system.long_work import TimeSlice

ADD_KEYS = "key/add"
"""The prefix of the facts that record the keys with which elements were added."""


@operation("write")
async def add(
    daemon: Daemon,
    elements: list[bytes],
    replace: int | None = None,
    key: str = "",
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Add elements: of each document the root, or each child of a root `memory`. A `key` used before adds
    nothing and returns the eids of then. The last 1,024 keys are remembered.

    With `replace`, the one given element replaces that element, which is outdated; if `data/memory.xml`
    declares the old one, the new one is declared (N4). `warnings` report attributes that nothing reads, on
    elements that narval or an action interprets.
    """
    schemas, origin = files_of(daemon).schemas, asker.origin()
    parsed = await admitted(schemas, elements)
    check_key(key)
    if replace is not None and len(parsed) != 1:
        raise RequestError(f"one element replaces another: expected one, got {len(parsed)}")

    def added(turn: Turn) -> list[int]:
        raise_if_over_limit(turn, parsed)
        if turn.host_api.schemas is not schemas:
            raise_if_refused(turn, parsed)
        if replace is not None:
            replaceable(daemon, replace)
            made = structs.replace(origin or Origin(), inputs=(replace,))
            return [replace_element(turn, replace, parsed[0], made)]
        return [turn.add(element, origin) for element in parsed]

    def work(turn: Turn) -> list[int]:
        if not key:
            return added(turn)
        keys = turn.agent.request_keys
        if before := keys.eids(ADD_KEYS, key):
            return before
        eids = added(turn)
        keys.record(turn.transaction.batch.meta, ADD_KEYS, key, *eids)
        return eids

    eids, slips = await daemon.host.submit(work), _slips(daemon, parsed)
    return {"eids": eids, "warnings": slips} if slips else {"eids": eids}


LOOKED_AT = 1000
"""The most elements of one request that are checked for such attributes."""


def _slips(daemon: Daemon, elements: list[bytes]) -> list[str]:
    """The warnings about attributes that nothing reads, each once."""
    attributes, warnings = known_attributes(daemon.agent.library), dict[str, None]()
    for element in (Element(0, xml) for xml in elements[:LOOKED_AT]):
        if element.name in attributes:
            unread = unread_attributes(attributes, element.name, element.attributes)
            warnings |= dict.fromkeys(message for _, message in unread)
    return list(warnings)


@operation("write")
async def outdate(
    daemon: Daemon, eids: list[int], reason: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Outdate elements: no input or condition takes them any more (N18), and `--current` leaves them out.

    An element `outdated` records it, with the reason. Elements that are already outdated stay unchanged.
    """

    def work(turn: Turn) -> dict[str, Any]:
        outdated = turn.agent.memory.outdated
        outdated_now = [outdatable(daemon, eid).eid for eid in dict.fromkeys(eids)]
        fresh = tuple([eid for eid in outdated_now if eid not in outdated])
        note = outdate_elements(turn, fresh, reason, asker.origin()) if fresh else None
        return {"eids": list(fresh), "note": note}

    return dict(await daemon.host.submit(work))


def replaceable(daemon: Daemon, eid: int) -> Element:
    """The element of that number, which another may replace. Raises RequestError."""
    element = outdatable(daemon, eid)
    if eid in daemon.agent.memory.outdated:
        raise RequestError(f"element {eid} was replaced before: `narval why {eid}` tells by what")
    return element


def outdatable(daemon: Daemon, eid: int) -> Element:
    """The element of that number, which people may outdate. Raises RequestError."""
    memory = daemon.agent.memory
    element = memory.element(eid)
    if element is None:
        raise NotFoundError(nothing_at(daemon, eid))
    if memory.is_run(eid):
        raise RequestError(f"{eid} is a run, not an element of its own; `narval cancel {eid}` ends it")
    if memory.declared.get(eid, "").startswith(f"{LIBRARY}:"):
        raise RequestError(
            f"element {eid} ({element.name}) tells what a file of the home says: alter the file"
        )
    if eid in memory.reserved:
        raise RequestError(f"a call under way is replacing element {eid}; ask again when it has ended")
    return element


# --- taking back --------------------------------------------------------------------------------------------


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
        return {**_withdrawal_form(turn.agent, eid, what, reliances), "note": note}, reliances

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
    form = _withdrawal_form(agent, eid, what, reliances)
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
        return {"element": eid, "confirmed": [_element_row(turn.agent, one) for one in cleared]}

    return dict(await daemon.host.submit(work))


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
        what = f"{article(undone.kind)} {undone.kind}"
        raise RequestError(f"run {run} of {undone.name} is {what}: only plans are undone{instead}")

    def work(turn: Turn) -> Form:
        if (by := turn.agent.memory.marks.get(UNDONE, {}).get(run)) is not None:
            raise RequestError(f"run {run} of {undone.name} was undone before, by run {by}")
        pending = turn.transaction.batch.journal
        calls = [_undo_row(turn.agent, call) for call in to_undo(turn.agent, undone, pending)]
        stays = [{"step": one.step, "target": one.name} for one in left_done(turn.agent, undone, pending)]
        undoing = undo_run(turn, undone, reason, asker.origin())
        by = undoing.eid if undoing is not None else None
        return {"run": run, "undoing": by, "undo": calls, "stays": stays}

    return dict(await daemon.host.submit(work))


def _reason(text: str, what: str) -> str:
    reason = " ".join(text.split())
    if not reason:
        raise RequestError(f"expected a reason why {what}, got an empty text")
    return reason


def _not_doubtful(daemon: Daemon, memory: Memory, eid: int) -> str:
    element = memory.element(eid)
    if element is None:
        return nothing_at(daemon, eid)
    if eid in memory.withdrawn:
        return f"element {eid} was withdrawn: {memory.withdrawn[eid]}; add it again if it counts after all"
    return f"element {eid} ({element.name}) is not doubtful, so there is nothing to confirm"


def _withdrawal_form(agent: AgentState, eid: int, what: Consequences, reliances: list[Reliance]) -> Form:
    memory = agent.memory
    return {
        "element": eid,
        "withdrawn": [_element_row(agent, one) for one in what.withdrawn],
        "doubtful": [_element_row(agent, one) for one in what.doubtful],
        "also_made_from": [
            _element_row(agent, one) for one in _also_made_from(memory, (eid, *what.cascaded), what)
        ],
        "sent_to": _receivers(memory, (*what.withdrawn, *what.doubtful)),
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
        "undo": [_undo_row(agent, call) for call in calls],
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
        rows_with_effects.append({**row, "outside": [_undo_row(agent, call) for call in calls]})
    return rows_with_effects


def _undo_row(agent: AgentState, call: CallMade) -> Form:
    undo = call.undo if agent.library.get(Action.kind, call.undo) is not None else None
    return {"step": call.step, "target": call.name, "state": call.state, "undo": undo}


def _also_made_from(memory: Memory, eids: Iterable[int], what: Consequences) -> list[int]:
    """The still valid elements that were made from withdrawn or doubtful ones and from others too."""
    taken = {*what.withdrawn, *what.doubtful, *memory.withdrawn, *memory.doubtful}
    sources = {*eids, *what.withdrawn, *what.doubtful}
    made = {one for source in sources for one in memory.descent.of(source)}
    notes = (one for one in made - taken if (element := memory.element(one)) and element.name not in NOTES)
    return sorted(notes)


def _receivers(memory: Memory, eids: Iterable[int]) -> list[str]:
    eids = set(eids)
    sendings = ((scope[2], runs) for scope, runs in memory.marks.items() if is_sending(scope))
    return sorted({receiver for receiver, runs in sendings if not runs.keys().isdisjoint(eids)})


def _element_row(agent: AgentState, eid: int) -> Form:
    element = agent.memory.element(eid)
    run = element.origin.run if element is not None and element.origin is not None else 0
    made_by = agent.runs.get(run) if run else None
    return {
        "eid": eid,
        "name": element.name if element is not None else None,
        "run": run or None,
        "run_of": made_by.name if made_by is not None else None,
    }
