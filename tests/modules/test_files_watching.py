"""Folders that are watched: each change told once (N36, N37; docs/reference/modules/files.md)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from modules import files
from modules.files import watching as files_watching
from narval.core.elements.canonical import canonical
from narval.core.errors import ActionError
from tests.examples import examples
from tests.modules.folders import QUIET, Watched, call_of, element, watching


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "in").mkdir(parents=True)
    return tmp_path / "home"


def test_N36_what_is_there_is_told_first_then_it_has_caught_up(home: Path) -> None:
    (home / "in" / "b.txt").write_text("bb")
    (home / "in" / "a.txt").write_text("a")

    async def story(watched: Watched) -> None:
        assert await watched.next() == [("created", "in/a.txt"), ("created", "in/b.txt")]
        await watched.caught_up()
        first = watched.elements[1]
        assert (first.tag, first.get("name"), first.get("size"), first.get("folder")) == (
            "file",
            "b.txt",
            "2",
            "in",
        )
        assert first.get("modified", "").startswith("20")
        assert first.get("modified", "").endswith("Z")
        assert await watched.silent()

    watching(home, story)


def test_an_empty_folder_has_caught_up_at_once(home: Path) -> None:
    watching(home, lambda watched: watched.caught_up())


def write_in_place(path: Path) -> None:
    path.write_text("fresh content")


def rename_into_place(path: Path) -> None:
    path.with_name(".a.tmp").write_text("fresh content")
    path.with_name(".a.tmp").rename(path)


def move_from_elsewhere(path: Path) -> None:
    away = path.parent.parent / "away"
    away.write_text("fresh content")
    away.rename(path)


def keep_a_backup(path: Path) -> None:
    path.rename(path.with_name("a.txt~"))
    path.write_text("fresh content")
    path.with_name("a.txt~").unlink()


def write_in_strokes(path: Path) -> None:
    with path.open("w") as file:
        for letter in "fresh content":
            file.write(letter)
            file.flush()


def copy_over(path: Path) -> None:
    away = path.parent.parent / "away"
    away.write_text("fresh content")
    shutil.copy(away, path)


SAVES = [write_in_place, rename_into_place, move_from_elsewhere, write_in_strokes, copy_over]


def saved(home: Path, save: Callable[[Path], None], event: str) -> None:
    path = home / "in" / "a.txt"

    async def story(watched: Watched) -> None:
        if path.exists():
            await watched.next()
        await watched.caught_up()
        save(path)
        assert await watched.next() == [(event, "in/a.txt")]
        assert watched.elements[-1].get("size") == "13"
        assert await watched.silent()

    # Strokes come in time on a busy machine, too.
    watching(home, story, settle="0.3" if save is write_in_strokes else str(QUIET))


@pytest.mark.parametrize("save", SAVES)
def test_N36_a_new_file_is_told_of_once_however_a_program_makes_it(
    home: Path, save: Callable[[Path], None]
) -> None:
    saved(home, save, "created")


@pytest.mark.parametrize("save", [*SAVES, keep_a_backup])
def test_N36_a_save_is_told_of_once_however_a_program_does_it(
    home: Path, save: Callable[[Path], None]
) -> None:
    (home / "in" / "a.txt").write_text("old")
    saved(home, save, "modified")


def test_a_backup_that_is_kept_is_a_file_of_its_own(home: Path) -> None:
    path = home / "in" / "a.txt"
    path.write_text("old")

    async def story(watched: Watched) -> None:
        await watched.next()
        path.rename(path.with_name("a.bak"))
        path.write_text("fresh content")
        assert await watched.next(2) == [("created", "in/a.bak"), ("modified", "in/a.txt")]

    watching(home, story)


def test_a_file_is_told_of_once_it_has_been_left_alone(home: Path) -> None:
    async def story(watched: Watched) -> None:
        await watched.caught_up()
        with (home / "in" / "a.txt").open("w") as file:
            for _ in range(10):
                file.write("stroke ")
                file.flush()
                await asyncio.sleep(0.02)
        assert await watched.next() == [("created", "in/a.txt")]
        assert watched.elements[0].get("size") == "70"

    watching(home, story, settle="0.3")


def test_moved_and_deleted_files_are_told_of(home: Path) -> None:
    for name in ("a", "b", "c"):
        (home / "in" / name).write_text(name)

    async def story(watched: Watched) -> None:
        await watched.next(3)
        (home / "in" / "a").rename(home / "in" / "z")
        assert await watched.next() == [("moved", "in/z")]
        assert watched.elements[-1].get("from") == "in/a"
        (home / "in" / "b").unlink()
        assert await watched.next() == [("deleted", "in/b")]
        assert watched.elements[-1].get("size") == "1"
        (home / "in" / "c").rename(home / "out")
        assert await watched.next() == [("deleted", "in/c")]
        (home / "in" / "z").rename(home / "in" / "y")
        (home / "in" / "y").rename(home / "in" / "x")
        assert await watched.next() == [("moved", "in/x")]
        assert watched.elements[-1].get("from") == "in/z"

    watching(home, story)


def test_a_file_that_comes_and_goes_within_the_pause_is_not_told_of(home: Path) -> None:
    async def story(watched: Watched) -> None:
        await watched.caught_up()
        for number in range(5):
            (home / "in" / f"tmp{number}").write_text("x")
            (home / "in" / f"tmp{number}").unlink()
        assert await watched.silent()
        (home / "in" / "a").touch()
        assert await watched.next() == [("created", "in/a")]

    watching(home, story)


def test_reading_a_file_is_no_change_and_new_rights_alone_are_none(home: Path) -> None:
    path = home / "in" / "a"
    path.write_text("a")

    async def story(watched: Watched) -> None:
        await watched.next()
        path.read_bytes()
        path.chmod(0o600)
        os.utime(path, ns=(1, path.stat().st_mtime_ns))
        assert await watched.silent()

    watching(home, story)


def test_a_pattern_chooses_and_hidden_files_are_chosen_only_by_their_dot(home: Path) -> None:
    for name in ("a.pdf", "b.PDF", "c.txt", ".d.pdf", "e.pdf~"):
        (home / "in" / name).touch()

    def told(**attributes: str) -> list[str]:
        found: list[str] = []

        async def story(watched: Watched) -> None:
            await watched.next()
            found.extend(each.get("name", "") for each in watched.elements)

        watching(home, story, **attributes)
        return found

    assert told(pattern="*.pdf") == ["a.pdf"]
    assert told(pattern="*.pdf *.txt") == ["a.pdf", "c.txt"]
    assert told(pattern=".*.pdf") == [".d.pdf"]
    assert told() == ["a.pdf", "b.PDF", "c.txt", "e.pdf~"]


def test_a_download_is_told_of_when_it_gets_its_name(home: Path) -> None:
    async def story(watched: Watched) -> None:
        await watched.caught_up()
        (home / "in" / "a.pdf.part").write_text("half")
        assert await watched.silent()
        (home / "in" / "a.pdf.part").rename(home / "in" / "a.pdf")
        assert await watched.next() == [("created", "in/a.pdf")]
        (home / "in" / "a.pdf").rename(home / "in" / "a.old")
        assert await watched.next() == [("deleted", "in/a.pdf")]

    watching(home, story, pattern="*.pdf")


def test_folders_within_are_watched_when_asked(home: Path) -> None:
    (home / "in" / "sub").mkdir()
    (home / "in" / "sub" / "a").touch()
    (home / "in" / ".git").mkdir()
    (home / "in" / ".git" / "hidden").touch()

    async def story(watched: Watched) -> None:
        assert await watched.next() == [("created", "in/sub/a")]
        (home / "in" / ".git" / "objects").mkdir()
        (home / "in" / ".git" / "objects" / "hidden").touch()
        (home / "in" / ".git" / "hidden").write_text("changed")
        (home / "in" / ".cache").mkdir()
        (home / "in" / ".cache" / "hidden").touch()
        assert await watched.silent()
        (home / "in" / "new" / "deep").mkdir(parents=True)
        (home / "in" / "new" / "deep" / "b").write_text("b")
        assert await watched.next() == [("created", "in/new/deep/b")]
        (home / "in" / "new").rename(home / "in" / "newer")
        assert await watched.next() == [("moved", "in/newer/deep/b")]
        shutil.rmtree(home / "in" / "newer")
        assert await watched.next() == [("deleted", "in/newer/deep/b")]
        (home / "in" / "sub").rename(home / "gone")
        assert await watched.next() == [("deleted", "in/sub/a")]
        (home / "gone").rename(home / "in" / "back")
        assert await watched.next() == [("created", "in/back/a")]
        (home / "in" / "back" / "a").write_text("still heard")
        assert await watched.next() == [("modified", "in/back/a")]

    watching(home, story, recursive="yes")


def test_without_being_asked_folders_within_are_not_looked_into(home: Path) -> None:
    (home / "in" / "sub").mkdir()
    (home / "in" / "sub" / "a").touch()

    async def story(watched: Watched) -> None:
        await watched.caught_up()
        (home / "in" / "sub" / "b").touch()
        (home / "in" / "other").mkdir()
        (home / "in" / "other" / "c").touch()
        assert await watched.silent()

    watching(home, story)


def test_links_and_what_is_no_file_are_left_alone(home: Path) -> None:
    (home / "outside").mkdir()
    (home / "outside" / "secret").write_text("secret")
    (home / "in" / "to-folder").symlink_to(home / "outside")
    (home / "in" / "to-file").symlink_to(home / "outside" / "secret")
    (home / "in" / "loop").symlink_to(home / "in")
    os.mkfifo(home / "in" / "pipe")
    (home / "in" / "a").touch()

    async def story(watched: Watched) -> None:
        assert await watched.next() == [("created", "in/a")]
        (home / "in" / "a").unlink()
        (home / "in" / "a").symlink_to(home / "outside" / "secret")
        assert await watched.next() == [("deleted", "in/a")]
        assert await watched.silent()

    watching(home, story, recursive="yes")


def test_a_file_that_may_not_be_read_is_an_error_and_its_neighbours_are_told_of(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "locked", "z"):
        (home / "in" / name).touch()
    # Only the answer of the system is replaced, as root may read everything.
    locked = {"locked"}
    monkeypatch.setattr(files.os, "access", lambda path, _: Path(path).name not in locked)

    async def story(watched: Watched) -> None:
        assert await watched.next(3) == [
            ("created", "in/a"),
            ("created", "in/z"),
            ("unreadable-file", "in/locked"),
        ]
        [error] = [each for each in watched.elements if each.tag == "error"]
        assert error.get("folder") == "in"
        assert "give narval the right" in error.findtext("message", "")
        locked.clear()
        (home / "in" / "locked").chmod(0o640)
        assert await watched.next() == [("created", "in/locked")]

    watching(home, story)


def test_a_name_that_xml_cannot_carry_is_an_error(home: Path) -> None:
    for name in (b"bad-\xff", b"bell-\x07", b"line\nbreak", "ünï 🔭".encode()):
        Path(os.fsdecode(bytes(home / "in") + b"/" + name)).touch()

    async def story(watched: Watched) -> None:
        assert await watched.next(4) == [
            ("created", "in/line\nbreak"),
            ("created", "in/ünï 🔭"),
            ("unnameable-file", "in/bad-\ufffd"),
            ("unnameable-file", "in/bell-\ufffd"),
        ]
        for each in watched.elements:
            assert etree.fromstring(canonical(each)).get("path") == each.get("path")
        texts = [each.findtext("message") for each in watched.elements]
        assert [text.partition("it is ")[2] for text in texts if text] == [r"$'bad-\xff'", r"$'bell-\x07'"]
        Path(os.fsdecode(bytes(home / "in") + b"/bad-\xff")).rename(home / "in" / "good")
        assert await watched.next() == [("created", "in/good")]

    watching(home, story)


def test_a_folder_that_goes_and_comes_back_tells_only_what_differs(home: Path) -> None:
    for name in ("a", "b"):
        (home / "in" / name).touch()

    async def story(watched: Watched) -> None:
        await watched.next(2)
        (home / "in").rename(home / "unplugged")
        assert await watched.next() == [("no-such-folder", "")]
        (home / "unplugged" / "b").unlink()
        (home / "unplugged" / "c").touch()
        (home / "unplugged").rename(home / "in")
        assert await watched.next(2) == [("created", "in/c"), ("deleted", "in/b")]
        (home / "in" / "a").write_text("heard again")
        assert await watched.next() == [("modified", "in/a")]

    watching(home, story)


def test_a_folder_that_is_removed_tells_of_its_files_and_is_watched_when_made_anew(home: Path) -> None:
    (home / "in" / "a").touch()

    async def story(watched: Watched) -> None:
        await watched.next()
        shutil.rmtree(home / "in")
        assert await watched.next(2) == [("deleted", "in/a"), ("no-such-folder", "")]
        (home / "in").mkdir()
        (home / "in" / "a").write_text("a")
        assert await watched.next() == [("created", "in/a")]
        shutil.rmtree(home / "in")
        (home / "in").mkdir()
        (home / "in" / "b").touch()
        assert await watched.next(2) == [("created", "in/b"), ("deleted", "in/a")]
        (home / "in" / "b").write_text("b")
        assert await watched.next() == [("modified", "in/b")]

    watching(home, story)


def test_a_folder_that_is_not_there_yet_is_waited_for(home: Path) -> None:
    async def story(watched: Watched) -> None:
        assert await watched.next() == [("no-such-folder", "")]
        await watched.caught_up()
        (home / "later" / "still").mkdir(parents=True)
        (home / "later" / "still" / "a").touch()
        assert await watched.next() == [("created", "later/still/a")]

    watching(home, story, path="later/still")


def test_a_folder_outside_the_home_is_told_of_by_its_whole_path(home: Path) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("a")

    async def story(watched: Watched) -> None:
        assert await watched.next() == [("created", f"{outside}/a")]
        assert watched.elements[0].get("folder") == str(outside)
        assert watched.elements[0].get("sha256", "").startswith("ca978112ca1b")

    watching(home, story, path=str(outside), sha256="yes")


def test_N37_a_new_start_tells_only_what_changed_while_no_daemon_ran(home: Path) -> None:
    inside = home / "in"
    for name in ("same", "changed", "gone", "renamed"):
        (inside / name).write_text(name)

    async def first(watched: Watched) -> None:
        await watched.next(4)
        (inside / "later").write_text("later")
        await watched.next()
        await asyncio.sleep(QUIET)

    async def second(watched: Watched) -> None:
        assert await watched.next(4) == [
            ("created", "in/fresh"),
            ("deleted", "in/gone"),
            ("modified", "in/changed"),
            ("moved", "in/new-name"),
        ]
        assert await watched.silent()

    watching(home, first)
    (inside / "changed").write_text("changed since")
    (inside / "gone").unlink()
    (inside / "renamed").rename(inside / "new-name")
    (inside / "fresh").touch()
    watching(home, second)


def test_N37_what_was_not_recorded_is_told_again_under_the_same_key(home: Path) -> None:
    (home / "in" / "a").touch()
    keys = []

    async def cut_short() -> None:
        async with aclosing(files.watch(element("folder", path="in"))) as source:  # type: ignore[type-var]
            [told] = await anext(source)
            keys.append(etree.XPath(f"string({files.FILES.unique})")(told))

    for _ in range(2):
        call_of(home).context().run(asyncio.run, cut_short())
    assert len(set(keys)) == 1

    async def again(watched: Watched) -> None:
        await watched.next()
        (home / "in" / "a").rename(home / "away")
        await watched.next()
        (home / "away").rename(home / "in" / "a")
        await watched.next()
        unique = [etree.XPath(f"string({files.FILES.unique})")(each) for each in watched.elements]
        assert len(set(unique)) == 3

    watching(home, again)


def test_what_is_kept_stays_small_and_survives_being_cut_short(home: Path) -> None:
    path = home / "in" / "a"

    async def busy(watched: Watched) -> None:
        await watched.caught_up()
        for number in range(4):
            path.write_text("x" * (number + 1))
            await watched.next()
        await asyncio.sleep(QUIET)

    async def calm(watched: Watched) -> None:
        await watched.caught_up()
        assert await watched.silent()

    watching(home, busy)
    [kept] = (home / "var" / "files").iterdir()
    line = kept.read_text().splitlines()[-1]
    kept.write_text((line + "\n") * 1_000 + "garbage\n[]\n{}\n[1, 2]\n" + line + '\n["in/half", 1')
    watching(home, calm)
    assert len(kept.read_text().splitlines()) == 1


def test_a_burst_is_looked_through_as_a_whole(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_watching, "BURST", 20)
    monkeypatch.setattr(files, "BATCH", 64)
    monkeypatch.setattr(files_watching, "BATCH", 64)

    async def story(watched: Watched) -> None:
        await watched.caught_up()
        for number in range(300):
            (home / "in" / f"{number:03}").touch()
        assert await watched.next(300) == [("created", f"in/{number:03}") for number in range(300)]
        assert await watched.silent()

    watching(home, story)


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(("write", "delete", "rename")), st.integers(0, 3), st.integers(0, 3))
)


@settings(max_examples=examples(150), deadline=None)
@given(steps=STEPS, looks=st.sets(st.integers(0, 20)), whole=st.booleans())
def test_whatever_happens_the_changes_told_add_up_to_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], looks: set[int], whole: bool
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    wanted = files_watching.Folder(folder, None, ("*",), True, 0.0, False)
    told, believed, dirty = files_watching.Told(None), dict[str, int](), dict[str, bool]()

    def look() -> None:
        changes = files_watching.look(wanted, told.known, {files_watching.WHOLE: True} if whole else dirty)
        for change in changes:
            if change.event in ("moved", "deleted"):
                del believed[change.origin or change.path]
            assert (change.path in believed) == (
                change.event in ("modified", "deleted")
            ) or change.event == "deleted"
            if change.event != "deleted":
                believed[change.path] = change.stamp.size
        told.record(changes)
        dirty.clear()

    for number, (what, one, other) in enumerate(steps):
        source, target = folder / str(one), folder / str(other)
        if what == "write":
            source.write_text("x" * (number + 1))
        elif what == "delete":
            source.unlink(missing_ok=True)
        elif source.exists():
            source.rename(target)
        dirty |= {str(one): False, str(other): False}
        if number in looks:
            look()
    look()
    assert believed == {path.name: path.stat().st_size for path in folder.iterdir()}


@pytest.mark.parametrize("settle", ["soon", "-1", "nan", "1e9"])
def test_a_settle_that_is_no_time_says_what_was_expected(home: Path, settle: str) -> None:
    with pytest.raises(ActionError, match="settle"):
        watching(home, lambda watched: watched.caught_up(), settle=settle)
