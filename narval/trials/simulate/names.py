"""The names of a scenario: checks that they exist, and that its elements fit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import closest
from narval.core.definitions.transform.definition import Transform
from narval.core.elements.element import parse
from narval.core.engines.commands import FLOW
from narval.core.engines.events import OutputElement
from narval.core.engines.outputs import judge
from narval.core.engines.registry import runnable
from narval.core.engines.view import View
from narval.core.errors import Fault
from narval.core.kinds import KINDS
from narval.core.source.text import Source
from narval.files.schemas import Schemas
from narval.trials.simulate.scenario import CannedAnswer, Expectation, Scenario, Scheduled

DATAFLOW = next((name for name, kind in KINDS.items() if FLOW in kind.preparers), "")
"""The kind of dataflows: each run of one calls its sessions' work by its own name."""


class Known(NamedTuple):
    """The definitions and the schemas of one agent."""

    library: Library
    schemas: Schemas


class _Names:
    """The names that agents know: definitions to start, targets of calls, work."""

    def __init__(self, agents: Iterable[Known]) -> None:
        libraries = [agent.library for agent in agents]
        definitions = [(library, definition) for library in libraries for definition in library]
        names = ((library, definition.full_name) for library, definition in definitions)
        self.runs = {name: None for library, name in names if runnable(library, name) is not None}
        self.calls: dict[str, Action | Transform] = {}
        for library in reversed(libraries):
            self.calls |= cast(Any, {**library.of("action"), **library.of("transform")})
        self.programs = {
            name for _, definition in definitions for name in getattr(definition, "programs", ())
        }
        remote = {
            call.target for _, definition in definitions for call in getattr(definition, "remote_calls", ())
        }
        flows = (each.of(DATAFLOW) for each in reversed(libraries))
        self.dataflows = {name: flow for each in flows for name, flow in each.items()}
        self.called = {**self.calls, **dict.fromkeys((*self.programs, *self.dataflows, *remote))}
        self.work: dict[str, list[Any]] = {}
        for library in libraries:
            for name, work in library.of("work").items():
                self.work.setdefault(name, []).append(work)


def faults_of_names(source: Source, scenario: Scenario, agents: Mapping[str, Known]) -> list[Fault]:
    """The faults of a scenario that uses unknown names, or gives refused elements; `agents` by name.

    An answer may serve calls of any agent.
    """
    faults: list[Fault] = []
    names: dict[str, _Names] = {}
    everybody = _Names(agents.values())

    def fault(message: str, place: Any) -> None:
        faults.append(source.fault(message, place.line, place.column))

    def check(name: str, there: Mapping[str, object], what: str, place: Any) -> None:
        if name and name not in there:
            fault(f"there is no {what} {name!r}{closest(name, there)}", place)

    def of(agent: str) -> _Names:
        if agent not in names:
            names[agent] = _Names([agents[agent]])
        return names[agent]

    happening: list[Scheduled] = [
        *scenario.starts,
        *scenario.arrivals,
        *scenario.outdatings,
        *scenario.signals,
        *scenario.raises,
    ]
    named_things: list[Scheduled | Expectation] = [*happening, *scenario.expectations]
    for named in named_things:
        if named.agent not in agents:
            check(named.agent, {name: None for name in agents if name}, "agent", named)
            continue
        there = of(named.agent)
        refusal = agents[named.agent].schemas.refusal
        for refused in filter(None, map(refusal, getattr(named, "elements", ()))):
            fault(f"refused by its schema: {refused}", named)
        check(getattr(named, "recipe", ""), there.runs, "definition", named)
        check(getattr(named, "action", ""), there.called, _callable(there), named)
    for act in scenario.acts:
        check(act.work, everybody.work, "work", act)
        if works := everybody.work.get(act.work):
            check(act.outcome, {one.name: None for work in works for one in work.outcomes}, "outcome", act)
            for field in act.fields:
                check(field, {name: None for work in works for name in work.fields}, "field", act)
    for answer in scenario.answers:
        check(answer.recipe, everybody.runs, "definition", answer)
        check(answer.action, everybody.called, _callable(everybody), answer)
        target = everybody.calls.get(answer.action)
        if target is not None:
            message = _misfit(answer, target, agents[""].schemas)
        elif answer.action in everybody.programs:
            message = _no_end(answer)
        else:
            message = _no_output(answer, everybody.dataflows.get(answer.action))
        if message:
            fault(message, answer)
    return faults


def _callable(names: _Names) -> str:
    sorts = [
        "action",
        "transform",
        *[DATAFLOW] * bool(names.dataflows),
        *["program"] * bool(names.programs),
    ]
    return f"{', '.join(sorts[:-1])} or {sorts[-1]}"


class _Seen:
    """The part of a view that is needed to judge the outputs of an answer."""

    def __init__(self, schemas: Schemas) -> None:
        self.schema_fault = schemas.refusal


def _no_end(answer: CannedAnswer) -> str:
    """The reason why an answer is not valid for a program, or ""."""
    if answer.elements:
        return f"{answer.action} is a program, and gives no elements; error says how it ends"
    if answer.error and not re.fullmatch(r"[0-9]{1,3}|SIG[A-Z0-9]+", answer.error):
        expectation = "a status, such as 3, or a signal, such as SIGTERM"
        return f"{answer.action} is a program: error: expected {expectation}, found {answer.error!r}"
    return ""


def _no_output(answer: CannedAnswer, dataflow: Any) -> str:
    """The reason why an answer is not valid for a dataflow, or ""; `dataflow` is None for anything else."""
    outputs = {} if dataflow is None else {datum.name: None for datum in dataflow.outputs}
    for element in map(parse, answer.elements if dataflow is not None else ()):
        if element.tag not in ("relation", "value"):
            expectation = 'expected outputs, as <relation name="…"> or <value name="…">'
            return f"{answer.action} is a dataflow: {expectation}, found <{element.tag!s}>"
        if (name := element.get("name", "")) not in outputs:
            return f"{answer.action} has no output {name!r:.80}{closest(name[:80], outputs)}"
    return ""


def _misfit(answer: CannedAnswer, target: Action | Transform, schemas: Schemas) -> str:
    """The reason why an answer is not valid for an action, or ""."""
    source = isinstance(target, Action) and target.where == "source"
    if source and (answer.elements or not (answer.error or math.isinf(answer.after))):
        return f"{answer.action} is a source: what it would give, let arrive; an answer can be an error alone"
    if answer.error or math.isinf(answer.after):
        return ""
    raws = tuple(OutputElement(xml) for xml in answer.elements)
    return judge(target.prototype, raws, cast(View, _Seen(schemas))).fault
