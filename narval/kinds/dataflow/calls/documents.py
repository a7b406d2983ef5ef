"""Documents of dataflows: inputs and outputs as XML (T20, T21, TA35).

    <plan_input>
      <session>
        <value name="most">900</value>
        <relation name="houses"><tuple><price>700</price></tuple></relation>
      </session>
    </plan_input>

Outputs, and the elements that a dataflow gives to memory, have the same form.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from lxml import etree
from msgspec.structs import replace

from narval.core.elements.element import Element, parse, text_within
from narval.core.elements.own_elements import xml_safe
from narval.core.source.number_forms import NumberForm
from narval.kinds.dataflow.calls.driver import FlowInput
from narval.kinds.dataflow.engine.network.batches import (
    VALUE,
    FlowError,
    Relation,
    Row,
    RowsInMemory,
    Schema,
    TupleBatch,
    batch_of,
    placed_rows,
    remaining,
    text_of,
    widened,
)
from narval.kinds.dataflow.engine.network.requests import OperatorRequest
from narval.kinds.dataflow.engine.state import UnreadNumbers
from narval.kinds.dataflow.language.definition import DataflowDefinition, Datum

RELATION, TUPLE, VALUE_OF = "relation", "tuple", "value"
"""The elements for a relation, for a tuple in it, and for a value."""

_PLAIN = re.compile(r"[+-]?(?:\d+(?P<rest>(?:\.\d+)?(?P<exponent>[eE][+-]?\d+)?))", re.ASCII)

_EXACT = 15
"""The most digits that a 64-bit float always keeps."""

_STREAMS = ("TupleStream", "Relation", "Object")
"""The types of inputs that take tuples."""


def inputs_of(
    definition: DataflowDefinition, session: etree._Element, others: Iterable[Element] = ()
) -> dict[str, FlowInput]:
    """The inputs of a session. Elements of `others` named `relation`, `value` or like an input count too; an
    element named like an input is a tuple of it. Raises FlowError for unknown, repeated or missing inputs.
    """
    data = {datum.name: datum for datum in definition.inputs}
    flow_inputs: dict[str, FlowInput] = {}
    tuples: dict[str, list[dict[str, Any]]] = {}
    roots = [*session.iterchildren("*")]
    for root in roots:
        if root.tag not in (RELATION, VALUE_OF):
            raise FlowError("bad-input", f"expected <value> or <relation> in a session, found <{root.tag!s}>")
    for element in others:
        root = parse(element.xml)
        if root.tag in (RELATION, VALUE_OF):
            roots.append(root)
        elif (tag := str(root.tag)) in data and data[tag].type in _STREAMS:
            tuples.setdefault(tag, []).append(tuple_in(root))
        elif tag in data:
            flow_inputs[tag] = _given(data[tag], root)
    for root in roots:
        name = root.get("name", "")
        if name not in data:
            names = ", ".join(data) or "none"
            raise FlowError(
                "bad-input", f"expected an input of {definition.full_name} ({names}), found {name!r:.80}"
            )
        if name in flow_inputs:
            raise FlowError(
                "bad-input", f"the input {name} is given twice; give it once, by --set or in a session"
            )
        flow_inputs[name] = _given(data[name], root)
    for name, rows in tuples.items():
        flow_inputs.setdefault(name, relation_of(batch_of(rows), name))
    lacking = [name for name in data if name not in flow_inputs]
    if lacking:
        raise FlowError(
            "bad-input", f"expected the input {', '.join(lacking)}; give it by {_example(data[lacking[0]])}"
        )
    return flow_inputs


def _example(datum: Datum) -> str:
    """An example of how to write an input."""
    if datum.type in ("TupleStream", "Relation"):
        one = f'<relation name="{datum.name}"><tuple>…</tuple></relation>'
        return f"{one} in a session"
    return f'--set {datum.name}=…, or <value name="{datum.name}">…</value> in a session'


def _given(datum: Datum, root: etree._Element) -> FlowInput:
    if root.tag == RELATION:
        if datum.type not in _STREAMS:
            raise FlowError("bad-input", f"expected a value for the input {datum.name}, found a relation")
        return relation_of(batch_of(map(tuple_in, root.iterchildren(TUPLE))), datum.name)
    text = text_within(root)
    return value_of(datum, text)


def value_of(datum: Datum, text: str) -> FlowInput:
    """The value of an input given as text. Raises FlowError."""
    if datum.type == "Number":
        number = number_in(text)
        if number is None:
            expectation = f"expected a plain number, as 1250.50, for the input {datum.name}"
            raise FlowError("bad-input", f"{expectation}, found {text!r:.80}")
        return number
    if datum.type in ("TupleStream", "Relation"):
        return relation_of(TupleBatch(VALUE, [(text,)]), datum.name)
    return text


def number_in(text: str) -> int | float | None:
    """The number that a text denotes; None if it is not a number.

    A plain number has digits, a point before decimals, and an optional sign and exponent. Nothing is guessed:
    a comma may precede decimals or separate thousands. Decimals beyond the precision of a 64-bit float are
    rounded; the whole part never is.
    """
    plain = _PLAIN.fullmatch(text.strip())
    if plain is None or not isfinite(number := float(plain[0])):
        return None
    if plain["rest"]:
        if number and len(plain[0]) > _EXACT and int(Decimal(repr(number))) != int(Decimal(plain[0])):
            return None
        return (
            int(number) if not plain["exponent"] and number.is_integer() and abs(number) < 2**53 else number
        )
    whole = int(plain[0])
    if abs(whole) < 2**63:
        return whole
    return number if number == whole else None  # a long number is not rounded


def relation_of(batch: TupleBatch, name: str) -> Relation:
    """A relation in memory."""
    rows = RowsInMemory()
    rows.add(batch.rows)
    return Relation(batch.schema, rows, name)


def _number_given(attribute: str, text: str) -> int | float | None:
    """The number of an attribute of an input; None for a blank text. Raises FlowError for any other text."""
    number = number_in(text)
    if number is None and text.strip():
        message = f"expected a plain number, as 1250.50, for {attribute}, found {text!r:.80}"
        raise FlowError("bad-input", message)
    return number


def tuple_in(root: etree._Element, read: Callable[[str, str], Any] = _number_given) -> dict[str, Any]:
    """The attributes of a tuple: those of its element, and its children with their texts.

    `read` gives the value of a child with type="Number", from its name and text.
    """
    attributes: dict[str, Any] = {str(name): value for name, value in root.attrib.items() if name != "type"}
    for child in root.iterchildren("*"):
        name, text = str(child.tag), text_within(child)
        attributes[name] = read(name, text) if child.get("type") == "Number" else text
    if not attributes and root.text and root.text.strip():
        attributes["value"] = root.text
    return attributes


def document_of(schema: Schema, row: Row, name: str = TUPLE) -> bytes:
    """A tuple as a document."""
    return etree.tostring(tuple_element(schema, row, name), encoding="utf-8")


# --- outputs ------------------------------------------------------------------------------------------------


def tuple_element(schema: Schema, row: Row, name: str = TUPLE) -> etree._Element:
    """A tuple as an element; an attribute without a value has no child."""
    root = etree.Element(name)
    for attribute, value in zip(schema, row, strict=True):
        if value is not None:
            child = etree.SubElement(root, attribute)
            child.text = xml_safe(text_of(value))
            if _is_number(value):
                child.set("type", "Number")
    return root


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def relation_element(name: str, batches: Iterable[TupleBatch]) -> bytes:
    """A relation as a document."""
    root = etree.Element(RELATION, name=name)
    for schema, rows, _ in batches:
        root.extend(tuple_element(schema, row) for row in rows)
    return etree.tostring(root, encoding="utf-8")


def value_element(name: str, value: Any) -> bytes:
    """A value as a document; a relation as one document."""
    if isinstance(value, Relation):
        return relation_element(name, value.batches())
    root = etree.Element(VALUE_OF, name=name)
    root.text = xml_safe(text_of(value))
    if _is_number(value):
        root.set("type", "Number")
    return etree.tostring(root, encoding="utf-8")


class GatheredTuples:
    """The tuples of an output, all with the same attributes."""

    def __init__(self) -> None:
        self._schema: Schema = ()
        self._rows: list[Row] = []

    def _placed(self, batch: TupleBatch) -> list[Row]:
        before = self._schema
        self._schema, rows = placed_rows(batch, before)
        if len(self._schema) > len(before):
            self._rows = widened(self._rows, self._schema)
        return rows

    def add(self, batch: TupleBatch) -> None:
        """Add tuples."""
        rows = self._placed(batch)
        self._rows += rows

    def retract(self, batch: TupleBatch) -> None:
        """Take back tuples."""
        rows = self._placed(batch)
        self._rows = remaining(self._rows, Counter(rows))

    @property
    def whole(self) -> TupleBatch:
        """All tuples."""
        return TupleBatch(self._schema, self._rows)


class GatheredOutputs:
    """The outputs of a session, collected as documents: at most `most` bytes of tuples."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._tuples: dict[str, GatheredTuples] = {}
        self._values: dict[str, Any] = {}
        self._over: dict[str, bool] = {}

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Collect tuples. Raises FlowError for too many."""
        self._size += _size(batch)
        if self._size > self._most:
            message = f"its outputs are larger than {self._most:,} bytes; export them, or notify of each"
            raise FlowError("too-large", message)
        self._tuples.setdefault(output, GatheredTuples()).add(batch)

    def retracted(self, output: str, batch: TupleBatch) -> None:
        """Take tuples back."""
        self._size -= _size(batch)
        self._tuples[output].retract(batch)

    def value(self, output: str, value: Any) -> None:
        """Collect a value."""
        self._values[output] = value

    def over(self, output: str, cancelled: bool) -> None:
        """Record the end of an output."""
        self._over[output] = cancelled

    def documents(self) -> Iterator[tuple[str, bytes]]:
        """The outputs in the order in which they ended, without cancelled ones."""
        for name, cancelled in self._over.items():
            if cancelled:
                continue
            if name in self._values:
                yield name, value_element(name, self._values[name])
            else:
                yield name, relation_element(name, [self._tuples[name].whole] if name in self._tuples else ())


def _size(batch: TupleBatch) -> int:
    return sum(len(text_of(value)) for row in batch.rows for value in row)


def named_values(values: Mapping[str, str]) -> etree._Element:
    """A session whose inputs are given as texts."""
    session = etree.Element("session")
    for name, text in values.items():
        etree.SubElement(session, VALUE_OF, name=name).text = text
    return session


# --- invalid numbers ----------------------------------------------------------------------------------------

MOST_SHOWN = 3
"""The most invalid numbers shown for one attribute of an operator."""

LONGEST_SHOWN = 80


class NumberReader:
    """Reads the numbers of a session, from any thread, and counts the texts that are not numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_work: dict[int | str, dict[tuple[str, int, str], UnreadNumbers]] = {}
        """The counts by request, or by key for recorded work."""

    def read(
        self, request: OperatorRequest, attribute: str, value: Any, form: NumberForm | None = None
    ) -> int | float | None:
        """The number of a value; None for a blank text, and for a text that does not fit the form."""
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
            return value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        plain = text if form is None else form.plain(text)
        number = None if plain is None else number_in(plain)
        if number is None and text.strip():
            self.note(request, attribute, text.strip()[:LONGEST_SHOWN])
        return number

    def note(self, request: OperatorRequest, attribute: str, text: str) -> None:
        """Count a text that is not a number, or, without an attribute, a line that does not fit."""
        place = (request.call.key, request.call.line, attribute)
        with self._lock:
            counts = self._of_work.setdefault(request.id, {})
            counts[place] = _with_texts(counts.get(place) or UnreadNumbers(*place), 1, (text,))

    def take(self, request: int, key: str) -> tuple[UnreadNumbers, ...]:
        """Move the counts of a finished request to the key of its recorded work, and return them."""
        with self._lock:
            counts = self._of_work.pop(request, None)
            if counts:
                self._of_work[key] = counts
            return tuple((counts or {}).values())

    def put(self, key: str, unread: Iterable[UnreadNumbers]) -> None:
        """Restore the counts of recorded work."""
        with self._lock:
            self._of_work[key] = {(one.key, one.line, one.attribute): one for one in unread}

    @property
    def unread(self) -> tuple[UnreadNumbers, ...]:
        """The texts that were not numbers, by operator and attribute."""
        merged: dict[tuple[str, int, str], UnreadNumbers] = {}
        with self._lock:
            for counts in self._of_work.values():
                for place, one in counts.items():
                    before = merged.get(place) or UnreadNumbers(*place)
                    merged[place] = _with_texts(before, one.count, one.texts)
        return tuple(merged.values())


def _with_texts(before: UnreadNumbers, count: int, texts: tuple[str, ...]) -> UnreadNumbers:
    return replace(before, count=before.count + count, texts=(*before.texts, *texts)[:MOST_SHOWN])
