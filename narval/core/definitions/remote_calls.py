"""Calls of definitions at other agents, made by definitions of any kind (G33, G35)."""

from __future__ import annotations

from typing import NamedTuple

REMOTE_TIMEOUT = 86_400.0
"""Seconds after which a call at another agent is given up by default."""


class RemoteCall(NamedTuple):
    """A part of a definition that calls a definition of another agent.

    `part` names it for people, on its line of the file; `timeout` is in seconds, None if not given.
    """

    agent: str
    kind: str
    target: str
    part: str
    line: int
    timeout: float | None = None


class Addressed(NamedTuple):
    """A part of a definition that names another agent, with the part's name for people and its line."""

    agent: str
    part: str
    line: int


def limit_of_remote(timeout: float | None) -> float:
    """The seconds until a call at another agent is given up."""
    return REMOTE_TIMEOUT if timeout is None else timeout


def called(kind: str, target: str, agent: str) -> str:
    """The words for a part's target, such as "recipe billing.invoice of accounts"."""
    return f"{kind} {target} of {agent}" if agent else f"{kind} {target}"
