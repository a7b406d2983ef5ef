"""The bytes of definitions: they stand in a store once, and as long as anything names them (G4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from narval.core.errors import StoreError, UnreadableError
from narval.store.batch import DefinitionRow
from narval.store.look import look
from narval.store.open import open_store
from narval.store.store import Store
from tests.store.stores import added, batch, running

RECIPE = b"<recipe group='w' name='r'/>"
VERSION = DefinitionRow("d1", "recipe", "w.r", "recipes/w.xml", RECIPE, 1.0)
NEXT = VERSION._replace(digest="d2", source=b"<recipe group='w' name='r' decay='1'/>", loaded=2.0)


def keep(store: Store, *agents: int) -> None:
    for agent in agents:
        new = added(1, RECIPE, "library:recipe:w.r:d1")
        store.commit(batch(agent, definitions=[VERSION], shared=[new], runs=[running(9, digest="d1")]))


def texts(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return [data for (data,) in connection.execute("SELECT data FROM texts ORDER BY data")]


def test_G4_the_bytes_of_a_definition_stand_once_whatever_the_number_of_agents(path: Path) -> None:
    with open_store(path) as store:
        keep(store, 1, 2, 3)
        assert texts(path) == [RECIPE]
        for agent in (1, 2, 3):
            known = store.of(agent)
            assert [kept.element.xml for kept in known.elements()] == [RECIPE]
            assert (known.definitions(), known.definition("d1")) == ([VERSION], VERSION)


def test_a_version_that_is_retired_is_kept_and_not_current(store: Store) -> None:
    store.commit(batch(definitions=[VERSION, NEXT._replace(name="w.s")]))
    assert sorted(store.of().versions()) == [("recipe", "w.r", "d1"), ("recipe", "w.s", "d2")]
    store.commit(batch(retired=[("d1", "recipe", "w.r")]))
    assert list(store.of().versions()) == [("recipe", "w.s", "d2")]
    assert store.of().definition("d1") == VERSION._replace(current=False)


def test_a_look_takes_that_a_version_of_the_store_is_retired(path: Path) -> None:
    with open_store(path) as store:
        keep(store, 1)
    with look(path, lambda: False) as seen:
        seen.commit(batch(retired=[("d1", "recipe", "w.r")]))
        assert seen.of().definition("d1") == VERSION


def test_G4_a_text_that_nothing_names_is_dropped_at_a_start(path: Path) -> None:
    with open_store(path) as store:
        keep(store, 1, 2)
        for agent in (1, 2):
            store.commit(batch(agent, definitions=[NEXT]))
    open_store(path).close()
    assert texts(path) == sorted([RECIPE, NEXT.source]), "a run follows it"
    with open_store(path) as store:
        for agent in (1, 2):
            store.commit(batch(agent, forgotten_runs=[9]))
    open_store(path).close()
    assert texts(path) == sorted([RECIPE, NEXT.source]), "an element shows it"
    with open_store(path) as store:
        store.commit(batch(1, forgotten_elements=[1]))
        store.commit(batch(removed_agents=[2]))
    open_store(path).close()
    assert texts(path) == [NEXT.source]


def test_N35_a_lost_text_costs_those_who_follow_that_version(path: Path) -> None:
    with open_store(path) as store:
        store.commit(batch(definitions=[VERSION, NEXT._replace(name="w.s")]))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM texts WHERE data = ?", (RECIPE,))
        with pytest.raises(UnreadableError, match=r"definition 'd1', column source: expected `bytes`"):
            store.of().definition("d1")
        found = store.of().definition("d2")
        assert found is not None
        assert found.source == NEXT.source


def test_N35_a_lost_text_of_an_element_is_named(path: Path) -> None:
    with open_store(path) as store:
        keep(store, 1, 2)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM texts")
        with pytest.raises(StoreError, match=r"elements 1, column xml: expected `bytes` of length >= 4"):
            list(store.of(2).elements())
