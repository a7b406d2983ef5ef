"""Documents that a command is given, and the line that says how far it is."""

from __future__ import annotations

import io
import sys

import pytest

from narval.core.elements.canonical import MAX_STARTED
from narval.core.errors import ElementError
from narval.surfaces.cli import documents
from narval.surfaces.cli.documents import Progress, batches, documents_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "told"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_long_wait_is_told_of_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, told: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(documents, "PATIENCE", -1.0)
    with Progress() as progress:
        assert documents_of([io.BytesIO(b"<a/>")], progress) == [b"<a/>"]
        progress.show("adding\x1b[2J")
    lines = stream.getvalue().split("\r")
    assert ("read 0 MB of <stdin> …" in lines, "adding\\x1b[2J …" in lines) == (told, told)
    assert not told or lines[-1] == ""  # the line is taken back


def test_what_is_quick_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(documents, "PATIENCE", 1e9)
    with Progress() as progress:
        progress.show("adding")
    assert stream.getvalue() == ""


def test_documents_go_into_as_few_requests_as_they_fit_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "ROOM", 10)
    assert list(batches([b"12345", b"12345", b"1", b"1234567890", b"1"])) == [
        [b"12345", b"12345"], [b"1"], [b"1234567890"], [b"1"],
    ]  # fmt: skip


def test_a_document_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = io.BytesIO(b"<a>" + b"x" * (documents.ROOM + 2 * documents.CHUNK))
    with pytest.raises(ElementError, match="<stdin>"):
        documents_of([endless])
    assert endless.tell() <= documents.ROOM + 1


def test_so_many_documents_go_into_one_request_as_may_begin_a_run_each() -> None:
    sizes = [len(batch) for batch in batches([b"<a/>"] * (2 * MAX_STARTED + 1))]
    assert sizes == [MAX_STARTED, MAX_STARTED, 1]
