"""Calls in words: whom a part calls, how long that may take, how often it is tried."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.action.tool import Tool
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.definitions.telling.sentence import acts_outside
from narval.core.definitions.telling.slots import purpose
from narval.core.definitions.telling.words import counted, length, times
from narval.core.kinds import ASKING

_VERBS = {"action": "calls", "transform": "applies", ASKING: "asks people by", "send": "sends to"}


def verb(kind: str) -> str:
    """The word for what one does with a definition of a kind."""
    return _VERBS.get(kind, "runs")


def call(kind: str, target: str, agent: str, found: Definition | None) -> str:
    """The words for a call: `calls the action mail.send ("Send a mail")`."""
    if agent:
        return f"has the agent {agent} run the {kind} {target}"
    acts = "; this acts outside the home" if acts_outside(found) else ""
    return f"{verb(kind)} the {kind} {target}{purpose(found)}{acts}"


def target_of(kind: str, target: str, agent: str, library: Library) -> Definition | None:
    """The definition that a part calls, if it is one of its own agent and loaded."""
    return None if agent else library.get(kind, target)


def limits(timeout: float | None, retries: int, backoff: float | None, *, agent: str = "") -> Iterator[str]:
    """The sentences that say how long a call may take, and how often it is tried."""
    if timeout is not None or agent:
        limit = limit_of_remote(timeout) if agent else timeout or 0.0
        yield f"It may take {length(limit)}; then it has failed."
    if retries:
        first = length(1.0 if backoff is None else backoff)
        yield f"If it fails, it is tried {times(retries)} more, first after {first}, then after ever longer."
    elif backoff is not None:
        yield f"Where it is tried again by itself, that is after {length(backoff)} at least."


def after_a_crash(on_restart: str, tool: Tool | None = None) -> Iterator[str]:
    """The sentence that says what becomes of a call that a crash cuts off; none for the usual."""
    is_once = tool is not None and not tool.is_repeatable
    if on_restart == "error":
        yield "If narval stops meanwhile, it is not done again: it has failed."
    elif is_once and not on_restart:
        yield "If narval stops meanwhile, it has failed, unless the settings name the tool idempotent."
    elif is_once:
        yield "If narval stops meanwhile, it is done again."


def forgotten(decay: float | None) -> Iterator[str]:
    """The sentence that says when a run is forgotten; none where it never is."""
    if decay is not None:
        yield f"A run is forgotten {length(decay)} after its end."


def at_once(count: int | None, noun: str) -> Iterator[str]:
    """The sentence that says how many there may be at once; none where there may be any number."""
    if count is not None:
        yield f"At most {counted(count, noun)} at once."
