"""Notify: what is told of a failure, and by which ways (docs/reference/modules/notify.md)."""

from __future__ import annotations

import asyncio
import email
import email.policy
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from modules import notify
from narval.calls.context import CallContext
from narval.core.elements.element import Element
from narval.core.errors import ActionError
from tests.acceptance.home import until
from tests.programs import is_at_work

DAY = datetime(2026, 11, 2, 23, 59, tzinfo=UTC).timestamp()
FAILURE = b"<failure run='12' name='w.r' step='s' type='dark' error='11'>the &lt;lamp&gt; is out</failure>"
NOTICE = Element(3, b"<notice run='12' subject='narval: w.r failed'>Run 12 &lt;b&gt; failed</notice>")
FAKE = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word" >> "$(dirname "$0")/told"; done
"""


def noted(xml: bytes = FAILURE, at: float = DAY) -> Element:
    failure = Element(13, xml)
    failure.enter(13, at, None)
    made = notify.note(failure)
    return Element(14, notify.etree.tostring(made))


def told(way: str, *more: Element, home: Path | None = None, notice: Element = NOTICE) -> Element:
    """The element that says it was told; raises what the action raises."""

    def tell() -> bytes:
        given = asyncio.run(notify.tell(notice, Element(4, way.encode()), *more))
        return bytes(notify.etree.tostring(given))

    return Element(5, CallContext("home/run-7/tell/1", 7, "tell", home).context().run(tell))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH but for the shell's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setattr(notify.shutil, "which", lambda name: (folder / name).exists())
    return folder


def fake(folder: Path, name: str, text: str = FAKE) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_a_cause_is_name_step_and_type_within_a_day() -> None:
    first = noted().attributes
    assert first["subject"] == "narval: w.r failed"
    assert noted().text == "Run 12 of w.r failed in step s: dark: the <lamp> is out"
    assert noted(at=DAY - 80_000).attributes["once"] == first["once"]
    assert noted(at=DAY + 60).attributes["once"] != first["once"], "the next day"
    for other in (b"w.r2", b"w.r"), (b"'t'", b"'s'"), (b"wet", b"dark"):
        assert noted(FAILURE.replace(other[1], other[0])).attributes["once"] != first["once"]
    assert noted(FAILURE.replace(b"is out", b"is gone")).attributes["once"] == first["once"]
    assert noted(b"<failure run='12' name='w.r'/>").text == "Run 12 of w.r failed: no reason is known:"


def test_a_desktop_notice_goes_by_notify_send_or_by_the_bus_itself(programs: Path) -> None:
    with pytest.raises(ActionError, match="neither notify-send nor busctl") as none:
        told("<notify way='desktop'/>")
    assert none.value.final
    fake(programs, "busctl")
    told("<notify way='desktop'/>")
    asked = (programs / "told").read_text().split("\n")
    assert asked[5:12] == ["Notify", "susssasa{sv}i", "--", "narval", "0", "", "narval: w.r failed"]
    fake(programs, "notify-send")
    (programs / "told").unlink()
    assert told("<notify way='desktop'/>").attributes["way"] == "desktop"
    asked = (programs / "told").read_text().split("\n")
    assert asked[:4] == ["--app-name=narval", "--", "narval: w.r failed", "Run 12 &lt;b&gt; failed"]
    assert "narval why 12" in asked


def test_a_mail_goes_through_the_outbox_and_says_that_it_is_automatic(tmp_path: Path) -> None:
    me = Element(1, b"<identity name='Office' address='me@example.org'/>")
    outbox = Element(2, b"<outbox kind='maildir' path='out'/>")
    told("<notify way='mail' to='you@example.org'/>", me, outbox, home=tmp_path)
    told("<notify way='mail' to='you@example.org'/>", me, outbox, home=tmp_path)
    (file,) = (tmp_path / "out/new").iterdir()
    mail = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    assert (mail["To"], mail["From"]) == ("you@example.org", "Office <me@example.org>")
    assert (mail["Subject"], mail["Auto-Submitted"]) == ("narval: w.r failed", "auto-generated")
    assert f"narval --home {tmp_path} why 12" in mail.get_content()
    with pytest.raises(ActionError, match="needs an identity and an outbox"):
        told("<notify way='mail'/>", me)


@pytest.mark.parametrize(
    ("command", "fault", "final"),
    [
        ("", "expected a command", True),
        ("logger 'x", "no list of words", True),
        ("/no/such/program", "cannot run", True),
        ("sh -c 'echo so >&2; exit 3'", "sh ended with status 3: so", False),
    ],
)
def test_a_command_that_fails_says_why(command: str, fault: str, final: bool) -> None:
    with pytest.raises(ActionError, match=fault) as failed:
        told("<notify way='command' command=" + quoteattr(command) + "/>")
    assert failed.value.final is final


def test_no_subject_is_an_option_of_a_command(tmp_path: Path) -> None:
    fake(tmp_path, "say")
    stranger = Element(3, b"<notice subject='--file=/etc/passwd'>so</notice>")
    told(f'<notify way="command" command="{tmp_path}/say"/>', home=tmp_path, notice=stranger)
    assert (tmp_path / "told").read_text() == "narval: --file=/etc/passwd\n"


def test_a_command_reads_whole_lines(tmp_path: Path) -> None:
    fake(tmp_path, "note", "#!/bin/sh\ncat >>told\n")
    for _ in range(2):
        told(f'<notify way="command" command="{tmp_path}/note"/>', home=tmp_path)
    first, second = (tmp_path / "told").read_text().split("why 12\n", 1)
    assert second == f"{first}why 12\n"


def test_a_command_that_does_not_end_is_ended_with_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "PROGRAM_SECONDS", 1.0)
    fake(tmp_path, "slow", "#!/bin/sh\nsleep 600 &\necho $! >began\nwait\n")
    with pytest.raises(ActionError, match="took more than"):
        told(f'<notify way="command" command="{tmp_path}/slow"/>', home=tmp_path)
    began = int((tmp_path / "began").read_text())
    until(lambda: not is_at_work(began), "what it began has ended")


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(
        ActionError, match="expected way to be one of desktop, mail, chat, command, push, got 'pigeon'"
    ):
        told("<notify way='pigeon'/>")
