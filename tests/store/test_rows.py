"""What the store of one agent costs, counted: statements of a commit, bytes of a row, work of a start."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from narval.core.elements.element import Origin
from narval.store.batch import Batch, MarkRow
from narval.store.open import open_store
from narval.store.statements import statements
from narval.store.tables import SQLITE
from tests.store.stores import PAGE, added, batch, entry, running

HEAD_OF_LOG, HEAD_OF_PAGE = 32, 24

BEFORE = """
CREATE TABLE elements (eid INTEGER NOT NULL, name TEXT NOT NULL, xml BLOB NOT NULL, added DOUBLE NOT NULL,
    origin BLOB, declared TEXT NOT NULL, outdated BOOLEAN NOT NULL, held_by INTEGER, PRIMARY KEY (eid));
CREATE TABLE contexts (run INTEGER NOT NULL, eid INTEGER NOT NULL, PRIMARY KEY (run, eid)) WITHOUT ROWID;
CREATE TABLE marks (eid INTEGER NOT NULL, definition TEXT NOT NULL, place TEXT NOT NULL, slot TEXT NOT NULL,
    PRIMARY KEY (eid, definition, place, slot)) WITHOUT ROWID;
CREATE TABLE runs (eid INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL,
    state TEXT NOT NULL, phase TEXT NOT NULL, started DOUBLE NOT NULL, ended DOUBLE, parent_run INTEGER,
    parent_step TEXT NOT NULL, parent_call TEXT NOT NULL, attempt INTEGER NOT NULL, error INTEGER,
    PRIMARY KEY (eid));
