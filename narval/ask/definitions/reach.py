"""The operation `reach`: which labels can reach calls outside, and how the rules judge that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from narval.ask.definitions.one import find_definition
from narval.ask.registry import Form, operation
from narval.ask.text import Row
from narval.core.definitions.library import Definition
from narval.core.trust.prospects import (
    CallProspect,
    LabelProspect,
    PartProspect,
    name_of,
    of_label,
    prospects,
)
from narval.core.trust.reach import Reach
from narval.core.trust.rules import Rules
from narval.core.trust.telling import condition_of, lines_of_call, outlook, summary_of_call, way_in_words, who
from narval.daemon.daemon import Daemon
from narval.files.reach import reach_of


@operation("read")
async def reach(
    daemon: Daemon, name: str | None = None, kind: str | None = None, label: str | None = None
) -> list[Row]:
    """The calls outside that definitions can make, each with the labels that can reach its parts, and the
    judgement of the home's rules; nothing is run.

    With a `name`, the calls of that definition and of those that it calls; else of all, without the `way` of
    each label. With a `label`, only what it can reach. Raises RequestError.
    """
    snapshot = daemon.files.snapshot
    one = None if name is None else find_definition(daemon, name, kind)
    clients = tuple(client for _, client, _ in daemon.clients.all() if client is not None)

    def rows() -> list[Row]:
        whole = reach_of(snapshot, clients)
        if one is not None:
            return reached(whole, whole.with_called([one]), snapshot.trust, label, ways=True)
        return reached(whole, whole.definitions, snapshot.trust, label)

    return await asyncio.to_thread(rows)  # takes some milliseconds for each definition


def reached(
    reach: Reach,
    definitions: Iterable[Definition],
    rules: Rules | None,
    label: str | None = None,
    *,
    ways: bool = False,
) -> list[Row]:
    """The calls of some definitions, in the form of answers."""
    return [
        _call(reach, definition, of, ways=ways)
        for definition in definitions
        for call in prospects(reach.calls_of(definition), rules)
        if (of := call if label is None else of_label(call, label)) is not None
    ]


def _call(reach: Reach, definition: Definition, call: CallProspect, *, ways: bool) -> Form:
    return {
        "definition": definition.full_name,
        "kind": definition.kind,
        "file": definition.path,
        "line": call.call.call.line,
        "part": call.call.call.part,
        "calls": name_of(call.call),
        "prospect": call.prospect,
        "depends": call.depends or None,
        "outlook": outlook(call),
        "parts": [_part(reach, part, ways=ways) for part in call.parts],
        "summary": summary_of_call(call),
        "lines": [line._asdict() for line in lines_of_call(call)],
    }


def _part(reach: Reach, part: PartProspect, *, ways: bool) -> Form:
    return {
        "input": part.part.input or None,
        "path": part.part.path,
        "is": part.word,
        "labels": [_label(reach, part, one, ways=ways) for one in part.labels],
    }


def _label(reach: Reach, part: PartProspect, one: LabelProspect, *, ways: bool) -> Form:
    return {
        "label": one.label,
        "who": who(one.label),
        "prospect": one.prospect,
        "depends": one.depends or None,
        "ends": [
            {
                "then": end.then,
                "rule": end.rule.line if end.rule is not None else None,
                "if": condition_of(end) or None,
                "why": end.rule.why if end.rule is not None and end.rule.why else None,
            }
            for end in one.ends
        ],
        **({"way": list(way_in_words(reach.way(part.part, one.label)))} if ways else {}),
    }
