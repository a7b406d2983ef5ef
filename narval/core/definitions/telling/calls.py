"""Calls in words: the target of a call, its timeout, its attempts."""

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
    """The verb for using a definition of a kind."""
    return _VERBS.get(kind, "runs")


def call(kind: str, target: str, agent: str, found: Definition | None) -> str:
    """The phrase for a call: `calls the action mail.send ("Send a mail")`."""
    if agent:
        return f"has the agent {agent} run the {kind} {target}"
    acts = "; this acts outside the home" if acts_outside(found) else ""
    return f"{verb(kind)} the {kind} {target}{purpose(found)}{acts}"


def target_of(kind: str, target: str, agent: str, library: Library) -> Definition | None:
    """The definition that a part calls, if it belongs to the same agent and is loaded."""
    return None if agent else library.get(kind, target)


def limits(timeout: float | None, retries: int, backoff: float | None, *, agent: str = "") -> Iterator[str]:
    """The sentences about the timeout and the attempts of a call."""
    if timeout is not None or agent:
        limit = limit_of_remote(timeout) if agent else timeout or 0.0
        yield f"It may take {length(limit)}; then it has failed."
    if retries:
        first = length(1.0 if backoff is None else backoff)
        yield f"If it fails, it is tried {times(retries)} more, first after {first}, then after ever longer."
    elif backoff is not None:
        yield f"Where it is tried again by itself, that is after {length(backoff)} at least."


def after_a_crash(on_restart: str, tool: Tool | None = None) -> Iterator[str]:
    """The sentence about what happens to a call interrupted by a crash; none for the default."""
    is_once = tool is not None and not tool.is_repeatable
    if on_restart == "error":
        yield "If narval stops meanwhile, it is not done again: it has failed."
    elif is_once and not on_restart:
        yield "If narval stops meanwhile, it has failed, unless the settings name the tool idempotent."
    elif is_once:
        yield "If narval stops meanwhile, it is done again."


def forgotten(decay: float | None) -> Iterator[str]:
    """The sentence about when a run is forgotten; none if it never is."""
    if decay is not None:
        yield f"A run is forgotten {length(decay)} after its end."


def at_once(count: int | None, noun: str) -> Iterator[str]:
    """The sentence about the most there may be at once; none without a limit."""
    if count is not None:
        yield f"At most {counted(count, noun)} at once."