CREATE TABLE journal (run INTEGER NOT NULL, seq INTEGER NOT NULL, at DOUBLE NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (seq));
CREATE INDEX journal_of_run ON journal (run);
"""
"""The tables of steps as they were when a store knew one agent only."""

COPIED = {
    "elements": "eid, name, xml, added, origin, declared, outdated, held_by",
    "contexts": "run, eid",
    "marks": "eid, definition, place, slot",
    "runs": "eid, kind, name, digest, state, phase, started, ended, parent_run, parent_step, parent_call, "
    "attempt, error",
    "journal": "run, seq, at, data",
}


def step(number: int) -> Batch:
    """A step that gives an element, takes one that another run gave, and is recorded with its run."""
    run = 4 * (number // 10) + 1
    mail = added(4 * number + 2, b"<mail>" + b"x" * 80 + b"</mail>", origin=Origin(run, "s1", f"{number}.1"))
    return batch(
        elements=[mail],
        held=[(run, mail.element.eid), (run, 4 * max(0, number - 15) + 2)],
        marks=[MarkRow("mail.triage", "s1", "mail", mail.element.eid, run)],
        runs=[running(run, digest="d" * 64)],
        journal=[entry(run, 5 * number + 1, "s" * 40)],
    )


def bytes_of_tables(connection: sqlite3.Connection) -> dict[str, int]:
    """The bytes that the rows of each table take with its indexes, to the page, in a file made small."""
    connection.execute("VACUUM")
    full, sizes = _pages(connection), {}
    for table in reversed(COPIED):
        connection.execute(f"DELETE FROM {table}")
        connection.execute("VACUUM")
        left = _pages(connection)
        sizes[table], full = (full - left) * PAGE, left
    return sizes


def _pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA page_count").fetchone()[0])


def test_G22_a_row_is_at_most_12_bytes_longer_than_it_was_for_one_agent(path: Path, tmp_path: Path) -> None:
    with open_store(path) as store:
        for at in range(300_000, 306_000, 100):  # a home that has been at work for a while
            store.commit(*(step(number) for number in range(at, at + 100)))
    with sqlite3.connect(tmp_path / "before.db", isolation_level=None) as old:
        old.execute(f"PRAGMA page_size={PAGE}")
        old.executescript(BEFORE)
        old.execute("ATTACH ? AS now", [str(path)])
        for table, columns in COPIED.items():
            rows = "rowid" if table in ("elements", "journal") else "1"
            old.execute(f"INSERT INTO {table} SELECT {columns} FROM now.{table} ORDER BY {rows}")
        count = Counter(
            {table: old.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in COPIED}
        )
        old.execute("DETACH now")
        pages = _pages(old)
        before = bytes_of_tables(old)
    with sqlite3.connect(path, isolation_level=None) as new:
        more = (_pages(new) - pages) * PAGE
        after = bytes_of_tables(new)
    assert more / count.total() <= 12, "as it was written, with leaves of indexes that are not full"
    grown = {table: (after[table] - before[table]) / count[table] for table in COPIED}
    assert all(more <= 12 for more in grown.values()), grown


def traced(path: Path, *batches: Batch) -> list[str]:
    """The first words of the statements that one commit of these batches is."""
    with open_store(path) as store:
        words: list[str] = []
        connection: Any = store.writer  # type: ignore[attr-defined]
        connection.set_trace_callback(lambda text: words.append(" ".join(text.split()[:3])))
        store.commit(*batches)
        connection.set_trace_callback(None)
    return words


def test_G22_a_commit_is_one_statement_for_each_row(path: Path) -> None:
    assert traced(path, batch(journal=[entry(1, 1)])) == ["INSERT INTO journal"]
    assert traced(path, step(1)) == [
        "BEGIN",
        "INSERT INTO elements",
        "INSERT INTO contexts",
        "INSERT INTO marks",
        "INSERT INTO runs",
        "INSERT INTO journal",
        "COMMIT",
    ]


def written(path: Path, agents: int, turn: Callable[[int, int], Batch]) -> int:
    """How many pages one commit writes that has a turn of each agent, where each has made fifty before."""
    log = path.with_name(path.name + "-wal")
    with open_store(path) as store:
        for number in range(1, 51):
            store.commit(*(both(agent, number) for agent in range(1, agents + 1)))
        store.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
        store.commit(*(turn(agent, 51) for agent in range(1, agents + 1)))
        return (log.stat().st_size - HEAD_OF_LOG) // (HEAD_OF_PAGE + PAGE)


def entry_alone(agent: int, number: int) -> Batch:
    return batch(agent, journal=[entry(1, 3 * number)])


def both(agent: int, number: int) -> Batch:
    return batch(agent, elements=[added(number)], journal=[entry(1, 3 * number)])


def test_a_commit_of_one_agent_writes_a_page_of_each_table_and_index(path: Path, tmp_path: Path) -> None:
    assert written(path, 1, entry_alone) == 2
    assert written(tmp_path / "other.db", 1, both) == 4


def test_a_hundred_agents_write_their_rows_to_few_pages(path: Path) -> None:
    """Clustered by agent, it would be a page and more of each table for each of them: 200 at least."""
    assert written(path, 100, both) <= 110


def work_of_contexts(path: Path, runs: int) -> int:
    """How much SQLite does to tell what so many runs hold that are over, in hundreds of its instructions."""
    with open_store(path) as store:
        for at in range(0, runs, 100):
            store.commit(
                batch(
                    runs=[running(3 * run + 1, state="done", phase="done") for run in range(at, at + 100)],
                    elements=[added(3 * run + 2) for run in range(at, at + 100)],
                    held=[(3 * run + more, 3 * run + 2) for run in range(at, at + 100) for more in (1, 4)],
                )
            )
    with sqlite3.connect(path) as reader:
        done = 0

        def count() -> None:
            nonlocal done
            done += 1

        reader.set_progress_handler(count, 100)
        rows = reader.execute(statements(SQLITE)["contexts"], (1, 1)).fetchall()
        reader.set_progress_handler(None, 0)
    assert len(rows) == 2 * runs - 1
    return done


def test_a_start_reads_four_times_as_many_contexts_with_four_times_the_work(tmp_path: Path) -> None:
    few, many = work_of_contexts(tmp_path / "few.db", 1_000), work_of_contexts(tmp_path / "many.db", 4_000)
    assert many <= 4.4 * few
