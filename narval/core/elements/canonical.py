"""Untrusted XML, converted to the bounded, canonical bytes that memory holds."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from lxml import etree

from narval.core.elements.element import children, local_name
from narval.core.elements.flat_xml import canonical_flat
from narval.core.elements.names import check_name
from narval.core.errors import ElementError

MAX_BYTES = 16 * 1024 * 1024
"""The most bytes of an element's XML; a larger one must be kept as a file and referred to."""

MAX_DEPTH = 256
"""The most levels of nesting."""

MAX_WITHIN = 250_000
"""The most elements within one: a turn that reads it reads all of it, and the loop waits."""

MAX_TOGETHER, MAX_STARTED = 20_000, 2_000
"""The most elements that one turn takes from outside, and the most runs that they start, for the same reason.
"""

_STARTING = re.compile(rb"<(?:[\w.-]+:)?(?:start-plan|task-object)[\s/>]")


def careful_parser() -> etree.XMLParser:
    """A parser for the text alone: no entities, no DTD, no network, no huge trees."""
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


_PARSER = careful_parser()
_DECLARATION = re.compile(
    rb"""<\?xml\b[^>]*?(?:encoding\s*=\s*["'](?P<encoding>[A-Za-z0-9._:-]+)["'][^>]*?)?\?>"""
)
_DECLARED_TEXT = re.compile(r"\ufeff?\s*<\?xml\b[^>]*\?>")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PLACE = re.compile(r",? line \d+, column \d+\s*$")


def canonical(source: str | bytes | etree._Element) -> bytes:
    """The canonical bytes of an element: UTF-8, one root, no declaration, no eid (N1, N6).

    Raises ElementError for XML that is malformed (with line and column), too large or too deep, or has a
    DOCTYPE.
    """
    if isinstance(source, etree._Element):
        _check_tree(source)
        return _kept_bytes(source)
    flat = canonical_flat(source)
    if flat is not None:
        return flat
    return _kept_bytes(parse_untrusted(_bytes(source)))


def canonical_given(source: str | bytes | etree._Element) -> bytes:
    """The canonical bytes of an element from outside narval. Raises ElementError."""
    return check_name(canonical(source))


def parse_untrusted(data: bytes) -> etree._Element:
    """The root of untrusted bytes. Raises ElementError."""
    if len(data) > MAX_BYTES:
        raise ElementError(
            "too-large",
            f"expected at most {MAX_BYTES:,} bytes of XML, got {len(data):,}; "
            "keep it as a file and refer to it by its path",
        )
    before = b""
    if not data.startswith(_WIDE):
        before = data[: len(data) - len(data.lstrip())]
        data = data.strip()
    try:
        root = etree.fromstring(_utf8(data, before), _PARSER)
    except MemoryError:
        raise _no_memory() from None
    except etree.XMLSyntaxError as error:
        raise _refusal(error) from None
    except ValueError as error:
        raise ElementError("malformed", f"not well-formed XML: {error}") from None
    if root.getroottree().docinfo.doctype:
        raise ElementError("doctype", "a DOCTYPE is not accepted: remove it and write its entities out")
    return root


def _utf8(data: bytes, before: bytes) -> bytes:
    """The bytes as UTF-8, without the declaration if it names an encoding or something is `before` it.

    What is before stays, so that a fault keeps its line in the file.
    """
    declared = _DECLARATION.match(data)
    if declared is None:
        return before + data
    encoding = declared["encoding"]
    if encoding is None:
        return before + data[declared.end() :] if before else data
    try:
        plain = data[declared.end() :].decode(codecs.lookup(encoding.decode("ascii")).name)
    except LookupError:
        why = f"unknown encoding {encoding.decode('ascii')!r}; write the file as UTF-8"
        raise ElementError("malformed", why) from None
    return before + plain.encode("utf-8")


