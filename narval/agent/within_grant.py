"""Limits of a grant: what a definition's calls may return, in a home that asks for grants.

The person who grants a definition has seen which definitions it starts, and which agents it sends to. So an
element that starts another, ends the daemon or goes to another agent is held back unless the grant covers it.
Other elements have names that the outputs of its code declare, which its engine checks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.runs import NOT_GRANTED
from narval.agent.transaction import Transaction
from narval.core.definitions.library import RunDefinition
from narval.core.elements.element import parse
from narval.core.elements.names import CONTROLS, QUIT, STARTING, TARGET, TASK
from narval.core.engines.commands import CancelCall
from narval.core.engines.events import Failure, OutputElement, Produced, Returned
from narval.core.trust.covering import ANYTHING, is_covered
from narval.core.trust.needs import ANY, made_by
from narval.files.grants import limits_of_earlier

log = logging.getLogger("narval.grants")


def granted_to(agent: AgentState, run: Run) -> tuple[Run, tuple[str, ...]] | None:
    """The top-level run behind a run, and the needs that its definition was granted; None if its needs are
    not limited.

    A version that is outdated or may not start now has what was granted to its name.
    """
    outermost = agent.runs.get(agent.runs.top(run)) if run.caller is not None else run
    definition = outermost.definition if outermost is not None else None
    if outermost is None or definition is None:
        return None
    granted: tuple[str, ...] | None = getattr(definition, "granted", None)
    if granted is None and (grants := agent.lookup.grants) is not None:
        current = agent.library.get(definition.kind, definition.full_name)
        if not isinstance(current, RunDefinition) or current.digest != definition.digest or current.withheld:
            granted = limits_of_earlier(definition, grants)
        else:
            granted = current.granted
    return (outermost, granted) if granted is not None else None


def given_within(transaction: Transaction, run: Run, event: Returned | Produced) -> Returned | Produced:
    """Return the event to deliver for a call's result: an error if the result would start, end or send
    something that is not granted. A source is then cancelled.
    """
    agent = transaction.agent
    holder = granted_to(agent, run)
    if holder is None:
        return event
    outermost, granted = holder
    beyond = _beyond(event, granted)
    if beyond:  # an earlier version has no list of what its text starts and ends
        beyond = _beyond(event, (*granted, *made_by(outermost.definition, agent.library)))
    if not beyond:
        return event
    name, call = outermost.name, run.calls[event.call]
    why = f"{call.name} gave what is not granted to {name}: {beyond}"
    why = f"{why}; see: narval grants {name}{agent.option}"
    log.warning("run %d of %s: %s: %s", run.eid, run.name, NOT_GRANTED, why)
    if type(event) is Produced:
        transaction.outer.append((run, CancelCall(event.call)))
    return Returned(0, 0.0, event.call, problem=Failure(NOT_GRANTED, why, final=True))


def _beyond(event: Returned | Produced, granted: tuple[str, ...]) -> str:
    """The first need of a call's result that is not granted; "" if all are."""
    return next((need for each in event.elements for need in _made(each, granted)), "")


def _made(output: OutputElement, granted: tuple[str, ...]) -> Iterator[str]:
    """The needs of an element that are not granted: what it would start or end, or where it would be sent."""
    if output.to and not is_covered(f"agent {output.to}", granted):
        yield f"agent {output.to}"
    if not any(word in output.xml for word in _WORDS):
        return
    root = parse(output.xml)
    if root.tag in STARTING:
        starts = [need for need in granted if need.startswith("start ")]
        is_open = f"start {ANY}" in starts or any("{" in need for need in starts)
        need = f"start {root.get(TARGET) or root.get(TASK) or ''}"
        if not is_open and not is_covered(need, granted):
            yield need
    elif root.tag in CONTROLS and f"add {QUIT}" not in granted and ANYTHING not in granted:
        yield f"add {QUIT}"


_WORDS = (b"start-plan", b"task-object", b"quit")
"""The words, one of which is in the root of each element that acts by itself."""
