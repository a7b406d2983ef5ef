"""Labels as operations need them: the secrets of an element or a run, and what a program gives."""

from __future__ import annotations

from narval.agent.agent import AgentState
from narval.core.memory.labels import PROGRAM, SECRET, UNKNOWN, WHETHER
from narval.daemon.daemon import Daemon


def secrets_of(agent: AgentState, eid: int) -> set[str]:
    """The names of the secrets that an element or a run says, or was decided by."""
    labels = agent.memory.labels
    names = labels.names(labels.of((eid,)))
    return {name.removeprefix(SECRET).removesuffix(WHETHER) for name in names if name.startswith(SECRET)}


def labels_of_program(daemon: Daemon, call: str) -> tuple[str, ...]:
    """The labels of what a program gives that was started for a call: `program`, and those of the run that
    calls; `unknown` where these cannot be told: the call is over, or of an agent that is not at work here, or
    of another home.
    """
    for host in (daemon.host, *daemon.agents.supervisor.hosts):
        if (record := host.dispatcher.calls.find(call)) is not None:
            labels = host.agent.memory.labels
            return (PROGRAM, *labels.names(labels.whole(labels.of((record.call.run,)))))
    return (PROGRAM, UNKNOWN)
