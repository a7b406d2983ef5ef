"""The operation `signal`: send a name, elements and attributes to a run, and return its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lxml import etree

from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import elements_in, raise_if_over_limit
from narval.ask.labels import signal_in
from narval.ask.lookup import active_run
from narval.ask.registry import operation
from narval.core.engines.commands import Answer
from narval.core.engines.events import OutputElement, Plain, Signalled
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

OWN = frozenset({"name", "run", "eid"})
"""The attributes that the element of every signal has."""


@operation("write")
async def signal(
    daemon: Daemon,
    run: int,
    name: str,
    elements: list[bytes] | None = None,
    arguments: dict[str, str] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Send a named signal with elements and attributes to a run; returns its answer, once recorded."""
    found = active_run(daemon, run)
    if not (name.strip() and name.isprintable()):
        raise RequestError(f"expected the name of a signal, such as approve, got {name!r}")
    attributes = attributes_of(arguments or {})
    outputs = tuple(map(OutputElement, await elements_in(elements)))
    event = Signalled(0, 0.0, "", name, outputs, attributes, **asker.recorded)

    def work(turn: Turn) -> list[Answer]:
        raise_if_over_limit(turn, [element.xml for element in outputs])
        return signal_in(turn, found.eid, event)

    answers: list[Answer] = await daemon.host.submit(work)
    if not answers:
        raise RequestError(f"run {run} of {found.name} was not told: it is {found.status}")
    problem, value = answers[0].problem, answers[0].value
    if problem is not None:
        raise RequestError(f"run {run} of {found.name} did not take {name}: {problem.message}")
    return {"run": run, "signal": name, **(value or {})}


def attributes_of(arguments: Mapping[str, str]) -> dict[str, Plain]:
    """The arguments as attributes of the signal's element. Raises RequestError for a forbidden one."""
    root = etree.Element("signal")
    for key, value in arguments.items():
        if key in OWN:
            raise RequestError(f"a signal has an attribute {key} of its own; choose another name")
        try:
            if key.startswith(("{", "xml")):
                raise ValueError
            root.set(key, value)
        except ValueError:
            expectation = "the name and the text of an attribute, such as by=ann"
            raise RequestError(f"expected {expectation}, got {f'{key}={value}'!r:.80}") from None
    return dict(arguments)
