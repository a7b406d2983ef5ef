"""The plans of SQLite for every statement, on a store of many runs: what takes a whole table is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.homes import fill
from narval.files.home import Home
from narval.store.reading import Tables
from narval.store.statements import MENTIONING, statements, writes
from narval.store.tables import SQLITE
from narval.surfaces.cli.without_daemon import HomeView

RUNS = 100_000

WHOLE = {
    "drop definitions": {"SCAN definitions", "SCAN runs"},  # runs once, where a version is not current
    "drop texts": {"SCAN definitions", "SCAN texts"},  # what elements name is looked up
    "version": {"SCAN version"},
    "agents": {"SCAN agents"},
    "held by agents": {"SCAN elements USING COVERING INDEX elements_by_eid", "SCAN runs"},
    "facts of agents": {"SCAN agents USING COVERING INDEX agents_by_name"},
    "waiting messages": {"SCAN messages"},
    "message pairs": {  # of all agents, in a thread, for a page of them
        "SCAN taken",
        "SCAN messages",
        "SCAN pairs",
        "USE TEMP B-TREE FOR GROUP BY",
        "USE TEMP B-TREE FOR ORDER BY",
    },
    "stray messages": {"SCAN messages", "USE TEMP B-TREE FOR ORDER BY"},  # where a store is shared
    "messages of sender": {"SCAN messages", "USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"},  # for a listing
    "contexts": {"USE TEMP B-TREE FOR ORDER BY"},  # once for all: the makers stand in the elements
    "results": {"USE TEMP B-TREE FOR ORDER BY"},  # of one scope: the key is what is looked up
    "results of files": {"USE TEMP B-TREE FOR ORDER BY"},  # as those are
    "entries since": {"USE TEMP B-TREE FOR ORDER BY"},  # of a trial on the past, in a program of its own
    "moments": {"USE TEMP B-TREE FOR ORDER BY"},
    "definitions": {"USE TEMP B-TREE FOR ORDER BY"},
} | {name: {f"SCAN {name.removeprefix('mentions in ')}"} for name in MENTIONING}
"""The statements that scan or sort, of which each is done once in a start at most; what mentions a text is
looked for once an hour at most, in a thread, where there are files that it may name.
"""

QUERIES = {name: (sql, sql.count("?")) for name, sql in statements(SQLITE).items() if name != "schema"} | {
    sql: (sql, width) for field in writes().values() for _, effects in field for sql, width in effects
}
"""Each statement, and how many parameters it has."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    fill(folder, "ended", RUNS)
    return folder


@pytest.fixture(scope="module")
def database(large: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(large / "var/store.db")) as database:
        [(runs,)] = database.execute("SELECT count(*) FROM runs")
        [(elements,)] = database.execute("SELECT count(*) FROM elements")
        assert min(runs, elements) >= RUNS
        yield database


@pytest.mark.parametrize("name", QUERIES)
def test_a_statement_searches(database: sqlite3.Connection, name: str) -> None:
    sql, width = QUERIES[name]
    plan = database.execute(f"EXPLAIN QUERY PLAN {sql}", [1] * width)
    whole = {detail for *_, detail in plan if "SCAN" in detail or "TEMP B-TREE" in detail}
    assert whole == WHOLE.get(name, set())


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows that are read of tables."""
    found: list[Any] = []
    read, stream = Tables.read, Tables.stream

    def counted(self: Tables, *given: Any) -> list[Any]:
        found.extend(answer := read(self, *given))
        return answer

    def counted_stream(self: Tables, *given: Any) -> Iterator[Any]:
        for row in stream(self, *given):
            found.append(row)
            yield row

    monkeypatch.setattr(Tables, "read", counted)
    monkeypatch.setattr(Tables, "stream", counted_stream)
    return found


def asked(folder: Path, method: str, **query: Any) -> Any:
    with closing(HomeView(Home(folder))) as home:
        return home.ask(method, **query)


def test_a_page_of_runs_reads_what_it_shows(large: Path, tmp_path: Path, rows: list[Any]) -> None:
    fill(tmp_path, "ended", 60)
    rows.clear()
    assert len(asked(tmp_path, "runs", limit=51)) == 51
    of_few = len(rows)
    rows.clear()
    newest = asked(large, "runs", limit=51)
    assert len(rows) == of_few < 100
    following = asked(large, "runs", limit=9, before=newest[-1]["eid"])
    eids = [run["eid"] for run in (*newest, *following)]
    assert eids == list(range(eids[0], eids[0] - 2 * 60, -2))


def test_a_page_is_part_of_the_listing(tmp_path: Path) -> None:
    fill(tmp_path, "waiting", 5)
    every = asked(tmp_path, "runs")[::-1]
    assert asked(tmp_path, "runs", limit=3) == every[:3]
    assert asked(tmp_path, "runs", limit=9, before=every[2]["eid"]) == every[3:]
    assert asked(tmp_path, "runs", limit=9, state="running", name="w.waiting") == every
    assert asked(tmp_path, "runs", limit=9, state="failed") == []
    assert asked(tmp_path, "runs", limit=9, kind="process") == []


def test_what_files_declare_is_in_a_page_as_in_the_listing(tmp_path: Path) -> None:
    fill(tmp_path, "ended", 5)
    (tmp_path / "data/memory.xml").write_text('<memory><start-plan recipe="w.ended"/></memory>')
    every = [run["eid"] for run in asked(tmp_path, "runs")[::-1]]
    assert len(every) == 6
    assert [run["eid"] for run in asked(tmp_path, "runs", limit=2)] == every[:2]


def test_another_question_to_the_same_look_reads_the_rest(tmp_path: Path) -> None:
    fill(tmp_path, "ended", 5)
    with closing(HomeView(Home(tmp_path))) as home:
        newest = home.ask("runs", limit=1)
        assert len(home.ask("runs")) == 5
        assert home.ask("runs", limit=1) == newest
        assert len(home.ask("memory", xpath="mail")) == 5


@pytest.mark.parametrize("recipe", ["ended", "waiting"])
def test_a_start_reads_as_many_rows_as_there_are(tmp_path: Path, rows: list[Any], recipe: str) -> None:
    read = []
    for runs in (10, 20, 30):
        folder = tmp_path / str(runs)
        fill(folder, recipe, runs)
        rows.clear()
        asked(folder, "runs")
        read.append(len(rows))
    assert read[2] - read[1] == read[1] - read[0] <= 10 * 6
