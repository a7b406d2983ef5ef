"""Operations on the agents of a home: which there are, and what state they are in (G20)."""

from __future__ import annotations

from typing import Any

from narval.operations import json_forms
from narval.operations.registry import operation
from narval.runtime.agent.agent import AgentState
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.store.batch import ACTIVE, AgentRow


@operation("read")
async def agents(daemon: Daemon) -> list[dict[str, Any]]:
    """The agents, the home's own first: their states, and of those in memory what they hold."""
    own = {"name": daemon.files.settings.name, "state": ACTIVE, "why": None, "next": None}
    rows = daemon.agents.rows
    return [{**own, **_held(rows.own.agent)}, *(_form(daemon, row) for row in rows.all())]


@operation("write")
async def add_agent(daemon: Daemon, name: str) -> dict[str, Any]:
    """Make an agent, which follows the definitions of the home, with a memory of its own."""
    return _form(daemon, await daemon.agents.rows.add(name))


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


def _form(daemon: Daemon, row: AgentRow) -> dict[str, Any]:
    host = daemon.agents.at_work.host(row.name)
    due = json_forms.moment(row.wake_at)
    state = daemon.agents.state_of(row)
    form = {"name": row.name, "state": state, "why": row.why or None, "next": due}
    held = dict.fromkeys(("elements", "runs", "calls")) if host is None else _held(host.agent)
    return {**form, **held}


def _held(agent: AgentState) -> dict[str, Any]:
    """The numbers of elements, active runs and calls of an agent in memory, and its next moment."""
    due = agent.clockwork.timers.next()
    return {
        "elements": len(agent.memory),
        "runs": len(agent.runs.active),
        "calls": sum(len(run.calls) for run in agent.runs.active.values()),
        **({"next": json_forms.moment(due)} if due is not None else {}),
    }
