"""A call that another agent answers, as the caller may know of it: who has it, since when, and what its run
waits for (G37).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from narval.engines.commands import Call
from narval.operations.json_forms import moment
from narval.runtime.agent.run import Run
from narval.runtime.daemon.daemon import Daemon

MOST_FOLLOWED = 5
"""So many agents that wait for one another are looked at, each for the next."""

Explain = Callable[[Daemon, Run, int], Awaitable[dict[str, Any]]]
"""Tells what a run waits for; the number says how many more agents may be looked at."""


async def whereabouts(daemon: Daemon, call: Call, explain: Explain, left: int) -> dict[str, Any]:
    """The agent that has a call, since when, and the run that answers it, with all that this waits for.

    `state` is that of the run; without one, that it is `untaken` or `answered`, or that the agent is `gone`.
    """
    known: dict[str, Any] = {"agent": call.agent, "run": None, "since": None}
    row = daemon.agents.rows.address(call.agent)
    if row is None:
        return {**known, "state": "gone"}
    id = daemon.host.mail.calls.id_of(call)
    waiting = (message for message in daemon.store.letters.messages(row.agent) if message.id == id)
    if (message := next(waiting, None)) is not None:
        there = daemon.agents.state_of(row)
        return {**known, "since": moment(message.at), "state": "untaken", "agent_state": there}
    async with daemon.of(call.agent) as other:
        eid = other.agent.runs.by_call.get(id)
        if eid is None:
            return {**known, "state": "answered"}
        run = other.agent.runs[eid]
        told = await explain(other, run, left - 1) if left else {"waiting": []}
        found = {"run": eid, "name": run.name, "state": run.status, "since": moment(run.started)}
        return {**known, **found, "waiting": told["waiting"]}
