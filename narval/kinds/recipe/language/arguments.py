"""Arguments of steps, and the values in them: `<reminder to="{$first/@from}"/>`.

In attributes and texts of an argument, as in every template, braces enclose an expression of variables, and
`{{` is a brace. A value is parsed with its file, and evaluated when the step is run: only on the elements of
its variables, within the limits of patterns. An argument that is a prompt, which asks a language model, is
checked before it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple, cast

from lxml import etree

from narval.core.definitions.reading.lexer import Locate
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.values import (
    ArgumentValue,
    Bindings,
    Used,
    argument_value,
    argument_values,
    filled,
    template_from,
    values_in,
)
from narval.core.definitions.reading.xml import Entry, Place, Reading
from narval.core.definitions.suggestions import closest
from narval.core.definitions.wall import zone_named
from narval.core.elements.canonical import canonical, parse_untrusted
from narval.core.elements.element import CONTROL, Element, local_name, parse
from narval.core.elements.names import has_meaning
from narval.core.errors import ElementError, PatternError
from narval.core.source.xml import XmlNode
from narval.core.trust.paths import TEXT, local_part
from narval.core.trust.reads import Bound, BoundElements, Source, sources

FOREACH = "foreach"
"""The attribute that repeats an element within an argument, once for each selected element."""

REPEAT = re.compile(r"\s*\$([^\W\d][\w.-]*)\s+in\s+(\S.*?)\s*", re.DOTALL)
_MOST_REPEATS, _MOST_BYTES = 1_000, 4_000_000
"""The most elements that one argument repeats others for, and the most bytes of these."""

NOW = "now"
"""The variable that stands for the moment when a step is run."""


def now_element(at: float, zone: str) -> Element:
    """The element of a moment: its text is the moment, its attributes are date and time in a zone."""
    moment = datetime.fromtimestamp(at, zone_named(zone))
    text, day, time = moment.isoformat(timespec="seconds"), moment.date().isoformat(), f"{moment:%H:%M}"
    return Element(0, f'<now date="{day}" time="{time}">{text}</now>'.encode())


class ReadArgument(NamedTuple):
    """An argument as written: its bytes, the variables of its values (None if there is nothing to fill in),
    and its place.
    """

    xml: bytes
    variables: frozenset[str] | None
    place: Place


def read_argument(
    reading: Reading, patterns: Patterns, node: XmlNode, own: frozenset[str]
) -> ReadArgument | None:
    """Read an argument; `own` are the variables that it has besides those of patterns.

    Return None, and record a fault, if it cannot be an element.
    """
    if (repeat := REPEAT.fullmatch(node.attributes.get(FOREACH, ""))) is not None:
        own |= {repeat[1]}
        what = "what is within an argument is repeated, and a step with foreach has one for each call"
        reading.fault_at(node.place(FOREACH), f"{FOREACH}: {what}; remove this, or put it within")
    try:
        xml = _bytes_of(node)
    except ElementError as error:
        reading.fault(node, f"this cannot be an element: {error.message}")
        return None
    names = list(_variables(reading, patterns, node, own))
    variables = frozenset[str]().union(*names) if names else None
    return ReadArgument(xml, variables, (node.line, node.column))


def _bytes_of(node: XmlNode) -> bytes:
    """The bytes of an argument. Domain elements are bare, without a default control namespace."""
    root = parse_untrusted(node.xml())
    for element in root.iter(f"{{{CONTROL}}}*"):
        if element.prefix is None:
            element.tag = etree.QName(element).localname
    etree.cleanup_namespaces(root)
    return canonical(root)


def _variables(
    reading: Reading, patterns: Patterns, node: XmlNode, own: frozenset[str], *, inner: bool = False
) -> Iterator[frozenset[str]]:
    """The variables of each value in an element of an argument, without those of repeated elements."""
    name, within = "", own
    if inner and (text := node.attributes.get(FOREACH, "")).lstrip().startswith("$"):
        repeat = REPEAT.fullmatch(text)
        if repeat is None:
            example = f'such as "$item in $order/item", found {text!r}'
            reading.fault_at(
                node.place(FOREACH), f"{FOREACH}: expected a name and the elements that it is for, {example}"
            )
        else:
            name, within = repeat[1], own | {repeat[1]}
            yield _repeated(reading, patterns, repeat, partial(node.place, FOREACH), own)
    texts: list[tuple[str, Locate]] = [
        (text, partial(node.place, at)) for at, text in node.attributes.items()
    ]
    for text, locate in (*texts, (node.text, node.text_place)):
        if "{" in text:
            yield template_from(reading, patterns, text, locate, within).variables - {name}
    for child in node.children:
        for names in _variables(reading, patterns, child, within, inner=True):
            yield names - {name}


def _repeated(
    reading: Reading, patterns: Patterns, repeat: re.Match[str], locate: Locate, own: frozenset[str]
) -> frozenset[str]:
    """The variables of the expression that selects the elements of a repetition."""
    text, start = repeat[2], repeat.start(2)
    try:
        value = argument_value(text)
        if not value.gives_elements:
            raise PatternError(text, "expected a path to elements")
    except PatternError as error:
        reading.fault_at(locate(start + max(error.column - 1, 0)), f"{FOREACH}: {error.message}")
        return frozenset()
    patterns.note(Used(text, value.variables - own), lambda at: locate(start + at))
    return value.variables


def fill(xml: bytes, bindings: Bindings, zone: str) -> bytes:
    """An argument with its values filled in. Raises ElementError if the result is not an element."""
    root = parse_untrusted(xml)
    _Filling(zone).fill(root, bindings)
    return canonical(root)


def sources_of(xml: bytes, bound: BoundElements, zone: str) -> dict[str, frozenset[Source]]:
    """The parts of elements in memory that the values of an argument come from, by part of the argument.

    Text by the author has no source.
    """
    made: dict[str, frozenset[Source]] = {}
    _note_sources(made, parse_untrusted(xml), "", bound, zone, frozenset())
    return made


def _note_sources(
    made: dict[str, frozenset[Source]],
    node: etree._Element,
    path: str,
    bound: BoundElements,
    zone: str,
    chosen_by: frozenset[Source],
) -> None:
    """Record the sources of the parts of an element; `chosen_by` are the sources that decided that it is
    there.
    """
    texts = [(f"@{local_part(name)}", str(text)) for name, text in node.attrib.items()]
    for part, text in (*texts, (TEXT, node.text or ""), *((TEXT, child.tail or "") for child in node)):
        _note(
            made,
            f"{path}{part}",
            chosen_by.union(*(sources(value, bound, zone) for value in argument_values(text))),
        )
    for child in node:
        if not isinstance(child.tag, str):
            continue
        inner = f"{path}{local_part(child.tag)}"
        if (repeat := _repeat_of(child)) is None:
            _note_sources(made, child, f"{inner}/", bound, zone, chosen_by)
            continue
        name, value = repeat
        chosen = chosen_by | sources(value, bound, zone)
        _note(made, inner, chosen)
        del child.attrib[FOREACH]
        for element in value.elements_for(
            {of: [one.element for one in some] for of, some in bound.items()}, zone, 1
        ):
            _note_sources(made, child, f"{inner}/", {**bound, name: [Bound(element, chosen)]}, zone, chosen)


def _note(made: dict[str, frozenset[Source]], path: str, of: frozenset[Source]) -> None:
    if of:
        made[path] = made.get(path, frozenset()) | of


class _Filling:
    """The filling in of one argument, with a count of repetitions."""

    def __init__(self, zone: str) -> None:
        self._zone, self._repeats, self._bytes = zone, 0, 0

    def fill(self, node: etree._Element, bindings: Bindings, times: int = 1) -> None:
        """Fill in an element that occurs `times` times in the argument."""
        for name, text in node.attrib.items():
            node.set(name, filled(str(text), bindings, self._zone, times))
        if node.text:
            node.text = filled(node.text, bindings, self._zone, times)
        for child in list(node):
            if child.tail:
                child.tail = filled(child.tail, bindings, self._zone, times)
            if (repeat := _repeat_of(child)) is not None:
                self._repeat(child, *repeat, bindings, times)
            elif isinstance(child.tag, str):
                self.fill(child, bindings, times)

    def _repeat(
        self, node: etree._Element, name: str, value: ArgumentValue, bindings: Bindings, times: int
    ) -> None:
        """Replace an element by a copy for each element that an expression selects."""
        selected = []
        for element in value.elements_for(bindings, self._zone, times):
            selected.append(element)
            self._repeats += 1
            self._bytes += len(element.xml)
            if self._repeats > _MOST_REPEATS or self._bytes > _MOST_BYTES:
                most = f"{_MOST_REPEATS:,} elements of {_MOST_BYTES:,} bytes together"
                raise ElementError("too-large", f"expected {value.text} to be at most {most}, found more")
        del node.attrib[FOREACH]
        written = etree.tostring(node, encoding="utf-8", with_tail=False)
        for element in selected:
            copy = parse(written)
            self.fill(copy, {**bindings, name: (element,)}, times * len(selected))
            node.addprevious(copy)
        _keep_tail(node)
        cast(etree._Element, node.getparent()).remove(node)


def _repeat_of(node: etree._Element) -> tuple[str, ArgumentValue] | None:
    """The name and the expression of an element that is repeated; None for any other."""
    repeat = REPEAT.fullmatch(node.get(FOREACH, "")) if isinstance(node.tag, str) else None
    try:
        return None if repeat is None else (repeat[1], argument_value(repeat[2]))
    except PatternError:
        return None


def _keep_tail(node: etree._Element) -> None:
    """Keep the text after an element when the element is removed."""
    tail, before, parent = node.tail or "", node.getprevious(), node.getparent()
    node.tail = None
    if before is not None:
        before.tail = (before.tail or "") + tail or None
    elif parent is not None:
        parent.text = (parent.text or "") + tail or None


# --- prompts ----------------------------------------------------------------------------------------------

PARTS = ("value", "set", "field")
"""The elements within a prompt: data, and attributes of the answer, from the author or from the model."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)

