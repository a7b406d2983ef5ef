"""Source: a text with a path and a digest, which gives every error its line and column.

`read_xml` reads XML into nodes that know their place, down to the characters of an attribute's value, which
lxml cannot tell. It accepts what definitions need and nothing else: no DTD, no entities but the five of XML,
bounded depth and size. Lines and columns count from 1, in characters.
"""

from __future__ import annotations

import bisect
import codecs
import hashlib
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from xml.parsers import expat

from narval.errors import DefinitionError, Fault

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 200
MAX_NODES = 1_000_000

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BARE_WIDE = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_NOT_FOR_FILES = {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"}
_XML_ENCODING = re.compile(rb"""(?:#![^\n]*)?\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([^"'>]*)["']""")
_PYTHON_ENCODING = re.compile(rb"\A(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")
_NOT_XML = re.compile(r"(?:#![^\r\n]*)?\s*(?:<\?xml\s[^>]*\?>)?")
_PROGRAM_LINE = re.compile(rb"#![^\n]*\s*<")
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Source:
    """The bytes of a file, or of a text within one that begins at `line` and `column`.

    `encoding` overrides what the bytes say of themselves: a text that was a string already is UTF-8 here.
    """

    path: str
    data: bytes
    encoding: str | None = None
    line: int = 1
    column: int = 1

    @classmethod
    def of_text(cls, path: str, text: str, line: int = 1, column: int = 1) -> Source:
        """A text that needs no decoding, whatever encoding it declares."""
        return cls(path, text.encode("utf-8", "surrogatepass"), "utf-8", line, column)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def text(self) -> str:
        """The characters: by byte order mark, else as declared, else UTF-8. Raises DefinitionError."""
        skipped, encoding = self._encoding()
        try:
            return self.data[skipped:].decode(encoding)
        except UnicodeDecodeError as error:
            before = self.data[skipped : skipped + error.start].decode(encoding, "replace")
            line, column = _end(before, self)
            raise DefinitionError(
                [
                    self.fault(
                        f"expected {encoding} text, found the byte 0x{self.data[skipped + error.start]:02x}; "
                        f"save the file as UTF-8, or declare the encoding it has",
                        line,
                        column,
                    )
                ]
            ) from None

    @cached_property
    def xml_text(self) -> str:
        """The text with blanks for its XML declaration, and for the line before it by which a system knows
        what runs the file: both have done their work. All places stay.
        """
        found = _NOT_XML.match(self.text)
        head = found[0] if found is not None else ""
        return re.sub(r"[^\r\n]", " ", head) + self.text[len(head) :] if head.strip() else self.text

    @cached_property
    def _lines(self) -> list[int]:
        """The offset of each line's first character."""
        return [0, *(newline.end() for newline in _NEWLINE.finditer(self.text))]

    def fault(self, message: str, line: int = 1, column: int = 1) -> Fault:
        """One thing wrong in this text."""
        return Fault(self.path, line, column, message)

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of a character of the text."""
        line = bisect.bisect_right(self._lines, offset) - 1
        return self.shifted(line, offset - self._lines[line])

    def offset(self, line: int) -> int:
        """The offset of the first character of a line of the text (from 1), or of the end if it has fewer."""
        return self._lines[line - 1] if line <= len(self._lines) else len(self.text)

    def shifted(self, line: int, column: int) -> tuple[int, int]:
        """A line and column of the text, both counted from 0, as those of the file it is from."""
        return self.line + line, column + (self.column if line == 0 else 1)

    def _encoding(self) -> tuple[int, str]:
        if self.encoding is not None:
            return 0, self.encoding
        for mark, encoding in _BOMS:
            if self.data.startswith(mark):
                return len(mark), encoding
        for start, encoding in _BARE_WIDE:
            if self.data.startswith(start):
                return 0, encoding
        is_xml = self.data.lstrip().startswith(b"<") or _PROGRAM_LINE.match(self.data)
        pattern = _XML_ENCODING if is_xml else _PYTHON_ENCODING
        declared = pattern.match(self.data)
        return 0, self._known(declared) if declared else "utf-8"

    def _known(self, declared: re.Match[bytes]) -> str:
        name = declared[1].decode("ascii", "replace")
        line, column = _end(self.data[: declared.start(1)].decode("latin-1"), self)
        try:
            known = codecs.lookup(name).name
            "".encode(known)
        except (LookupError, ValueError):
            known = "undefined"
        if known.replace("_", "-") in _NOT_FOR_FILES:
            raise DefinitionError(
                [self.fault(f"unknown encoding {name!r}; save the file as UTF-8", line, column)]
            )
        if known.startswith(("utf-16", "utf-32")):
            raise DefinitionError(
                [
                    self.fault(
                        f"the file says it is {name}, but it is not; remove the declaration", line, column
                    )
                ]
            )
        return known


class Node:
    """An XML element that knows its place. Names are local, or `{namespace}local`.

    `text` is the text directly within it; `namespaces` the prefixes in scope, as XPath needs them.
    """

    __slots__ = (
        "_declared",
        "_document",
        "_end",
        "_prefixes",
        "_start",
        "attributes",
        "children",
        "column",
        "line",
        "namespaces",
        "tag",
        "text",
    )

    def __init__(self, document: _Document, tag: str, start: int, line: int, column: int) -> None:
        self.tag = tag
        self.attributes: dict[str, str] = {}
        self.text = ""
        self.children: list[Node] = []
        self.line, self.column = line, column
        self.namespaces: Mapping[str, str] = {}
        self._document = document
        self._start = self._end = start
        self._prefixes: set[str] = set()
        self._declared: frozenset[str] = frozenset()

    def place(self, attribute: str, offset: int = 0) -> tuple[int, int]:
        """Where the value of an attribute is, or a character of it; where the tag is, if there is none."""
        for name, start in self._written():
            if name == attribute:
                return self._document.place(_walk(self._document.text, start, offset, _VALUE_PIECE))
        return self.line, self.column

    def text_place(self, offset: int = 0) -> tuple[int, int]:
        """Where a character of the text is, or the first thing within the element that is not text."""
        inside = self._tag_end()
        return self._document.place(_walk(self._document.text, inside, offset, _TEXT_PIECE))

    def text_places(self) -> Callable[[int], tuple[int, int]]:
        """`text_place` for many characters of one text, which is walked through once."""
        text, offsets = self._document.text, array("L")
        begin = position = self._tag_end()
        if text.startswith(self.text + "<", begin):  # nothing but the characters themselves
            return lambda offset: self._document.place(begin + offset)
        for _ in range(len(self.text) + 1):
            position = _walk(text, position, 0, _TEXT_PIECE)
            offsets.append(position)
            position = _walk(text, position, 1, _TEXT_PIECE)
        return lambda offset: self._document.place(offsets[min(offset, len(offsets) - 1)])

    def walk(self) -> Iterator[Node]:
        """The element and all within it, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    def xml(self, *, all_namespaces: bool = False) -> bytes:
        """The element as it is written, made to stand alone: UTF-8, with the namespaces it uses declared.

        `all_namespaces` keeps those that it could use too, as patterns within it may.
        """
        used = (
            set(self.namespaces) if all_namespaces else set().union(*(each._prefixes for each in self.walk()))
        )
        wanted = sorted((used & set(self.namespaces)) - self._declared)
        declarations = "".join(
            f" xmlns{':' if prefix else ''}{prefix}={_quoted(self.namespaces[prefix])}" for prefix in wanted
        )
        written = self._document.utf8[self._start : self._end]
        name = _NAME.match(written)
        at = name.end() if name else 0
        return written[:at] + declarations.encode() + written[at:]

    def _tag_end(self) -> int:
        """The offset of the first character after the start tag."""
        text, start = self._document.text, self._document.offset(self._start)
        tag = _START_TAG.match(text, start)
        return tag.end() if tag else start

    def _written(self) -> Iterator[tuple[str, int]]:
        """Each attribute's name, and the offset of its value, read from the start tag."""
        text, start = self._document.text, self._document.offset(self._start)
        for each in _ATTRIBUTE.finditer(text, start, self._tag_end()):
            prefix, colon, local = each[1].rpartition(":")
            yield (f"{{{self.namespaces.get(prefix, '')}}}{local}" if colon else local), each.start(3)


_NAME = re.compile(rb"<[^\s/>]+")
_START_TAG = re.compile(r"""<[^\s/>]+(?:[^>"']|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE = re.compile(r"""\s([^\s=/>"'<]+)\s*=\s*(["'])(.*?)\2""", re.DOTALL)
_VALUE_PIECE = re.compile(r"(?P<skipped>(?!))|&[^;]*;|\r\n|.", re.DOTALL)
_TEXT_PIECE = re.compile(
    r"(?P<skipped><!\[CDATA\[|\]\]>|<!--.*?-->|<\?.*?\?>)|&[^;]*;|\r\n|[^<]", re.DOTALL
)  # stops at a tag


def _walk(text: str, position: int, count: int, piece: re.Pattern[str]) -> int:
    """The offset after `count` characters as XML reads them: references are one, comments none."""
    while True:
        found = piece.match(text, position)
        if found is None or (count <= 0 and found["skipped"] is None):
            return position
        count -= found["skipped"] is None
        position = found.end()


def _end(before: str, source: Source) -> tuple[int, int]:
    """The place in a source that comes after the text that is `before` it."""
    lines = _NEWLINE.split(before)
    return source.shifted(len(lines) - 1, len(lines[-1]))


class _Document:
    """A text being read, as characters and as the bytes that expat counts in."""

    def __init__(self, source: Source) -> None:
        self.text = source.xml_text
        self.utf8 = self.text.encode("utf-8", "surrogatepass")
        self.place = source.place
        self._ascii = len(self.utf8) == len(self.text)

    def offset(self, byte: int) -> int:
        """The offset in characters of an offset in bytes."""
        return byte if self._ascii else len(self.utf8[:byte].decode("utf-8", "replace"))


def read_xml(source: Source) -> Node:
    """The root of an XML text. Raises DefinitionError with the place where it is not well formed."""
    if len(source.data) > MAX_BYTES:
        raise DefinitionError(
            [source.fault(f"expected at most {MAX_BYTES:,} bytes, found {len(source.data):,}")]
        )
    return _Reader(source).read()


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


class _Reader:
    """Turns what expat hears into nodes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._document = _Document(source)
        self._open: list[Node] = []
        self._texts: list[list[str]] = []
        self._root: Node | None = None
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

    def read(self) -> Node:
        """The root."""
        try:
            self._parser.Parse(self._document.utf8, True)
        except expat.ExpatError as error:
            line, column = self._source.shifted(error.lineno - 1, error.offset)
            raise DefinitionError([self._source.fault(self._complaint(error.code), line, column)]) from None
        assert self._root is not None  # expat has no document without a root
        return self._root

    def _complaint(self, code: int) -> str:
        if not self._document.utf8.strip():
            return "expected an XML element, found an empty file"
        inner = self._open[-1] if self._open else None
        word = expat.ErrorString(code) or "it cannot be read"
        if inner is not None:
            opened = f"<{_shown(inner.tag)}> of line {inner.line}"
            if word == _ERRORS.XML_ERROR_TAG_MISMATCH:
                return f"not well-formed XML: expected the end of {opened}, found another end tag"
            if word in (_ERRORS.XML_ERROR_NO_ELEMENTS, _ERRORS.XML_ERROR_UNCLOSED_TOKEN):
                return f"not well-formed XML: the file ends within {opened}"
        return f"not well-formed XML: {_HINTS.get(code, word)}"

    def _refuse(self, message: str) -> None:
        line, column = self._here()
        raise DefinitionError([self._source.fault(message, line, column)])

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
        node = Node(self._document, tag, self._parser.CurrentByteIndex, *self._here())
        node._prefixes.add(prefix)
        for key, value in zip(attributes[::2], attributes[1::2], strict=True):
            expanded, prefix = _expanded(key)
            node.attributes[expanded] = value
            if prefix:
                node._prefixes.add(prefix)
        self._scope(node)
        if self._open:
            self._open[-1].children.append(node)
        else:
            self._root = node
        self._open.append(node)
        self._texts.append([])

    def _scope(self, node: Node) -> None:
        outer = self._open[-1].namespaces if self._open else {}
        if self._declared:
            merged = {**outer, **self._declared}
            node.namespaces = {prefix: uri for prefix, uri in merged.items() if uri}
            node._declared = frozenset(self._declared)
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
        node._end = end if bare else utf8.index(b">", end) + 1


def _expanded(name: str) -> tuple[str, str]:
    """A name as expat gives it, in `{namespace}local` form, and the prefix it was written with."""
    uri, separator, rest = name.partition("\x1f")
    if not separator:
        return name, ""
    local, _, prefix = rest.partition("\x1f")
    return f"{{{uri}}}{local}", prefix


def _quoted(value: str) -> str:
    for plain, reference in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;"), ("\n", "&#10;"), ("\t", "&#9;")):
        value = value.replace(plain, reference)
    return f'"{value}"'


def _shown(tag: str) -> str:
    return tag.rpartition("}")[2]
