"""Extraction rules: a selector of records, and one for each attribute within a record (TA40).

record css:table.houses tr
address td[1]
price Number css:.price
total Number("1.234,56 €") td[4]
link Url .//a/@href
page tuple:url
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from narval.core.source.number_forms import CURRENCY, NumberForm, form_of

Language = Literal["xpath", "css", "json", "tuple"]
"""The languages of selectors: XPath, or the language that a text begins with; `tuple` is for attributes
beside the document.
"""

VALUE_TYPES = {"string": "String", "number": "Number"}
"""The types that an attribute may have, in lower case."""

_FIELD_TYPES = {**VALUE_TYPES, "url": "Url"}

_FORMED = re.compile(r"""(?i:number)\s*\(\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>\w+))\s*\)""")
"""A number in a form: `Number("1.234,56")`, `Number(currency)`."""


class TextError(ValueError):
    """A wrong text within a dataflow: `at` is the character, `message` says what was expected and found."""

    def __init__(self, at: int, message: str) -> None:
        self.at, self.message = at, message
        super().__init__(message)


class Selector(msgspec.Struct, frozen=True):
    """A selector in a document, or in a record of one."""

    language: Language
    text: str


class ExtractField(msgspec.Struct, frozen=True):
    """An extracted attribute: String, Number or Url, which is made absolute with the `url` of its page.

    `form` is how its numbers are written; None for plain ones.
    """

    name: str
    type: str
    selector: Selector
    form: NumberForm | None = None


class ExtractRules(msgspec.Struct, frozen=True):
    """The rules that extract tuples from a document."""

    record: Selector
    fields: tuple[ExtractField, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the extracted attributes."""
        return tuple(field.name for field in self.fields)


_WORD = re.compile(r"\S+")


def rules_of(text: str) -> ExtractRules:
    """The rules in a text, one a line; lines that begin with # are skipped. Raises TextError."""
    record: Selector | None = None
    fields: dict[str, ExtractField] = {}
    for at, line in _lines(text):
        words = list(_WORD.finditer(line))
        name = words[0][0]
        formed = _FORMED.match(line, words[1].start()) if name != "record" and len(words) > 2 else None
        if formed is not None and (rest := line[formed.end() :]).strip() and rest[0].isspace():
            start = formed.end() + len(rest) - len(rest.lstrip())
            form = _form(formed, at + formed.start())
            _add(fields, ExtractField(name, "Number", _selector(line[start:], at + start), form), at)
            continue
        typed = name != "record" and len(words) > 2 and words[1][0].lower() in _FIELD_TYPES
        if len(words) < 2 + typed:
            raise TextError(
                at, f"expected a selector after {name!r}: XPath, or css: or json: and one of those"
            )
        start = words[1 + typed].start()
        selector = _selector(line[start:], at + start)
        if name == "record":
            if selector.language == "tuple":
                raise TextError(at + start, "expected a selector of records, found one of the tuple at hand")
            if record is not None:
                raise TextError(at, "expected one record, found another; give this attribute another name")
            record = selector
        else:
            type = _FIELD_TYPES[words[1][0].lower()] if typed else "String"
            _add(fields, ExtractField(name, type, selector), at)
    if record is None:
        raise TextError(0, "expected a line with the selector of records, as in: record //tr")
    if not fields:
        raise TextError(len(text), "expected a line for an attribute, as in: price Number .//b")
    return ExtractRules(record, tuple(fields.values()))


def _add(fields: dict[str, ExtractField], field: ExtractField, at: int) -> None:
    if field.name in fields:
        raise TextError(at, f"expected another attribute, found {field.name!r} again")
    fields[field.name] = field


def _form(written: re.Match[str], at: int) -> NumberForm:
    text = next(part for part in written.groups() if part is not None)
    try:
        if written["word"] is not None and text.lower() != CURRENCY:
            raise ValueError(f'an example in quotes, as in Number("1.234,56"), or {CURRENCY}')
        return form_of(text)
    except ValueError as error:
        raise TextError(at, f"expected {error}, found {text!r:.40}") from None


def value_type(text: str) -> tuple[str | None, NumberForm | None]:
    """The type that a text names, and the form of a number, if given: `Number("1.234,56")`.

    The type is None for any other text. Raises TextError for an invalid form.
    """
    formed = _FORMED.fullmatch(text.strip())
    if formed is not None:
        return "Number", _form(formed, 0)
    return VALUE_TYPES.get(text.strip().lower()), None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are rules, each with the offset of its first character."""
    at = 0
    for written in text.splitlines(keepends=True):
        line = written.strip()
        if line and not line.startswith("#"):
            yield at + written.index(line), line
        at += len(written)


def _selector(text: str, at: int) -> Selector:
    for language in ("css", "json", "tuple", "xpath"):
        if text.startswith(f"{language}:") and not text.startswith(f"{language}::"):
            selected = text[len(language) + 1 :].strip()
            if not selected:
                raise TextError(at, f"expected a selector after {language}:")
            if language != "xpath":
                return Selector(language, selected)
            text, at = selected, at + text.index(selected)
    _check_xpath(text, at)
    return Selector("xpath", text)


def wrong_selectors(rules: ExtractRules) -> Iterator[tuple[str, str]]:
    """The selectors in CSS and JMESPath that cannot be read, each with the reason."""
    for selector in (rules.record, *(field.selector for field in rules.fields)):
        try:
            if selector.language == "css":
                import cssselect

                cssselect.parse(selector.text)
            elif selector.language == "json":
                import jmespath

                jmespath.compile(selector.text)
        except (SyntaxError, ValueError) as error:
            what = "CSS selector" if selector.language == "css" else "path of JMESPath"
            reason = str(error).splitlines()[0].rstrip(":")
            yield selector.text, f"{selector.text!r:.80} is no {what}: {reason}; correct it"


def _check_xpath(text: str, at: int) -> None:
    from lxml import etree

    try:
        etree.XPath(text)
    except (etree.XPathError, ValueError) as error:
        raise TextError(at, f"{text!r:.80} is no XPath: {error}; write css: before a CSS selector") from None
