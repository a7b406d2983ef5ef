"""Schemas: `etc/schemas/NAME.rng` or `NAME.dtd` describes the elements of a name (N7).

    python -m narval.files.schemas         the child that tries schemas

The files are read at once, and compiled on first use, after a trial: a schema of forty lines can take
gigabytes and minutes, and libxml2 blocks the interpreter for that time. One bounded child tries all the
schemas of a folder; the outcomes are cached by digest. For an invalid file its last good version stays in
use; without one, elements of its name are refused, and the reason names the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from lxml import etree

import narval
from narval.core.elements.canonical import parse_untrusted, roots_of
from narval.core.elements.element import parse
from narval.core.errors import ElementError, Fault
from narval.files.found_files import names_in
from narval.system.memory_limit import bounded, peak_memory
from narval.system.regular_file import read_file, unexpected

SHOWN = "etc/schemas"
SUFFIXES = (".rng", ".dtd")
MAX_BYTES = 1024 * 1024

SECONDS, MEGABYTES = 1.0, 128
"""The most processor time and memory for one schema: it blocks the daemon."""

_ROOM = 4 * MEGABYTES * 2**20
"""The growth at which the child gets no more memory. It is above the limit, because libxml2 conceals that an
array could not grow; the memory used by then shows that the limit was exceeded."""

_MOST_REMEMBERED = 4_096
_PASSED, _TOO_LARGE = b".", b"m"
_RNG = "http://relaxng.org/ns/structure/1.0"

SchemaText = tuple[str, bytes]
"""The suffix of a schema's file, and its content."""

_CURE = "make its repetitions and references fewer, or move it away"
_TIME = f"it takes more than {SECONDS:g} s of the processor's time to compile; {_CURE}"
_ENDED = "the program that compiled it to try it ended"
_MEMORY = f"it takes more than {MEGABYTES} MB of memory to compile; {_CURE}"


