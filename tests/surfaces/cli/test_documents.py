"""Documents that a command is given, and the line that says how far it is."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from narval.core.elements.canonical import MAX_STARTED
from narval.core.errors import ElementError, UnansweredError
from narval.surfaces.cli import documents
from narval.surfaces.cli.documents import Progress, batches, documents_of
from narval.surfaces.cli.without_daemon import HomeView, RecordOnlyHome
from tests.surfaces.cli.command_line import NAME, data, make_home, narval, well


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


def test_what_is_not_answered_may_be_recorded_and_has_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path)

    def ended(*_: object, **__: object) -> None:
        raise UnansweredError("the daemon ended before it answered")

    monkeypatch.setattr(RecordOnlyHome, "ask", ended)
    monkeypatch.setattr(HomeView, "ask", ended)
    added = narval(home, "add", "-", given="<a/>")
    assert (added.exit_code, "may be recorded: look (narval memory" in added.stderr) == (4, True)
    again = narval(home, "add", "-", "--key", "7", given="<a/>")
    assert (again.exit_code, "ask again with the same --key: it is done once" in again.stderr) == (4, True)
    assert narval(home, "memory").exit_code == 3


def test_a_request_with_a_key_is_done_once_also_by_the_next_daemon(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    ask = ("add", "-", "--key", "n=2")
    first = well(home, *ask, given="<memory><a/><b/></memory>")
    assert well(home, *ask, given="<memory><a/><b/></memory>") == first
    assert first != well(home, "add", "-", "--key", "n=3", given="<memory><a/><b/></memory>")
    run = well(home, "start", "demo.await", "--key", "n=2")
    assert well(home, "start", "demo.await", "--key", "n=2") == run
    assert well(home, "start", "demo.slow", "--key", "n=2") != run
    assert len(data(home, "memory", "a")) == 2
    refused = narval(home, "start", "demo.greet", "-", "--each", "--key", "n=4", given=NAME)
    assert (refused.exit_code, "a key is for one run" in refused.stderr) == (1, True)


def test_so_many_documents_go_into_one_request_as_may_begin_a_run_each() -> None:
    sizes = [len(batch) for batch in batches([b"<a/>"] * (2 * MAX_STARTED + 1))]
    assert sizes == [MAX_STARTED, MAX_STARTED, 1]
