"""The operation `why`: the conditions a run waits for, the element nearest to each, what fails on it; and for
an element, what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.effects import keeps_from_beginning
from narval.agent.jobs import StartRun
from narval.agent.pacing import slowed_text
from narval.agent.relying import undoing_told
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.agent.run_error import error_of
from narval.ask import json_forms
from narval.ask.asker import Asker
from narval.ask.daemon.links import links_of
from narval.ask.element_titles import TITLED, title_in, titles
from narval.ask.json_forms import moment, run_of
from narval.ask.lookup import definition_and_state, find_run, newer_code, standing_of
from narval.ask.memory.provenance import descent_of, reached
from narval.ask.places import place_of
from narval.ask.registry import operation
from narval.ask.runs.conditions import judged, obstacle_of
from narval.ask.runs.history import newest
from narval.ask.runs.waiting import waits_of
from narval.ask.text import text_of
from narval.core.agent_name import peer_of
from narval.core.elements.element import Element, parse
from narval.core.elements.outdated_element import OUTDATED, reason_in
from narval.core.engines.commands import SEND, SIGNAL, Call
from narval.core.engines.engine import Diagnoses, Wait, with_failed_parts
from narval.core.engines.story import Words, joined
from narval.core.errors import RequestError
from narval.core.patterns.pattern import Bound
from narval.core.source.secrets import without_secrets
from narval.daemon.agents.lifecycle import ELSEWHERE
from narval.daemon.daemon import Daemon
from narval.store.batch import ACTIVE, AgentRow
from narval.system.time_slice import TimeSlice

STUCK = "stuck"
"""The type of the error of a run in which nothing could continue (N27); its detail names each transition."""
TOLD = 50
"""The most elements and runs of each sort that the story of an element names."""
MOST_FOLLOWED = 5
"""The most agents in a chain of waits, each waiting for the next, that are looked at."""


@operation("read")
async def why(daemon: Daemon, run: int, id: str | None = None) -> dict[str, Any]:
    """The reason why a run, or a part of it, does not continue, and all it waits for.

    For the number of an element instead: what it was made from, what used it and holds it, what was made of
    it, what outdated it, and which runs wait for such an element.
    """
    element = daemon.agent.memory.element(run) if run not in daemon.agent.runs else None
    if element is not None:
        if id is not None:
            raise RequestError(f"{run} is an element ({element.name}): it has no part {id!r:.80}")
        return await _story(daemon, element)
    found = find_run(daemon, run)
    standing = standing_of(daemon) if found.active else {}
    return {**await _explained(daemon, found, MOST_FOLLOWED, id), **standing}


async def _explained(daemon: Daemon, run: Run, left: int, id: str | None = None) -> dict[str, Any]:
    """The answer of `explain`, and where the awaited calls are, at up to `left` other agents (G37)."""
    definition, state = definition_and_state(daemon, run)
    answer = explain(daemon.agent, daemon.rounds.clock.now(), run, definition, state, id)
    for call in chain.from_iterable(wait.get("calls", ()) for wait in answer["waiting"]):
        if call.get("agent"):
            call["at"] = await _whereabouts(daemon, run.calls[call["call"]], left)
            continue
        if place := daemon.host.dispatcher.waits_for(call["call"]):
            call["place"] = place
        elif room := daemon.host.mail.waiting.get(call["call"]):
            call["place"] = room
    return answer


async def _whereabouts(daemon: Daemon, call: Call, left: int) -> dict[str, Any]:
    """The agent that has a call, since when, and the run that answers it, with all that this run waits for,
    at up to `left` more agents.

    `state` is that of the run; without one, `untaken`, `answered`, or `gone` if the agent is. If another
    daemon of the store has the agent, `home` is that daemon's, or null while none has it. For an agent of a
    peer, it says whether the peer has the call, and why the link brings nothing.
    """
    whereabouts: dict[str, Any] = {"agent": call.agent, "run": None, "since": None}
    row, own = daemon.host.mail.office.addresses.find(call.agent), daemon.agents.own
    if row is None:
        return {**whereabouts, "state": "gone"}
    if peer := peer_of(call.agent):
        return {**whereabouts, **_at_peer(daemon, peer, row, daemon.host.mail.calls.id_of(call))}
    is_own = row.agent == own.agent.store.agent
    whereabouts["agent_state"] = ACTIVE if is_own else daemon.agents.state_of(row)
    if whereabouts["agent_state"] == ELSEWHERE and (leases := daemon.store.leases) is not None:
        there = await asyncio.to_thread(leases.find, call.agent)
        whereabouts["home"] = there[1].home if there is not None and there[1] is not None else None
    id = daemon.host.mail.calls.id_of(call)
    waiting = (message for message in daemon.store.letters.messages(row.agent) if message.id == id)
    if (message := next(waiting, None)) is not None:
        return {**whereabouts, "since": moment(message.at), "state": "untaken"}
    async with daemon.of(call.agent, reads=True) as other:
        eid = other.agent.runs.by_call.get(id)
        if eid is None:
            return {**whereabouts, "state": "answered"}
        run = other.agent.runs[eid]
        reasons = await _explained(other, run, left - 1) if left else {"waiting": []}
        answering = {"run": eid, "name": run.name, "state": run.status, "since": moment(run.started)}
        return {**whereabouts, **answering, "waiting": reasons["waiting"]}


def _at_peer(daemon: Daemon, peer: str, row: AgentRow, id: str) -> dict[str, Any]:
    """The whereabouts of a call at an agent of a peer, by the id of its message: `untaken`, or `there`."""
    link = next((link for link in links_of(daemon) if link["peer"] == peer), None)
    waiting = (message for message in daemon.store.letters.messages(row.agent) if message.id == id)
    since = next((moment(message.at) for message in waiting), None)
    return {
        "state": "there" if since is None else "untaken",
        "since": since,
        "link": link["state"] if link is not None else None,
        "why": link["why"] if link is not None else None,
    }


async def _story(daemon: Daemon, element: Element) -> dict[str, Any]:
    """The story of an element, with the first `TOLD` of what was made of it and of the runs that wait."""
    agent, eid = daemon.agent, element.eid
    memory, time_slice = agent.memory, TimeSlice()
    made, count, successor = list[dict[str, Any]](), 0, None
    descent = await descent_of(memory, time_slice)
    depths, _ = await reached(eid, descent.of)
    for made_eid in sorted(depths)[1:]:
        await time_slice.yield_if_due()
        younger, directly = memory.element(made_eid), depths[made_eid] == 1
        if younger is None:
            continue
        count += 1
        if len(made) < TOLD:
            made.append(_relative(agent, younger) | {"directly": directly})
        replaced = younger.origin.replaces if younger.origin is not None else ()
        if directly and (eid in replaced or younger.name == OUTDATED) and successor is None:
            successor = younger
    given_to, of_name = list[dict[str, Any]](), list[Run]()
    for run in list(agent.runs.active.values()):
        await time_slice.yield_if_due()
        if not run.active:
            continue
        given_to += (
            {"run": run.eid, "step": call.step, "target": call.name} | run_of(agent, run.eid)
            for call in run.calls.values()
            if eid in call.elements or any(eid in eids for _, eids in call.inputs)
        )
        if any(_is_of(bound, element.name) for watch in run.watches.values() for bound in watch.conditions):
            of_name.append(run)
    form = json_forms.element(agent, element)
    origin = element.origin.inputs if element.origin is not None else ()
    is_left = not (form["used_by"] or given_to or form["outdated"])
    waiting = [wait for run in _woken_by(agent, element) for wait in _waits_for(agent, run, element)]
    if is_left:
        waiting += [wait for run in of_name[:TOLD] if run.active for wait in _passes_by(agent, run, element)]
    return {
        "element": eid,
        "name": element.name,
        "title": title_in(element),
        "added": form["added"],
        "origin": form["origin"],
        "declared": memory.declared[eid].partition(":")[0] if eid in memory.declared else None,
        "labels": form["labels"],
        "decided_by": form["decided_by"],
        "hearsay": form["hearsay"],
        "made_from": [_named(agent, before) for before in origin],
        "used_by": [use | run_of(agent, use["run"]) for use in form["used_by"]],
        "given_to": given_to,
        "made_of_it": made,
        "made": count,
        "held_by": [{"run": run} | run_of(agent, run) for run in sorted(memory.contexts.holders(eid))],
        "outdated": form["outdated"],
        "withdrawn": form["withdrawn"],
        "doubtful": form["doubtful"],
        "sent_to": form["sent_to"],
        "outdated_by": _successor(agent, successor) if form["outdated"] and successor is not None else None,
        "waiting": waiting,
    }


def _relative(agent: AgentState, element: Element) -> dict[str, Any]:
    """An element that was made from another."""
    form = json_forms.element(agent, element)
    run = element.origin.run if element.origin is not None else 0
    row = {"eid": form["eid"], "name": form["name"], "title": title_in(element)}
    return {**row, "added": form["added"], "origin": form["origin"], **run_of(agent, run)}


def _named(agent: AgentState, eid: int) -> dict[str, Any]:
    element = agent.memory.element(eid)
    name, words = (element.name, title_in(element)) if element is not None else (None, "")
    return {"eid": eid, "name": name, "title": words}


def _successor(agent: AgentState, element: Element) -> dict[str, Any]:
    """The element that outdated another: its new version, or one that says why."""
    reason = reason_in(element) if element.name == OUTDATED else ""
    return _relative(agent, element) | {"reason": reason or None}


def _woken_by(agent: AgentState, element: Element) -> list[Run]:
    """The runs that wait for such an element, whether they used this one or not, oldest first."""
    runs = {run for run, _ in agent.watches.index.wakes(agent.memory.tree(element))}
    return [agent.runs[run] for run in sorted(runs)[:TOLD]]


def _is_of(bound: Bound, name: str) -> bool:
    """True if a condition is for elements of a name, among others."""
    return bound.names is not None and name in bound.names


def _passes_by(agent: AgentState, run: Run, element: Element) -> Iterator[dict[str, Any]]:
    """The conditions of a run for elements of this name that this one does not satisfy, and what it lacks."""
    for wait in run.engine.waiting_for(definition_of(agent, run), state_of(agent, run), run.watches):
        for bound, none in zip(wait.conditions, wait.absent or repeat(False), strict=False):
            mismatch = bound.explain(agent.memory.tree(element)) if _is_of(bound, element.name) else None
            if mismatch is not None and not none:
                lacking = f"{mismatch.predicate}, found {mismatch.value}"
                part = {"run": run.eid, "id": wait.id, "for": wait.what, "pattern": bound.text}
                yield part | {"not": lacking} | run_of(agent, run.eid)


def _waits_for(agent: AgentState, run: Run, element: Element) -> Iterator[dict[str, Any]]:
    """The conditions of a run that such an element satisfies, and why this one is not taken, if it is not."""
    memory, definition, state = agent.memory, definition_of(agent, run), state_of(agent, run)
    for wait in run.engine.waiting_for(definition, state, run.watches):
        absent = wait.absent or repeat(False)
        for bound, scope, none in zip(wait.conditions, wait.scopes, absent, strict=False):
            if bound.test(memory.tree(element)):
                is_asked = bound.asks_doubtful or element.eid not in memory.doubtful
                free = is_asked and memory.is_available(element.eid, scope)
                obstacle = "" if free else ": ".join(obstacle_of(memory, element.eid, scope))
                pattern = f"none fits {bound.text}" if none else bound.text
                part = {"run": run.eid, "id": wait.id, "for": wait.what, "pattern": pattern}
                yield part | {"not": obstacle or None} | run_of(agent, run.eid)


def explain(
    agent: AgentState, now: float, run: Run, definition: Any, state: Any, identifier: str | None
) -> dict[str, Any]:
    """The reason and the waits of a run, or of one part of it by its id. Raises RequestError.

    A part that no longer waits is diagnosed as if it did, which shows why it was not done.
    """
    engine = run.engine
    waits = list(engine.waiting_for(definition, state, run.watches)) if run.active else []
    diagnosed = list[Wait]()
    if isinstance(engine, Diagnoses):
        view = agent.memory.element, agent.library.get
        diagnosed += engine.diagnose(definition, state, identifier, *view)
    answer: dict[str, Any] = {"run": run.eid, "state": run.status}
    if identifier is not None:
        reason = engine.explain(definition, state, identifier)
        if reason is None:
            parts = engine.parts(definition, state)
            ids = ", ".join(row["id"] for rows in parts.values() for row in rows)
            raise RequestError(f"run {run.eid} of {run.name} has no {identifier!r}; it has {ids}")
        looked_at = {wait.id for wait in diagnosed}
        own = [wait for wait in waits if wait.id == identifier or (wait.conditions and wait.id in looked_at)]
        of_now = {wait.id for wait in own if wait.conditions}
        waits = [*own, *(wait for wait in diagnosed if wait.id not in of_now)]
        answer |= _in_words(reason)
    else:
        already = {wait.id for wait in waits}
        waits += [wait for wait in diagnosed if wait.id not in already]
        reasons = [_cancellation(agent, run) or engine.explain(definition, state, None), _restart(agent, run)]
        answer |= _in_words(_outcome(agent, run, list(filter(None, reasons))))
    failing = with_failed_parts(engine) if run.active else None
    remedies = (failing.remedy(state, wait.error, agent.option) if failing else "" for wait in waits)
    answer["waiting"] = [_waiting(agent, now, run, *both) for both in zip(waits, remedies, strict=True)]
    code = newer_code(agent, run)
    return answer | json_forms.newer(agent, run) | ({"newer_code": code} if code else {})


def _cancellation(agent: AgentState, run: Run) -> str:
    """The person who cancelled a run (P30), and why; "" if its history has neither."""
    for line in newest(agent.store, run.eid) if run.phase == "cancelled" else ():
        if line["what"] == "Cancelled" and (line.get("by") or line.get("reason")):
            who = {name: line.get(name, "") for name in ("actor", "way", "session")}
            by = f" by {Asker(line['by'], **who)}" if line.get("by") else ""
            return f"it was cancelled{by}" + (f": {line['reason']}" if line.get("reason") else "")
    return ""


def _restart(agent: AgentState, run: Run) -> Words:
    """The moment when a failed run, or one of a slowed definition, is started again (N28), and why so late;
    or what keeps it from that; "" if it is not.
    """
    for start in agent.clockwork.held.values():
        if start.name == run.name and _is_newest(agent, run) and (why := keeps_from_beginning(agent, start)):
            return f"{run.name} begins again once it may: {why}"
    for id, start in agent.clockwork.starts.items():
        due = agent.clockwork.timers.due((0, id))
        if due is not None and start.slowed and start.name == run.name and _is_newest(agent, run):
            return f"{run.name} begins again at ", due, f": {slowed_text(start)}"
    if run.phase != "failed":
        return ""
    for at, _, job in agent.clockwork.timers.waiting():
        if isinstance(job, StartRun) and (job.name, job.attempt) == (run.name, run.attempt + 1):
            failures = f"{job.attempt} failures in a row" if job.attempt > 1 else "a failure"
            return f"{run.name} begins again at ", at, f", after {failures}"
    return ""


def _is_newest(agent: AgentState, run: Run) -> bool:
    """True for the latest run of its definition."""
    return not any(other.name == run.name and other.eid > run.eid for other in agent.runs.values())


def _outcome(agent: AgentState, run: Run, reasons: list[Words]) -> Words:
    """The error of a run that failed or is about to fail, the reasons given, and when it ended."""
    texts = list[Words]()
    if run.error is not None:
        texts.append(_error(agent, run, run.error))
    texts += reasons
    if run.ended is not None:
        texts = texts or [f"it was {run.status}" if run.status == "cancelled" else f"it is {run.status}"]
        texts.append(("it ended at ", run.ended))
    if undoing := undoing_told(agent, run):
        texts.append(undoing)
    return joined(texts, "; ")


def _in_words(words: Words) -> dict[str, Any]:
    """A sentence as text, with its moments as in all of JSON, and in pieces; nothing if it has none."""
    said = [piece if isinstance(piece, str) else {"moment": moment(piece)} for piece in joined([words], "")]
    return {"reason": text_of(said, str), "said": said} if said else {}


def _error(agent: AgentState, run: Run, eid: int) -> str:
    """An error in one sentence, with its place, and for a run that was stuck, each transition that could not
    fire.
    """
    error = error_of(agent, run)
    if error is None:
        return f"failed: the error, element {eid}, has been forgotten"
    place = place_of(agent, error.element)
    at = f"{place}, " if place else ""
    text = f"failed{error.where}: {error.kind}: {without_secrets(error.message)} ({at}element {eid})"
    detail = parse(error.element.xml).findtext("detail") if error.kind == STUCK else None
    return "; ".join([text, *(detail or "").splitlines()])


def _asked(item: Run) -> Iterator[dict[str, Any]]:
    """The people whom an item asks, what it asks them, and until when; nothing for any other run."""
    waits = list(waits_of(item))
    ends = next((moment(wait.until) for wait in waits if wait.what == "limit"), None)
    for wait in waits:
        if wait.about:
            yield {"item": item.eid, "of": item.name, "who": wait.text, "about": wait.about, "until": ends}


def _waiting(agent: AgentState, now: float, run: Run, wait: Wait, remedy: str) -> dict[str, Any]:
    until = moment(wait.until)
    line: dict[str, Any] = {
        "id": wait.id,
        "for": wait.what,
        "until": until,
        "conditions": judged(agent, now, run, wait),
    }
    if wait.text:
        line["text"] = f"{wait.text}; {remedy}" if remedy else wait.text
    if wait.about:
        line["about"] = wait.about
    if wait.what in ("time", "again"):
        line["until"], line["zone"] = moment(wait.until, agent.clockwork.zone), agent.clockwork.zone
        if wait.reckoned:
            line["reckoned"] = wait.reckoned
    under_way = [run.calls[call] for call in wait.calls if call in run.calls]
    targets = [agent.signals.hearer(call) for call in under_way if call.kind == SIGNAL]
    children = [child for call in wait.calls if (child := agent.runs.by_call.get(call)) is not None]
    if children or targets:
        line["runs"] = [*children, *filter(None, targets)]
        line["asked"] = [asked for child in children for asked in _asked(agent.runs[child])]
    if under_way:
        line["calls"] = [
            {"call": call.call, "inputs": list(json_forms.given_to(call))}
            | {"titles": titles(agent, list(json_forms.given_to(call))[:TITLED])}
            | ({"agent": call.agent} if call.agent else {})
            | ({"again": True} if call.begun and not call.is_announced and call.kind != SEND else {})
            for call in under_way
        ]
    return line
