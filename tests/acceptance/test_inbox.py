"""What is dropped into `inbox/` becomes elements, exactly once; what is bad is set aside with its reason."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.files.home import Home
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from narval.system.logins import login
from tests.acceptance.home import PATIENCE, Narval, make, until


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    narval = make(tmp_path / "home")
    (narval.home / "inbox").mkdir()
    return narval


@pytest.fixture
def ask(narval: Narval) -> Iterator[Any]:
    with narval.running(), Client(Home(narval.home).socket()) as client:
        yield client.ask


def drop(narval: Narval, name: str, content: str | bytes) -> Path:
    """Move a file into the inbox, whole."""
    scratch = narval.write("data/scratch", content)
    return scratch.rename(narval.home / "inbox" / name)


def lying(narval: Narval, folder: str = "inbox") -> list[str]:
    """What lies in a folder."""
    path = narval.home / folder
    return sorted(os.listdir(path)) if path.is_dir() else []


def is_empty(narval: Narval) -> bool:
    return not set(lying(narval)) - {".taken", "refused"} and not lying(narval, "inbox/.taken")


def reason(narval: Narval, name: str) -> str:
    """Why a file was refused."""
    path = narval.home / "inbox/refused" / f"{name}.reason.txt"
    return str(until(lambda: path.is_file() and path.read_text(), f"{name} is refused"))


def test_a_file_that_is_moved_in_becomes_elements(narval: Narval, ask: Any) -> None:
    drop(narval, "a.xml", '<guest name="Ada"/>')
    until(lambda: ask("memory", xpath="guest"), "it is in memory")
    drop(narval, "b.xml", "<memory><note>one</note><note>two</note></memory>")
    notes = until(lambda: ask("memory", xpath="note"), "they are in memory")
    owner = login((narval.home / "inbox").stat().st_uid)
    origin = {"run": None, "step": None, "file": "inbox/b.xml", "by": owner}
    assert [note["origin"] for note in notes] == [origin] * 2
    until(lambda: is_empty(narval), "it is empty again")
    assert b"inbox/b.xml" in narval("memory", "note").stdout


def test_files_there_at_the_start_are_added_in_order_of_names(narval: Narval) -> None:
    for number in (3, 1, 2):
        drop(narval, f"{number}.xml", f'<n v="{number}"/>')
    assert narval("run", "--until-idle").returncode == 0
    assert [element["xml"][6] for element in narval.ask("memory", "n")] == ["3", "2", "1"]
    assert is_empty(narval)


def test_the_folder_may_come_later_and_go(narval: Narval, ask: Any) -> None:
    shutil.rmtree(narval.home / "inbox")
    fresh = narval.home / "fresh"
    fresh.mkdir()
    (fresh / "x.xml").write_text("<first/>")
    fresh.rename(narval.home / "inbox")
    until(lambda: ask("memory", xpath="first"), "the new folder is taken")
    drop(narval, "y.xml", "<second/>")
    until(lambda: ask("memory", xpath="second"), "it is watched")


def test_a_file_is_not_claimed_before_its_writer_has_closed_it(narval: Narval, ask: Any) -> None:
    path = narval.home / "inbox" / "slow.xml"
    with path.open("w") as file:
        file.write("<memory><late/>")
        file.flush()
        drop(narval, "other.xml", "<other/>")
        until(lambda: ask("memory", xpath="other"), "the inbox was looked through")
        file.write("</memory>")
    until(lambda: ask("memory", xpath="late"), "it is taken once it is closed")
    assert lying(narval, "inbox/refused") == []


def test_hidden_and_unfinished_names_are_left_alone_until_they_are_renamed(narval: Narval, ask: Any) -> None:
    names = [".hidden.xml", "x.xml.part", "x.xml.tmp", "x.xml~"]
    for name in names:
        drop(narval, name, f"<taken name='{name}'/>")
    drop(narval, "zz.xml", "<last/>")
    until(lambda: ask("memory", xpath="last"), "the inbox was looked through")
    assert ask("memory", xpath="taken") == []
    (narval.home / "inbox/x.xml.part").rename(narval.home / "inbox/x.xml")
    until(lambda: ask("memory", xpath="taken"), "the renamed one is taken")
    assert set(names) - {"x.xml.part"} <= set(lying(narval))


BAD = {
    "half.xml": (b"<memory><a/>\n  <b>", "half.xml:2:6: not well-formed XML"),
    "bomb.xml": (b'<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>', "a DOCTYPE is not accepted"),
    "deep.xml": (b"<a>" * 300 + b"</a>" * 300, "nested deeper than 256 levels"),
    "encoding.xml": (b'<?xml version="1.0" encoding="utf-8"?><a>\xff</a>', "encoding.xml:1:"),
    "unknown.xml": (b'<?xml version="1.0" encoding="klingon"?><a/>', "unknown encoding 'klingon'"),
    "empty.xml": (b"", "empty.xml:1:1: not well-formed XML"),
    "zero.xml": (b"\0" * 100, "zero.xml:1:1: not well-formed XML"),
    "big.xml": (b"<a>" + b" " * (16 * 1024 * 1024) + b"</a>", "expected at most 16,777,216 bytes"),
    "schema.xml": (
        b'<memory>\n<ok/>\n  <note\n by="a"/>\n  <note/></memory>',
        "schema.xml:5:3: refused by its schema: <note> is not valid",
    ),
    "plan.xml": (
        b"<memory>\n<plan state='failed'/></memory>",
        "plan.xml:2:1: <plan> is what narval calls a run",
    ),
}


def test_what_is_bad_is_set_aside_whole_with_its_reason(narval: Narval) -> None:
    narval.write(
        "etc/schemas/note.rng",
        '<element name="note" xmlns="http://relaxng.org/ns/structure/1.0"><attribute name="by"/></element>',
    )
    for name, (content, _) in BAD.items():
        drop(narval, name, content)
    drop(narval, "zzz.xml", "<good/>")
    assert narval("run", "--until-idle").returncode == 0
    for name, (content, message) in BAD.items():
        assert message in reason(narval, name)
        assert (narval.home / "inbox/refused" / name).read_bytes() == content
    assert [element["name"] for element in narval.ask("memory")] == ["good"]  # of a file all or nothing
    assert is_empty(narval)


def test_what_is_not_a_file_is_set_aside_and_stops_no_other(narval: Narval) -> None:
    inbox, secret = narval.home / "inbox", narval.home.parent / "secret.xml"
    secret.write_text("<secret/>")
    os.mkfifo(inbox / "1-fifo")
    (inbox / "2-link").symlink_to(secret)
    (inbox / "3-loop").symlink_to("3-loop")
    (inbox / "4-folder" / "deep").mkdir(parents=True)
    (inbox / "5-device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener, wire.address(inbox / "6-socket") as address:
        listener.bind(address)
    drop(narval, "7-good.xml", "<good/>")
    assert narval("run", "--until-idle").returncode == 0
    reasons = {name: reason(narval, name) for name in lying(narval, "inbox/refused") if "reason" not in name}
    assert [message.partition("found ")[2].strip() for message in reasons.values()] == [
        "a pipe", *["a link; put the file itself here"] * 2, "a folder", "a link; put the file itself here",
        "a socket",
    ]  # fmt: skip
    assert [element["name"] for element in narval.ask("memory")] == ["good"]


def test_two_refused_files_of_one_name_are_both_kept(narval: Narval) -> None:
    for content in ("<a", "<b"):
        drop(narval, "x.xml", content)
        assert narval("run", "--until-idle").returncode == 0
    assert lying(narval, "inbox/refused") == [
        "2-x.xml", "2-x.xml.reason.txt", "x.xml", "x.xml.reason.txt",
    ]  # fmt: skip


def test_names_of_any_length_and_letters_are_accepted(narval: Narval) -> None:
    for number, name in enumerate(["ä" * 127, "x" * 255, "a\nb", "-rf", "000000000001-x"]):
        drop(narval, name, f'<n v="{number}"/>')
    drop(narval, "y" * 255, "<bad")
    (narval.home / "data/scratch").write_text("<bytes/>")
    os.rename(os.fsencode(narval.home / "data/scratch"), os.fsencode(narval.home / "inbox") + b"/\xff.xml")
    assert narval("run", "--until-idle").returncode == 0
    assert len(narval.ask("memory", "n | bytes")) == 6
    assert len(lying(narval, "inbox/refused")) == 2


# --- exactly once ---------------------------------------------------------------------------------------


def test_N35_a_claimed_file_is_added_if_it_was_not_recorded_and_only_then(
    narval: Narval,
) -> None:
    drop(narval, "a.xml", "<a/>")
    assert narval("run", "--until-idle").returncode == 0
    with sqlite3.connect(narval.home / "var/store.db") as store:
        ((number,),) = store.execute("SELECT value FROM meta WHERE key = 'inbox'").fetchall()
    taken = narval.home / "inbox/.taken"
    (taken / f"{int(number):012}-a.xml").write_text("<a/>")  # killed after the commit, before the removal
    (taken / f"{int(number) + 1:012}-b.xml").write_text("<b/>")  # killed before the commit
    assert narval("run", "--until-idle").returncode == 0
    assert [element["name"] for element in narval.ask("memory")] == ["b", "a"]
    assert is_empty(narval)


def test_N35_files_dropped_while_the_daemon_is_killed_again_and_again_are_added_exactly_once(
    narval: Narval,
) -> None:
    chance = random.Random(31)
    for batch in range(6):
        for number in range(40):
            drop(narval, f"{batch}-{number:02}.xml", f'<n v="{batch}-{number}"/>')
        daemon = narval.daemon()
        wanted = chance.randrange(1, 40)
        until(lambda: len(lying(narval)) <= wanted + 2, "so many are taken")  # noqa: B023
        daemon.kill()
        daemon.communicate(timeout=PATIENCE)
    assert narval("run", "--until-idle").returncode == 0
    found = narval.ask("memory", "n", "--limit", "all")
    counts = Counter(element["xml"].split('"')[1] for element in found)
    assert counts == Counter(f"{batch}-{number}" for batch in range(6) for number in range(40))
    assert is_empty(narval)


def test_a_folder_of_refused_files_that_cannot_be_used_is_told_and_what_waits_is_added_once_it_can(
    narval: Narval, ask: Any
) -> None:
    (narval.home / "inbox/refused").write_text("in the way")
    drop(narval, "a.xml", "<broken")
    [error] = until(lambda: ask("memory", xpath="error[@type='inbox-stuck']"), "it is told")
    assert "nothing is taken from the inbox until that is put right: inbox/a.xml:1:" in error["xml"]
    assert "and it cannot be set aside: inbox/refused is no folder; move it away" in error["xml"]
    drop(narval, "b.xml", "<note/>")
    stuck = "stuck: inbox/refused is no folder; move it away; inbox/a.xml waits for that"
    assert stuck in " ".join(narval("status").stdout.decode().split())
    assert ask("status")["inbox"]["taken"] == ["inbox/a.xml"]
    (narval.home / "inbox/refused").unlink()
    until(lambda: ask("memory", xpath="note"), "the next one is added")
    assert reason(narval, "a.xml").startswith("inbox/a.xml:1:")
    assert ask("status")["inbox"] == {"stuck": "", "taken": [], "refused": 1}
    assert "1 refused, in inbox/refused" in narval("status").stdout.decode()


def test_what_cannot_be_taken_is_in_attention_until_it_can_and_the_next_file_is_taken(
    narval: Narval, ask: Any
) -> None:
    (narval.home / "inbox/.taken").write_text("in the way")
    drop(narval, "a.xml", "<note/>")
    [trouble] = until(lambda: ask("attention"), "it is told")
    why = "inbox/a.xml cannot be taken: inbox/.taken: File exists; move that away, or see whose it is"
    assert (trouble["what"], trouble["text"]) == ("file", why)
    (narval.home / "inbox/.taken").unlink()
    until(lambda: ask("memory", xpath="note") and not ask("attention"), "it is added, and told no more")


def test_an_inbox_that_cannot_be_read_is_in_attention(narval: Narval, ask: Any) -> None:
    (narval.home / "inbox").rmdir()
    (narval.home / "inbox").write_text("in the way")
    [trouble] = until(lambda: ask("attention"), "it is told")
    assert trouble["text"] == "inbox cannot be read: Not a directory"


def test_a_name_with_a_line_break_forges_no_line_of_the_log(narval: Narval, ask: Any) -> None:
    drop(narval, "a\n2026-01-01 00:00:00 info daemon: all is well.xml", "<note/>")
    [note] = until(lambda: ask("memory", xpath="note"), "it is added")
    assert note["origin"]["file"] == "inbox/a\\n2026-01-01 00:00:00 info daemon: all is well.xml"
    lines = narval("log").stdout.decode().splitlines()
    assert not any(line.startswith("2026-01-01") for line in lines)
    assert (narval.home / "var/narval.log").stat().st_mode & 0o077 == 0


# --- for other agents (G58) -------------------------------------------------------------------------------


def orders(narval: Narval, agent: str) -> list[str]:
    told = narval("memory", "order", "--agent", agent, "--limit", "all", "--json")
    found = json.loads(told.stdout)  # of nothing its status is 1
    return [element["xml"].split(' n="')[1].split('"')[0] for element in found]


def test_G58_what_is_dropped_into_a_folder_with_the_name_of_an_agent_is_sent_to_it(
    narval: Narval, ask: Any
) -> None:
    ask("add_agent", name="shop")
    (narval.home / "inbox/shop").mkdir()
    drop(narval, "shop/a.xml", "<memory><order n='1'/><order n='2'/></memory>")
    until(lambda: len(orders(narval, "shop")) == 2, "both are there")
    first, _ = narval.ask("memory", "order", "--agent", "shop")
    assert first["origin"]["from"] == "narval"
    assert first["origin"]["by"] == login(os.getuid())
    drop(narval, "shop/bad.xml", "<order")
    assert reason(narval, "bad.xml").startswith("inbox/shop/bad.xml:1:")
    (narval.home / "inbox/nobody").mkdir()
    assert "found a folder" in reason(narval, "nobody")
    until(lambda: lying(narval, "inbox/shop/.taken") == [], "all is taken")


def test_G58_files_for_an_agent_are_sent_exactly_once_whenever_the_daemon_is_killed(narval: Narval) -> None:
    assert narval("agents", "add", "shop").returncode == 0
    (narval.home / "inbox/shop").mkdir()
    for batch in range(5):
        for number in range(30):
            drop(narval, f"shop/{batch}-{number:02}.xml", f'<order n="{batch}-{number:02}"/>')
        daemon = narval.daemon()
        until(lambda: len(lying(narval, "inbox/shop")) < 20, "some are claimed")
        daemon.kill()
        daemon.communicate(timeout=PATIENCE)
    assert narval("run", "--until-idle").returncode == 0
    found = orders(narval, "shop")
    assert sorted(found) == [f"{batch}-{number:02}" for batch in range(5) for number in range(30)]
    assert set(lying(narval, "inbox/shop")) <= {".taken"}
    assert lying(narval, "inbox/shop/.taken") == []
