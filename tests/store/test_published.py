"""Published collections in a store: kept under their names, by who may (G58)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from narval.core.errors import OperatorError, StoreAwayError
from narval.store.open import open_store
from narval.store.postgresql.drivers import published_at
from narval.store.postgresql.leases import Published
from tests.postgres import fresh_schema, private_server, shared_server


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_schema(shared_server()) as url:
        yield url


@pytest.fixture
def published(url: str) -> Iterator[Published]:
    with open_store(url) as store:
        assert store.published is not None
        yield store.published


def test_G58_a_collection_is_kept_under_its_name(published: Published) -> None:
    assert (published.all(), published.get("office"), published.withdraw("office")) == ([], None, False)
    published.put("office", "d1", b"\0one", "ann")
    published.put("shop", "d2", b"two", "ben")
    published.put("office", "d3", b"three", "ben")
    assert published.get("office") == ("d3", b"three")
    assert [row[:2] + row[3:] for row in published.all()] == [
        ("office", "d3", "ben", 5),
        ("shop", "d2", "ben", 3),
    ]
    assert abs(published.all()[0].at - time.time()) < 600
    assert published.withdraw("office")
    assert [row.name for row in published.all()] == ["shop"]


def test_G58_a_beat_tells_the_digests(url: str) -> None:
    with open_store(url) as store:
        assert store.leases is not None
        assert store.published is not None
        store.leases.join("attic", "here", "1")
        assert store.leases.renew().published == ()
        store.published.put("office", "d1", b"", "ann")
        assert store.leases.renew().published == (("office", "d1"),)


def test_G58_a_role_that_may_not_publish_is_refused_plainly(url: str, published: Published) -> None:
    published.put("office", "d1", b"one", "ann")
    with ExitStack() as stack:
        admin = stack.enter_context(psycopg.connect(url, autocommit=True))
        (role,) = admin.execute("SELECT 'reader_' || substr(md5(current_schema()), 1, 8)").fetchone() or ()
        (schema,) = admin.execute("SELECT current_schema()").fetchone() or ()
        admin.execute(f"CREATE ROLE {role} LOGIN")
        stack.callback(admin.execute, f"DROP ROLE {role}")
        stack.callback(admin.execute, f"DROP OWNED BY {role}")
        admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
        reader = stack.enter_context(published_at(f"{url}&user={role}"))
        assert reader.get("office") == ("d1", b"one")
        for act in (lambda: reader.put("office", "d2", b"two", "eve"), lambda: reader.withdraw("office")):
            with pytest.raises(OperatorError, match=r"does not let this role publish .* be granted INSERT"):
                act()
        assert published.get("office") == ("d1", b"one")
        admin.execute(f"GRANT INSERT, UPDATE, DELETE ON collections TO {role}")
        reader.put("office", "d2", b"two", "ann")
        assert published.get("office") == ("d2", b"two")


def test_G58_a_store_that_no_daemon_has_made_is_said_to_be_none(url: str) -> None:
    with published_at(url) as published, pytest.raises(OperatorError, match="no daemon has made the tables"):
        published.all()


def test_G58_a_server_that_is_away_is_said_to_be() -> None:
    with private_server() as server:
        with fresh_schema(server.url) as url, open_store(url):
            pass
        with published_at(server.url) as published:
            server.stop()
            with pytest.raises(StoreAwayError):
                published.all()
