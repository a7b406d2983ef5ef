"""The rules that allow exactly what a held call shows: for the answer "always"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from lxml import etree

from narval.core.elements.element import Element, Tree, children, text_within
from narval.core.errors import PatternError
from narval.core.memory.labels import SECRET
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.core.patterns.xpath1 import literal
from narval.core.trust.contents import values_of
from narval.core.trust.parts import Part
from narval.core.trust.rules import Facts, Verdict, word_of

MOST = 2_000
"""The most characters of a value in a rule."""

_NAME = re.compile(r"[\w.-]+")
_LABEL = re.compile(r"[^\s?\"\\]{1,200}")


def allowing_rules(verdict: Verdict, facts: Facts, inputs: Mapping[str, Sequence[Element]]) -> str:
    """The rules, as text, that allow each part that makes a call ask, with its values; "" if one cannot be
    expressed: several elements, or a value that is too long.

    A "where" part is allowed with its own value, since such a rule allows no other part. A "what" part is
    allowed with the whole element: otherwise anything could stand next to it.
    """
    asking: dict[Part, list[str]] = {}
    for judgement in verdict.judgements:
        if judgement.then == "ask":
            asking.setdefault(judgement.part, []).append(judgement.label)
    texts: dict[str, None] = {}
    for part, labels in asking.items():
        text = _rule(part, labels, facts, inputs.get(part.input, ()))
        if not text:
            return ""
        texts[text] = None
    return "\n".join(texts)


def _rule(part: Part, labels: list[str], facts: Facts, elements: Sequence[Element]) -> str:
    pattern = ""
    if part.input and not (pattern := _exactly(part, elements)):
        return ""
    if not all(map(_LABEL.fullmatch, (facts.action, facts.recipe, *labels))):
        return ""
    secrets = [name.removeprefix(SECRET) for name in labels if name.startswith(SECRET)]
    origins = [name for name in labels if not name.startswith(SECRET)]
    lines = [
        "[[rule]]",
        *(f"from = {_toml(origins)}" for _ in origins[:1]),
        *(f"secret = {_toml(secrets)}" for _ in secrets[:1]),
        f'part = "{word_of(part)}"',
        f"action = {_text(facts.action)}",
        f"recipe = {_text(facts.recipe)}",
        *(f"to = {_text(pattern)}" for _ in pattern[:1]),
        'then = "allow"',
    ]
    return "\n".join(lines) + "\n"


def _exactly(part: Part, elements: Sequence[Element]) -> str:
    """The pattern of the only element in `elements`, with the value of a part of it; "" if there is no such
    pattern.
    """
    if len(elements) != 1 or not _NAME.fullmatch(elements[0].name):
        return ""
    element = elements[0]
    path = part.path if part.where else ""
    tests = "".join(f"[{test}]" for test in _tests(path, element))
    text = f"{element.name}{tests}"
    try:
        fits = bool(tests) and Condition((compile_pattern(text),)).bind().test(Tree(element))
    except PatternError:
        return ""
    return text if fits else ""


def _tests(path: str, element: Element) -> Iterator[str]:
    """The tests that an element with the value of a part satisfies; none if they cannot be expressed."""
    root = element.tree()
    if path:
        values = list(values_of(element.xml, path))
        if len(values) != 1 or len(values[0]) > MOST:
            return
        written, last = literal(values[0]), path.rpartition("/")[2]
        if last.startswith("@"):
            yield f"{path}={written}"
            yield from [f"count({path})=1"] * ("/" in path)
        elif path == "text()":
            yield f"not(*) and .={written} and string(text())={written}"
        elif last != "text()":
            yield f"count({path})=1 and {path}[not(*) and not(@*)]={written}"
        return
    if len(element.xml) <= MOST:
        yield from _whole(root)


def _whole(node: etree._Element) -> Iterator[str]:
    """The tests that an element with exactly these attributes, texts and children satisfies; none if a name
    cannot be expressed.
    """
    attributes = {str(name): str(value) for name, value in node.attrib.items()}
    if node.getparent() is None:
        attributes.pop("eid", None)  # narval assigns this number, a different one each time
    inner = children(node)
    if not all(_NAME.fullmatch(name) for name in (*attributes, *(str(child.tag) for child in inner))):
        return
    yield f"count(@*)={len(node.attrib)} and count(*)={len(inner)}"
    yield from (f"@{name}={literal(value)}" for name, value in attributes.items())
    yield f".={literal(text_within(node))}"
    for before, child in enumerate(inner):
        tests = list(_whole(child))
        if not tests:
            return
        at = f"count(preceding-sibling::*)={before}"  # by its name, so that the pattern reads its parts
        yield f"{child.tag!s}[{at}]{''.join(f'[{test}]' for test in tests)}"


def _toml(names: Iterable[str]) -> str:
    texts = [_text(name) for name in names]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _text(value: str) -> str:
    """A text as a TOML string."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
