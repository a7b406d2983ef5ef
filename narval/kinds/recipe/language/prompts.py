"""Prompts: what a step asks of a language model, checked before it is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from narval.core.definitions.reading.lexer import Locate
from narval.core.definitions.reading.values import values_in
from narval.core.definitions.reading.xml import Entry, Place
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import local_name
from narval.core.elements.reserved import has_meaning
from narval.core.source.xml import XmlNode
from narval.kinds.recipe.language.arguments import FOREACH

PARTS = ("value", "set", "field")
"""The elements within a prompt: data, and attributes of the answer, from the author or from the model."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)

Slip = tuple[Place, str]
"""The place of a fault, and its message."""


def slips_of(step: Entry) -> dict[str, tuple[Slip, ...]]:
    """The faults that each argument of a step has if it is a prompt, by its name; most have none."""
    arguments = next(step.of("arguments"), None)
    nodes = arguments.node.children if arguments is not None else ()
    return {local_name(node.tag) or "": found for node in nodes if (found := slips(node))}


def slips(prompt: XmlNode) -> tuple[Slip, ...]:
    """The faults of an argument that is a prompt."""
    return (*_among_instructions(prompt), *_of_parts(prompt), *_of_answer(prompt))


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