Slip = tuple[Place, str]
"""The place of a fault, and its message."""


def slips_of(step: Entry) -> dict[str, tuple[Slip, ...]]:
    """The faults that each argument of a step has if it is a prompt, by its name; most have none."""
    arguments = next(step.of("arguments"), None)
    nodes = arguments.node.children if arguments is not None else ()
    return {
        local_name(node.tag) or "": slips
        for node in nodes
        if (slips := (*_among_instructions(node), *_of_parts(node), *_of_answer(node)))
    }


def _among_instructions(prompt: XmlNode) -> Iterator[Slip]:
    """The values in instructions, where a stranger's words would mix with the author's."""
    yield from _values(prompt, text=True)
    for part in prompt.children:
        name = local_name(part.tag)
        yield from _values(part, text=name != "value", but="value" if name == "set" else "")
        for inner in (inner for child in part.children for inner in child.walk()) if name != "value" else ():
            yield from _values(inner, text=True)


def _values(node: XmlNode, *, text: bool, but: str = "") -> Iterator[Slip]:
    texts: list[tuple[str, Locate]] = [
        (written, partial(node.place, name)) for name, written in node.attributes.items() if name != but
    ]
    for written, locate in (*texts, *([(node.text, node.text_place)] if text else [])):
        for value in values_in(written):
            where = '<value name="…"> or <set name="…" value="…"/>'
            message = f"{value} may not be in the text of the question; values go into {where}"
            yield locate(written.index(value)), message


