"""The error of a failed run: what it is, and which of the run's own parts raised it."""

from __future__ import annotations

from typing import NamedTuple

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines.engine import with_failed_parts
from narval.core.engines.story import part_word_of


class RunError(NamedTuple):
    """The error element of a run, read."""

    element: Element
    kind: str
    message: str
    step: str
    """The part of the run, its step or state, that failed; "" if none did, or none is known."""
    where: str
    """The part in words, such as ` in step send`; "" for none."""


def error_of(agent: AgentState, run: Run) -> RunError | None:
    """The error of a run; None if it has none, or the error was forgotten.

    For an error of a called run, the step is the one that called it, not a step of that run.
    """
    element = agent.memory.element(run.error) if run.error is not None else None
    if element is None:
        return None
    kind, message, named = read_error(element)
    origin = element.origin
    step = named or (origin.step if origin is not None else "")
    if origin is not None and origin.run != run.eid:
        step = _calling_step(agent, run, origin.run)
    part = f"{part_word_of(run.engine)} {step}".strip() if step else ""
    return RunError(element, kind, message, step, f" in {part}" if part else "")


def remedy_of(agent: AgentState, eid: int, by: int) -> str:
    """The remedy for an error that keeps a part of an active run `by` from continuing; "" for none."""
    run = agent.runs.active.get(by)
    engine = with_failed_parts(run.engine) if run is not None and run.state is not None else None
    if run is None or engine is None:
        return ""
    return engine.remedy(run.state, eid, agent.option)


def _calling_step(agent: AgentState, run: Run, within: int) -> str:
    """The step of a run that called another, directly or through other runs; "" if none did."""
    called = agent.runs.get(within)
    while called is not None and called.caller is not None:
        if called.caller.run == run.eid:
            return called.caller.step
        called = agent.runs.get(called.caller.run)
    return ""