class Schemas:
    """The schemas of a folder, by the local name of their elements; None: there are none.

    `before` are those of the previous reading: they have the last good version of every file. `shown` is the
    folder's path for people.
    """

    def __init__(
        self,
        folder: Path | None,
        before: Schemas | None = None,
        *,
        shown: str = SHOWN,
    ) -> None:
        self._shown = shown
        self._beneath: Schemas | None = None
        """The schemas for elements for which the folder has none."""
        self._names = dict(_files(folder)) if folder is not None else {}
        self._texts = {name: _text(path, f"{shown}/{path.name}") for name, path in self._names.items()}
        self._good = before._last_good() if before is not None else {}
        self._read: dict[str, Any] = {}
        self._faults: dict[str, Fault] = {}

    def over(self, beneath: Schemas) -> Schemas:
        """The same, with others for elements for which it has none."""
        made = copy(self)
        made._beneath = beneath
        return made

    @property
    def names(self) -> frozenset[str]:
        """The names of the elements with a schema."""
        return frozenset(self._names) | (self._beneath.names if self._beneath is not None else frozenset())

    @property
    def digest(self) -> str:
        """A digest of all schemas."""
        digest = hashlib.sha256(self._beneath.digest.encode() if self._beneath is not None else b"")
        for name, text in sorted(self._texts.items()):
            content = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
            digest.update(hashlib.sha256(os.fsencode(self._names[name].name)).digest())
            digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()

    def refusal(self, xml: bytes) -> str | None:
        """The reason for refusing an element, for people; None if it is accepted."""
        if not self._names:
            return self._beneath.refusal(xml) if self._beneath is not None else None
        fault = self._fault(parse(xml), xml)
        return None if fault is None else f"line {fault.line}, column {fault.column}: {fault.message}"

    def refusal_in(self, document: bytes, position: int) -> Fault | None:
        """The reason for refusing the element of that position in a document, with its place there."""
        return self._fault(roots_of(parse_untrusted(document))[position], document)

    def _fault(self, root: etree._Element, text: bytes) -> Fault | None:
        name = etree.QName(root).localname
        if name not in self._names:
            return self._beneath._fault(root, text) if self._beneath is not None else None
        schema = self._schema(name)
        if isinstance(schema, Fault):
            reason = f"the schema of {name!r} cannot be used ({schema}); correct it, or move it away"
            return Fault("", *_place(text, root.sourceline or 1), reason)
        return None if schema(root) else self._reason(schema, name, text)

    def faults(self) -> list[Fault]:
        """The faults of the schemas themselves; this compiles all of them."""
        for name in self._names:
            self._schema(name)
        return [self._faults[name] for name in sorted(self._faults)]

    def _last_good(self) -> dict[str, tuple[Path, bytes]]:
        """The versions to fall back on, by name: those in use."""
        self.faults()
        good = {name: self._good[name] for name in self._names if name in self._good}
        for name, text in self._texts.items():
            if name not in self._faults and isinstance(text, bytes):
                good[name] = self._names[name], text
        return good

    def _reason(self, schema: Any, name: str, text: bytes) -> Fault:
        """The first error of a log; its tag is searched for, as libxml2 reports no columns here."""
        reason = f"<{name}> is not valid by {self._shown}/{self._names[name].name}"
        for entry in schema.error_log:
            return Fault("", *_place(text, max(entry.line, 1)), f"{reason}: {entry.message}")
        return Fault("", 1, 1, reason)

    def _schema(self, name: str) -> Any:
        """The compiled schema of a name, which says if a root satisfies it; or the fault of the file."""
        if name not in self._read:
            made = self._compiled(self._names[name], self._texts[name])
            if isinstance(made, Fault):
                self._faults[name] = made
                if name in self._good:
                    made = self._compiled(*self._good[name])
            self._read[name] = made
        return self._read[name]

    def _compiled(self, path: Path, text: bytes | Fault) -> Any:
        if isinstance(text, Fault):
            return text
        place = f"{self._shown}/{path.name}"
        try:
            excess = _TRIALS.excess((path.suffix, text), self._all_texts())
            return Fault(place, 1, 1, excess) if excess else compiled(path.suffix, text)
        except ElementError as error:
            return Fault(place, max(error.line, 1), max(error.column, 1), error.message)
        except OSError as error:
            return Fault(place, 1, 1, f"cannot be tried in a program of its own: {error.strerror}")
        except Exception as error:
            return unexpected(place, error)

    def _all_texts(self) -> Iterator[SchemaText]:
        """The texts of all files, with the versions to fall back on."""
        yield from ((path.suffix, text) for path, text in self._good.values())
        for name, text in self._texts.items():
            if isinstance(text, bytes):
                yield self._names[name].suffix, text


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The schemas by element name; a `.rng` takes precedence over a `.dtd` of the same name."""
    for suffix in reversed(SUFFIXES):
        for name in names_in(folder):
            if name.endswith(suffix) and not name.startswith("."):
                yield name.removesuffix(suffix), folder / name


def _text(path: Path, place: str) -> bytes | Fault:
    """The content of a file of the folder, or the fault that it cannot be read."""
    read = read_file(path, place, MAX_BYTES)
    return read if isinstance(read, Fault) else read.data


_TAG = re.compile(rb"""<[^\s<>!?/](?:[^<>"']|"[^"<]*"|'[^'<]*')*>""")
_NEAR = 16_384
"""Bytes before a line to search for a tag that reaches it."""


def _place(text: bytes, line: int) -> tuple[int, int]:
    """The line and column of the tag that covers a line: libxml2 only reports the lines where tags end."""
    begin = 0
    for _ in range(line - 1):
        begin = text.find(b"\n", begin) + 1
    end = text.find(b"\n", begin)
    near = max(0, begin - _NEAR)
    for tag in _TAG.finditer(text, near, len(text) if end < 0 else end + _NEAR):
        if tag.end() > begin:
            column = len(text[text.rfind(b"\n", 0, tag.start()) + 1 : tag.start()].decode("utf-8", "replace"))
            return line - text.count(b"\n", tag.start(), begin), column + 1
    return line, 1


# --- trials -----------------------------------------------------------------------------------------------


class SchemaTrials:
    """The outcomes of trials by digest: the reason why a schema must not be compiled, or an empty text."""

    def __init__(self) -> None:
        self._outcomes: OrderedDict[str, str] = OrderedDict()

    def excess(self, schema: SchemaText, others: Iterable[SchemaText]) -> str:
        """The reason not to compile a schema, or an empty text; the same child tries `others`."""
        digest = _digest(schema)
        if digest not in self._outcomes:
            untried = {_digest(each): each for each in (schema, *others)}
            self._try({key: text for key, text in untried.items() if key not in self._outcomes})
        self._outcomes.move_to_end(digest)
        return self._outcomes[digest]

    def _try(self, schemas: dict[str, SchemaText]) -> None:
        """Have children try the schemas in order: each child ends at the first that takes too much time."""
        left = list(schemas)
        while left:
            outcomes, status = tried_by_child([schemas[key] for key in left])
            reasons = [_MEMORY if byte == ord(_TOO_LARGE) else "" for byte in outcomes]
            if len(reasons) < len(left):
                reasons.append(_TIME if status == -signal.SIGPROF else f"{_ENDED} (status {status}); {_CURE}")
            self._outcomes.update(zip(left, reasons, strict=False))
            left = left[len(reasons) :]
        while len(self._outcomes) > max(_MOST_REMEMBERED, len(schemas)):
            self._outcomes.popitem(last=False)


_TRIALS = SchemaTrials()


def _digest(schema: SchemaText) -> str:
    suffix, text = schema
    return hashlib.sha256(text).hexdigest() + suffix


def tried_by_child(schemas: Sequence[SchemaText]) -> tuple[bytes, int]:
    """A child's answer about schemas, a byte for each, and its exit status."""
    child = subprocess.run(
        [sys.executable, "-m", __name__],
        input=msgspec.msgpack.encode(schemas),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(narval.__file__).parent.parent,
        check=False,
    )
    return child.stdout[: len(schemas)], child.returncode


# --- compiling --------------------------------------------------------------------------------------------


def compiled(suffix: str, text: bytes) -> Any:
    """The compiled schema of a text, which says if a root satisfies it. Raises ElementError."""
    return _relax_ng(text) if suffix == ".rng" else _dtd(text)


def _relax_ng(data: bytes) -> etree.RelaxNG:
    root = parse_untrusted(data)
    for outside in root.iter(f"{{{_RNG}}}include", f"{{{_RNG}}}externalRef"):
        what = etree.QName(outside).localname
        message = f"a schema is one file: {what} is not followed"
        raise ElementError("invalid", message, outside.sourceline or 1)
    try:
        return etree.RelaxNG(root)
    except etree.RelaxNGError as error:
        line = next((entry.line for entry in error.error_log if entry.line > 0), 1)
        raise ElementError("invalid", f"not a RELAX NG schema: {error}", line) from None


def _dtd(data: bytes) -> etree.DTD:
    # an external entity of a DTD would be a file or an address that is read while the schema is
    outside = re.search(rb"<!ENTITY\s[^>]*\b(?:SYSTEM|PUBLIC)\b", data)
    if outside is not None:
        line = data.count(b"\n", 0, outside.start()) + 1
        raise ElementError("invalid", "a schema is one file: external entities are not followed", line)
    try:
        return etree.DTD(BytesIO(data))
    except etree.DTDParseError as error:
        entries = [entry for entry in error.error_log if entry.line > 0]
        place = (entries[0].line, entries[0].column) if entries else (1, 1)
        raise ElementError("invalid", f"not a DTD: {error}", *place) from None


# --- the child --------------------------------------------------------------------------------------------


def main() -> None:
    """Compile the given schemas, each within its limits; the system ends one that takes too much time."""
    for suffix, text in msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[SchemaText]):
        before = peak_memory()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        with bounded(_ROOM), suppress(ElementError, MemoryError):
            schema = compiled(suffix, text)
            if suffix == ".dtd":  # libxml2 compiles a content model when it meets the first element
                for declared in schema.iterelements():
                    schema.validate(etree.Element(declared.name))
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown = peak_memory() - before
        sys.stdout.buffer.write(_TOO_LARGE if grown > MEGABYTES * 2**20 else _PASSED)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
