"""Ids of traces and spans, derived from what is recorded. They are the same after a crash, and in another
daemon that has taken over the agent.

A trace is a top-level run with everything it calls, also at other agents. It has runs, steps and calls as
spans.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from narval.agent.agent import AgentState
from narval.agent.run import Run


def trace_id(agent: str, run: int) -> str:
    """The id of the trace of a top-level run of an agent (given by its id), as 32 hexadecimal digits."""
    return _digest(f"trace {agent} {run}", 16)


def is_trace_id(text: str) -> bool:
    """True for a valid trace id; ids from messages are checked because they go into headers."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None and text != "0" * 32


def span_id(what: str, name: str) -> str:
    """The id of the span of a `run`, a `step` or a `call` with a unique name, as 16 hexadecimal digits."""
    return _digest(f"{what} {name}", 8)


def run_name(agent: str, run: int) -> str:
    """The name of a run for `span_id`."""
    return f"{agent} {run}"


def call_name(agent: str, call: str, attempt: int = 1) -> str:
    """The name of an attempt of a call for `span_id`: the id of its message if it goes to another agent."""
    return f"{agent}.{call}" + (f"~{attempt}" if attempt > 1 else "")


def trace_of(agent: AgentState, id: str, run: Run) -> str:
    """The id of a run's trace: that of its top-level run, or of the agent that called it."""
    top = run if run.caller is None else agent.runs.get(agent.runs.top(run), run)
    return asked_in(top) or trace_id(id, top.eid)


def asked_in(run: Run) -> str:
    """The trace of the run at another agent that called a run; "" if none did, or it has no traces."""
    caller = run.state.caller if run.state is not None else run.caller
    return caller.trace if caller is not None else ""


def traceparent(agent: AgentState, id: str, run: Run, call: str, attempt: int) -> str:
    """The header that passes the trace of a call to a service (W3C Trace Context); "" without traces."""
    if agent.samples is None:
        return ""
    trace = trace_of(agent, id, run)
    flags = "01" if agent.samples(trace) else "00"
    return f"00-{trace}-{span_id('call', call_name(id, call, attempt))}-{flags}"


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
