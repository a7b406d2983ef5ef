"""Runs that are tried again: the plan of a retry, the operation `retry_plan`, which returns it, and `renew`.

To renew a run is to end it, and restart it with the current version of its definition.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.history import environment_at_start, given
from narval.agent.replay import past, state_of
from narval.agent.run import Run
from narval.agent.runs import cannot_start
from narval.agent.transaction import inherit
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.lookup import active_run, find_run, no_definition, stays
from narval.ask.registry import operation
from narval.ask.runs.drawing import form, graph_of
from narval.ask.text import article
from narval.core.definitions.library import Library
from narval.core.elements.element import Origin
from narval.core.engines.engine import HasEnvironment, Lookup, Renewable, Retryable, instead_of_retry
from narval.core.engines.events import Cancelled, Resume
from narval.core.engines.registry import standing_kinds
from narval.core.errors import RequestError, TokenError
from narval.core.kinds import ASKING
from narval.core.memory.lineage import in_force
from narval.daemon.daemon import Daemon

Planner = Callable[[Library, Lookup], tuple[Any, Resume]]


@operation("read")
async def retry_plan(
    daemon: Daemon, run: int, step: str | None = None, done: bool = False, gave: list[int] | None = None
) -> dict[str, Any]:
    """The effects that `retry` would have; nothing is changed: the part it would continue from, the parts
    that are kept with their results, those done again, the elements that may be used again, and the version
    of the definition, with the differences of its text from the one before. Raises RequestError if `retry`
    does.
    """
    the_run, agent = find_run(daemon, run), daemon.agent
    refuse_second_retry(agent, the_run)
    definition, resume = planner(daemon, the_run, step, done, gave)(agent.library, agent.memory.element)
    carried = {part.id: part for part in resume.kept}
    reached = [
        part["id"]
        for part in form(graph_of(the_run.engine, definition, state_of(agent, the_run)))["parts"]
        if part["tone"] not in ("idle", "cancelled") or part["state"] == "given up"
    ]
    return {
        "run": run,
        "name": the_run.name,
        "from": resume.part,
        "kept": [
            {"id": part.id, "state": part.state, "elements": list(part.eids)} for part in carried.values()
        ],
        "again": [id for id in reached if id not in carried],
        "reused": [
            {"part": part, "input": slot, "elements": list(eids)}
            for part, slot, eids in dict.fromkeys((one.id, one.slot, tuple(one.eids)) for one in resume.again)
        ],
        "definition": definition.digest,
        "before": the_run.digest,
        "differences": _differences(daemon, the_run, definition.digest),
    }


def planner(daemon: Daemon, run: Run, step: str | None, done: bool, gave: list[int] | None) -> Planner:
    """The function that plans a retry of a run with a library. Raises RequestError if there can be none."""
    if gave and not done:
        raise RequestError("only a step that was done gave something: say done too (narval retry --done)")
    if run.active:
        raise RequestError(f"run {run.eid} of {run.name} is not over yet: it is {run.status}")
    engine, kind = run.engine, run.engine.definition_kind
    if not isinstance(engine, Retryable):
        refusal = f"{article(kind)} {kind}, which cannot be retried{instead_of_retry(engine)}"
        raise RequestError(f"run {run.eid} of {run.name} is {refusal}")
    before, used = state_of(daemon.agent, run), list(given(daemon.agent, run))

    def plan(library: Library, element: Lookup) -> tuple[Any, Resume]:
        definition = library.get(kind, run.name)
        if definition is None:
            raise no_definition(daemon, run.name)
        products = tuple(gave or ()) if done else None
        return definition, engine.plan_resume(definition, before, step, used, element, library.get, products)

    return plan


def refuse_second_retry(agent: AgentState, run: Run) -> None:
    """Raise RequestError while a retry of a run, or of any run in its chain of retries, is active."""
    first = _first(agent, run)
    for again, other in agent.runs.retrying.items():
        if _first(agent, other) == first:
            under_way = f"was begun again as {again}, which is under way: narval show {again}"
            raise RequestError(f"run {run.eid} {under_way}")


def _first(agent: AgentState, run: Run) -> int:
    """The run at the start of the chain of retries that led to a run."""
    while (of := run.retry_of or past(agent, run)[1]) and (before := agent.runs.get(of)) is not None:
        run = before
    return of or run.eid


def _differences(daemon: Daemon, run: Run, digest: str) -> list[str]:
    """The differences between the text that a run followed and that of a version, as lines of a diff."""
    store = daemon.agent.store
    rows = [store.definition(of) for of in (run.digest, digest)]
    old, new = (row.source.decode("utf-8", "replace").splitlines() if row is not None else [] for row in rows)
    was, now = (f"{run.name} {of[:12]}" for of in (run.digest, digest))
    return list(difflib.unified_diff(old, new, was, now, lineterm="", n=2))


@operation("write")
async def renew(daemon: Daemon, run: int, reason: str = "", *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End a run, and restart it with the current version of its definition and its first context; elements
    that it used stay used. Its caller keeps waiting, and is not notified.

    A work item is withdrawn and offered again (P79); that is for the home's owner, root, and administrators.
    """

    def again(turn: Turn) -> Run:
        record = turn.agent.runs.get(run)
        if record is not None and record.engine.definition_kind == ASKING:
            from narval.kinds.work.operations.acts import (
                check_may_renew,  # only homes with work items need it
            )

            check_may_renew(daemon, asker, run)
        begun = _begin_anew(turn, active_run(daemon, run))
        inherit(turn.transaction, begun.eid, (run,))
        why = f"restarted as {begun.eid}{f': {reason}' if reason else ''}"
        turn.tell(run, Cancelled(0, 0.0, why, **asker.recorded))
        return begun

    begun = await daemon.host.submit(again)
    return {"run": begun.eid, "instead_of": run, "name": begun.name}


def _begin_anew(turn: Turn, run: Run) -> Run:
    """A run that starts as another did, with the current version. Raises RequestError if it cannot."""
    engine, memory = run.engine, turn.agent.memory
    definition = turn.agent.library.get(engine.definition_kind, run.name)
    if definition is None:
        raise RequestError(f"there is no definition {run.name} any more; cancel {run.eid} instead")
    if engine.definition_kind in standing_kinds():
        raise RequestError(f"run {run.eid} is not restarted: {stays(run)}")
    if (refused := cannot_start(turn.agent, definition)) is not None:
        raise TokenError(*refused)
    arguments = run.state.first, ()
    first, inputs = (
        engine.begun_anew(run.definition, run.state, definition)
        if isinstance(engine, Renewable)
        else arguments
    )
    begun = turn.start(
        run.name,
        tuple(dict.fromkeys(version for eid in first for version in in_force(memory, eid))),
        kind=definition.kind,
        caller=run.caller,
        environment=environment_at_start(turn.agent, run) if isinstance(engine, HasEnvironment) else None,
        origin=Origin(by=run.by, actor=run.actor) if run.by else None,
        ancestors=run.ancestors,
        inputs=inputs,
        definition=definition,
    )
    assert begun is not None, run.name
    return begun
