"""Damage of the file is found and refused by name."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import StoreError
from narval.store.codec import decode_entry
from narval.store.open import open_store
from narval.store.rows import LOST_PAGES
from tests.store.stores import HARNESS, PAGE, Moved, batch, entry, filled_store, read_all


@pytest.mark.parametrize("fill", [b"\0" * PAGE, b"\xff" * PAGE, bytes(range(256)) * (PAGE // 256)])
@pytest.mark.parametrize("clean", [True, False])
def test_no_damaged_page_is_passed_over_in_silence(path: Path, clean: bool, fill: bytes) -> None:
    kept = filled_store(path, clean=clean)
    assert read_all(path) == kept
    if clean:
        kept = read_all(path)
    sound = path.read_bytes()
    refusals = 0
    for page in range(len(sound) // PAGE):
        path.write_bytes(sound[: page * PAGE] + fill + sound[(page + 1) * PAGE :])
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        refusal = refused(path, kept)
        if refusal:
            refusals += 1
            assert str(path) in refusal
            assert "damaged" in refusal
    assert refusals >= len(sound) // PAGE - 4  # all but four indexes, which nobody read


def refused(path: Path, kept: dict[str, Any]) -> str:
    """Why a store cannot be read; empty when it can, and then it has all it had."""
    try:
        found = read_all(path)
    except StoreError as error:
        return str(error)
    assert found == kept
    return ""


def test_a_text_of_other_bytes_is_damage_and_is_not_shown(path: Path) -> None:
    filled_store(path, clean=True)
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("UPDATE runs SET name = CAST(x'6107ff' AS TEXT)").rowcount
    with pytest.raises(StoreError) as raised:
        read_all(path)
    assert f"damaged: {path} (a text in the column name is not UTF-8); put back a" in str(raised.value)


@pytest.mark.parametrize("left", [0, 1, 100, 5000])
def test_a_file_cut_short_is_refused_by_name(path: Path, left: int) -> None:
    filled_store(path, clean=True)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(StoreError, match="damaged") as raised:
        read_all(path)
    assert str(path) in str(raised.value)


def test_a_log_whose_store_is_gone_is_refused(path: Path) -> None:
    path.with_name("store.db-wal").write_bytes(b"what was committed last")
    with pytest.raises(StoreError, match=r"is gone, but store\.db-wal is there"):
        open_store(path)
    assert path.with_name("store.db-wal").read_bytes() == b"what was committed last"


def test_an_entry_that_cannot_be_read_is_refused(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(journal=[entry(1, 1)]))
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE journal SET data = x'c1'")
    other.close()
    with open_store(path) as store, pytest.raises(StoreError, match="an entry of the journal cannot be read"):
        decode_entry(next(store.of().journal(1)).data, Moved, lambda eid: None)


def killed(path: Path, last: str = "") -> None:
    """A program commits turns and is gone, without having closed the store."""
    program = f"""
        store = open_store(Path(sys.argv[1]))
        for number in range(10):
            store.commit(turn(number))
        {last}
        os._exit(0)
        """
    script = f"import os\n{HARNESS}{textwrap.dedent(program)}"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


@pytest.mark.parametrize("rest", [b"", b"\0"])
@pytest.mark.parametrize("left", [0, 31, 5_000, -PAGE, -1])
def test_a_log_cut_short_is_noted_for_the_next_daemon(path: Path, left: int, rest: bytes) -> None:
    killed(path)
    log = path.with_name("store.db-wal")
    sound = log.read_bytes()
    log.write_bytes(sound[:left] + rest * (len(sound) - len(sound[:left])))
    with open_store(path) as store:
        assert int(store.of().meta[LOST_PAGES]) > 0


@pytest.mark.parametrize("pragma", ["", "FULL", "RESTART", "TRUNCATE"])
def test_a_log_that_is_whole_or_folded_is_not_said_to_be_cut(path: Path, pragma: str) -> None:
    killed(path, f'store.writer.execute("PRAGMA wal_checkpoint({pragma})")' if pragma else "")
    with open_store(path) as store:
        assert LOST_PAGES not in store.of().meta
        assert len(list(store.of().elements())) == 10


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_store_whose_file_is_taken_away_says_so_and_is_saved_at_its_end(
    path: Path, is_replaced: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.store.database.UNNOTICED", 0.0)
    kept = filled_store(path, clean=True)
    store = open_store(path)
    assert (store.loss(), store.keep()) == ("", None)
    path.rename(path.with_name("elsewhere.db"))
    if is_replaced:
        path.write_bytes(b"other")
    store.commit(batch())
    store.commit(batch())
    [line] = caplog.messages
    assert "while the daemon has it open; to save what it has: narval backup FILE" in line
    store.close()
    there = path.with_name("store.db.saved") if is_replaced else path
    assert caplog.messages[-1] == f"all that the store had is saved: {there}"
    assert read_all(there) == kept
    assert not is_replaced or path.read_bytes() == b"other"
