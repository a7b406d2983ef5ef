"""The environment and the standard input of a program, made of its call (A13)."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from narval.calls.context import CallContext
from narval.calls.programs import reaper
from narval.core.elements.element import Element, parse
from narval.core.engines.commands import Program

LONGEST_VARIABLE = 100_000
"""Bytes; the system takes about 128 KiB for each."""


def environment_of(call: CallContext, program: Program, daemon: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: that of the daemon, the zone of the home, its own. Raises ValueError."""
    found = {
        **daemon,
        **call.zone_variable(),
        **dict(program.environment),
        reaper.OWNER: daemon[reaper.OWNER],
        "NARVAL_AGENT": call.agent,
        "NARVAL_RUN": str(call.run),
        "NARVAL_STATE": call.step,
        reaper.CALL: call.id,
    }
    if call.home is not None:
        found["NARVAL_HOME"] = str(call.home)
    for name, expression in program.selects:
        element = call.inputs.get(name)
        if isinstance(element, Element):
            found[name] = _text_of(name, element, expression)
    return found


def standard_input(call: CallContext, program: Program) -> bytes:
    """The text of the program, unchanged; or the elements it is given, within a `memory` (A13)."""
    given = call.inputs.get("")
    if not isinstance(given, list):
        return program.text.encode("utf-8")
    return b"<memory>\n%b\n</memory>\n" % b"\n".join(element.with_eid() for element in given)


def _text_of(name: str, element: Element, expression: str) -> str:
    """The text that an expression selects of an element, as a variable. Raises ValueError if it cannot be
    one.
    """
    text = str(etree.XPath(expression)(parse(element.xml)))
    if "\0" in text or len(text.encode("utf-8")) > LONGEST_VARIABLE:
        raise ValueError(f"what {expression} selects of element {element.eid} cannot be the variable {name}")
    return text
