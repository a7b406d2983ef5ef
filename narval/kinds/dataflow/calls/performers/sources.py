"""Sources of the settings and wrappers of modules, from which dataflows read tuples (TA19)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from narval.core.elements.canonical import canonical
from narval.core.elements.element import parse
from narval.core.memory.labels import WEB
from narval.core.source.number_forms import NumberForm
from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.documents import tuple_in
from narval.kinds.dataflow.calls.performers.functions import batch_from
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, in_batches
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.web import charset_of_file, text_of_page
from narval.kinds.dataflow.engine.network.batches import (
    FlowError,
    Row,
    Schema,
    TupleBatch,
    batch_of,
    position,
    slices,
)
from narval.kinds.dataflow.engine.network.operators.flow_operator import chooser
from narval.kinds.dataflow.engine.network.requests import OperatorRequest
from narval.kinds.dataflow.language.code import DATAFLOW_CODE, DataflowDeclaration
from narval.kinds.dataflow.language.conditions import parse_text
from narval.kinds.dataflow.language.rules import TextError, value_type

ReadNumber = Callable[..., Any]
"""A reader of an attribute's number from its text, in a form; other texts give None and are counted."""


class Reading(NamedTuple):
    """The means to read a document: `misfit` counts lines that do not fit, and shows the first."""

    number: ReadNumber
    misfit: Callable[[str], object]


_END = "\ufdd0"
"""A sentinel after the last line of a CSV file, which no text contains: an unclosed quote swallows it."""

_ROOT = re.compile(r"<([A-Za-z_][\w.:-]*)")

AHEAD = 4
"""The most batches read ahead from a file."""

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


