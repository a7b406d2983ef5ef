"""Mailboxes: what is there and what comes, each mail once, and the mailbox as it was (N36, N37)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from modules import mail
from modules.mail import boxes as mail_boxes
from modules.mail import folders, letters
from modules.mail.mailbox import Mailbox
from narval.calls.context import CallContext
from narval.core.elements.element import Element
from narval.core.errors import ActionError
from tests.modules.mailboxes import Watcher, letter, maildir, read, snapshot, subjects, watched
from tests.modules.mailboxes import no_thread_is_left as no_thread_is_left

# --- Maildir ----------------------------------------------------------------------------------------------

BOX = '<mailbox name="demo" kind="maildir" path="Maildir"/>'


def test_read_gives_each_mail_of_a_maildir_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 3)
    (folder / "cur" / "1793500000.9.host:2,S").write_bytes(letter(9))
    (folder / "new" / ".keep").write_bytes(b"")
    before = snapshot(folder)
    assert subjects(read(tmp_path, BOX)) == ["mail 9", "mail 0", "mail 1", "mail 2"]
    assert snapshot(folder) == before


def test_read_tells_of_a_bad_mail_and_gives_the_others(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 2)
    (folder / "new" / "1793600000.5.host").write_bytes(b"\x00\x01 no mail at all")
    found = read(tmp_path, BOX)
    assert subjects(found) == ["mail 0", "bad-mail", "mail 1"]
    error = found[1]
    assert error.attributes["mailbox"] == "demo"
    assert (tmp_path / error.attributes["file"]).read_bytes() == b"\x00\x01 no mail at all"
    assert "no header" in error.text


def test_a_file_that_stays_empty_is_no_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = maildir(tmp_path / "Maildir", 1)
    empty = folder / "new" / "1793600005.5.host"
    empty.touch()
    assert subjects(read(tmp_path, BOX)) == ["mail 0"], "it may be being written"
    monkeypatch.setattr(folders, "EMPTY_SECONDS", 0.05)

    async def scenario(watcher: Watcher) -> None:
        await watcher.take(2)
        empty.write_bytes(letter(5))
        await watcher.take()

    found = watched(tmp_path, BOX, scenario)
    assert subjects(found) == ["mail 0", "bad-mail", "mail 5"]
    assert f"{empty}: has no bytes" in found[1].text


def test_a_mail_that_is_too_large_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = maildir(tmp_path / "Maildir", 1)
    (folder / "new" / "1793600005.5.host").write_bytes(letter(5, "x" * 2_000))
    monkeypatch.setattr(letters, "MAX_MAIL", 1_000)
    found = read(tmp_path, BOX)
    assert subjects(found) == ["mail 0", "bad-mail"]
    assert "1793600005.5.host" in found[1].text
    assert "file" not in found[1].attributes
    (again,) = [error for error in read(tmp_path, BOX) if error.name == "error"]
    assert again.attributes["key"] == found[1].attributes["key"], "a source tells of it once (N37)"


def test_a_full_disk_is_not_the_fault_of_a_mail(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    (tmp_path / "var").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="var"):
        read(tmp_path, BOX)


@pytest.mark.parametrize(
    ("xml", "message", "kind"),
    [
        ('<mailbox path="nowhere"/>', "expected a Maildir", "mailbox-unreachable"),
        ('<mailbox kind="mbox" path="nowhere/mbox"/>', "nowhere", "mailbox-unreachable"),
        ('<mailbox kind="mbox" path="."/>', "expected an mbox", "bad-account"),
        ('<mailbox kind="pop" path="x"/>', "one of maildir, mbox, imap", "bad-account"),
        ('<mailbox kind="mbox"/>', "expected a path", "bad-account"),
    ],
)
def test_an_account_that_cannot_be_opened_says_what_was_expected(
    tmp_path: Path, xml: str, message: str, kind: str
) -> None:
    with pytest.raises(ActionError, match=message) as caught:
        read(tmp_path, xml)
    assert caught.value.kind == kind


def test_N36_a_watched_maildir_gives_what_is_there_then_what_comes(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 3)

    async def scenario(watcher: Watcher) -> None:
        await watcher.take(3)
        assert not watcher.call.has_caught_up
        (folder / "tmp" / "x").write_bytes(letter(7))
        (folder / "tmp" / "x").rename(folder / "new" / "1793600100.7.host")
        await watcher.take()
        assert watcher.call.has_caught_up
        (folder / "new" / "1793600100.7.host").rename(folder / "cur" / "1793600100.7.host:2,S")
        (folder / "tmp" / "y").write_bytes(letter(8))
        os.link(folder / "tmp" / "y", folder / "new" / "1793600100.8.host")
        await watcher.take()

    found = watched(tmp_path, BOX, scenario)
    assert subjects(found) == ["mail 0", "mail 1", "mail 2", "mail 7", "mail 8"]


def test_N36_an_empty_maildir_is_caught_up_at_once(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 0)
    assert watched(tmp_path, BOX, Watcher.catch_up) == []


def test_a_mail_that_comes_is_found_without_a_look_at_all_that_lie_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = maildir(tmp_path / "Maildir", 60)
    looked: list[str] = []
    stat = Path.stat

    def noted_stat(path: Path, **options: bool) -> os.stat_result:
        looked.append(path.name)
        return stat(path, **options)

    async def scenario(watcher: Watcher) -> None:
        await watcher.take(60)
        monkeypatch.setattr(Path, "stat", noted_stat)
        (folder / "new" / "1793600100.7.host").write_bytes(letter(7))
        (folder / "new" / "1793600059.59.host").rename(folder / "cur" / "1793600059.59.host:2,S")
        (folder / "new" / "1793600058.58.host").write_bytes(letter(8, "grown"))
        await watcher.take(2)

    assert {"mail 7", "mail 8"} <= set(subjects(watched(tmp_path, BOX, scenario)))
    assert len([name for name in looked if name.endswith(".host") or ":" in name]) < 20


def test_a_file_is_examined_when_it_is_read_not_when_the_folder_is_listed(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 2)
    box, signal = Mailbox({"kind": "maildir", "path": "Maildir"}, tmp_path), letters.Signal()
    signal.stop()
    with mail_boxes.opened(box, signal) as session:
        listed = session.letters(set())
        next(listed)
        (folder / "new" / "1793600001.1.host").write_bytes(letter(1, "grown"))
        grown = next(listed)
    assert f"/{len(grown.raw)}/" in grown.ident


def test_a_thousand_mails_come_in_few_batches(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1_000)
    yields = 0

    async def scenario(watcher: Watcher) -> None:
        nonlocal yields
        taken = 0
        while taken < 1_000:
            taken += len(await watcher.take())
            yields += 1

    assert len(watched(tmp_path, BOX, scenario)) == 1_000
    assert yields == 1_000 // mail_boxes.BATCH


def test_N35_a_restart_reads_what_was_not_recorded_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maildir(tmp_path / "Maildir", 120)
    monkeypatch.setattr(mail, "SAFE_SECONDS", 0)

    async def stopped_while_the_second_batch_is_recorded(watcher: Watcher) -> None:
        assert len(await watcher.take()) == 50
        assert len(await watcher.take()) == 50

    async def rest(watcher: Watcher) -> None:
        await watcher.take(70)
        await watcher.catch_up()

    first = watched(tmp_path, BOX, stopped_while_the_second_batch_is_recorded)
    second = watched(tmp_path, BOX, rest)
    assert subjects(first)[:50] + subjects(second) == [f"mail {number}" for number in range(120)]
    assert watched(tmp_path, BOX, Watcher.catch_up) == []


def test_N35_what_was_recorded_only_just_is_read_again_as_a_power_cut_may_have_undone_it(
    tmp_path: Path,
) -> None:
    maildir(tmp_path / "Maildir", 3)

    async def scenario(watcher: Watcher) -> None:
        await watcher.take(3)
        await watcher.catch_up()

    keys = [
        [each.attributes["key"] for each in watched(tmp_path, BOX, scenario)]
        for _ in ("before", "after a restart")
    ]
    assert keys[0] == keys[1]


def test_a_mail_that_is_written_bit_by_bit_ends_up_whole(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 0)
    whole = letter(1, "one\ntwo\nthree")

    async def scenario(watcher: Watcher) -> None:
        with (folder / "new" / "1793600000.1.host").open("wb") as file:
            for at in range(0, len(whole), 10):
                file.write(whole[at : at + 10])
                file.flush()
                await asyncio.sleep(0.01)
        while "three" not in (await watcher.take())[-1].text:
            pass

    found = watched(tmp_path, BOX, scenario)
    assert found[-1].tree().findtext("body") == "one\ntwo\nthree"


def test_an_error_of_the_follower_ends_the_step(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    (tmp_path / "var").write_text("a file where a folder should be")

    async def scenario(watcher: Watcher) -> None:
        with pytest.raises(OSError, match="var"):
            await watcher.take()

    watched(tmp_path, BOX, scenario)


def test_a_home_in_memory_keeps_files_for_as_long_as_the_program_runs(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    context = CallContext("call-1", 1, "read", None).context()
    mailbox = Element(1, f'<mailbox path="{tmp_path}/Maildir"/>'.encode())
    (found,) = (Element(0, each) for each in context.run(mail.read, mailbox))
    (file,) = found.select("raw/@file")
    assert Path(file).read_bytes() == letter(0)


def test_what_came_before_since_is_left_out_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mail, "SAFE_SECONDS", 0)
    folder = maildir(tmp_path / "Maildir", 3)
    since = time.time() + 60
    for number in (7, 8):
        path = folder / "new" / f"copied-{number}"
        path.write_bytes(letter(number))
        os.utime(path, (since + number - 7.5,) * 2)
    xml = BOX.replace("name", f'since="{datetime.fromtimestamp(since, UTC).isoformat()}" name')
    # each that lay there came before: by its name, or by its file
    assert subjects(read(tmp_path, xml)) == ["mail 8"]

    async def scenario(watcher: Watcher) -> None:
        await watcher.take()
        await watcher.catch_up()

    assert subjects(watched(tmp_path, xml, scenario)) == ["mail 8"]
    assert watched(tmp_path, xml, Watcher.catch_up) == []
    (told,) = [record.getMessage() for record in caplog.records if record.name == "narval.mail"]
    assert "4 mails lie there that were delivered before" in told
    assert told.endswith(f"narval --home {tmp_path} simulate mail.triage --mails {folder}")


def test_a_since_that_is_no_date_says_what_was_expected(tmp_path: Path) -> None:
    maildir(tmp_path / "Maildir", 1)
    with pytest.raises(ActionError, match="expected since to be a date, such as 2026-11-24"):
        read(tmp_path, BOX.replace("name", 'since="yesterday" name'))


def test_a_mail_says_whether_its_owner_has_seen_and_answered_it(tmp_path: Path) -> None:
    folder = maildir(tmp_path / "Maildir", 0)
    for number, flags in enumerate((":2,", ":2,S", ":2,RS", ":2,F", "")):
        (folder / "cur" / f"{1793600000 + number}.{number}.host{flags}").write_bytes(letter(number))
    mails = read(tmp_path, BOX)
    assert [[each.attributes.get(name) for name in ("seen", "answered")] for each in mails] == [
        [None, None], ["yes", None], ["yes", "yes"], [None, None], [None, None],
    ]  # fmt: skip


# --- mbox -------------------------------------------------------------------------------------------------

MBOX = '<mailbox name="old" kind="mbox" path="mbox"/>'
FROM = b"From a@example.org Mon Nov  2 08:00:00 2026\n"


def test_an_mbox_is_split_unquoted_and_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "mbox"
    file.write_bytes(
        b"".join(
            (
                FROM + letter(1, "first\nFrom here it goes on\n\n>From there\n>>From nowhere") + b"\n",
                FROM + letter(2) + b"\n",
                FROM + letter(3).replace(b"\n", b"\r\n") + b"\r\n",
            )
        )
    )
    before = file.read_bytes(), file.stat().st_mtime_ns
    found = read(tmp_path, MBOX)
    assert subjects(found) == ["mail 1", "mail 2", "mail 3"]
    assert found[0].tree().findtext("body") == "first\nFrom here it goes on\n\nFrom there\n>From nowhere"
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_an_mbox_has_arrivals_and_flags_too(tmp_path: Path) -> None:
    late = FROM.replace(b"2026", b"2027")
    mails = [FROM + letter(1), late + letter(2, "Status: RO"), late + letter(3, Status="RO", X_Status="A")]
    (tmp_path / "mbox").write_bytes(b"\n".join([*mails, b"From nobody\n" + letter(4)]))
    found = read(tmp_path, MBOX.replace("name", 'since="2027-01-01" name'))
    assert subjects(found) == ["mail 2", "mail 3", "mail 4"]
    assert [each.attributes.get("seen") for each in found] == [None, "yes", None]
    assert [each.attributes.get("answered") for each in found] == [None, "yes", None]


def test_an_mbox_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path, MBOX) == []


def test_the_folder_of_an_mbox_that_goes_before_its_watch_hears_of_it_is_missed_by_the_reading(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    signal = letters.Signal()
    signal.stop()  # nothing is watched: as if the folder went while the watch was being armed
    box = Mailbox({"kind": "mbox", "path": "in/mbox"}, tmp_path)
    with mail_boxes.opened(box, signal) as session:
        assert list(session.letters(set())) == []
        (tmp_path / "in").rename(tmp_path / "out")
        with pytest.raises(letters.UnreachableError, match="expected a folder for the mbox"):
            list(session.letters(set()))


def test_one_mail_of_an_mbox_may_be_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mbox").write_bytes(FROM + letter(1, "x\n" * 2_000) + b"\n" + FROM + letter(2))
    monkeypatch.setattr(letters, "MAX_MAIL", 1_000)
    assert subjects(read(tmp_path, MBOX)) == ["bad-mail", "mail 2"]


def test_N36_a_watched_mbox_gives_what_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "SAFE_SECONDS", 0)
    (tmp_path / "mbox").write_bytes(FROM + letter(1) + b"\n")

    async def scenario(watcher: Watcher) -> None:
        await watcher.take()
        with (tmp_path / "mbox").open("ab") as file:
            file.write(FROM + letter(2) + b"\n")
        await watcher.take()
        (tmp_path / "other").write_bytes(b"not ours")
        rewritten = tmp_path / "mbox.new"
        rewritten.write_bytes(FROM + letter(1) + b"\n" + FROM + letter(3) + b"\n")
        rewritten.replace(tmp_path / "mbox")
        await watcher.take()
        await watcher.catch_up()

    assert subjects(watched(tmp_path, MBOX, scenario)) == ["mail 1", "mail 2", "mail 3"]
    assert watched(tmp_path, MBOX, Watcher.catch_up) == []


DELIVERY = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(bytes.fromhex(sys.argv[2])); file.flush()
    print("half", flush=True); sys.stdin.readline()
    file.write(bytes.fromhex(sys.argv[3]))
"""


def test_an_mbox_that_is_being_delivered_to_is_left_alone_until_that_is_over(tmp_path: Path) -> None:
    file = tmp_path / "mbox"
    file.write_bytes(b"")
    whole = FROM + letter(1, "one\ntwo") + b"\n"
    arguments = [sys.executable, "-c", DELIVERY, str(file), whole[:60].hex(), whole[60:].hex()]

    async def scenario(watcher: Watcher) -> None:
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            assert agent.stdout
            assert agent.stdin
            assert agent.stdout.readline() == b"half\n"
            await watcher.catch_up()
            agent.communicate(b"go on\n")

    assert watched(tmp_path, MBOX, scenario) == []
    (found,) = read(tmp_path, MBOX)
    assert found.tree().findtext("body") == "one\ntwo"
    with file.open("rb+") as again:
        fcntl.lockf(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
