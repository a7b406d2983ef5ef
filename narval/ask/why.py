"""The operation `why`: the conditions a run waits for, the element nearest to each, and what fails on it; or
the story of an element.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.effects import keeps_from_beginning
from narval.agent.incidents import error_of
from narval.agent.pacing import slowed_text
from narval.agent.relying import undoing_told
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.asker import Asker
from narval.ask.daemon.links import links_of
from narval.ask.home_state import standing_of
from narval.ask.json_forms import moment
from narval.ask.lookup import definition_and_state, find_run, newer_code
from narval.ask.memory.element import story_of
from narval.ask.registry import operation
from narval.ask.runs.conditions import judged
from narval.ask.runs.history import newest
from narval.ask.runs.waiting import waits_of
from narval.ask.text import text_of
from narval.ask.titles import TITLED, place_of, titles
from narval.ask.withholding import Secrets, check_told, relatives_told, waits_told
from narval.calls.leaving import addressed
from narval.core.agent_name import peer_of
from narval.core.elements.element import parse
from narval.core.engines.commands import SEND, SIGNAL, Call
from narval.core.engines.engine import Diagnoses, Wait, with_failed_parts
from narval.core.engines.story import Words, joined
from narval.core.errors import ActionError, NotFoundError, RequestError
from narval.core.source.secrets import without_secrets
from narval.daemon.agents.lifecycle import ELSEWHERE
from narval.daemon.daemon import Daemon
from narval.store.batch import ACTIVE, AgentRow

STUCK = "stuck"
"""The error type of a run in which nothing could continue; its detail names each transition."""
MOST_FOLLOWED = 5
"""The most agents that are read in a chain of waits, each waiting for the next."""


@operation("read")
async def why(daemon: Daemon, run: int, id: str | None = None, secrets: Secrets = None) -> dict[str, Any]:
    """The reason why a run, or a part of it, does not continue, and everything it waits for.

    For an element's number instead: what it was made from, what used it and holds it, what was made from it,
    what outdated it, and which runs wait for it. With `secrets`, no other secret is included.
    """
    check_told(daemon.agent, run, secrets)
    element = daemon.agent.memory.element(run) if run not in daemon.agent.runs else None
    if element is not None:
        if id is not None:
            raise RequestError(f"{run} is an element ({element.name}): it has no part {id!r:.80}")
        return relatives_told(daemon.agent, await story_of(daemon.agent, element), secrets)
    the_run = find_run(daemon, run)
    standing = standing_of(daemon) if the_run.active else {}
    answer = await _explained(daemon, the_run, MOST_FOLLOWED if secrets is None else 0, id)
    return {**waits_told(daemon.agent, answer, secrets), **standing}


async def _explained(daemon: Daemon, run: Run, left: int, id: str | None = None) -> dict[str, Any]:
    """The answer of `explain`, and where the awaited calls are, at up to `left` other agents."""
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
        elif run.calls[call["call"]].kind == SEND:
            call.update(await _untaken(daemon, run.calls[call["call"]]))
    return answer


async def _whereabouts(daemon: Daemon, call: Call, left: int) -> dict[str, Any]:
    """The agent that has a call, since when, and the run that answers it, with all that this run waits for,
    at up to `left` more agents.

    `state` is that of the run; without one, `untaken`, `answered`, or `gone` if the agent is gone. If another
    daemon of the store has the agent, `home` is that daemon's, or null while none has it. For an agent of a
    peer, it says whether the peer has the call, and why the link delivers nothing.
    """
    row, id = daemon.host.mail.office.addresses.find(call.agent), daemon.host.mail.calls.id_of(call)
    if row is None:
        return {"agent": call.agent, "run": None, "since": None, "state": "gone"}
    whereabouts = await _taken_or_not(daemon, call.agent, row, id)
    if whereabouts["state"] == "untaken" or peer_of(call.agent):
        return whereabouts
    async with daemon.of(call.agent, reads=True) as other:
        eid = other.agent.runs.by_call.get(id)
        if eid is None:
            return {**whereabouts, "state": "answered"}
        run = other.agent.runs[eid]
        reasons = await _explained(other, run, left - 1) if left else {"waiting": []}
        answering = {"run": eid, "name": run.name, "state": run.status, "since": moment(run.started)}
        return {**whereabouts, **answering, "waiting": reasons["waiting"]}


async def _untaken(daemon: Daemon, call: Call) -> dict[str, Any]:
    """The first receiver that has not taken what a call sends, as `at`; nothing if all have taken it."""
    find, id = daemon.host.mail.office.addresses.find, daemon.host.mail.calls.id_of(call)
    with suppress(ActionError):  # what it sends is forgotten, with its receivers
        for name in dict.fromkeys(name for name, _ in addressed(daemon.agent.memory, call)):
            if (row := find(name)) is not None:
                at = await _taken_or_not(daemon, name, row, id)
                if at["state"] == "untaken":
                    return {"at": at}
    return {}


async def _taken_or_not(daemon: Daemon, name: str, row: AgentRow, id: str) -> dict[str, Any]:
    """The agent that a call sends a message, by the id of the call: its state, or that of the link with its
    home, and whether it has taken the message: `untaken` since a moment, or `there`.
    """
    messages = daemon.store.letters.messages(row.agent)
    since = next((moment(message.at) for message in messages if message.id.partition("/")[0] == id), None)
    state = "there" if since is None else "untaken"
    whereabouts: dict[str, Any] = {"agent": name, "run": None, "since": since, "state": state}
    if peer := peer_of(name):
        link = next((link for link in links_of(daemon) if link["peer"] == peer), {"state": None, "why": None})
        return {**whereabouts, "link": link["state"], "why": link["why"]}
    is_own = row.agent == daemon.agents.own.agent.store.agent
    whereabouts["agent_state"] = ACTIVE if is_own else daemon.agents.state_of(row)
    if whereabouts["agent_state"] == ELSEWHERE and (leases := daemon.store.leases) is not None:
        there = await asyncio.to_thread(leases.find, name)
        whereabouts["home"] = there[1].home if there is not None and there[1] is not None else None
    return whereabouts


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
            rows = (row for rows in parts.values() for row in rows)
            ids = ", ".join(row["id"] for row in rows if isinstance(row["id"], str))  # tokens have numbers
            what = f"there is no {identifier!r:.80} in run {run.eid} of {run.name}"
            raise NotFoundError(f"{what}; it has {ids}")
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
    """The person who cancelled a run, and why; "" if its history has neither."""
    for line in newest(agent.store, run.eid) if run.phase == "cancelled" else ():
        if line["what"] == "Cancelled" and (line.get("by") or line.get("reason")):
            who = {name: line.get(name, "") for name in ("actor", "way", "session")}
            by = f" by {Asker(line['by'], **who)}" if line.get("by") else ""
            return f"it was cancelled{by}" + (f": {line['reason']}" if line.get("reason") else "")
    return ""


def _restart(agent: AgentState, run: Run) -> Words:
    """The moment when a failed run, or one of a slowed definition, is restarted, and why so late; or
    what prevents the restart; "" if there is none.
    """
    clockwork, own = agent.clockwork, (run.eid, run.name)
    id, start = next(
        (one for one in clockwork.starts.items() if (one[1].after, one[1].name) == own), ("", None)
    )
    if start is None:
        return ""
    if id in clockwork.held:
        why = keeps_from_beginning(agent, start)
        return f"{run.name} starts again as soon as it is allowed to: {why}" if why else ""
    if (due := clockwork.timers.due((0, id))) is None or not (start.slowed or run.phase == "failed"):
        return ""
    failures = f"{start.attempt} failures in a row" if start.attempt > 1 else "a failure"
    why = f": {slowed_text(start)}" if start.slowed else f", after {failures}"
    return f"{run.name} begins again at ", due, why


def _outcome(agent: AgentState, run: Run, reasons: list[Words]) -> Words:
    """The error of a run that failed or is about to, the given reasons, and when it ended."""
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
    """A sentence as text, with its moments as in all JSON, and in pieces; nothing if it is empty."""
    said = [piece if isinstance(piece, str) else {"moment": moment(piece)} for piece in joined([words], "")]
    return {"reason": text_of(said, str), "said": said} if said else {}


def _error(agent: AgentState, run: Run, eid: int) -> str:
    """An error in one sentence, with its place; for a stuck run, each transition that could not fire."""
    error = error_of(agent, run)
    if error is None:
        return f"failed: the error, element {eid}, has been forgotten"
    place = place_of(agent, error.element)
    at = f"{place}, " if place else ""
    text = f"failed{error.where}: {error.kind}: {without_secrets(error.message)} ({at}element {eid})"
    detail = parse(error.element.xml).findtext("detail") if error.kind == STUCK else None
    return "; ".join([text, *(detail or "").splitlines()])


def _asked(item: Run) -> Iterator[dict[str, Any]]:
    """The people whom an item asks, the question, and the deadline; nothing for any other run."""
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
