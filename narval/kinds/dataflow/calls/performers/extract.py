"""Extraction of tuples from documents, by rules in XPath, CSS or JMESPath (TA40)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urljoin

import jmespath
from jmespath.exceptions import JMESPathError
from lxml import etree
from parsel import Selector as Page

from narval.core.elements.element import text_within
from narval.core.errors import ActionError
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import VALUE, FlowError, Row, Schema, TupleBatch, position
from narval.kinds.dataflow.engine.network.requests import OperatorRequest
from narval.kinds.dataflow.language.conditions import parse_text
from narval.kinds.dataflow.language.rules import ExtractField, ExtractRules, Selector, TextError

LARGEST = 10_000_000
"""The most characters of a document."""

LONGEST = 20.0
"""Seconds after which the extraction from a document is given up."""

_HTML = "html"


class Extract:
    """Give the records of each document: the `content` of a page, else the value of the only attribute."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._code, self._numbers = tools.code, tools.numbers
        parsed = request.call.parsed.get("rules")
        if not isinstance(parsed, ExtractRules):
            try:
                parsed = parse_text("rules", str(request.arguments["rules"]))
            except TextError as error:
                raise FlowError("wrong-rules", error.message) from None
        self._rules: ExtractRules = parsed

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Extract from the documents of a request."""
        if request.batch is None:
            return
        schema, rows, relation = request.batch
        for row in rows:
            text, type = _document(schema, row)
            at_hand = dict(zip(schema, row, strict=True))
            number = partial(self._numbers.read, request)
            work = partial(_extracted, self._rules, text, type, at_hand, number)
            try:
                extracted = await self._code.in_thread(work, LONGEST)
            except ActionError as error:
                if error.kind != "timeout":
                    raise
                message = f"extraction took longer than {LONGEST:g} s; are the rules too wide?"
                raise FlowError("too-long", message) from None
            if extracted:
                yield FlowAnswer(TupleBatch(self._rules.attributes, extracted, relation))


def _document(schema: Schema, row: Row) -> tuple[str, str]:
    """The text of a document, and its type if known."""
    if "content" in schema:
        type = str(row[schema.index("type")] or "") if "type" in schema else ""
        text = row[schema.index("content")]
    elif len(row) == 1:
        text, type = row[0], ""
    else:
        text, type = row[position(schema, VALUE[0])], ""
    text = "" if text is None else str(text)
    if len(text) > LARGEST:
        raise FlowError(
            "too-large", f"expected documents of {LARGEST:,} characters at most, found {len(text):,}"
        )
    return text, type


def _extracted(
    rules: ExtractRules, text: str, type: str, at_hand: Mapping[str, Any], number: Callable[..., Any]
) -> list[Row]:
    fields, base = rules.fields, str(at_hand.get("url") or "")
    return [
        tuple([_value(field, value, base, number) for field, value in zip(fields, values, strict=True)])
        for values in _records(rules, text, type, at_hand)
    ]


def _value(field: ExtractField, value: Any, base: str, number: Callable[..., Any]) -> Any:
    if value is None:
        return None
    if field.type == "Number":
        return number(field.name, value, field.form)
    if isinstance(value, bool):
        return str(value).lower()
    if field.type == "Url" and isinstance(value, str):
        try:
            return urljoin(base, value.strip())
        except ValueError:
            return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _records(rules: ExtractRules, text: str, type: str, at_hand: Mapping[str, Any]) -> Iterator[list[Any]]:
    if rules.record.language == "json":
        yield from _of_json(rules, text, at_hand)
    elif text.strip():
        is_xml = ("xml" in type and _HTML not in type) or text.lstrip().startswith("<?xml")
        page = Page(text=text, type="xml" if is_xml else _HTML, huge_tree=False)
        for record in _selected(page, rules.record):
            yield [_found(record, field.selector, at_hand) for field in rules.fields]


def _of_json(rules: ExtractRules, text: str, at_hand: Mapping[str, Any]) -> Iterator[list[Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FlowError("bad-document", f"expected JSON, found {text[:40]!r}: {error}") from None
    records = _searched(rules.record.text, document)
    for record in records if isinstance(records, list) else [] if records is None else [records]:
        yield [
            at_hand.get(field.selector.text)
            if field.selector.language == "tuple"
            else _searched(field.selector.text, record)
            for field in rules.fields
        ]


def _searched(path: str, document: Any) -> Any:
    try:
        return _compiled(path).search(document)
    except JMESPathError as error:
        raise FlowError("wrong-rules", f"json:{path}: {error}") from None


@lru_cache(256)
def _compiled(path: str) -> Any:
    return jmespath.compile(path)


def _selected(page: Page, selector: Selector) -> list[Page]:
    try:
        return list(page.css(selector.text) if selector.language == "css" else page.xpath(selector.text))
    except (SyntaxError, ValueError) as error:
        raise FlowError("wrong-rules", f"{selector.language}: {selector.text}: {error}") from None


def _found(record: Page, selector: Selector, at_hand: Mapping[str, Any]) -> Any:
    """The text of the first node that a selector finds within a record, with whitespace collapsed."""
    if selector.language == "tuple":
        return at_hand.get(selector.text)
    for selected in _selected(record, selector):
        root = selected.root
        text = text_within(root) if isinstance(root, etree._Element) else str(root)
        return " ".join(text.split())
    return None