def elements_of(data: str | bytes) -> list[bytes]:
    """The elements of a file or message, as XML: the root, or each child of a root `memory`.

    Raises ElementError, a NarvalError with a `line` and a `column`, for XML that is malformed, has a DOCTYPE,
    is larger than 16 MiB or deeper than 256 levels, and for names reserved for narval.
    """
    flat = canonical_flat(data)
    if flat is not None and not flat.startswith(b"<memory"):
        return [check_name(flat)]
    roots = roots_of(parse_untrusted(_bytes(data)))
    return [check_name(_kept_bytes(root), root.sourceline or 1) for root in roots]


def check_together(elements: Sequence[bytes]) -> None:
    """Raise ElementError if there are more elements from outside than one turn takes."""
    _check_count("elements", len(elements), MAX_TOGETHER)
    check_started(sum(_STARTING.match(xml) is not None for xml in elements))


def check_started(count: int) -> None:
    """Raise ElementError if there are more runs from outside than one turn starts."""
    _check_count("runs to begin", count, MAX_STARTED)


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise ElementError(
            "too-large", f"expected at most {most:,} {what} at once, got {count:,}; divide them"
        )


def roots_of(root: etree._Element) -> list[etree._Element]:
    """The elements of a document: the children of a root `memory`, or else the root itself."""
    return children(root) if local_name(root.tag) == "memory" else [root]


def text_bytes(text: str) -> bytes:
    """A text of XML as UTF-8. Its declaration is blanked out: it has no encoding but this one.

    Raises ElementError.
    """
    if (declared := _DECLARED_TEXT.match(text)) is not None:
        text = re.sub(r"[^\r\n]", " ", declared[0]) + text[declared.end() :]
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        column = error.start - text.rfind("\n", 0, error.start)
        raise ElementError("malformed", "half of a surrogate pair is no character", line, column) from None


def _bytes(data: str | bytes) -> bytes:
    return text_bytes(data) if isinstance(data, str) else bytes(data)


def _check_tree(root: etree._Element) -> None:
    """Raise ElementError for a program's tree that is not an element, is too deep or has entities."""
    if not isinstance(root.tag, str):
        raise ElementError("malformed", "expected an element, got a comment or an instruction")
    if next(root.iter(etree.Entity), None) is not None:
        raise ElementError("doctype", "entities other than the five of XML are not accepted")
    depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > MAX_DEPTH:
            raise ElementError("too-deep", f"nested deeper than {MAX_DEPTH} levels")


def _kept_bytes(root: etree._Element) -> bytes:
    if root.get("eid") is not None:
        root.attrib.pop("eid")
    try:
        data: bytes = etree.tostring(root, encoding="utf-8", with_tail=False)
    except MemoryError:
        raise _no_memory() from None
    except (etree.SerialisationError, ValueError) as error:
        raise ElementError("malformed", f"cannot be written as XML: {error}") from None
    if len(data) > MAX_BYTES:
        raise ElementError("too-large", f"expected at most {MAX_BYTES:,} bytes of XML, got {len(data):,}")
    within = data.count(b"<") - data.count(b"</") - 1  # comments and instructions count as well
    if within > MAX_WITHIN:
        raise ElementError(
            "too-large",
            f"expected at most {MAX_WITHIN:,} elements within one, got {within:,}; "
            "divide it, or keep it as a file and refer to it by its path",
        )
    return data


def _no_memory() -> ElementError:
    why = "there is not enough memory to read it: nothing is wrong with the XML; try again, or give less"
    return ElementError("no-memory", why)


def _refusal(error: etree.XMLSyntaxError) -> ElementError:
    if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
        return _no_memory()
    line, column = error.position if error.position else (1, 1)
    message = _PLACE.sub("", str(error.msg or error)).strip()
    lowered = message.lower()
    if "depth" in lowered:
        kind, message = "too-deep", f"nested deeper than {MAX_DEPTH} levels"
    elif "huge" in lowered or "too long" in lowered or "too large" in lowered:
        kind, message = "too-large", "a text or attribute is longer than 10,000,000 bytes; keep it as a file"
    elif "entity" in lowered:
        kind, message = "doctype", f"{message}; entities other than the five of XML are not accepted"
    else:
        kind, message = "malformed", f"not well-formed XML: {message}"
    return ElementError(kind, message, line, column)
