"""The operations that list runs, by the elements that identify them too, or show one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.history import past
from narval.agent.relying import undoing_told
from narval.ask import json_forms
from narval.ask.lookup import definition_and_state, find_run, newer_code
from narval.ask.paging import eids_of, gathered, moment_from
from narval.ask.registry import operation
from narval.ask.runs.figures import RunEnds
from narval.ask.runs.notices import TELLING
from narval.ask.runs.waiting import WaitingRuns, check_sort, waits_for
from narval.ask.titles import title
from narval.ask.turn_index import up_to_date
from narval.ask.withholding import Secrets, is_withheld, run_told
from narval.core.elements.element import Element
from narval.core.engines.registry import listed_kinds
from narval.core.errors import RequestError
from narval.core.index.sorted_numbers import SortedInts, Span, descending, snapshot
from narval.daemon.daemon import Daemon
from narval.store.page import RunsPage
from narval.system.long_work import TimeSlice

MOST_ABOUT = 1000
"""The most runs in one answer of `runs_about`."""

_NARROWING = frozenset({"definition", "since", "error", "text", "older", "waiting_for", "ended", "secrets"})
"""The arguments that cannot be answered from the store's rows alone."""


def _page(arguments: Mapping[str, Any]) -> RunsPage | None:
    """The requested page of runs; None for a listing of all."""
    if _NARROWING & {name for name, value in arguments.items() if value not in (None, False)}:
        return None
    query = _query(**{name: value for name, value in arguments.items() if name not in _NARROWING})
    return query if query.limit is not None and query.limit > 0 else None


def _query(kind: str | None = None, notices: bool = True, **arguments: Any) -> RunsPage:
    kinds = (kind,) if kind is not None else tuple(listed_kinds())
    return RunsPage(kinds, **arguments, left_out=() if notices else TELLING)


@operation("read", _page)
async def runs(
    daemon: Daemon,
    state: str | None = None,
    kind: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    before: int | None = None,
    definition: str | None = None,
    since: str | None = None,
    error: str | None = None,
    text: str | None = None,
    older: bool = False,
    waiting_for: str | None = None,
    notices: bool = True,
    secrets: Secrets = None,
    ended: bool = False,
) -> list[dict[str, Any]]:
    """The runs: in a phase or a state of their kind, of a kind, of a definition.

    `definition` is the digest of a version or its prefix; `since` leaves out runs that began before that
    moment (ISO 8601, without an offset in the zone of the home); `error` is the type of their error, `text`
    some words of it, in any case (M27).
    With `older`, only active runs with an older version of their definition than its file has. With
    `waiting_for`, only those that wait for a `person`, an `act` (a signal, or a token to complete), an
    `element`, a `moment`, a `call`, or for `nothing`: they are working, or will begin.

    Without `notices`, runs of `notify.failures`, and of what it calls, are left out unless they failed: they
    report on other runs. With `secrets`, runs that hold any other secret are listed without the words of
    their errors. Work items (P6) and service runs are left out unless their kind is requested. Without
    `limit`, all, oldest first; with it the newest, newest first; with `before` only those of lower eids. With
    `ended`, the ended runs, the last to end first, of the newest 50,000; `before` has no meaning then.
    """
    state = "active" if older and state is None else state
    agent = daemon.agent
    start = moment_from(since, agent.clockwork.zone)
    query = _query(kind, notices, state=state, name=name)

    def form(eid: int) -> dict[str, Any] | None:
        run = agent.runs.get(eid)
        if run is None or not query.has(run.kind, run.name, run.status, run.phase):
            return None
        if (definition and not run.digest.startswith(definition)) or (start and run.started < start):
            return None
        if waiting_for is not None and waits_for(agent, run) != waiting_for:
            return None
        if (error is not None or text is not None) and run.error is None:
            return None
        row = run_told(agent, json_forms.run(agent, run), secrets)
        return row if _erred(row["error"], error, text) and (not older or "newer" in row) else None

    if ended:
        ends = await up_to_date(daemon, RunEnds)
        return await gathered(map(form, [end.run for end in reversed(ends.listed)]), limit)
    if waiting_for is not None:
        check_sort(waiting_for)
        waiting = await up_to_date(daemon, WaitingRuns)
        sets: Sequence[SortedInts | Span] = [SortedInts(waiting.of(waiting_for, query.kinds))]
    else:
        sets = _sets(agent, query, erred=error is not None or text is not None)
    eids = eids_of(limit, before, lambda: snapshot(sets), partial(descending, sets))
    return await gathered(map(form, eids), limit)


