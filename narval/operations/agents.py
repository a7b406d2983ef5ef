"""Operations on the agents of a home: which there are, what state they are in (G20), what they send (G23)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from narval.errors import RequestError
from narval.operations import json_forms
from narval.operations.asker import PROGRAM, Asker
from narval.operations.documents import elements_in
from narval.operations.registry import operation
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.agents.active_memory import resident
from narval.runtime.daemon.agents.agent_host import AgentHost
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.messages.envelope import ELEMENT
from narval.runtime.store.batch import ACTIVE, AgentRow


@operation("read")
async def agents(daemon: Daemon) -> list[dict[str, Any]]:
    """The agents, the home's own first: their states and what they hold, those in memory their memory too."""
    own = {"name": daemon.files.settings.name, "state": ACTIVE, "why": None, "next": None}
    rows = daemon.agents.rows.all()
    elements, active = Counter[int](), Counter[int]()
    for agent, number, runs in await asyncio.to_thread(daemon.store.held) if rows else ():
        elements[agent] += number
        active[agent] += runs
    first = {**own, **_held(daemon.agents.rows.own.agent)}
    return [first, *(_form(daemon, row, (elements[row.agent], active[row.agent])) for row in rows)]


@operation("write")
async def add_agent(daemon: Daemon, name: str) -> dict[str, Any]:
    """Make an agent, which follows the definitions of the home, with a memory of its own."""
    return _form(daemon, await daemon.agents.rows.add(name))


@operation("read")
async def show_agent(daemon: Daemon, name: str) -> dict[str, Any]:
    """One agent: its state, and what it has of each thing that is limited, with the limit (G16).

    The `used` of messages is null; a limit of calls is null where it is all places but one.
    """
    own = daemon.agents.rows.own
    if name == daemon.files.settings.name:
        return {"name": name, "state": ACTIVE, "limits": _limits(daemon, own)}
    state = daemon.agents.state_of(daemon.agents.rows.find(name))
    async with daemon.agents.asked(name) as host:
        return {"name": name, "state": state, "limits": _limits(daemon, host)}


def _limits(daemon: Daemon, host: AgentHost) -> list[dict[str, Any]]:
    """The limits of an agent, and what it uses of each (G16)."""
    agent, settings = host.agent, host.settings
    used = {
        "elements": len(agent.memory.elements),
        "bytes": agent.memory.elements.bytes,
        "element_bytes": None,
        "runs": len(agent.runs.active),
        "moments": len(agent.clockwork.timers),
        "calls": daemon.executor.places.count(host.name),
        "messages": None,
        "definitions": len(agent.library),
    }
    return [{"what": what, "used": count, "limit": getattr(settings, what)} for what, count in used.items()]


@operation("write")
async def suspend(daemon: Daemon, name: str, reason: str = "") -> dict[str, Any]:
    """Let an agent do nothing until it is resumed: what it is asked is recorded and waits."""
    return _form(daemon, await daemon.agents.suspend(name, reason or "as asked"))


@operation("write")
async def resume(daemon: Daemon, name: str) -> dict[str, Any]:
    """Let a suspended agent go on where it was."""
    return _form(daemon, await daemon.agents.resume(name))


@operation("write")
async def passivate(daemon: Daemon, name: str) -> dict[str, Any]:
    """Take an agent that has nothing to do out of memory, until it has; that happens by itself as well."""
    return _form(daemon, await daemon.agents.passivate(name))


@operation("write")
async def remove_agent(daemon: Daemon, name: str, now: bool = False) -> dict[str, Any]:
    """Remove an agent with all that it has; one with runs under way only if it is to go `now`."""
    await daemon.agents.remove(name, now=now)
    return {"name": name, "removed": True}


@operation("write")
async def send(
    daemon: Daemon, to: str, elements: list[bytes], keep: float | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Send elements to another agent: of each document the root, or each child of a root `memory`.

    The agent that is asked sends them, in one turn; the ids of the messages once that is recorded. What is
    not taken within `keep` seconds becomes a dead letter.
    """
    found, mail = elements_in(elements), daemon.host.mail
    if mail.office.find(to) is None:
        daemon.agents.rows.find(to)  # says which there are
    if keep is not None and keep <= 0:
        raise RequestError(f"expected keep to be seconds, more than 0, got {keep:g}")

    def work(turn: Turn) -> list[str]:
        if mail.office.find(to) is None:
            raise RequestError(f"agent {to} was removed meanwhile")
        envelope = mail.outbox.envelope(by=asker.person, actor=asker.actor)
        ids = [daemon.host.dispatcher.outside_id(str(turn.agent.numbers.draw())) for _ in found]
        for id, xml in zip(ids, found, strict=True):
            mail.send(turn, to, ELEMENT, id, envelope, xml, keep)
        return ids

    return {"to": to, "messages": await daemon.host.submit(work)}


def _form(
    daemon: Daemon, row: AgentRow, held: tuple[int | None, int | None] = (None, None)
) -> dict[str, Any]:
    """The form of an agent; of one that is not in memory `held` are the elements and runs in its store."""
    host = daemon.agents.at_work.host(row.name)
    due = json_forms.moment(row.wake_at)
    form = {"name": row.name, "state": daemon.agents.state_of(row), "why": row.why or None, "next": due}
    if host is not None:
        return {**form, **_held(host.agent)}
    calls = daemon.agents.at_work.calls.count(row.id)
    return {**form, "elements": held[0], "runs": held[1], "calls": calls, "resident": 0}


def _held(agent: AgentState) -> dict[str, Any]:
    """The numbers of elements, active runs and calls of an agent in memory, its bytes, its next moment."""
    due = agent.clockwork.timers.next()
    return {
        "elements": len(agent.memory),
        "runs": len(agent.runs.active),
        "calls": sum(len(run.calls) for run in agent.runs.active.values()),
        "resident": resident(agent),
        **({"next": json_forms.moment(due)} if due is not None else {}),
    }
