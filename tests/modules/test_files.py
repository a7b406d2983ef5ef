"""Files: a real folder, changed in all the ways programs change one."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import narval
from modules import files
from modules.files import appending as files_appending
from modules.files import places as files_places
from narval import Element
from narval.core.elements.canonical import canonical
from narval.core.errors import ActionError
from tests.modules.folders import Watched, call_of, element, watching


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "in").mkdir(parents=True)
    return tmp_path / "home"


def do(
    home: Path | None, function: Callable[..., Any], *arguments: Element, id: str = "1.1"
) -> etree._Element:
    made: etree._Element = call_of(home, id).context().run(function, *arguments)
    canonical(made)
    return made


def refused(home: Path | None, function: Callable[..., Any], *arguments: Element) -> str:
    with pytest.raises(ActionError) as caught:
        do(home, function, *arguments)
    return caught.value.kind


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        ("grüße".encode(), "grüße", "utf-8"),
        ("grüße".encode("utf-8-sig"), "grüße", "utf-8"),
        ("grüße".encode("windows-1252"), "grüße", "windows-1252"),
        ("grüße".encode("utf-16"), "grüße", "utf-16-le"),
        ("grüße".encode("utf-32"), "grüße", "utf-32-le"),
        (b"a\x07\x1bb\r\n", "a\ufffd\ufffdb\r\n", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_a_text_is_read_in_the_encoding_that_it_has(
    home: Path, data: bytes, text: str, encoding: str
) -> None:
    (home / "in" / "a.txt").write_bytes(data)
    read = do(home, files.read_text, element("file", path="in/a.txt"))
    assert (read.text or "", read.get("encoding"), read.get("name")) == (text, encoding, "a.txt")
    assert Element(0, canonical(read)).text == text


def test_what_is_no_text_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_TEXT", 1_000)
    (home / "in" / "binary").write_bytes(b"\x7fELF\0\0")
    (home / "in" / "large").write_bytes(b"x" * 1_001)
    (home / "in" / "link").symlink_to("large")
    os.mkfifo(home / "in" / "pipe")
    kinds = {"binary": "not-text", "large": "too-large", "link": "unreadable-file", "pipe": "not-a-file"}
    kinds |= {"missing": "no-such-file", "": "not-a-file"}
    assert {
        name: refused(home, files.read_text, element("file", path=f"in/{name}")) for name in kinds
    } == kinds


def test_write_makes_folders_and_replaces_at_once(home: Path) -> None:
    text = element("text", "<&> grüße", path="data/new/a.txt")
    written = do(home, files.write, text)
    assert (written.get("event"), written.get("path"), written.get("size")) == (
        "written",
        "data/new/a.txt",
        "11",
    )
    assert (home / "data" / "new" / "a.txt").read_text() == "<&> grüße"
    (home / "data" / "new" / "a.txt").chmod(0o640)
    do(home, files.write, element("text", "other", path="data/new/a.txt"))
    assert (home / "data" / "new" / "a.txt").read_text() == "other"
    assert (home / "data" / "new" / "a.txt").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in (home / "data" / "new").iterdir()] == ["a.txt"]


def test_a_write_that_fails_leaves_what_was_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    do(home, files.write, element("text", "good", path="data/a"))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        do(home, files.write, element("text", "half", path="data/a"))
    assert (home / "data" / "a").read_text() == "good"
    assert [path.name for path in (home / "data").iterdir()] == ["a"]


def test_N37_a_retry_takes_up_what_an_interrupted_write_left(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.os, "replace", lambda *_: os._exit(0))
    if os.fork() == 0:
        do(home, files.write, element("text", "first try", path="data/a"))
        os._exit(1)
    os.wait()
    monkeypatch.undo()
    assert len(list((home / "data").iterdir())) == 1
    do(home, files.write, element("text", "second try", path="data/a"))
    assert [path.name for path in (home / "data").iterdir()] == ["a"]


def test_copy_keeps_the_time_and_may_be_tried_again(home: Path) -> None:
    source = home / "in" / "a"
    source.write_text("content")
    os.utime(source, ns=(5, 5_000_000_000))
    for _ in range(2):
        copied = do(home, files.copy, element("file", path="in/a"), element("to", path="data/b"))
    assert (copied.get("event"), copied.get("path"), copied.get("from")) == ("copied", "data/b", "in/a")
    assert copied.get("modified") == "1970-01-01T00:00:05Z"
    assert (home / "data" / "b").read_text() == source.read_text() == "content"
    into = do(home, files.copy, element("file", path="in/a"), element("to", path="data/"))
    assert into.get("path") == "data/a"


def test_another_file_is_replaced_only_when_asked(home: Path) -> None:
    (home / "data").mkdir()
    for function in (files.copy, files.move):
        (home / "in" / "a").write_text("new")
        (home / "data" / "b").write_text("precious")
        file = element("file", path="in/a")
        assert refused(home, function, file, element("to", path="data/b")) == "exists"
        assert (home / "data" / "b").read_text() == "precious"
        do(home, function, file, element("to", path="data/b", replace="yes"))
        assert (home / "data" / "b").read_text() == "new"


@pytest.mark.parametrize("other_disk", [False, True])
def test_N37_move_may_be_tried_again_at_any_point(
    home: Path, monkeypatch: pytest.MonkeyPatch, other_disk: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if other_disk:
        monkeypatch.setattr(files.os, "rename", refuse)
    source, target = home / "in" / "a", home / "data" / "b"
    source.write_text("content")
    now = source.stat()
    file = element("file", path="in/a", size=str(now.st_size), modified=files_places.moment(now.st_mtime_ns))
    to = element("to", path="data/b")
    for attempt in range(3):
        moved = do(home, files.move, file, to)
        assert (moved.get("event"), moved.get("path"), moved.get("from")) == ("moved", "data/b", "in/a")
        assert target.read_text() == "content"
        assert not source.exists()
        if attempt == 0:  # as if it had been interrupted between the copy and the removal
            shutil.copy2(target, source)
    target.write_text("something else")
    assert refused(home, files.move, file, to) == "no-such-file"


def test_delete_may_be_tried_again_and_deletes_no_folder(home: Path) -> None:
    (home / "in" / "a").touch()
    for _ in range(2):
        gone = do(home, files.delete, element("file", path="in/a"))
        assert (gone.get("event"), gone.get("path"), gone.get("size")) == ("deleted", "in/a", None)
    assert refused(home, files.delete, element("file", path="in")) == "not-a-file"
    (home / "kept").touch()
    (home / "in" / "link").symlink_to(home / "kept")
    do(home, files.delete, element("file", path="in/link"))
    assert (home / "kept").exists()


OUTSIDE = [
    {"path": "../outside/secret"},
    {"path": "in/../../outside/secret"},
    {"path": "/etc/passwd"},
    {"path": "out/secret"},
    {"path": "."},
    {"path": ".."},
    {"path": "in/.."},
    {"path": ""},
    {"path": "/"},
    {"path": "in/a", "folder": "data"},
    {"path": "data/../in/a", "folder": "data"},
    {"path": "etc/narval.toml"},
    {"path": "modules/evil.py"},
    {"path": "in/../recipes/evil.xml"},
    {"path": "var/mcp/time.login"},
    {"path": "var/web/sessions"},
    {"path": "var/store.db"},
    {"path": "inbox/quit.xml"},
    {"path": "work/ann/done/1.xml"},
    {"path": "proposals/sort/wish.txt"},
    {"path": "data/memory.xml"},
    {"path": "var/edits/1/sort.xml"},
    {"path": "INBOX/quit.xml"},
    {"path": "Etc/narval.toml"},
    {"path": "wor\u212a/ann/done/1.xml"},
    {"path": "in\u200bbox/quit.xml"},
    {"path": "data/MEMORY.xml"},
    {"path": "VAR/Web/sessions"},
    {"path": "../HOME/etc/narval.toml", "folder": ".."},
    {"path": "modules/evil.py", "folder": "."},
    {"path": "var/store.db", "folder": "/"},
]


@pytest.mark.parametrize("given", OUTSIDE, ids=str)
def test_no_action_reaches_outside(home: Path, given: dict[str, str]) -> None:
    outside = home.parent / "outside"
    for folder in (outside, home / "data", home / "etc", home / "modules", home / "recipes", home / "var"):
        folder.mkdir()
    (outside / "secret").write_text("secret")
    (home / "out").symlink_to(outside)
    for path in ("in/a", "etc/narval.toml", "var/store.db", "modules/evil.py"):
        (home / path).write_text("kept")
    before = {path: path.read_bytes() for path in home.parent.rglob("*") if path.is_file()}
    file, inside = element("file", **given), element("file", path="in/a")
    assert refused(home, files.read_text, file) == "outside"
    assert refused(home, files.write, element("text", "x", **given)) == "outside"
    assert refused(home, files.copy, file, element("to", path="data/x")) == "outside"
    assert refused(home, files.copy, inside, element("to", **given)) == "outside"
    assert refused(home, files.move, file, element("to", path="data/x")) == "outside"
    assert refused(home, files.move, inside, element("to", **given, replace="yes")) == "outside"
    assert refused(home, files.delete, file) == "outside"
    assert {path: path.read_bytes() for path in home.parent.rglob("*") if path.is_file()} == before


def test_a_folder_that_the_element_names_is_reached(home: Path) -> None:
    outside = home.parent / "outside"
    for attributes in (
        {"path": str(outside / "deep" / "a"), "folder": str(outside)},
        {"path": "modules/mine.py", "folder": "modules"},
        {"path": "var/pages/a.html"},
    ):
        assert do(home, files.write, element("text", "x", **attributes)).get("event") == "written"
    assert (outside / "deep" / "a").read_text() == "x"


def test_what_a_watch_tells_can_be_given_to_the_other_actions(home: Path) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("hello")
    told: list[Element] = []

    async def story(watched: Watched) -> None:
        await watched.next()
        told.append(Element(1, canonical(watched.elements[0])))

    watching(home, story, path=str(outside))
    assert do(home, files.read_text, told[0]).text == "hello"
    assert do(home, files.move, told[0], element("to", path="data/")).get("path") == "data/a"
    assert not (outside / "a").exists()


def test_of_a_home_in_memory_paths_begin_where_the_program_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    do(None, files.write, element("text", "y", path="a"))
    assert (tmp_path / "here" / "a").read_text() == "y"
    assert refused(None, files.write, element("text", "x", path="modules/a.py")) == "outside"
    assert refused(None, files.write, element("text", "x", path=str(tmp_path / "a"))) == "outside"
    do(None, files.write, element("text", "x", path=str(tmp_path / "a"), folder=str(tmp_path)))
    assert (tmp_path / "a").read_text() == "x"


# --- in a home ------------------------------------------------------------------------------------------

COOKBOOK = """
<cookbook group="try">
  <recipe group="try" name="watch" start_step="watch" end_step="watch">
    <step id="watch" type="action" target="files.watch"/>
  </recipe>
  <recipe group="try" name="keep" start_step="listen" end_step="keep">
    <step id="listen" type="action" target="basic.nothing"/>
    <step id="keep" type="action" target="files.move"><arguments><to path="data/kept/"/></arguments></step>
    <transition id="t"><in idref="listen"/><out idref="keep"/>
      <condition use="yes"><match>file[@event='created' and @name='wanted.txt']</match></condition>
    </transition>
  </recipe>
