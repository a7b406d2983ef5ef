"""The trial of schemas: a bounded child compiles each before it is compiled here (N7).

    python -m narval.files.schema_trial

A schema of forty lines can take gigabytes and minutes, and libxml2 blocks the interpreter for that time. One
child tries all the schemas of a folder; the outcomes are cached by digest.
"""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from lxml import etree

import narval
from narval.core.elements.canonical import parse_untrusted
from narval.core.errors import ElementError
from narval.system.memory_limit import bounded, peak_memory

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


class SchemaTrials:
    """The outcomes of trials by digest: the reason why a schema must not be compiled, or an empty text."""

    def __init__(self) -> None:
        self._outcomes: OrderedDict[str, str] = OrderedDict()

    def excess(self, schema: SchemaText, others: Iterable[SchemaText]) -> str:
        """The reason not to compile a schema, or an empty text; the same child tries `others`."""
        wanted = _digest(schema)
        if wanted not in self._outcomes:
            untried = {_digest(each): each for each in (schema, *others)}
            self._try({key: text for key, text in untried.items() if key not in self._outcomes})
        self._outcomes.move_to_end(wanted)
        return self._outcomes[wanted]

    def _try(self, schemas: dict[str, SchemaText]) -> None:
        """Have children try the schemas in order: each child ends at the first that takes too much time."""
        left = list(schemas)
        while left:
            outcomes, status = tried_by_child([schemas[key] for key in left])
            told = [_MEMORY if byte == ord(_TOO_LARGE) else "" for byte in outcomes]
            if len(told) < len(left):
                told.append(_TIME if status == -signal.SIGPROF else f"{_ENDED} (status {status}); {_CURE}")
            self._outcomes.update(zip(left, told, strict=False))
            left = left[len(told) :]
        while len(self._outcomes) > max(_MOST_REMEMBERED, len(schemas)):
            self._outcomes.popitem(last=False)


_CURE = "make its repetitions and references fewer, or move it away"
_TIME = f"it takes more than {SECONDS:g} s of the processor's time to compile; {_CURE}"
_ENDED = "the program that compiled it to try it ended"
_MEMORY = f"it takes more than {MEGABYTES} MB of memory to compile; {_CURE}"


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