def _of_parts(prompt: XmlNode) -> Iterator[Slip]:
    """The unknown parts, and those with a name that another part has."""
    data: set[str] = set()
    attributes: set[str] = set()
    for part in prompt.children:
        tag, name = local_name(part.tag) or "", part.attributes.get("name", "")
        if tag not in PARTS:
            why = f"expected a part of a prompt, found {tag!r}{closest(tag, PARTS)}"
            yield (part.line, part.column), why
            continue
        names, other = (data, "value") if tag == "value" else (attributes, "field or set")
        if not name:
            yield (part.line, part.column), f'{tag} needs a name; add name="…"'
        elif name in names:
            taken = f"name: another {other} is {name!r} already"
            yield part.place("name"), f"{taken}; give each a name of its own"
        names.add(name)
        if FOREACH in part.attributes:
            inside = f'put <row {FOREACH}="…"> within it' if tag == "value" else "remove this"
            yield part.place(FOREACH), f"{FOREACH}: a prompt has each {tag} once; {inside}"


def _of_answer(prompt: XmlNode) -> Iterator[Slip]:
    """A forbidden name for the answer of a model."""
    name = prompt.attributes.get("answer")
    if name is None or "{" in name:
        return
    place = prompt.place("answer")
    if not _NAME.fullmatch(name):
        yield place, f"answer: expected the name of an element, such as sorted, found {name!r}"
    elif has_meaning(name):
        yield place, f"answer: {name!r} means something to narval; take another name, such as {name}-answer"