@operation("read")
async def runs_about(daemon: Daemon, runs: list[int]) -> dict[str, list[dict[str, Any]]]:
    """The elements that identify runs for people, by the eid of the run, for at most 1,000 runs: the first
    undeclared element that the run held, and the newest, each as `{"element", "title"}`.
    """
    if len(runs) > MOST_ABOUT:
        raise RequestError(f"expected at most {MOST_ABOUT:,} runs, got {len(runs):,}")
    time_slice, titles = TimeSlice(), dict[str, list[dict[str, Any]]]()
    for eid in runs:
        await time_slice.yield_if_due()
        titles[str(eid)] = _about(daemon.agent, eid)
    return titles


def _about(agent: AgentState, run: int) -> list[dict[str, Any]]:
    """The first undeclared element that a run held, and the newest."""
    memory, held = agent.memory, agent.memory.contexts.of(run)
    first = next((eid for eid in held if eid not in memory.declared), None)
    ends = (first, next(reversed(list(held)), None)) if first is not None else ()
    return [{"element": eid, "title": title(agent, eid)} for eid in dict.fromkeys(ends) if eid is not None]


def _sets(agent: AgentState, query: RunsPage, *, erred: bool) -> Sequence[SortedInts | Span]:
    """Sets that together contain all runs of a page: failed ones, active ones, or all of its kinds."""
    if erred or query.state == "failed":
        return [agent.runs.erred]
    if query.state == "active":
        return [SortedInts(sorted(agent.runs.active))]
    return agent.memory.index.sets_named(query.kinds)


def _erred(error: dict[str, Any] | None, type: str | None, text: str | None) -> bool:
    """True for an error of this type with these words; without criteria, for any error and for none."""
    if type is None and text is None:
        return True
    named = error is not None and type in (None, error["type"])
    return named and (text or "").casefold() in str(error["message"] if error else "").casefold()


# --- one run ------------------------------------------------------------------------------------------------


@operation("read")
async def show(daemon: Daemon, run: int, at: int | None = None, secrets: Secrets = None) -> dict[str, Any]:
    """One run: its steps, transitions, context, errors; with `at`, as it was after that line of its history.

    With `secrets`, a run that holds any other secret is returned as by `runs`. For an active dataflow, also
    what its operators have taken and emitted so far, and what it printed.
    """
    the_run, agent = find_run(daemon, run), daemon.agent
    if secrets is not None and is_withheld(agent, run, secrets):
        return run_told(agent, json_forms.run(agent, the_run), secrets)
    if at is not None:
        return json_forms.past(agent, the_run, past(agent, the_run, at))
    definition, state = definition_and_state(daemon, the_run)
    context = tuple(agent.memory.contexts.of(run))
    now, calls = daemon.rounds.clock.now() if the_run.active else None, the_run.calls.values()
    form = json_forms.run_in_full(agent, the_run, definition, state, context, now, calls)
    if undoing := undoing_told(agent, the_run):
        form["undoing"] = undoing
    if code := newer_code(agent, the_run):
        form["newer_code"] = code
    return form


@operation("read")
async def xml(daemon: Daemon, run: int, at: int | None = None) -> dict[str, Any]:
    """One run as its element in memory, or as that was after line `at` of its history."""
    the_run = find_run(daemon, run)
    if at is not None:
        before = past(daemon.agent, the_run, at)
        rendered = the_run.engine.render(before.definition, before.state, before.context)
        return {"xml": Element(run, rendered).with_eid().decode("utf-8")}
    element = daemon.agent.memory.element(the_run.eid)
    return {"xml": element.with_eid().decode("utf-8") if element is not None else ""}
