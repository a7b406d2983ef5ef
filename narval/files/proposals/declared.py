"""The elements that a proposal declares: a block of lines in `data/memory.xml`, identified by its text."""

from __future__ import annotations

from pathlib import Path

from narval.core.elements.canonical import elements_of
from narval.core.errors import RequestError
from narval.files.memory_file import SHOWN as DECLARED
from narval.files.proposals.altering import text_at

EMPTY = '<?xml version="1.0" encoding="utf-8"?>\n<memory>\n</memory>\n'
"""The file of a home that declares nothing."""


def block_of(name: str, memory: str) -> str:
    """The lines that the `memory.xml` of a proposal adds to that of the home."""
    elements = elements_of(memory.encode("utf-8", "replace"))
    return f"  <!-- proposal {name} -->\n" + "".join(f"  {xml.decode()}\n" for xml in elements)


def with_elements(home: Path, name: str, memory: str) -> str:
    """The text of `data/memory.xml` with the elements of a proposal. Raises RequestError if it has no end."""
    written = text_at(home, DECLARED)
    head, end, tail = (EMPTY if written is None else written).rpartition("</memory>")
    if not end:
        raise RequestError(f"{DECLARED}: expected </memory> at its end, found none; write it there first")
    return f"{head}{block_of(name, memory)}{end}{tail}"


def without_elements(home: Path, name: str, memory: str) -> str:
    """The text of `data/memory.xml` without them. Raises RequestError if it no longer has them."""
    written = text_at(home, DECLARED) or ""
    block = block_of(name, memory)
    if block not in written:
        raise RequestError(f"{DECLARED} no longer has what {name} added to it; remove that by hand")
    return written.replace(block, "", 1)
