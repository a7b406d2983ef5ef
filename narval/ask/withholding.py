"""Withholding: neither a chat nor an MCP client receives what the owner of the home calls secret, unless the
settings of the client name it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from narval.agent.agent import AgentState
from narval.ask.runs.waiting import items_of
from narval.core.error_types import OTHER, OWN_TYPES
from narval.core.errors import RequestError
from narval.core.trust.origins import secrets_of

Form = dict[str, Any]
Secrets = list[str] | None
"""The names of the secrets that an asker may know; None: all."""

_NOT_TOLD = "the run has secret elements of its home, so its error is withheld"

_OF_NEAREST: Form = {"nearest": None, "title": "", "failed": None, "value": None}
"""The parts of a condition that describe its nearest element."""


def is_withheld(agent: AgentState, eid: int, secrets: Collection[str]) -> bool:
    """True if an element or a run contains a secret besides these, or asks people something that does."""
    run = agent.runs.active.get(eid)
    concerned = (eid, *(item.eid for item in (items_of(agent, run) if run is not None else ())))
    return any(not secrets_of(agent.memory.labels, one).issubset(secrets) for one in concerned)


def check_told(agent: AgentState, eid: int, secrets: Collection[str] | None) -> None:
    """Raise RequestError if a run or element must be withheld from one who may know only these secrets."""
    if secrets is not None and is_withheld(agent, eid, secrets):
        what = f"run {eid}" if agent.memory.is_run(eid) else f"element {eid}"
        raise RequestError(f"{what} has secret elements of its home, so it is withheld here")


def type_told(type: str) -> str:
    """The type of an error whose words are withheld: a type from code of the home may reveal as much."""
    return type if type in OWN_TYPES else OTHER


def run_told(agent: AgentState, form: Form, secrets: Collection[str] | None) -> Form:
    """The form of a run, without its questions and error words if it holds a secret besides these."""
    if secrets is None or not is_withheld(agent, form["eid"], secrets):
        return form
    form = {key: value for key, value in form.items() if key != "asks"}
    if form["error"] is not None:
        form["error"] |= {"type": type_told(form["error"]["type"]), "message": _NOT_TOLD}
    return form


def waits_told(agent: AgentState, answer: Form, secrets: Collection[str] | None) -> Form:
    """The reasons of a run, without elements nearest to its conditions that contain another secret."""
    for condition in (one for wait in answer["waiting"] for one in wait.get("conditions", ())):
        nearest = condition["nearest"]
        if secrets is not None and nearest and is_withheld(agent, nearest, secrets):
            condition |= _OF_NEAREST
    return answer


def relatives_told(agent: AgentState, story: Form, secrets: Collection[str] | None) -> Form:
    """The story of an element, without the words of others that contain a secret besides these."""
    others = [*story["made_from"], *story["made_of_it"], *filter(None, [story["outdated_by"]])]
    for other in others if secrets is not None else ():
        if is_withheld(agent, other["eid"], secrets or ()):
            other |= {"title": ""} | ({"reason": None} if "reason" in other else {})
    return story
