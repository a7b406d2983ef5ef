"""Documents given to a command: read with a line of progress; a refusal names the file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

import click

from narval.ask.text import clean
from narval.core.errors import ElementError

ROOM = 24 * 1024 * 1024
"""The most bytes of documents in one request, which adds all or none."""

MOST = 2_000
"""The most documents in one request, each of which may begin a run."""

CHUNK = 1024 * 1024

PATIENCE = 1.0
"""Seconds before progress is shown."""


class DocumentFile(click.File):
    """A file of XML, or - for standard input; literal XML is refused with advice on how to give it."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> IO[Any]:
        """The file, opened. Raises click.BadParameter."""
        if isinstance(value, str) and value.lstrip().startswith("<"):
            self.fail(
                "expected a file, or - for standard input, got XML: echo '<…/>' | narval … -", param, context
            )
        return super().convert(value, param, context)


class Progress:
    """A line of progress on the terminal, for work that takes long; elsewhere nothing is shown."""

    def __init__(self) -> None:
        self._shown, self._since = "", time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show(self, work: str) -> None:
        """Show the current work, if `PATIENCE` has passed."""
        if time.monotonic() - self._since > PATIENCE and sys.stderr is not None and sys.stderr.isatty():
            self.clear()
            self._shown = f"{clean(work)} …"
            print(self._shown, end="", file=sys.stderr, flush=True)  # noqa: T201 - taken back by `clear`

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            print(f"\r{' ' * len(self._shown)}\r", end="", file=sys.stderr, flush=True)  # noqa: T201
            self._shown = ""


def documents_of(files: Sequence[BinaryIO], progress: Progress | None = None) -> list[bytes]:
    """The contents of the files. Raises ElementError for one that is too large, before reading it all."""
    documents: list[bytes] = []
    for file in files:
        documents.append(_read(file, progress))
        if len(documents[-1]) > ROOM:
            from narval.core.elements.canonical import elements_of

            with naming([file], documents[-1:]):
                elements_of(documents[-1])
    return documents


def _read(file: BinaryIO, progress: Progress | None) -> bytes:
    """The content of a file; of one that is too large, its first ROOM + 1 bytes."""
    read = bytearray()
    while len(read) <= ROOM and (more := file.read(min(CHUNK, ROOM + 1 - len(read)))):
        read += more
        if progress is not None:
            progress.show(f"read {len(read) / 1e6:.0f} MB of {_name(file)}")
    return bytes(read)


def batches(documents: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The documents, grouped into as few requests as possible."""
    batch: list[bytes] = []
    size = 0
    for document in documents:
        if batch and (size + len(document) > ROOM or len(batch) == MOST):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document)
    yield batch


@contextmanager
def naming(files: Sequence[BinaryIO], documents: Sequence[bytes]) -> Iterator[None]:
    """Put the name of the file in front of a refusal."""
    try:
        yield
    except ElementError as error:
        name, place, text = _culprit(files, documents), f"{error.line}:{error.column}:", str(error)
        joint = ":" if text.startswith(place) else ": "
        raise ElementError(error.kind, f"{name}{joint}{text}", error.line, error.column) from None


def _culprit(files: Sequence[BinaryIO], documents: Sequence[bytes]) -> str:
    if len(files) > 1:
        from narval.core.elements.canonical import elements_of

        for file, document in zip(files, documents, strict=True):
            try:
                elements_of(document)
            except ElementError:
                return _name(file)
        return "one of " + ", ".join(map(_name, files))
    return _name(files[0])


def _name(file: BinaryIO) -> str:
    """The name of a file; an inherited input has a number or nothing as its name."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "<stdin>"
