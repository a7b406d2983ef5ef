"""Processes made from a text, in an agent with simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HEAD = "import time\nfrom narval import *\nfrom narval import join, listener, node_type, predicate\n"


SPACE = "http://sarasvati.googlecode.com/ProcessDefinition"


Agent = Any


At = Callable[..., tuple[Agent, int]]


def nodes(text: str, name: str = "p") -> str:
    return f"<process-definition name='{name}' xmlns='{SPACE}'>{text}</process-definition>"


def standing(agent: Agent, run: int) -> list[tuple[str, str]]:
    return [(row["node"], row["state"]) for row in agent.tokens(run)["tokens"]]


def state(agent: Agent, run: int) -> str:
    return str(agent.run(run)["state"])


def problem(agent: Agent, run: int) -> tuple[str, str]:
    """Type and message of the error of the one token that failed, in a run that goes on."""
    assert agent.run(run)["phase"] == "active"
    (error,) = [row["error"] for row in agent.tokens(run)["tokens"] if row["error"] is not None]
    element = agent.element(error)
    return element.attributes["type"], element.text


LINE = (
    "<node name='a' type='wait' isStart='true'><arc to='b'/><arc name='no' to='c'/></node>"
    "<node name='b' type='wait'/><node name='c'/>"
)
