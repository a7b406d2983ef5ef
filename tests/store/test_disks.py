"""Disks that are full, closed or locked: a clear message, and nothing is lost."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.errors import StoreError
from narval.store.open import open_store
from tests.store.stores import added, batch, content, entry, harness, reopened, whole_turns


def test_a_full_disk_stops_with_a_clear_message_and_loses_nothing(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)]))
    store.writer.execute("PRAGMA max_page_count=60")  # type: ignore[attr-defined]
    before = content(store)

    def fill_up() -> None:
        for number in range(2, 1000):
            large = added(number, b"<e>" + b"x" * 3000 + b"</e>")
            store.commit(batch(elements=[large], journal=[entry(1, number)]))
            before.update(content(store))

    with pytest.raises(StoreError, match="the disk is full") as raised:
        fill_up()
    for part in (str(path), "nothing of this turn was performed", "free space and start again"):
        assert part in str(raised.value)
    assert len(before["elements"]) > 1
    assert content(store) == before
    store = reopened(store, path)
    assert content(store) == before
    store.commit(batch(elements=[added(5000)]))
    store.close()


def test_a_limit_on_files_stops_with_a_clear_message_and_loses_nothing(path: Path) -> None:
    said = harness(
        """
        def work():
            store = open_store(Path(sys.argv[1]))
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
            for number in range(1000):
                store.commit(turn(number, 5))
                print(number + 1, flush=True)
        _, status = os.waitpid(child(work), 0)
        assert os.waitstatus_to_exitcode(status) == 7
        """,
        path,
    )
    *confirmed, last = said.splitlines()
    assert last.startswith("StoreError: the disk failed")
    assert str(path) in last
    assert "nothing of this turn was performed" in last
    assert "start again" in last
    assert whole_turns(path, 5) == int(confirmed[-1]) > 0


def test_no_room_for_a_new_store_is_said_and_leaves_nothing_half_made(path: Path) -> None:
    said = harness(
        """
        def work():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            open_store(Path(sys.argv[1]))
        os.waitpid(child(work), 0)
        """,
        path,
    )
    assert said.startswith("StoreError: the disk failed")
    assert not path.exists()
    open_store(path).close()


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that every user of the machine may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


READ_ONLY = """
path = Path(sys.argv[1])
open_store(sys.argv[2]).close()  # what is imported late may be out of reach of the other user
def work():
    for each in path.parent.iterdir():
        each.chmod(0o444)
    path.parent.chmod(0o555)
    if os.getuid() == 0:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    open_store(path)
_, status = os.waitpid(child(work), 0)
assert os.waitstatus_to_exitcode(status) == 7
"""


def test_a_folder_one_may_not_write_in_is_said_for_a_new_store(common: Path, tmp_path: Path) -> None:
    path = common / "store.db"
    said = harness(READ_ONLY, path, tmp_path / "other.db")
    assert said.startswith("StoreError: ")
    assert str(path) in said
    assert "Permission denied" in said


def test_a_folder_one_may_not_write_in_is_said_for_an_old_store(common: Path, tmp_path: Path) -> None:
    path = common / "store.db"
    open_store(path).close()
    said = harness(READ_ONLY, path, tmp_path / "other.db")
    assert said.startswith("StoreError: the store ")
    assert str(path) in said
    assert "written" in said


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        open_store(tmp_path / "nowhere" / "store.db")


def test_a_store_that_another_program_holds_locked_is_said_and_loses_nothing(path: Path) -> None:
    store = open_store(path, patience=0.02)
    store.commit(batch(elements=[added(1)]))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program holds the store locked") as raised:
        store.commit(batch(elements=[added(2)]))
    assert "nothing of this turn was performed" in str(raised.value)
    store.close()
    with pytest.raises(StoreError, match=f"another program holds the store locked: {path}"):
        open_store(path, patience=0.02)
    other.execute("ROLLBACK")
    other.close()
    with open_store(path) as again:
        assert [kept.element.eid for kept in again.of().elements()] == [1]