class Retrieve:
    """Give what a module's wrapper yields for a query, or the tuples of a source that satisfy it.

    The query of a source is a condition as for `select`; every tuple satisfies an empty one.
    """

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._tools = tools

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Retrieve the tuples for a request."""
        name, query = str(request.arguments["wrapper"]), str(request.arguments["query"])
        wrapper = self._tools.code.find(f"wrapper:{name}")
        numbers = self._tools.numbers
        reading = Reading(partial(numbers.read, request), partial(numbers.note, request, ""))
        if wrapper is not None:
            typed = partial(_typed, reading.number, _numbers_of(wrapper))
            async with aclosing(self._tools.code.stream([partial(wrapper, query)])) as yielded:
                async for some in yielded:
                    for part in in_batches(map(typed, some)):
                        yield FlowAnswer(batch_from(part)._replace(relation=name))
            return
        source = source_of(self._tools.sources, name, "a wrapper of a module, or a source")
        if source.kind == "csv" and not source.url and not (path := source.file(self._tools.home)).is_fifo():
            self._tools.note_read(path)
            read = partial(csv_in_file, source, path, reading, query)
            async with aclosing(self._tools.code.stream([read], AHEAD)) as batches:
                async for some in batches:
                    for batch in some:
                        yield FlowAnswer(batch._replace(relation=name))
            return
        text = await self._text(source)
        for batch in await self._tools.code.in_thread(partial(_chosen, source, text, reading, query)):
            yield FlowAnswer(batch._replace(relation=name))

    async def _text(self, source: FlowSource) -> str:
        if source.kind == "sqlite":
            raise FlowError("bad-source", f"{source.name} is a database: ask it by query, or importrelation")
        if source.url:
            self._tools.labels.add(WEB)
            page = await self._tools.web.page(source.url)
            if not 200 <= page.status < 300:
                raise FlowError("unreachable", f"{source.url} answered {page.status}", final=False)
            return page.content
        path = source.file(self._tools.home)
        self._tools.note_read(path)
        try:
            return text_of_page(await self._tools.code.in_thread(path.read_bytes), "")
        except OSError as error:
            raise FlowError("bad-source", f"{path}: {error}") from None


def source_of(sources: Mapping[str, FlowSource], name: str, expected: str = "a source") -> FlowSource:
    """The source with a name. Raises FlowError, which lists the known names."""
    source = sources.get(name)
    if source is None:
        names = ", ".join(sorted(sources)) or "none"
        message = f"expected {expected} ({names}), found {name!r:.80}"
        raise FlowError("no-source", f"{message}; add [sources.{name}] to etc/narval.toml")
    return source


def _chosen(source: FlowSource, text: str, reading: Reading, query: str) -> list[TupleBatch]:
    """The tuples of a document that satisfy a query. Raises FlowError."""
    # An attribute that some tuples lack has no value in them, in any order.
    whole = batch_of(_read(source, text, reading))
    return list(_satisfying(source, query, whole.schema, slices(whole.rows)))


def csv_in_file(source: FlowSource, path: Path, reading: Reading, query: str) -> Iterator[TupleBatch]:
    """The tuples of a CSV file that satisfy a query, read on demand. Raises FlowError."""
    try:
        with path.open(encoding=charset_of_file(path), errors="replace", newline="") as file:
            schema, rows = _csv(source, file, reading)
            yield from _satisfying(source, query, schema, in_batches(rows))
    except OSError as error:
        raise FlowError("bad-source", f"{path}: {error}") from None
    except csv.Error as error:
        raise _not_read(source, error) from None


def _satisfying(
    source: FlowSource, query: str, schema: Schema, batches: Iterable[list[Row]]
) -> Iterator[TupleBatch]:
    """The rows that satisfy a query, in batches. Raises FlowError, in CSV also for a name of no column."""
    try:
        tests = parse_text("select", query) if query.strip() else ()
    except TextError as error:
        raise FlowError("wrong-query", error.message) from None
    if source.kind == "csv" and schema:
        for test in tests:
            position(schema, test.attribute)
    for rows in batches:
        for test in tests:
            rows = chooser(test, schema)(rows)
        if rows:
            yield TupleBatch(schema, rows)


# --- forms ----------------------------------------------------------------------------------------------


def _read(source: FlowSource, text: str, reading: Reading) -> Iterator[dict[str, Any]]:
    """The tuples of a document. Raises FlowError."""
    try:
        rows = _FORMS[source.kind](source, text, reading)
        return map(partial(_typed, reading.number, source.numbers), rows)
    except FlowError:
        raise
    except Exception as error:
        raise _not_read(source, error) from None


def _not_read(source: FlowSource, error: Exception) -> FlowError:
    return FlowError("bad-document", f"{source.name}: expected {source.kind}, found {error}")


def _typed(number: ReadNumber, numbers: Mapping[str, NumberForm | None], row: Any) -> Any:
    """A tuple with the texts of declared numbers as numbers; texts that are not numbers become None."""
    if not isinstance(row, Mapping):
        return row
    texts = {name: row[name] for name in numbers if isinstance(row.get(name), str)}
    return {**row, **{name: number(name, text, numbers[name]) for name, text in texts.items()}}


def _numbers_of(wrapper: Any) -> Mapping[str, NumberForm | None]:
    """The attributes that a wrapper declares as numbers, with the form of each."""
    declaration: DataflowDeclaration | None = getattr(wrapper, DATAFLOW_CODE, None)
    declared = (declaration.attributes if declaration is not None else None) or {}
    types = {name: value_type(str(type)) for name, type in declared.items()}
    return {name: form for name, (type, form) in types.items() if type == "Number"}


def _csv(source: FlowSource, file: TextIO, reading: Reading) -> tuple[Schema, Iterator[Row]]:
    """The attributes and rows of a CSV file; a short row has no value in its last attributes."""
    heading = file.readline()
    file.seek(0)
    lines = csv.reader(chain(file, (_END,)), delimiter=max(",;\t|", key=heading.count))
    head = _heading(next(lines), reading)
    places = {name: place for place, name in enumerate(head) if name}
    numbers = [(at, name) for at, name in enumerate(places) if name in source.numbers]

    def row_of(line: list[str]) -> Row:
        row: list[Any] = [line[place] if place < len(line) else None for place in places.values()]
        for at, name in numbers:
            if row[at] is not None:
                row[at] = reading.number(name, row[at], source.numbers[name])
        return tuple(row)

    return tuple(places), map(row_of, _whole_lines(lines, len(head), reading))


def _heading(head: list[str], reading: Reading) -> list[str]:
    """The names of the columns; of equal names the last is read."""
    if head == [_END]:
        return []
    for name in dict.fromkeys(name for name in head if name and head.count(name) > 1):
        reading.misfit(f"line 1: {head.count(name)} columns {name}")
    return head


def _whole_lines(lines: Any, width: int, reading: Reading) -> Iterator[list[str]]:
    """The lines of a CSV file that are not blank. Lines with other than `width` fields are reported, and so
    is an unclosed quote, which swallows everything after it.
    """
    ended = lines.line_num
    for line in lines:
        began, ended = ended + 1, lines.line_num
        if not line:
            continue
        if line == [_END]:
            return
        if line[-1].endswith(_END):
            line[-1] = line[-1].removesuffix(_END)
            reading.misfit(f"line {began}: a quote that is not closed")
        elif len(line) < width or any(line[width:]):
            reading.misfit(f"line {began}: expected {width} fields, found {len(line)}")
        yield line


def _of_csv(source: FlowSource, text: str, reading: Reading) -> Iterator[dict[str, Any]]:
    schema, rows = _csv(source, io.StringIO(text, newline=""), reading)
    return iter([dict(zip(schema, row, strict=True)) for row in rows])


def _of_json(source: FlowSource, text: str, reading: Reading) -> Iterator[dict[str, Any]]:
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and all(line.lstrip().startswith("{") for _, line in lines[:2]):
        value: Any = list(_json_lines(source, lines, reading))
    else:
        value = json.loads(text)
    for key in filter(None, source.records.split(".")):
        value = value[key]
    rows = value if isinstance(value, list) else [value]
    return iter([_flat(row) for row in rows])


def _json_lines(source: FlowSource, lines: list[tuple[int, str]], reading: Reading) -> Iterator[Any]:
    """The values of the lines; invalid JSON lines are reported. Raises FlowError if no line is valid."""
    misfits = []
    for at, line in lines:
        try:
            yield json.loads(line)
        except ValueError as error:
            why = str(error)
            if isinstance(error, json.JSONDecodeError):  # its own line number is always 1
                why = f"{error.msg} at column {error.colno}"
            misfits.append(f"{at}: expected json, found {line.strip():.40}: {why}")
    if len(misfits) == len(lines):
        raise FlowError("bad-document", f"{source.name}: {source.path or source.url}:{misfits[0]}")
    for misfit in misfits:
        reading.misfit(f"line {misfit}")


def _flat(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        return {"value": row}
    return {
        str(name): json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for name, value in row.items()
    }


def _of_xml(source: FlowSource, text: str, reading: Reading) -> Iterator[dict[str, Any]]:
    root = parse(canonical(text))
    nodes = root.iter(source.records) if source.records else root.iterchildren("*")
    return iter([tuple_in(node, reading.number) for node in nodes])


def _of_rss(source: FlowSource, text: str, reading: Reading) -> Iterator[dict[str, Any]]:
    import feedparser

    fields = ("id", "title", "link", "summary", "published")
    # As a file, because a text could be taken for an address and fetched.
    headers = {"content-type": "application/xml; charset=utf-8"}
    feed = feedparser.parse(io.BytesIO(_DECLARATION.sub("", text).encode()), response_headers=headers)
    if not feed.entries and (feed.bozo or not feed.version):
        raise FlowError("bad-document", f"{source.name}: expected a feed, found {text[:40]!r}")
    root = _ROOT.search(_COMMENT.sub("", text))
    if feed.bozo and root is not None and f"</{root[1]}".lower() not in text.lower():
        raise FlowError("bad-document", f"{source.name}: expected a feed, found one that ends early")
    return iter([{name: entry.get(name) for name in fields} for entry in feed.entries])


_FORMS: Mapping[str, Callable[[FlowSource, str, Reading], Iterator[dict[str, Any]]]] = {
    "csv": _of_csv,
    "json": _of_json,
    "xml": _of_xml,
    "rss": _of_rss,
}
