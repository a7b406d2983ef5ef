"""Origins: the way back from a call's inputs to the elements from outside, and to a model's free text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lxml import etree

from narval.core.elements.element import Element, Origin, children, parse
from narval.core.memory.labels import MODEL, SECRET, WHETHER, Labels
from narval.core.memory.memory import Memory

MOST = 10_000
"""The most elements whose origin is examined; beyond that it is unknown."""

MOST_TOLD = 16
"""The most elements from outside that are named to another agent."""

LONGEST_TOLD = 4_000
"""The most characters of one of them."""


def came_in(
    memory: Memory,
    eids: Iterable[int],
    *,
    models: bool = False,
    brings_in: Callable[[Origin], bool] = lambda origin: False,
) -> tuple[int, ...] | None:
    """The elements from outside from which some elements have their labels about `from`. None if unknown: an
    element is forgotten, the agent that sent it did not name them, or a run made it from stored values.

    An element that another agent sent stands for the elements from outside that it derives from there
    (`origins_of`).

    The answer of a language model did not come in itself, unless `models` are asked for; its prompt did. An
    element whose labels all come from its sources came in too if its call `brings_in` something: a mail found
    by the words of another is a second mail.
    """
    pending, seen, arrived = list(eids), set[int](), dict[int, None]()
    while pending:
        eid = pending.pop()
        if eid in seen:
            continue
        seen.add(eid)
        element = memory.element(eid)
        if element is None or len(seen) > MOST:
            return None
        names = _ways(memory, (eid,))
        if not names:
            continue
        origin = element.origin or Origin()
        if any(made_of not in memory for made_of in origin.inputs):
            return None
        pending += origin.inputs
        new = names - _ways(memory, origin.inputs)
        if new := {name for name in new if models or not name.startswith(MODEL)}:
            is_told = not origin.agent or bool(origin.came_from)
            if not is_told or (not origin.call and new & _ways(memory, (origin.run,))):
                return None
            arrived[eid] = None
        elif origin.call and brings_in(origin):
            arrived[eid] = None
    return tuple(sorted(arrived))


def origins_of(memory: Memory, eids: Iterable[int]) -> Iterator[Element]:
    """The elements that came in, and those that another agent named in place of what it sent: the latter have
    no number, and only the attributes of the root.
    """
    for element in filter(None, map(memory.element, eids)):
        roots = element.origin.came_from if element.origin is not None else ()
        yield from (Element(0, text.encode()) for text in roots)
        if not roots:
            yield element


def told_origins(
    memory: Memory, eids: tuple[int, ...], labels: int, brings_in: Callable[[Origin], bool]
) -> tuple[str, ...]:
    """The elements from outside from which sent elements have these labels, in the form for other agents; ()
    if unknown, or if they are too many or too large.
    """
    names = {name for name in memory.labels.names(labels) if is_way(name)}
    if not names or not names <= _ways(memory, eids):
        return ()
    arrived = came_in(memory, eids, brings_in=brings_in)
    texts = dict.fromkeys(_root_of(element) for element in origins_of(memory, arrived or ()))
    if len(texts) > MOST_TOLD or any(len(text) > LONGEST_TOLD for text in texts):
        return ()
    return tuple(texts)


def _root_of(element: Element) -> str:
    root = parse(element.xml)
    alone = etree.Element(root.tag, dict(root.attrib), root.nsmap)
    return etree.tostring(alone, encoding="unicode")


def is_way(label: str) -> bool:
    """True for a label that names a way in."""
    return label[-1] != WHETHER and not label.startswith(SECRET)


def secrets_of(labels: Labels, eid: int) -> set[str]:
    """The names of the secrets that an element or a run contains, or was decided by."""
    names = labels.names(labels.of((eid,)))
    return {name.removeprefix(SECRET).removesuffix(WHETHER) for name in names if name.startswith(SECRET)}


def _ways(memory: Memory, eids: Iterable[int]) -> set[str]:
    """The labels of elements that name a way in."""
    labels = memory.labels
    said = labels.names(labels.of(eids))
    return {name for name in said if is_way(name)}


class Chosen(NamedTuple):
    """The values that language models gave where the author left no free text: a choice among words, yes or
    no; and numbers.
    """

    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()


def chosen(memory: Memory, eids: Iterable[int]) -> Chosen:
    """The values limited by prompts, in the answers of language models from which some elements came. An
    answer has none if its prompt is forgotten, or if the prompt's fields came from outside.
    """
    pending, seen = list(eids), set[int]()
    words, numbers = set[str](), set[str]()
    while pending and len(seen) < MOST:
        eid = pending.pop()
        element = memory.element(eid)
        if eid in seen or element is None or not _has_model(memory, eid):
            continue
        seen.add(eid)
        inputs = element.origin.inputs if element.origin is not None else ()
        pending += inputs
        for made_of in inputs:
            for name, is_number in _bound(memory, memory.element(made_of)):
                if (value := element.attributes.get(name)) is not None:
                    (numbers if is_number else words).add(value)
    return Chosen(frozenset(words), frozenset(numbers))


def _has_model(memory: Memory, eid: int) -> bool:
    return any(name.startswith(MODEL) for name in _ways(memory, (eid,)))


_NUMBERS = ("number", "integer")
"""The field types that are numbers."""


def _bound(memory: Memory, prompt: Element | None) -> Iterator[tuple[str, bool]]:
    """The fields of a prompt that leave a model no free text, each with True if it is a number."""
    if prompt is None or prompt.name != "prompt" or memory.labels.told_of(prompt.eid, "field"):
        return
    for node in children(prompt.tree()):
        kind = node.get("type")
        if node.tag == "field" and (node.get("words") or kind in ("yes-no", *_NUMBERS)):
            yield node.get("name", ""), kind in _NUMBERS and not node.get("words")
