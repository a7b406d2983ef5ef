"""The runs that a proposal starts at once: elements already in memory satisfy their first conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from narval.ask.definitions.checking import HomeAsRead
from narval.ask.definitions.judging import TextsBeside
from narval.ask.memory.listing import available
from narval.core.definitions.library import Library, RunDefinition
from narval.core.definitions.telling.patterns import element_phrase
from narval.core.definitions.telling.sentence import listed, outside_acts
from narval.core.elements.element import Element
from narval.core.elements.names import START_PLANS, TARGET
from narval.core.patterns.pattern import Condition
from narval.core.trust.flow import flow_of
from narval.daemon.daemon import Daemon
from narval.files.proposals.folder import Form, Proposal


class Beginning(NamedTuple):
    """A way in which runs of a definition start: the conditions of their first elements, and effects."""

    name: str
    conditions: tuple[Condition, ...]
    is_once: bool
    """True if the first run is the only one."""
    calls: tuple[str, ...]
    outside: tuple[str, ...]
    is_started: bool
    """True if an element of the proposal starts it."""


async def at_once(daemon: Daemon, home: HomeAsRead, proposal: Proposal) -> list[Form]:
    """The elements that the definitions of a proposal would take as soon as it is accepted:
    `[{"definition", "count", "calls", "outside", "text"}]`, where `text` says it in a sentence.
    """
    texts, changed = proposal.texts(), proposal.about().get("change")
    beginnings = await asyncio.to_thread(lambda: list(_beginnings(TextsBeside(home, texts, changed))))
    rows = list[Form]()
    async with daemon.of(daemon.files.settings.name) as own:
        started = set(_started_in(own)) if changed is not None else set[str]()
        for one in beginnings:
            if not one.is_started and one.name not in started:
                continue
            counts = [await available(own, condition, one.name) for condition in one.conditions]
            if counts and all(counts):
                rows.append(_row(one, counts[0]))
    return rows


def _beginnings(proposed: TextsBeside) -> Iterator[Beginning]:
    library = proposed.loaded.library
    elements = [Element(0, xml) for xml in proposed.elements]
    starts = {one.attributes.get(TARGET, "") for one in elements if one.name in START_PLANS}
    for one in proposed.definitions:
        if isinstance(one, RunDefinition):
            for first in flow_of(one, library).first:
                countable = tuple(condition for condition in first if not condition.variables)
                is_once = getattr(one, "restart", "no") == "no"
                calls, outside = _calls(one, library), outside_acts(one, library)
                yield Beginning(one.full_name, countable, is_once, calls, outside, one.full_name in starts)


def _calls(definition: RunDefinition, library: Library) -> tuple[str, ...]:
    """The names of what it calls, without the actions that only help a recipe along."""
    calls = (call.target for call in flow_of(definition, library).calls)
    return tuple(dict.fromkeys(name for name in calls if name and not name.startswith("basic.")))


def _started_in(daemon: Daemon) -> Iterator[str]:
    """The names of the definitions of which a changed one may have runs already."""
    yield from (run.name for run in daemon.agent.runs.active.values())
    for eid in daemon.agent.memory.named(START_PLANS):
        if (element := daemon.agent.memory.element(eid)) is not None:
            yield element.attributes.get(TARGET, "")


def _row(one: Beginning, count: int) -> Form:
    """The form of a beginning that has elements."""
    among = "one of " if one.is_once and count > 1 else ""
    these = "the one element that is" if count == 1 else f"the {count:,} elements that are"
    each = "" if one.is_once or count == 1 else " for each"
    text = f"Once accepted, {one.name} takes at once {among}{these} in memory already"
    text += f" ({element_phrase(one.conditions[0])})"
    if one.calls:
        text += f", and may call {listed(one.calls)}{each}"
    if one.outside:
        text += f"; it acts outside the home by {listed(one.outside)}"
    return {
        "definition": one.name,
        "count": count,
        "calls": list(one.calls),
        "outside": list(one.outside),
        "text": f"{text}.",
    }