</cookbook>
"""


def test_N37_each_file_is_told_of_once_across_restarts_and_can_be_acted_on(home: Path) -> None:
    (home / "recipes").mkdir()
    (home / "recipes" / "try.xml").write_text(COOKBOOK)
    (home / "in" / "a.txt").write_text("a")
    with narval.open(home) as agent:
        agent.add('<folder path="in"/>')
        agent.start("try.watch")
        agent.until_idle()
        assert [each.attributes["path"] for each in agent.memory("file")] == ["in/a.txt"]
    (home / "in" / "wanted.txt").write_text("while no daemon ran")
    with narval.open(home) as agent:
        keep = agent.start("try.keep")
        assert agent.wait(keep)["phase"] == "done"
        assert len(agent.memory("file[@name='a.txt']")) == 1
    assert (home / "data" / "kept" / "wanted.txt").read_text() == "while no daemon ran"


# --- appending ------------------------------------------------------------------------------------------


def append(home: Path | None, text: str, id: str, path: str = "data/log") -> etree._Element:
    return do(home, files.append, element("text", text, path=path), id=id)


def test_N37_each_call_appends_its_line_once(home: Path) -> None:
    for id in ("1.1", "1.2", "1.1", "1.2", "1.1"):
        made = append(home, "same", id)
    assert (made.get("event"), made.get("path"), made.get("size")) == ("appended", "data/log", "10")
    assert (home / "data" / "log").read_text() == "same\nsame\n"
    append(home, "two\nlines\n", "1.3")
    assert (home / "data" / "log").read_text() == "same\nsame\ntwo\nlines\n"


@pytest.mark.parametrize("written", [0, 2, 5], ids=["nothing", "a part", "all"])
@pytest.mark.parametrize("between", ["", "line\n"], ids=["alone", "another call meanwhile"])
def test_N37_a_line_is_there_once_whatever_a_killed_call_had_written(
    home: Path, monkeypatch: pytest.MonkeyPatch, written: int, between: str
) -> None:
    def killed(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.endswith("/log"):  # the record is on disk by then
            os.truncate(path, written)
            os._exit(0)

    monkeypatch.setattr(files.os, "fsync", killed)
    if os.fork() == 0:
        append(home, "line", "1.1")
        os._exit(1)
    assert os.wait()[1] == 0
    monkeypatch.undo()
    if between:
        append(home, "line", "1.2")
    for _ in range(2):
        append(home, "line", "1.1")
    torn = "line\n"[: written % 5] if between else ""
    assert (home / "data" / "log").read_text() == torn + "line\n" + between


NOTE = """<recipe group="books" name="note" start_step="come" end_step="note">
  <step id="come" type="action" target="basic.nothing"/>
  <step id="note" type="action" target="files.append">
    <arguments><text path="data/invoices.log">{$bill/@date} {$bill/@from}</text></arguments>
  </step>
  <transition id="came">
    <in idref="come"/><out idref="note"/>
    <condition as="bill" use="yes"><match>bill</match></condition>
  </transition>
