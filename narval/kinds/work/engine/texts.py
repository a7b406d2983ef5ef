"""The text of an item, as shown to people: made once, and never changed.

Narval's words begin a line; each line from elsewhere begins with `| `. Characters that could hide or reorder
text are shown as escapes. So no content of an element looks like narval's words.

For pages the text is read back as a document: only from the text, because the text is what is approved.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lxml import etree

from narval.core.elements.canonical import parse_untrusted
from narval.core.elements.element import Element
from narval.core.elements.titles import title_of
from narval.core.engines.events import Caller, HeldCalls
from narval.core.errors import ElementError
from narval.kinds.work.engine.state import Values
from narval.kinds.work.language.definition import WorkDefinition, WorkOutcome
from narval.kinds.work.language.fields import FormField

LONGEST_TITLE = 200
"""The most characters of a title."""

MOST_BYTES = 65_536
"""The most bytes of the text that an item shows."""

MOST_BESIDE = 16_384
"""The most characters of an element that is shown beside a call, and is not itself approved."""

_HIDING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Invisible characters that count as letters, marks or symbols."""


def shown_as(text: str) -> str:
    """A text with its control, bidirectional and invisible characters shown as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character in "\n\t" or not (
        unicodedata.category(character) in _HIDING
        or character in _BLANKS
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    ):
        return character
    return f"\\u{{{ord(character):04x}}}"


def one_line(text: str) -> str:
    """A text on one line, as shown to people."""
    return shown_as(" ".join(text.split()))


def cut_title(text: str) -> str:
    """A text as a title: on one line, cut if it is too long."""
    line = one_line(text)
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


def text_of_item(
    work: WorkDefinition,
    title: str,
    description: str,
    inputs: Mapping[str, Sequence[Element]],
    calls: Iterable[str],
    defaults: Values,
    options: Values,
    before: Iterable[Element] = (),
) -> str:
    """The whole text of an item: title, description, calls that wait for it, inputs, what was answered
    `before`, outcomes, fields.

    Only the beginning of a long input beside calls is shown; the calls are always shown in full.
    """
    parts = [f"{work.full_name} asks", *_value(title)]
    if description:
        parts += ["", "Description:", *_value(description)]
    lines = list(calls)
    parts += lines
    for name, elements in inputs.items():
        for element in elements:
            parts += ["", *_element(work, f"Input {name}", element, MOST_BESIDE if lines else None)]
    for element in before:
        parts += ["", *_element(work, "Answered before", element)]
    parts += ["", *map(_outcome, work.outcomes)]
    for field in work.fields.values():
        parts += ["", *_field(field, defaults.get(field.name, ()), options.get(field.name, ()))]
    return "\n".join(parts) + "\n"


def lines_of_calls(
    work: WorkDefinition,
    caller: Caller,
    held: HeldCalls,
    says: Sequence[str],
    element: Callable[[int], Element | None],
) -> Iterator[str]:
    """The lines that say which calls are made after approval: their targets, steps and elements.

    `says` has the action's text for each call.
    """
    yield from ("", f"Call: {shown_as(held.name)}")
    if held.void:
        yield f"This was approved in version {held.void[:16]}, and has changed since: it is asked again"
    for eid in held.doubtful:
        yield f"Element {eid} is doubtful: it was made from what was withdrawn"
    if held.because:
        yield f"Because: {shown_as(held.because)}"
    yield from (shown_as(line) for line in held.parts)
    step = f"step {shown_as(caller.step)}"
    yield f"Asked by: {step} of {shown_as(held.asking)} (run {caller.run})"
    follows = f", and with it run {caller.run}" if held.fails else ""
    yield f"If it is rejected: {shown_as(held.name)} is not called, and {step} fails{follows}"
    for text in says:
        yield from ("It says:", *_value(text))
    if held.always:
        yield from ("Answered always, this is added to etc/trust.toml:", *_value(held.always.rstrip()))
    several = len(held.calls) > 1
    if several:
        yield f"Calls: {len(held.calls)}, all of which are made if this is approved"
    for number, (_, inputs) in enumerate(held.calls, 1):
        if not inputs:
            yield from ("", "It takes nothing")
        for name, eids in inputs:
            for eid in eids:
                if (taken := element(eid)) is not None:
                    title = f"Call {number} takes" if several else "It takes"
                    yield from ("", *_element(work, f"{title} {name}", taken))
    if held.version:
        yield from ("", f"Version called: {held.version[:16]}, where it runs: {held.where}")
    else:
        yield from ("", f"It goes to another home: {shown_as(held.where)}")


def digest(text: str) -> str:
    """The SHA-256 of a text, which identifies it."""
    return hashlib.sha256(text.encode()).hexdigest()


def _value(text: str) -> list[str]:
    return [f"| {line}".rstrip(" ") if not line else f"| {line}" for line in shown_as(text).split("\n")]


def _element(work: WorkDefinition, title: str, element: Element, most: int | None = None) -> Iterator[str]:
    if work.inputs_by_digest:
        size, of = len(element.xml), hashlib.sha256(element.xml).hexdigest()
        yield f"{title}: element {element.eid}, {size:,} bytes, SHA-256 {of}:"
        yield from _value(element.name)
        return
    tree = element.tree()
    tree.attrib.pop("eid", None)
    etree.indent(tree)
    text = etree.tostring(tree, encoding="unicode")
    is_cut = most is not None and len(text) > most
    size_of_cut = f", the first {most:,} of {len(text):,} characters" if is_cut else ""
    yield f"{title}: element {element.eid}{size_of_cut}:"
    yield from _value(text[:most])


def _outcome(outcome: WorkOutcome) -> str:
    needs = f", when {outcome.needs} people answer so" if outcome.needs > 1 else ""
    return f"Outcome: {outcome.name}{needs}"


def _field(field: FormField, default: tuple[str, ...], options: tuple[str, ...]) -> Iterator[str]:
    several = ", several values" if field.list else ""
    needed = f", required for {', '.join(sorted(field.required))}" if field.required else ""
    limits = [("at least", field.least), ("at most", field.most), ("of the pattern", field.pattern)]
    said = "".join(f", {word} {shown_as(limit)}" for word, limit in limits if limit)
    most = f", at most {field.length:,} characters" if field.length is not None else ""
    yield f"Field {field.name}: {field.type}{several}{needed}{said}{most}:"
    yield from _value(field.label)
    for word, values in (("Options", options), ("Default", default)):
        if values:
            yield f"{word} of {field.name}:"
            for value in values:
                yield from _value(value)


# --- the text read back -----------------------------------------------------------------------------------

LEADING = ("subject", "title", "from-name", "from", "to", "cc", "bcc", "date", "at")
"""The attributes that a person reads first, in this order."""

_ELEMENT = re.compile(r"(?P<what>.+): element (?P<eid>\d+):")
_IN_THE_FORM = ("Outcome: ", "Field ", "Options of ", "Default of ")
_SAID = ("Description:", "It says:")


class Line(NamedTuple):
    """A statement of the item, with the word that begins it; "" for a sentence."""

    word: str
    value: str


class ShownElement(NamedTuple):
    """An element of an item as a person reads it; all of its content is there."""

    what: str
    """The words for its purpose, such as "It takes mail"."""
    eid: int
    name: str
    title: str
    attributes: list[Line]
    """All attributes, those of LEADING first."""
    texts: list[Line]
    """Its own text, and that of children with only text, each with its name."""
    xml: str
    """Its other children, as XML; "" if there are none."""


class Document(NamedTuple):
    """The parts of an item that a page shows."""

    said: list[str]
    """The description, and what actions say of their calls."""
    lines: list[Line]
    elements: list[ShownElement]


def document_of(text: str) -> Document:
    """Read the text of an item, without its title, outcomes and fields, which a page shows itself."""
    document = Document([], [], [])
    groups = _groups(text)
    next(groups, None)
    for words, lines in groups:
        if words.startswith(_IN_THE_FORM):
            continue
        if words in _SAID:
            document.said.append("\n".join(lines))
        elif (match := _ELEMENT.fullmatch(words)) and (element := _shown_element(match, "\n".join(lines))):
            document.elements.append(element)
        elif lines:
            document.lines.append(Line(words.rstrip(":"), "\n".join(lines)))
        else:
            word, colon, value = words.partition(": ")
            document.lines.append(Line(word, value) if colon else Line("", words))
    return document


def _groups(text: str) -> Iterator[tuple[str, list[str]]]:
    """Narval's own lines, each with the following lines from elsewhere."""
    words, lines = "", list[str]()
    for line in text.split("\n"):
        if line.startswith("|"):
            lines.append(line[2:])
        elif line:
            if words:
                yield words, lines
            words, lines = line, []
    if words:
        yield words, lines


def _shown_element(match: re.Match[str], xml: str) -> ShownElement | None:
    """The element that is shown as `xml`; None if it cannot be parsed, and is shown unchanged."""
    try:
        tree = parse_untrusted(xml.encode())
    except ElementError:
        return None
    attributes = {str(name): str(value) for name, value in tree.attrib.items()}
    order = [*(name for name in LEADING if name in attributes), *attributes]
    texts = [Line("", tree.text.strip())] if tree.text and tree.text.strip() else []
    others = []
    for child in tree:
        tail = (child.tail or "").strip()
        if not isinstance(child.tag, str) or len(child) or child.attrib or tail:
            others.append(etree.tostring(child, encoding="unicode").strip())
        else:
            texts.append(Line(child.tag, (child.text or "").strip()))
    return ShownElement(
        match["what"],
        int(match["eid"]),
        str(tree.tag),
        title_of(attributes),
        [Line(name, attributes[name]) for name in dict.fromkeys(order)],
        texts,
        "\n".join(others),
    )
