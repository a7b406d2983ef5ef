"""Inputs of a dataflow that a step calls: what it is not given is taken from around the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.elements.element import parse
from narval.core.engines.events import Started
from narval.core.engines.view import View
from narval.core.patterns.pattern import condition
from narval.kinds.dataflow.engine.decision import PLAN_INPUT, DataflowDecision
from narval.kinds.dataflow.language.definition import Datum

_NAMED = frozenset({"relation", "value"})
"""The elements that say by an attribute `name` which input they are."""


def inputs_nearby(decision: DataflowDecision, event: Started, given: Iterable[str]) -> tuple[int, ...]:
    """The elements around the calling step that are inputs which neither its arguments nor `given` have.

    The nearest rank that has any counts (N15): of a `relation` or `value` of the input's name the newest,
    else all elements that are named as the input, each of which is a tuple.
    """
    if event.caller is None or not event.caller.run:
        return ()
    known, view = set(given), decision.view
    for eid in event.elements:
        element = view.element(eid)
        if element is not None and element.name == PLAN_INPUT:
            return ()
        if element is not None:
            root = parse(element.xml)
            known.add(root.get("name", "") if element.name in _NAMED else element.name)
    found: list[int] = []
    for datum in decision.definition.inputs:
        if datum.name not in known:
            found += _nearest(view, event, datum)
    return tuple(found)


def _nearest(view: View, event: Started, datum: Datum) -> list[int]:
    named = condition(f"relation[@name='{datum.name}'] | value[@name='{datum.name}']").bind()
    tuples = condition(datum.name).bind()
    for rank in _ranks(view, event):
        eids = list(rank)
        if whole := list(view.among(eids, named, None)):
            return whole[-1:]
        if single := list(view.among(eids, tuples, None)):
            return single
    return []


def _ranks(view: View, event: Started) -> Iterator[Iterable[int]]:
    caller = event.caller
    while caller is not None and caller.run:
        yield from caller.nearby
        yield view.context(caller.run)
        caller = view.caller(caller.run)
