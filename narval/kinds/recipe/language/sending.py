"""Steps that send elements to other agents: what is written of them (G27)."""

from __future__ import annotations

from narval.core.definitions.prototype import EMPTY, Narrowing, Prototype, stated_inputs
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.errors import DefinitionError
from narval.kinds.recipe.language.definition import Sending
from narval.kinds.recipe.language.vocabulary import SEND

TO_SELECTED = "(to-select)"
"""The words in place of the names of agents that are in what is sent."""

_OF_SENDING = ("to", "to-select", "await", "keep")
_OF_CALLING = ("target", "agent")


def read_sending(reading: Reading, patterns: Patterns, entry: Entry) -> Sending | None:
    """The way in which a step sends; None of one that calls something."""
    if entry.get("type") != SEND:
        _check_calling(reading, entry)
        return None
    written = entry.written
    for word in _OF_CALLING:
        if word in written:
            message = f"{word}: a step that sends calls nothing: `to` names the agents; remove this"
            reading.fault(entry, message, word)
    if ("to" in written) == ("to-select" in written):
        reading.fault(entry, 'send needs to="AGENT…", or to-select, an XPath that gives its name; add one')
    for output in entry.of("output"):
        reading.fault(output, "what is sent gives nothing back; remove this")
    select = patterns.of_attribute(entry, "to-select")
    if select is not None and (select.shape.xpath3 or select.variables):
        wanted = "an XPath 1.0 of the element that is sent, such as order/@shop"
        reading.fault(entry, f"to-select: expected {wanted}, found {select.text!r}", "to-select")
    return Sending(select.text if select is not None else "", "await" in written, entry.get("keep"))


def _check_calling(reading: Reading, entry: Entry) -> None:
    for word in _OF_SENDING:
        if word in entry.written:
            reading.fault(entry, f'{word}: only a step of type="send" has this; remove it', word)


def what_is_sent(reading: Reading, entry: Entry, inputs: tuple[Narrowing, ...]) -> Prototype:
    """The input of a step that sends."""
    if len(inputs) != 1:
        what = "one input that says what is sent"
        add = '; add <input id="message"><match>…</match></input>' if not inputs else f", found {len(inputs)}"
        reading.fault(entry, f"send needs {what}{add}")
        return EMPTY
    try:
        return stated_inputs(inputs)
    except DefinitionError as error:
        for fault in error.faults:
            reading.fault_at((fault.line, fault.column), fault.message)
        return EMPTY
