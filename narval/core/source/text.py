"""Source: a text with a path and a digest, which gives every error its line and column.

Lines and columns count from 1, in characters.
"""

from __future__ import annotations

import bisect
import codecs
import re
from dataclasses import dataclass
from functools import cached_property

from narval.core.errors import DefinitionError, Fault

SHIPPED = "<narval>"
"""The name shown to people for the place of files that ship with narval."""

_STARTS = (
    (codecs.BOM_UTF8, 3, "utf-8"),
    (codecs.BOM_UTF32_LE, 4, "utf-32-le"),
    (codecs.BOM_UTF32_BE, 4, "utf-32-be"),
    (codecs.BOM_UTF16_LE, 2, "utf-16-le"),
    (codecs.BOM_UTF16_BE, 2, "utf-16-be"),
    (b"<\0", 0, "utf-16-le"),
    (b"\0<", 0, "utf-16-be"),
)
"""The first bytes of a text, how many of them to skip, and the encoding."""
_NOT_FOR_FILES = {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"}
_XML_ENCODING = re.compile(rb"""(?:#![^\n]*)?\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([^"'>]*)["']""")
_PYTHON_ENCODING = re.compile(rb"\A(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")
_PROGRAM_LINE = re.compile(rb"#![^\n]*\s*<")
NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Source:
    """The bytes of a file, or of a text within one that starts at `line` and `column`.

    `encoding` overrides the declared encoding: a text that was a string is UTF-8 here.
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
        import hashlib  # a command that reads only settings needs no digest

        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def text(self) -> str:
        """The characters: by byte order mark, else as declared, else UTF-8. Raises DefinitionError."""
        skipped, encoding = self._encoding()
        try:
            return self.data[skipped:].decode(encoding)
        except UnicodeDecodeError as error:
            before = self.data[skipped : skipped + error.start].decode(encoding, "replace")
            line, column = end_of(before, self)
            message = (
                f"expected {encoding} text, found the byte 0x{self.data[skipped + error.start]:02x}; "
                f"save the file as UTF-8, or declare the encoding it has"
            )
            raise self.error(message, line, column) from None

    @cached_property
    def xml_text(self) -> str:
        """The text with its XML declaration, and a `#!` line before it, blanked out; places are unchanged."""
        match = NOT_XML.match(self.text)
        head = match[0] if match is not None else ""
        return re.sub(r"[^\r\n]", " ", head) + self.text[len(head) :] if head.strip() else self.text

    @cached_property
    def _lines(self) -> list[int]:
        """The offset of each line's first character."""
        return [0, *(newline.end() for newline in NEWLINE.finditer(self.text))]

    def fault(self, message: str, line: int = 1, column: int = 1) -> Fault:
        """A fault in this text."""
        return Fault(self.path, line, column, message)

    def error(self, message: str, line: int = 1, column: int = 1) -> DefinitionError:
        """The error of a text with a single fault."""
        return DefinitionError([self.fault(message, line, column)])

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of a character of the text."""
        line = bisect.bisect_right(self._lines, offset) - 1
        return self.shifted(line, offset - self._lines[line])

    def offset(self, line: int) -> int:
        """The offset of the first character of a line (from 1) of the text; its length for a later line."""
        return self._lines[line - 1] if line <= len(self._lines) else len(self.text)

    def shifted(self, line: int, column: int) -> tuple[int, int]:
        """Convert a line and column of the text, both counted from 0, to those of its file."""
        return self.line + line, column + (self.column if line == 0 else 1)

    def _encoding(self) -> tuple[int, str]:
        if self.encoding is not None:
            return 0, self.encoding
        for start, skipped, encoding in _STARTS:
            if self.data.startswith(start):
                return skipped, encoding
        is_xml = self.data.lstrip().startswith(b"<") or _PROGRAM_LINE.match(self.data)
        pattern = _XML_ENCODING if is_xml else _PYTHON_ENCODING
        declared = pattern.match(self.data)
        return 0, self._known(declared) if declared else "utf-8"

    def _known(self, declared: re.Match[bytes]) -> str:
        name = declared[1].decode("ascii", "replace")
        line, column = end_of(self.data[: declared.start(1)].decode("latin-1"), self)
        try:
            codec = codecs.lookup(name).name
            "".encode(codec)
        except (LookupError, ValueError):
            codec = "undefined"
        if codec.replace("_", "-") in _NOT_FOR_FILES:
            raise self.error(f"unknown encoding {name!r}; save the file as UTF-8", line, column)
        if codec.startswith(("utf-16", "utf-32")):
            message = f"the file says it is {name}, but it is not; remove the declaration"
            raise self.error(message, line, column)
        return codec


NOT_XML = re.compile(r"(?:#![^\r\n]*)?\s*(?:<\?xml\s[^>]*\?>)?")


def end_of(before: str, source: Source) -> tuple[int, int]:
    """The place in a source after the text `before` it."""
    lines = NEWLINE.split(before)
    return source.shifted(len(lines) - 1, len(lines[-1]))
