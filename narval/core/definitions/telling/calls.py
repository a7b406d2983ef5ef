"""Calls in words: the target of a call, its timeout, its attempts, and its slots: prototypes, elements in
definitions, texts with values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from lxml import etree

from narval.core.definitions.action.tool import Tool
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.prototype import Context, Input, Narrowing, Output, Prototype
from narval.core.definitions.reading.values import TextTemplate
from narval.core.definitions.remote_calls import limit_of_remote
from narval.core.definitions.telling.patterns import element_phrase, texts_phrase, value_phrase
from narval.core.definitions.telling.sentence import (
    acts_outside,
    an,
    counted,
    description_of,
    first_sentence,
    length,
    listed,
    names,
    on_one_line,
    quoted,
    times,
    verbatim,
)
from narval.core.elements.canonical import parse_untrusted
from narval.core.kinds import ASKING

_VERBS = {"action": "calls", "transform": "applies", ASKING: "asks people by", "send": "sends to"}


def verb(kind: str) -> str:
    """The verb for using a definition of a kind."""
    return _VERBS.get(kind, "runs")


def call(kind: str, target: str, agent: str, definition: Definition | None) -> str:
    """The phrase for a call: `calls the action mail.send ("Send a mail")`."""
    if agent:
        return f"has the agent {agent} run the {kind} {target}"
    acts = "; this acts outside the home" if acts_outside(definition) else ""
    return f"{verb(kind)} the {kind} {target}{purpose(definition)}{acts}"


def target_of(kind: str, target: str, agent: str, library: Library) -> Definition | None:
    """The definition that a part calls, if it belongs to the same agent and is loaded."""
    return None if agent else library.get(kind, target)


def limits(timeout: float | None, retries: int, backoff: float | None, *, agent: str = "") -> Iterator[str]:
    """The sentences about the timeout and the attempts of a call."""
    if timeout is not None or agent:
        limit = limit_of_remote(timeout) if agent else timeout or 0.0
        yield f"It may take {length(limit)}; then it has failed."
    if retries:
        first = length(1.0 if backoff is None else backoff)
        yield f"If it fails, it is tried {times(retries)} more, first after {first}, then after ever longer."
    elif backoff is not None:
        yield f"Where it is tried again by itself, that is after {length(backoff)} at least."


def after_a_crash(on_restart: str, tool: Tool | None = None) -> Iterator[str]:
    """The sentence about what happens to a call interrupted by a crash; none for the default."""
    is_once = tool is not None and not tool.is_repeatable
    if on_restart == "error":
        yield "If narval stops meanwhile, it is not done again: it has failed."
    elif is_once and not on_restart:
        yield "If narval stops meanwhile, it has failed, unless the settings name the tool idempotent."
    elif is_once:
        yield "If narval stops meanwhile, it is done again."


def forgotten(decay: float | None) -> Iterator[str]:
    """The sentence about when a run is forgotten; none if it never is."""
    if decay is not None:
        yield f"A run is forgotten {length(decay)} after its end."


def at_once(count: int | None, noun: str) -> Iterator[str]:
    """The sentence about the most there may be at once; none without a limit."""
    if count is not None:
        yield f"At most {counted(count, noun)} at once."


_PIECES = re.compile(r"\{\{|\{([^{}]*)\}")
"""`{{`, an escaped brace; or a value."""


def takes(prototype: Prototype) -> Iterator[tuple[str, int]]:
    """The sentences about the inputs and outputs of a call, each with its additional depth."""
    yield from _slots("It takes", [(_input(slot), slot.id) for slot in prototype.inputs])
    yield from _slots("It gives", [(_output(slot), slot.id) for slot in prototype.outputs])


def _slots(verb: str, slots: list[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    if len(slots) == 1:
        yield f"{verb} {slots[0][0]} (as {quoted(slots[0][1])}).", 0
    elif slots:
        yield f"{verb}:", 0
        yield from ((f"As {quoted(id)}: {text}.", 1) for text, id in slots)


def _input(slot: Input) -> str:
    element = _matched(slot)
    if slot.newest:
        element = f"of every element that is {element}, the newest {slot.newest}"
    elif slot.list:
        element = f"every element that is {element}"
    marks = [
        *(["each only once"] if slot.use else []),
        *(["if there is one"] if slot.optional else []),
        *(["which is replaced by what it gives"] if slot.outdates else []),
    ]
    return ", ".join([element, *marks])


def _output(slot: Output) -> str:
    element = _matched(slot)
    if slot.list:
        element = f"any number of elements, each of which is {element}"
    marks = [
        *(["or nothing"] if slot.optional else []),
        *([f"never two with the same {_key(slot.unique)}"] if slot.unique else []),
        *([f"in place of {_replaced(slot.replaces)}"] if slot.replaces else []),
        *([f"whose {names(slot.own)} it makes itself, from nothing that it read"] if slot.own else []),
    ]
    return ", ".join([element, *marks])


def _key(path: str) -> str:
    """The key that distinguishes elements: the name of an attribute, or an XPath as written."""
    return quoted(path[1:]) if re.fullmatch(r"@[\w.-]+", path) else verbatim(path)


def _replaced(path: str) -> str:
    """The element that an output replaces, by the attribute that must be equal."""
    name, _, attribute = path.rpartition("/")
    return f"the {name or 'one before'} with the same {_key(attribute)}"


def _matched(slot: Input | Output) -> str:
    own = texts_phrase(slot.match, slot.namespaces)
    if slot.tightens is None:
        return own
    before = _matched(slot.tightens)
    return own if own.startswith(f"{before} ") and " " not in before[3:] else f"{before}, which is also {own}"


_STATED = {
    ("use", True): "each only once",
    ("list", False): "one alone",
    ("optional", False): "which must be there",
    ("outdates", True): "which is replaced by what it gives",
}
"""The words for what a step may declare about a slot."""


def narrowed(slots: Iterable[Narrowing], what: str) -> Iterator[str]:
    """The sentences about how a call narrows the slots of an unknown target."""
    for slot in slots:
        marks = [_STATED.get(each, f"{each[0]}: {each[1]}") for each in sorted(slot.stated.items())]
        element = texts_phrase(slot.match, slot.namespaces) if slot.match else "what its target says"
        yield f"As {quoted(slot.id)} it {what} {', '.join([element, *marks])}."


def looked_for(context: Context) -> str:
    """The sentence about which elements are nearer than others."""
    phrases = listed((element_phrase(one) for one in context.alternatives), "or")
    where = "this run has" if context.of_run else "are in memory"
    return f"It looks first among the elements that {where}: {phrases}."


def written_element(xml: bytes, filled: bool) -> str:
    """An element written in a definition: `a draft (to: "you@example.org")`; with `filled`, its braces are
    values.
    """
    return _written(parse_untrusted(xml), with_values if filled else quoted)


def _written(node: etree._Element, show: Callable[[str], str]) -> str:
    name = etree.QName(node)
    noun = an(name.localname) + (f" of {quoted(name.namespace)}" if name.namespace else "")
    parts = [f"{etree.QName(key).localname}: {show(str(value))}" for key, value in node.attrib.items()]
    texts = [("text", node.text), *(text for child in node for text in ((child, None), ("text", child.tail)))]
    for what, text in texts:
        if isinstance(what, etree._Element):
            parts.append(f"in it {_written(what, show)}")
        elif text and text.strip():
            parts.append(f"text: {show(text.strip())}")
    return f"{noun} ({'; '.join(parts)})" if parts else noun


def template(text: TextTemplate) -> str:
    """A text with values in it."""
    return with_values(text.text)


def with_values(text: str) -> str:
    """A text in quotation marks, with its values in braces: `"{the number of "invoice"} is due"`."""

    def piece(match: re.Match[str]) -> str:
        return "{" if match[0] == "{{" else f"{{{value_phrase(match[1])}}}"

    alone = re.fullmatch(r"\{([^{}]*)\}", text)
    return value_phrase(alone[1]) if alone else f'"{_PIECES.sub(piece, on_one_line(text))}"'


def purpose(target: Definition | None) -> str:
    """The purpose of a target, from its description, in brackets; "" if unknown."""
    text = first_sentence(description_of(target)) if target is not None else ""
    return f" ({quoted(text)})" if text else ""
