"""The store on a real server of PostgreSQL: its texts, what it refuses, what is made and dropped there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from narval.core.errors import FencedError, RefusedRowsError, StoreError
from narval.store import migrate, tables
from narval.store.__main__ import bring
from narval.store.batch import AgentRow, DefinitionRow, MomentRow, TakenRow
from narval.store.look import look
from narval.store.open import open_store
from narval.store.postgresql import functions, record, server
from narval.store.postgresql.database import SharedDatabase
from narval.store.postgresql.record import divided
from tests.store.sharing import leases_of
from tests.store.stores import added, batch, content, entry, harness, running


@pytest.fixture
def store(postgres_url: str) -> Iterator[SharedDatabase]:
    """A store that a daemon has joined."""
    with open_store(postgres_url) as made:
        leases_of(made).join("attic", "attic.example", "1.0")
        assert isinstance(made, SharedDatabase)
        yield made


@pytest.fixture
def database(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the test's own."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def test_psycopg_is_not_imported_for_a_file(path: Path) -> None:
    told = harness("open_store(Path(sys.argv[1])).close(); print('psycopg' in sys.modules)", path)
    assert told == "False\n"


# --- commits ----------------------------------------------------------------------------------------------


def test_G17_what_postgresql_cannot_have_is_refused_and_the_next_is_taken(store: SharedDatabase) -> None:
    store.commit(batch(elements=[added(1)], runs=[running(9)]))
    before = content(store)
    for rows in (
        {"elements": [added(2), added(1)], "journal": [entry(9, 1)]},
        {"elements": [added(1)]},
        {"dequeued": [2**63]},
        {"runs": [running(10, name="\ud800")]},
        {"runs": [running(10, name="a\0b")]},
        {"moments": [MomentRow("\0", 1.0, b"")]},
    ):
        with pytest.raises(RefusedRowsError, match=r"does not take .* nothing of this turn was performed"):
            store.commit(batch(**rows))
        assert content(store) == before
    store.commit(batch(elements=[added(2)]))


def test_the_last_of_several_rows_of_a_key_counts(store: SharedDatabase) -> None:
    store.commit(
        batch(
            runs=[running(9, state="first"), running(8), running(9, state="last")],
            meta=[("k", "1"), ("k", "2")],
            taken=[TakenRow(1, 2, 1), TakenRow(1, 2, 4)],
        )
    )
    assert {row.eid: row.state for row in store.of().runs()} == {8: "running", 9: "last"}
    assert store.of().meta["k"] == "2"
    assert store.letters.taken(1) == [TakenRow(1, 2, 4)]


def test_turns_of_one_agent_in_one_commit_are_recorded_in_order(store: SharedDatabase) -> None:
    store.commit(
        batch(moments=[MomentRow("m", 1.0, b"a")]), batch(moments_done=["m"]), batch(elements=[added(1)])
    )
    store.commit(batch(elements=[added(2)]))
    assert store.of().moments() == []
    assert [kept.element.eid for kept in store.of().elements()] == [1, 2]


def test_G45_more_rows_than_a_call_has_are_divided_by_agent_and_recorded_whole(
    store: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_ROWS", 10)
    agents = [AgentRow(number, f"{number:032x}", f"a{number}") for number in range(2, 8)]
    store.commit(batch(agents=agents))
    round_ = [batch(row.agent, elements=[added(eid) for eid in range(1, 8)]) for row in agents]
    assert [len(part) for part in divided(round_)] == [1] * 6
    store.commit(*round_)
    for row in agents:
        assert len(list(store.of(row.agent).elements())) == 7
    refused = [
        batch(row.agent, elements=[added(8)] * (1 + (row.agent == 7)) + [added(9)] * 9) for row in agents
    ]
    with pytest.raises(RefusedRowsError):
        store.commit(*refused)
    assert len(list(store.of(2).elements())) == 7
    store.commit(*(batch(row.agent, elements=[added(8)]) for row in agents))


@pytest.mark.parametrize(("durability", "synced"), [("crash", "off"), ("power", "on")])
def test_G44_durability_decides_what_a_commit_waits_for(
    postgres_url: str, durability: Any, synced: str
) -> None:
    with open_store(postgres_url, durability) as store:
        assert isinstance(store, SharedDatabase)
        connection = store.writer.connection
        assert connection.execute("SHOW synchronous_commit").fetchone() == (synced,)
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
        assert connection.execute("SHOW application_name").fetchone() == ("narval",)


def test_G44_nothing_says_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for url in (
        "postgresql://me:s3cret@127.0.0.1:9/narval",
        "postgresql+psycopg://127.0.0.1:9/narval?user=me&password=s3cret",
        "postgresql://me:s3cret@127.0.0.1:port/narval",
        "postgresql://me:s3cret@127.0.0.1/n?x=%zz",
        "nosuch://me:s3cret@127.0.0.1/n",
    ):
        with pytest.raises(StoreError) as refused:
            open_store(url)
        assert "s3cret" not in f"{refused.value}{refused.value.__cause__}"
    assert "s3cret" not in caplog.text


def test_the_older_form_of_the_url_is_taken(postgres_url: str) -> None:
    with open_store(postgres_url.replace("postgresql:", "postgresql+psycopg:")) as store:
        store.commit(batch(elements=[added(1)]))
    with open_store(postgres_url) as store:
        assert [kept.element.eid for kept in store.of().elements()] == [1]


# --- making and dropping ----------------------------------------------------------------------------------


def test_several_daemons_that_begin_at_once_make_one_store(postgres_url: str) -> None:
    stores: list[Any] = []
    starts = [threading.Thread(target=lambda: stores.append(open_store(postgres_url))) for _ in range(4)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert [len(list(store.agents())) for store in stores] == [1, 1, 1, 1]
    for store in stores:
        store.close()


def test_G43_a_migrated_store_has_the_tables_of_a_new_one_and_all_it_had(
    postgres_url: str, database: psycopg.Connection[Any]
) -> None:
    asked = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = current_schema() ORDER BY 1, 2"
    )
    with open_store(postgres_url) as store:
        store.commit(batch(elements=[added(1)]))
        kept = content(store)
    new = database.execute(asked).fetchall()
    bring(postgres_url, migrate.OLDEST)
    assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [("0004",)]
    with open_store(postgres_url) as store:
        assert content(store) == kept
        leases_of(store).join("attic", "attic.example", "1.0")
        store.commit(batch(elements=[added(2)]))
        with pytest.raises(StoreError, match=r"daemons are running .*: stop those of attic \(1\.0\)"):
            bring(postgres_url, migrate.OLDEST)
        database.execute("UPDATE daemons SET until = clock_timestamp()")
        bring(postgres_url, tables.HEAD)
        with pytest.raises(FencedError):
            leases_of(store).renew()
    assert database.execute("SELECT number FROM version").fetchall() == [(tables.HEAD,)]
    assert database.execute(asked).fetchall() == new


def test_a_function_that_is_missing_is_made_again(
    postgres_url: str, database: psycopg.Connection[Any]
) -> None:
    open_store(postgres_url).close()
    database.execute(f"DROP FUNCTION {functions.record().name}".encode())
    with open_store(postgres_url) as store:
        store.commit(batch(elements=[added(1)]))


def test_a_store_of_a_newer_narval_is_left_alone(
    postgres_url: str, database: psycopg.Connection[Any]
) -> None:
    open_store(postgres_url).close()
    database.execute("UPDATE version SET number = 9999")
    database.execute("UPDATE meta SET value = '9999' WHERE key = 'tables_for'")
    with pytest.raises(StoreError, match="newer than this one"):
        open_store(postgres_url)


@pytest.mark.parametrize(
    ("takes_back", "number", "why"),
    [
        (False, 9999, "newer than this one"),
        (False, 4, "taken back to version 4"),
        (True, 9999, "newer than this one"),
    ],
)
def test_who_waited_while_the_tables_were_altered_sees_what_they_are_now(
    postgres_url: str, database: psycopg.Connection[Any], takes_back: bool, number: int, why: str
) -> None:
    problems: list[str] = []

    def join() -> None:
        try:
            if takes_back:
                bring(postgres_url, tables.HEAD - 1)
            else:
                leases_of(store).join("attic", "attic.example", "1.0")
        except StoreError as error:
            problems.append(str(error))

    with open_store(postgres_url) as store:
        with database.transaction():
            database.execute("SELECT pg_advisory_xact_lock(hashtext('narval'), hashtext(current_schema()))")
            joining = threading.Thread(target=join)  # it came as the tables were being altered
            joining.start()
            waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while not database.execute(waits).rowcount:
                assert joining.is_alive()
            database.execute("UPDATE version SET number = %s", (number,))
            database.execute("UPDATE meta SET value = %s WHERE key = 'tables_for'", (str(number),))
        joining.join()
    assert [why in problem for problem in problems] == [True]
    assert database.execute("SELECT FROM daemons").rowcount == 0


def test_tables_are_not_altered_under_a_daemon_at_work(
    postgres_url: str, database: psycopg.Connection[Any]
) -> None:
    with open_store(postgres_url) as store:
        leases_of(store).join("attic", "attic.example", "0.0.9")
        database.execute("UPDATE version SET number = number - 1")
        with pytest.raises(StoreError, match=r"running on them: attic \(0\.0\.9\); stop these, back"):
            open_store(postgres_url)
        database.execute("UPDATE version SET number = number + 1")
        leases_of(store).leave()


def test_tables_that_only_get_more_are_altered_beside_a_daemon_of_the_release_before(
    postgres_url: str, next_version: Callable[..., None]
) -> None:
    now = tables.HEAD
    with open_store(postgres_url) as older:
        leases_of(older).join("attic", "attic.example", "0.0.9")
        next_version(first="-- additive\n")
        with open_store(postgres_url) as newer:
            leases_of(newer).join("barn", "barn.example", "0.1.0")
            older.commit(batch(elements=[added(1)]))
            leases_of(newer).leave()
        tables.HEAD = now  # restored by the fixture
        older.commit(batch(elements=[added(2)]))
        leases_of(older).leave()
    with open_store(postgres_url) as older:
        leases_of(older).join("attic", "attic.example", "0.0.9")
        older.commit(batch(elements=[added(3)]))
        assert [row.element.eid for row in older.of().elements()] == [1, 2, 3]
        leases_of(older).leave()


@pytest.mark.parametrize("shares", [True, False])
def test_G44_a_pooler_may_pool_sessions_and_not_transactions(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    def process(connection: psycopg.Connection[Any]) -> int:
        """The process that a pooler would show: one for all clients, or one for each."""
        return -1 if shares else -connection.info.backend_pid

    monkeypatch.setattr(server, "_server_process", process)
    if not shares:
        open_store(postgres_url).close()
        return
    with pytest.raises(StoreError, match="pooler before the server shares connections"):
        open_store(postgres_url)


def test_a_schema_that_is_not_there_is_named(postgres_url: str) -> None:
    with pytest.raises(StoreError, match=r"no schema is there.*create the schema"):
        open_store(f"{postgres_url}_nosuch")


RECIPE = b"<recipe group='w' name='r'/>"
VERSION = DefinitionRow("d1", "recipe", "w.r", "recipes/w.xml", RECIPE, 1.0)


def test_G4_a_text_that_nothing_names_is_dropped_and_those_of_agents_at_work_stay(
    store: SharedDatabase, postgres_url: str, database: psycopg.Connection[Any]
) -> None:
    store.commit(batch(definitions=[VERSION], shared=[added(1, RECIPE, "library:recipe:w.r:d1")]))
    store.commit(batch(definitions=[VERSION._replace(digest="d2", source=b"<other/>")]))
    open_store(postgres_url).close()
    assert len(store.of().definitions(None)) == 2, "an agent that somebody holds keeps them"
    store.commit(batch(forgotten_elements=[1]))
    leases_of(store).leave()
    open_store(postgres_url).close()
    assert [row.digest for row in store.of().definitions(None)] == ["d2"]
    assert database.execute("SELECT data FROM texts").fetchall() == [(b"<other/>",)]


def test_G4_no_text_that_is_being_recorded_is_dropped(store: SharedDatabase, postgres_url: str) -> None:
    """Daemons that begin, and drop what nothing names, beside one that brings and forgets the same text."""
    ends = threading.Event()

    def begin() -> None:
        while not ends.is_set():
            open_store(postgres_url).close()

    other = threading.Thread(target=begin)
    other.start()
    try:
        for eid in range(1, 120):
            store.commit(batch(shared=[added(eid, RECIPE, f"library:recipe:w.r:{eid}")]))
            assert [kept.element.xml for kept in store.of().elements()] == [RECIPE]
            store.commit(batch(forgotten_elements=[eid]))
    finally:
        ends.set()
        other.join()


# --- looking ----------------------------------------------------------------------------------------------


def test_a_look_is_of_one_moment_and_alters_nothing(store: SharedDatabase, postgres_url: str) -> None:
    store.commit(batch(elements=[added(1)], runs=[running(9)], journal=[entry(9, 1)]))
    kept = content(store)
    with look(postgres_url, lambda: True) as seen:
        assert content(seen) == kept
        store.commit(batch(elements=[added(2)]))
        assert content(seen) == kept


def test_a_look_at_an_empty_schema_makes_nothing(
    postgres_url: str, database: psycopg.Connection[Any]
) -> None:
    with look(postgres_url, lambda: False) as seen:
        assert seen.of().runs() == []
    assert database.execute("SELECT 1 FROM pg_tables WHERE schemaname = current_schema()").fetchall() == []


def test_a_look_leaves_older_tables_to_a_daemon(postgres_url: str, database: psycopg.Connection[Any]) -> None:
    open_store(postgres_url).close()
    bring(postgres_url, migrate.OLDEST)
    with pytest.raises(StoreError, match="start a daemon once"), look(postgres_url, lambda: False):
        pass


def test_G46_a_renewal_reads_what_changed_and_not_all_leases(postgres_url: str) -> None:
    count, free = 4_000, 10
    with open_store(f"{postgres_url}&application_name=counted") as attic, open_store(postgres_url) as barn:
        mine, others = leases_of(attic), leases_of(barn)
        for leases, home in ((mine, "attic"), (others, "barn")):
            leases.join(home, "test", "1")
            leases.renew()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            made = "SELECT n, md5(n::text), 'a' || n, 'active', '' FROM generate_series(10, %s) n"
            connection.execute(f"INSERT INTO agents (agent, id, name, state, why) {made}", (count,))
            held = "SELECT agent, %s, 1 FROM agents WHERE agent >= 10"
            connection.execute(f"INSERT INTO leases (agent, owner, epoch) {held}", (others.daemon,))
            connection.execute("UPDATE leases SET owner = NULL WHERE agent BETWEEN 10 AND %s", (9 + free,))
            connection.execute("VACUUM ANALYZE leases")
            connection.execute("ANALYZE agents")
            connection.execute("SELECT pg_stat_force_next_flush()")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            before = rows_read(connection)
            assert mine.renew().free == free
            attic.close()  # what it has read is counted by the server once its connections are gone
            counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'"
            while connection.execute(counted).fetchone() != (0,):
                pass
            assert rows_read(connection) - before < count / 2


def rows_read(connection: psycopg.Connection[Any]) -> int:
    """The rows of leases that were read in this schema so far."""
    asked = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'leases'"
    [(count,)] = connection.execute(f"{asked} AND schemaname = current_schema()")
    return int(count)


def test_leases_of_before_are_made_those_of_now(postgres_url: str) -> None:
    open_store(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE daemons DROP COLUMN held, DROP COLUMN weight")
        connection.execute("ALTER TABLE leases DROP COLUMN given")
        connection.execute("DROP INDEX leases_by_owner_and_home")
        connection.execute("CREATE INDEX leases_by_owner ON leases (owner)")
    with open_store(postgres_url) as store:
        leases_of(store).join("attic", "test", "1")
        [row] = leases_of(store).renew().daemons
        assert (row.agents, row.weight) == (1, 10)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        of_leases = (
            "SELECT indexname FROM pg_indexes WHERE tablename = 'leases' AND schemaname = current_schema()"
        )
        indexes = {name for (name,) in connection.execute(of_leases)}
    assert indexes == {"leases_pkey", "leases_by_owner_and_home", "leases_given"}
