"""Withholding: neither a chat nor an MCP client receives what the owner of the home calls secret, unless the
settings of the client name it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.json_forms import given_to
from narval.ask.registry import Form
from narval.ask.runs.waiting import items_of, waits_of
from narval.core.error_types import OTHER, OWN_TYPES
from narval.core.errors import RequestError
from narval.core.trust.origins import secrets_of

Secrets = list[str] | None
"""The names of the secrets that an asker may know; None: all."""

_NOT_TOLD = "the run has secret elements of its home, so its error is withheld"

_OF_NEAREST: Form = dict.fromkeys(("nearest", "failed", "value", "since", "until")) | {"title": ""}
"""The parts of a condition that describe its nearest element."""


def is_withheld(agent: AgentState, eid: int, secrets: Collection[str]) -> bool:
    """True if an element or a run contains a secret besides these, or a run under way asks people something
    that does, or calls something with it: its own labels have that only when the call comes back.
    """
    run = agent.runs.active.get(eid)
    concerned = (eid, *(_passed_on(agent, run) if run is not None else ()))
    return any(not secrets_of(agent.memory.labels, one).issubset(secrets) for one in concerned)


def _passed_on(agent: AgentState, run: Run) -> Iterator[int]:
    """The items by which a run asks people, and the elements given to its calls: those under way, and those
    that rest before their next try.
    """
    yield from (item.eid for item in items_of(agent, run))
    for call in run.calls.values():
        yield from given_to(call)
    if any(not timer.calendar for timer in run.wakes.values()):  # a wait only for dates costs nothing
        for wait in waits_of(run):
            yield from wait.given


def check_told(agent: AgentState, eid: int, secrets: Collection[str] | None) -> None:
    """Raise RequestError if a run or element must be withheld from one who may know only these secrets."""
    if secrets is not None and is_withheld(agent, eid, secrets):
        what = f"run {eid}" if agent.memory.is_run(eid) else f"element {eid}"
        raise RequestError(f"{what} has secret elements of its home, so it is withheld here")


def type_told(type: str) -> str:
    """The type of an error whose words are withheld: a type from code of the home may reveal as much."""
    return type if type in OWN_TYPES else OTHER


def withheld_error(type: str) -> str:
    """The words for an error of a type, whose own words are withheld."""
    return f"{type_told(type)} (secret)"


def run_told(agent: AgentState, form: Form, secrets: Collection[str] | None) -> Form:
    """The form of a run, without its questions and error words if it holds a secret besides these."""
    if secrets is None or not is_withheld(agent, form["eid"], secrets):
        return form
    form = {key: value for key, value in form.items() if key != "asks"}
    if form["error"] is not None:
        form["error"] |= {"type": type_told(form["error"]["type"]), "message": _NOT_TOLD}
    return form


def waits_told(agent: AgentState, answer: Form, secrets: Collection[str] | None) -> Form:
    """The reasons of a run, without elements nearest to its conditions, and titles of what its calls were
    given, that contain another secret.
    """
    if secrets is None:
        return answer
    for wait in answer["waiting"]:
        for condition in wait.get("conditions", ()):
            if condition["nearest"] and is_withheld(agent, condition["nearest"], secrets):
                condition |= {part: none for part, none in _OF_NEAREST.items() if part in condition}
        for call in wait.get("calls", ()):
            titles = call["titles"].items()
            call["titles"] = {eid: of for eid, of in titles if not is_withheld(agent, int(eid), secrets)}
    return answer


def relatives_told(agent: AgentState, story: Form, secrets: Collection[str] | None) -> Form:
    """The story of an element, without the words of others that contain a secret besides these."""
    if secrets is None:
        return story
    for other in (*story["made_from"], *story["made_of_it"], *filter(None, [story["outdated_by"]])):
        if is_withheld(agent, other["eid"], secrets):
            other |= {"title": ""} | ({"reason": None} if "reason" in other else {})
    return story
