"""A daemon that is killed at any moment loses nothing that was confirmed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from narval.store import sqlite
from narval.store.open import open_store
from tests.store.stores import added, batch, entry, harness, running, whole_turns


def test_N35_killed_before_any_statement_a_turn_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    said = harness(
        """
        import shutil
        folder = Path(sys.argv[1])
        open_store(folder / 'new.db').close()
        for statement in range(1, 20):
            def work():
                store = open_store(shutil.copy(folder / 'new.db', folder / f'{statement}.db'))
                left = [statement]
                def trace(sql):
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)
                store.writer.set_trace_callback(trace)
                for number in range(2):
                    store.commit(turn(number))
                    print(statement, number + 1, flush=True)
            os.waitpid(child(work), 0)
        """,
        tmp_path,
    )
    confirmed = dict.fromkeys(range(1, 20), 0)
    confirmed.update((int(statement), int(turns)) for statement, turns in map(str.split, said.splitlines()))
    kept = {statement: whole_turns(tmp_path / f"{statement}.db") for statement in confirmed}
    assert kept == confirmed
    assert set(kept.values()) == {0, 1, 2}


def test_N35_killed_at_any_moment_nothing_confirmed_is_lost(path: Path) -> None:
    size, confirmed = 10, 0
    for _ in range(2):
        said = harness(
            """
            path, size, rounds = Path(sys.argv[1]), int(sys.argv[2]), 6
            for round in range(rounds):
                reader, writer = os.pipe()
                def work():
                    store = open_store(path)
                    number = len(list(store.of().journal(1)))
                    while True:
                        store.commit(turn(number, size))
                        number += 1
                        os.write(writer, number.to_bytes(4))
                pid = child(work)
                os.close(writer)
                told = os.read(reader, 4)
                import time
                time.sleep(random.uniform(0.0, 0.02))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                while more := os.read(reader, 1 << 16):
                    told += more
                os.close(reader)
            print(int.from_bytes(told[-4:]))
            """,
            path,
            size,
        )
        turns = whole_turns(path, size)
        assert confirmed < int(said) <= turns <= int(said) + 1
        confirmed = turns


def test_N35_killed_while_it_is_made_a_store_is_made_anew(path: Path) -> None:
    for remains in ("store.db.new", "store.db.new-wal", "store.db.new-journal"):
        (path.parent / remains).write_bytes(b"half of a store")
    with open_store(path) as store:
        store.commit(batch(elements=[added(1)]))
    assert sorted(each.name for each in path.parent.iterdir()) == ["store.db"]


def test_N35_a_torn_end_of_the_log_loses_only_what_was_being_written(path: Path, tmp_path: Path) -> None:
    store = open_store(path)
    lengths = []
    for number in range(5):
        store.commit(
            batch(
                elements=[added(number + 1)],
                journal=[entry(1, number * 3 + 1)],
                runs=[running(1, state=str(number))],
            )
        )
        lengths.append((path.parent / "store.db-wal").stat().st_size)
    for turns, length in enumerate(lengths):
        torn = tmp_path / f"torn-{turns}"
        torn.mkdir()
        shutil.copy(path, torn / "store.db")
        log = (path.parent / "store.db-wal").read_bytes()
        (torn / "store.db-wal").write_bytes(log[: length - 100])
        with open_store(torn / "store.db") as other:
            assert len(list(other.of().elements())) == len(list(other.of().journal(1))) == turns
            assert [row.state for row in other.of().runs()] == [str(turns - 1)][: turns and 1]
    store.close()


def test_the_file_is_looked_through_after_a_stop_that_was_not_clean(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    looked: list[Path] = []
    monkeypatch.setattr(sqlite.File, "look_through", lambda file, connection: looked.append(file.path))
    open_store(path).close()
    open_store(path).close()
    assert looked == []
    harness("store = open_store(Path(sys.argv[1])); store.commit(turn(0)); os._exit(0)", path)
    open_store(path).close()
    assert looked == [path]
