"""XML nodes with their places, down to the characters of an attribute's value, which lxml does not report.

Parsed by expat, which accepts only what definitions need: no DTD, no entities except the five of XML, bounded
depth and size.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import NamedTuple
from xml.parsers import expat

from narval.core.source import MAX_BYTES
from narval.core.source.text import Source

MAX_DEPTH = 200
MAX_NODES = 1_000_000


class _Markup:
    """The bytes of a node in its document, from `start` to `end`; the prefixes it uses, and those it
    declares.
    """

    __slots__ = ("declared", "document", "end", "prefixes", "start")

    def __init__(self, document: _Document, start: int) -> None:
        self.document = document
        self.start = self.end = start
        self.prefixes: set[str] = set()
        self.declared: frozenset[str] = frozenset()


class XmlNode:
    """An XML element that knows its place. Names are local, or `{namespace}local`.

    `text` is the text directly within it; `namespaces` the prefixes in scope, as XPath needs them.
    """

    __slots__ = ("_markup", "attributes", "children", "column", "line", "namespaces", "tag", "text")

    def __init__(self, markup: _Markup, tag: str, line: int, column: int) -> None:
        self.tag = tag
        self.attributes: dict[str, str] = {}
        self.text = ""
        self.children: list[XmlNode] = []
        self.line, self.column = line, column
        self.namespaces: Mapping[str, str] = {}
        self._markup = markup

    def place(self, attribute: str, offset: int = 0) -> tuple[int, int]:
        """The place of an attribute's value, or of a character in it; that of the tag if it is absent."""
        for name, start in self._written():
            if name == attribute:
                document = self._markup.document
                return document.place(_walk(document.text, start, offset, _VALUE_PIECE))
        return self.line, self.column

    def text_place(self, offset: int = 0) -> tuple[int, int]:
        """The place of a character of the text, or of what follows the text."""
        document, position, is_end = self._markup.document, self._tag_end(), offset >= len(self.text)
        for child in self.children:
            before = _walked(document.text, position, offset, _TEXT_PIECE)
            if before.position < document.offset(child._markup.start) or (is_end and before.left <= 0):
                break
            position, offset = document.offset(child._markup.end), before.left
        return document.place(_walk(document.text, position, offset, _TEXT_PIECE))

    def text_places(self) -> Callable[[int], tuple[int, int]]:
        """A function like `text_place`, for many characters of one text, which is traversed only once."""
        if self.children:
            return self.text_place
        text, offsets = self._markup.document.text, array("L")
        begin = position = self._tag_end()
        if text.startswith(self.text + "<", begin):  # only the characters themselves
            return lambda offset: self._markup.document.place(begin + offset)
        for _ in range(len(self.text) + 1):
            position = _walk(text, position, 0, _TEXT_PIECE)
            offsets.append(position)
            position = _walk(text, position, 1, _TEXT_PIECE)
        return lambda offset: self._markup.document.place(offsets[min(offset, len(offsets) - 1)])

    def walk(self) -> Iterator[XmlNode]:
        """The node and everything within it, in file order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def xml(self, *, all_namespaces: bool = False) -> bytes:
        """The node as written, in UTF-8, with the namespaces it uses declared, so that it is self-contained.

        With `all_namespaces` all those in scope are declared, since patterns within it may use them.
        """
        prefixes = set(self.namespaces) - self._markup.declared
        if not all_namespaces:
            prefixes &= set().union(*(node._markup.prefixes for node in self.walk()))
        declarations = ""
        for prefix in sorted(prefixes):
            uri = escape(self.namespaces[prefix]).replace("\n", "&#10;").replace("\t", "&#9;")
            declarations += f' xmlns{":" if prefix else ""}{prefix}="{uri}"'
        written = self._markup.document.utf8[self._markup.start : self._markup.end]
        name = _NAME.match(written)
        at = name.end() if name else 0
        return written[:at] + declarations.encode() + written[at:]

    def _tag_end(self) -> int:
        """The offset of the first character after the start tag."""
        text, start = self._markup.document.text, self._markup.document.offset(self._markup.start)
        tag = _START_TAG.match(text, start)
        return tag.end() if tag else start

    def _written(self) -> Iterator[tuple[str, int]]:
        """Each attribute's name, and the offset of its value, read from the start tag."""
        text, start = self._markup.document.text, self._markup.document.offset(self._markup.start)
        for written in _ATTRIBUTE.finditer(text, start, self._tag_end()):
            prefix, colon, local = written[1].rpartition(":")
            yield (f"{{{self.namespaces.get(prefix, '')}}}{local}" if colon else local), written.start(3)