</recipe>"""


def test_a_recipe_notes_each_element_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "books.xml").write_text(NOTE)
    with narval.open(tmp_path) as agent:
        for day in "12":
            agent.add(f"<bill date='2026-11-0{day}' from='ann@example.org'/>")
            agent.wait(agent.start("books.note"), 20)
    lines = (tmp_path / "data" / "invoices.log").read_text()
    assert lines == "2026-11-01 ann@example.org\n2026-11-02 ann@example.org\n"


def test_N37_two_calls_that_were_killed_before_they_wrote_append_a_line_each(home: Path) -> None:
    (record,) = [append(home, "line", "1.1"), *(home / "var" / "files").iterdir()][1:]
    (home / "data" / "log").write_text("")
    begun = [os.stat(home / "data" / "log").st_ino, 0]
    record.write_text(json.dumps({"1.1": begun, "1.2": begun}))
    for id in ("1.1", "1.2", "1.1", "1.2"):
        append(home, "line", id)
    assert (home / "data" / "log").read_text() == "line\n" * 2


def test_a_log_that_was_turned_over_meanwhile_gets_the_line(home: Path) -> None:
    append(home, "before", "1.1")
    (home / "data" / "log").rename(home / "data" / "log.1")
    for _ in range(2):
        append(home, "after", "1.2")
    assert (home / "data" / "log").read_text() == "after\n"


def test_the_record_of_a_file_stays_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_appending, "KEPT", 3)
    for number in range(9):
        append(home, "line", f"1.{number}")
    (record,) = (home / "var" / "files").iterdir()
    assert list(json.loads(record.read_text())) == ["1.6", "1.7", "1.8"]


def test_lines_are_appended_to_no_folder_and_through_no_link(home: Path) -> None:
    (home / "data").mkdir()
    (home / "data" / "link").symlink_to(home / "in" / "a")
    for path in ("in", "data/link"):
        assert refused(home, files.append, element("text", "a", path=path)) == "unwritable-file"
    assert refused(home, files.append, element("text", "a", path="etc/narval.toml")) == "outside"


def test_in_a_home_in_memory_lines_go_where_the_program_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    append(None, "line", "1.1", "log")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
