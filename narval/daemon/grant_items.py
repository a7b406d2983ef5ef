"""Items of work that ask for what definitions need: one for each `grant-request` of a home that has the work
`trust.grant`. An item is withdrawn as soon as its request is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.controls import is_known
from narval.agent.declared import GRANTS as REQUESTED
from narval.agent.effects import outdate
from narval.agent.run import Run
from narval.agent.runs import NOT_GRANTED
from narval.agent.transaction import ERRORS
from narval.agent.turn import Turn
from narval.core.definitions.library import RunDefinition
from narval.core.definitions.people.directory import GRANT, GRANTING
from narval.core.elements.element import Element, parse
from narval.core.elements.names import TARGET, TASK
from narval.core.elements.own_elements import GRANT_REQUEST, read_error
from narval.core.engines.events import Cancelled, Started
from narval.core.engines.registry import runnable
from narval.core.kinds import ASKING
from narval.files.agents.collections import AGENTS


class RequestAnswer(NamedTuple):
    """The answer to a request for what a definition needs, and the person who gave it."""

    kind: str
    name: str
    needs: tuple[str, ...]
    is_granted: bool
    by: str


def items_of_requests(agent: AgentState) -> dict[int, int]:
    """The open items that ask for what definitions need, by the elements of the requests."""
    if not agent.runs.counts[ASKING, "active"]:
        return {}
    items = [run.eid for run in agent.runs.active.values() if _asks(run)]
    taken = [(eid, item) for item in items for eid in agent.memory.contexts.of(item)]
    begun = [(run, event) for _, run, event in agent.queue if isinstance(event, Started) and run in items]
    taken += [(eid, run) for run, event in begun for eid in event.elements]
    return {eid: item for eid, item in taken if _is_request(agent, eid)}


def offer_items(turn: Turn) -> None:
    """Offer an item for each request that has none, and withdraw items whose request is gone."""
    agent = turn.agent
    there, definition = items_of_requests(agent), agent.library.get(ASKING, GRANTING)
    requests = [eid for eid in agent.memory.named((GRANT_REQUEST,)) if _is_open(agent, eid)]
    for eid, item in there.items():
        if eid not in requests:
            why = "it was decided otherwise, or is no longer needed"
            agent.queue.append((0, item, Cancelled(0, 0.0, why)))
    if definition is None or agent.excess_of_runs():
        return
    for eid in requests:
        if eid not in there:
            turn.start(GRANTING, (eid,), definition=definition, inputs=(("request", (eid,)),))


def settle_errors(turn: Turn) -> None:
    """Outdate the error of a start that waited, once it no longer waits or is itself outdated: when its
    definition is loaded, or its grant is decided.
    """
    memory = turn.agent.memory
    for eid in list(memory.named(ERRORS)):
        element = memory.element(eid) if eid not in memory.outdated else None
        waits = _WAITING.get(read_error(element)[0]) if element is not None else None
        number = element.attributes.get("start", "") if element is not None else ""
        if waits is None or not (number.isdecimal() and number.isascii() and len(number) < 20):
            continue
        start = memory.element(int(number))
        if start is None or start.eid in memory.outdated or not waits(turn.agent, start):
            outdate(turn.transaction, (eid,))


def answer_of(agent: AgentState, run: Run) -> RequestAnswer | None:
    """The answer by which an ended item decides a request; None for any other run, and for an item without an
    answer.
    """
    if not _asks(run) or run.phase != "done":
        return None
    held = list(agent.memory.contexts.of(run.eid))
    request = next((eid for eid in held if _is_open(agent, eid)), None)
    answer = agent.memory.element(held[-1]) if request is not None else None
    asked = agent.memory.element(request) if request is not None else None
    if answer is None or asked is None or "outcome" not in answer.attributes:
        return None
    if not (by := answer.attributes.get("by", "")):
        return None
    said, root = answer.attributes.get("outcome"), parse(asked.xml)
    needs = tuple(node.text or "" for node in root.iter("need"))
    return RequestAnswer(root.get("kind", ""), root.get("name", ""), needs, said == GRANT, by)


def _asks(run: Run) -> bool:
    """True for an item that the home itself has offered."""
    return run.name == GRANTING and run.kind == ASKING and run.caller is None


def _is_request(agent: AgentState, eid: int) -> bool:
    element = agent.memory.element(eid)
    return element is not None and element.name == GRANT_REQUEST


def _is_open(agent: AgentState, eid: int) -> bool:
    """True for a request that the home has made, and that is not decided yet. Agents that follow the files of
    the home make no requests themselves.
    """
    memory, element = agent.memory, agent.memory.element(eid)
    if element is None or eid in memory.outdated:
        return False
    is_declared = memory.declared.get(eid, "").startswith(f"{REQUESTED}:")
    is_own = agent.store.is_own or element.attributes.get("path", "").startswith(f"{AGENTS}/")
    return is_declared and is_own


def _waits_for_grant(agent: AgentState, start: Element) -> bool:
    said = start.attributes
    definition = runnable(agent.library, said.get(TARGET) or said.get(TASK) or "")
    withheld = definition.withheld if isinstance(definition, RunDefinition) else None
    return withheld is not None and not withheld.is_rejected


def _waits_for_definition(agent: AgentState, start: Element) -> bool:
    return not is_known(agent.library, parse(start.xml))


_WAITING: Mapping[str, Callable[[AgentState, Element], bool]] = {
    NOT_GRANTED: _waits_for_grant, "unknown-target": _waits_for_definition,
}  # fmt: skip
"""The test of whether a start still waits, by the type of the error that reported it."""