_NAME = re.compile(rb"<[^\s/>]+")
_START_TAG = re.compile(r"""<[^\s/>]+(?:[^>"']|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE = re.compile(r"""\s([^\s=/>"'<]+)\s*=\s*(["'])(.*?)\2""", re.DOTALL)
_VALUE_PIECE = re.compile(r"(?P<skipped>(?!))|&[^;]*;|\r\n|.", re.DOTALL)
_TEXT_PIECE = re.compile(
    r"(?P<skipped><!\[CDATA\[|\]\]>|<!--.*?-->|<\?.*?\?>)|&[^;]*;|\r\n|[^<]", re.DOTALL
)  # stops at a tag


class _Walked(NamedTuple):
    """An offset, and the number of characters left to go from there."""

    position: int
    left: int


def _walk(text: str, position: int, count: int, piece: re.Pattern[str]) -> int:
    """The offset after `count` characters as counted by XML: a reference is one, comments are none."""
    return _walked(text, position, count, piece).position


def _walked(text: str, position: int, count: int, piece: re.Pattern[str]) -> _Walked:
    """Walk likewise, and also return how many characters are left if a tag comes first."""
    while True:
        match = piece.match(text, position)
        if match is None or (count <= 0 and match["skipped"] is None):
            return _Walked(position, count)
        count -= match["skipped"] is None
        position = match.end()


class _Document:
    """A text being read, as characters and as the bytes in which expat counts."""

    def __init__(self, source: Source) -> None:
        self.text = source.xml_text
        self.utf8 = self.text.encode("utf-8", "surrogatepass")
        self.place = source.place
        self._ascii = len(self.utf8) == len(self.text)

    def offset(self, byte: int) -> int:
        """The offset in characters for an offset in bytes."""
        return byte if self._ascii else len(self.utf8[:byte].decode("utf-8", "replace"))


def read_xml(source: Source) -> XmlNode:
    """The root of an XML text. Raises DefinitionError with the place if it is not well formed."""
    if len(source.data) > MAX_BYTES:
        raise source.error(f"expected at most {MAX_BYTES:,} bytes, found {len(source.data):,}")
    return _XmlReader(source).read()


_ERRORS = expat.errors
_HINTS = {
    _ERRORS.codes[_ERRORS.XML_ERROR_UNDEFINED_ENTITY]: (
        "an entity that XML does not know; write the character (there are &lt; &gt; &amp; &apos; &quot;)"
    ),
    _ERRORS.codes[_ERRORS.XML_ERROR_UNBOUND_PREFIX]: (
        'a prefix that is not declared; declare it with xmlns:PREFIX="…" here or on an outer element'
    ),
    _ERRORS.codes[_ERRORS.XML_ERROR_DUPLICATE_ATTRIBUTE]: "an attribute is given twice; remove one",
    _ERRORS.codes[_ERRORS.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]: (
        "something follows the end of the root element; a file has one root"
    ),
    _ERRORS.codes[_ERRORS.XML_ERROR_INVALID_TOKEN]: (
        "a character that cannot be here; write & as &amp; and < as &lt;, and put values in quotes"
    ),
}


class _XmlReader:
    """A maker of nodes from expat's events."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._document = _Document(source)
        self._open: list[XmlNode] = []
        self._texts: list[list[str]] = []
        self._root: XmlNode | None = None
        self._count = 0
        self._declared: dict[str, str] = {}
        self._parser = parser = expat.ParserCreate("utf-8", "\x1f")
        parser.namespace_prefixes = True
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartNamespaceDeclHandler = self._declare
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def read(self) -> XmlNode:
        """Parse the text, and return the root."""
        try:
            self._parser.Parse(self._document.utf8, True)
        except expat.ExpatError as error:
            line, column = self._source.shifted(error.lineno - 1, error.offset)
            raise self._source.error(self._complaint(error.code), line, column) from None
        assert self._root is not None  # expat has no document without a root
        return self._root

    def _complaint(self, code: int) -> str:
        if not self._document.utf8.strip():
            return "expected an XML element, found an empty file"
        inner = self._open[-1] if self._open else None
        word = expat.ErrorString(code) or "it cannot be read"
        if inner is not None:
            opened = f"<{inner.tag.rpartition('}')[2]}> of line {inner.line}"
            if word == _ERRORS.XML_ERROR_TAG_MISMATCH:
                return f"not well-formed XML: expected the end of {opened}, found another end tag"
            if word in (_ERRORS.XML_ERROR_NO_ELEMENTS, _ERRORS.XML_ERROR_UNCLOSED_TOKEN):
                return f"not well-formed XML: the file ends within {opened}"
        return f"not well-formed XML: {_HINTS.get(code, word)}"

    def _refuse(self, message: str) -> None:
        line, column = self._here()
        raise self._source.error(message, line, column)

    def _here(self) -> tuple[int, int]:
        parser = self._parser
        return self._source.shifted(parser.CurrentLineNumber - 1, parser.CurrentColumnNumber)

    def _doctype(self, *_: object) -> None:
        self._refuse("a DOCTYPE is not accepted; remove it and write its entities out")

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        self._declared[prefix or ""] = uri or ""

    def _start(self, name: str, attributes: list[str]) -> None:
        self._count += 1
        if len(self._open) >= MAX_DEPTH:
            self._refuse(f"elements are nested deeper than {MAX_DEPTH} levels")
        if self._count > MAX_NODES:
            self._refuse(f"expected at most {MAX_NODES:,} elements in a file")
        tag, prefix = _expanded(name)
        markup = _Markup(self._document, self._parser.CurrentByteIndex)
        markup.prefixes.add(prefix)
        node = XmlNode(markup, tag, *self._here())
        for key, value in zip(attributes[::2], attributes[1::2], strict=True):
            expanded, prefix = _expanded(key)
            node.attributes[expanded] = value
            if prefix:
                markup.prefixes.add(prefix)
        self._scope(node)
        if self._open:
            self._open[-1].children.append(node)
        else:
            self._root = node
        self._open.append(node)
        self._texts.append([])

    def _scope(self, node: XmlNode) -> None:
        outer = self._open[-1].namespaces if self._open else {}
        if self._declared:
            merged = {**outer, **self._declared}
            node.namespaces = {prefix: uri for prefix, uri in merged.items() if uri}
            node._markup.declared = frozenset(self._declared)
            self._declared = {}
        else:
            node.namespaces = outer

    def _text(self, text: str) -> None:
        self._texts[-1].append(text)

    def _end(self, _: str) -> None:
        node = self._open.pop()
        node.text = "".join(self._texts.pop())
        utf8, end = self._document.utf8, self._parser.CurrentByteIndex
        bare = not node.children and not node.text and utf8[end - 2 : end] == b"/>"
        node._markup.end = end if bare else utf8.index(b">", end) + 1


def _expanded(name: str) -> tuple[str, str]:
    """An expat name in `{namespace}local` form, and the prefix it was written with."""
    uri, separator, rest = name.partition("\x1f")
    if not separator:
        return name, ""
    local, _, prefix = rest.partition("\x1f")
    return f"{{{uri}}}{local}", prefix
