"""What a store keeps, in a file or in memory; and the batch that it is given."""

from __future__ import annotations

import pytest

from narval.core.elements import changes
from narval.core.engines.commands import SetTimer
from narval.core.engines.events import TimerFired
from narval.store.batch import SLOTS, Batch, DefinitionRow, JournalRow, ResultRow, SnapshotRow, WithdrawalRow
from narval.store.codec import decode_entry, encode_entry
from narval.store.memory import VolatileStore
from narval.store.store import Store
from tests.store.stores import Moved, added, batch, entry, running


def test_entries_come_back_by_run_and_in_order(store: Store) -> None:
    store.commit(batch(journal=[entry(1, 1), entry(2, 4), entry(1, 7, "s2")]))
    store.commit(batch(journal=[entry(1, 10, "s3")]))

    def steps(run: int, after: int = 0) -> list[str]:
        entries = [decode_entry(row.data, Moved, lambda eid: None) for row in store.of().journal(run, after)]
        return [each.changes[0].step for each in entries]

    assert steps(1) == ["s1", "s2", "s3"]
    assert steps(1, after=1) == ["s2", "s3"]
    assert steps(2) == ["s1"]
    assert steps(3) == []
    expected = JournalRow(
        2, 4, 4.5, encode_entry(TimerFired(4, 4.5, "w"), [Moved("s1", "done")], [SetTimer("next", 9.0)])
    )
    assert next(store.of().journal(2)) == expected


def test_what_mentions_a_text_is_given_of_all_tables(store: Store) -> None:
    xml = b"<picture file='var/a/\xc3\xa9.png'/>"
    store.commit(batch(journal=[entry(1, 1, "var/a/step"), entry(1, 2, "other")], elements=[added(7, xml)]))
    values = store.mentions("var/a/")
    if values is not None:  # a store in memory keeps nothing of elements
        assert [xml in value or b"var/a/step" in value for value in values if b"var/a/" in value] == [
            True
        ] * 2
        assert list(store.mentions("var/b/") or ()) == []


def test_a_run_is_kept_as_it_was_last(store: Store) -> None:
    store.commit(batch(runs=[running(1), running(2, kind="process", name="order")]))
    over = running(
        1,
        state="failed",
        phase="failed",
        ended=9.0,
        error=7,
        parent_run=2,
        parent_step="s",
        attempt=1,
        by="ada",
        actor="root",
    )
    store.commit(batch(runs=[over]))

    assert store.of().runs() == [over, running(2, kind="process", name="order")]


def test_the_last_snapshot_counts(store: Store) -> None:
    store.commit(batch(snapshots=[SnapshotRow(1, 5, b"old")]))
    store.commit(batch(snapshots=[SnapshotRow(1, 9, b"new")]))
    assert store.of().snapshot(1) == SnapshotRow(1, 9, b"new")
    assert store.of().snapshot(2) is None


def test_a_new_version_of_a_definition_takes_the_place_of_the_old_one(store: Store) -> None:
    old = DefinitionRow("d1", "recipe", "mail.triage", "recipes/mail.xml", b"<recipe/>", 1.0)
    other = DefinitionRow("d1", "recipe", "mail.digest", "recipes/mail.xml", b"<recipe/>", 1.0)
    new = old._replace(digest="d2", source=b"<recipe restart='yes'/>", loaded=2.0)
    store.commit(batch(definitions=[old, other], runs=[running(1, digest="d1")]))
    store.commit(batch(definitions=[new]))

    assert set(store.of().definitions()) == {new, other}
    assert store.of().definitions(current=False) == [old._replace(current=False)]
    assert len(store.of().definitions(None)) == 3
    assert set(store.of().definitions(None, "mail.triage")) == {old._replace(current=False), new}
    assert store.of().definition("d2") == new
    assert store.of().definition("d3") is None
    assert sorted(store.of().stored_files("recipes/mail.xml")) == sorted([new.source, other.source])
    assert store.of().stored_files("recipes/other.xml") == []


def test_small_facts_are_kept(store: Store) -> None:
    store.commit(batch(meta=[("sequence", "100")]))
    store.commit(batch(meta=[("sequence", "200"), ("next_eid", "7")]))
    assert store.of().meta == {"sequence": "200", "next_eid": "7"}


def test_what_is_asked_of_results_that_are_not_there_takes_no_memory() -> None:
    with VolatileStore() as store:
        store.commit(batch(results={("a", "1"): ResultRow("a", "1", 1.0, b"x")}))
        store.commit(batch(results={("a", "1"): None, ("b", "1"): None}))
        assert (store.of().results("a"), store.of().results_of("c", ["1"])) == ([], [])
        tables = [table for table in vars(store.of()).values() if isinstance(table, dict)]
        assert not any(scope in table for table in tables for scope in "abc")


def test_of_what_one_turn_says_of_an_element_the_last_counts(store: Store) -> None:
    """What comes is written before what goes; confirmed and then withdrawn, it is withdrawn all the same."""
    if isinstance(store, VolatileStore):
        pytest.skip("memory alone has that")
    store.commit(
        batch(elements=[added(eid) for eid in range(1, 5)], withdrawals={2: WithdrawalRow(2, "", True)})
    )
    turn = batch()
    for fact in (
        changes.Doubted((1, 3)),
        changes.Confirmed((1, 2)),
        changes.Withdrawn((2, 3), "forged"),
        changes.Doubted((4,)),
        changes.Confirmed((4,)),
        changes.Doubted((4,)),
    ):
        turn.record(fact)
    store.commit(turn)
    assert list(store.of().withdrawals()) == [
        WithdrawalRow(2, "forged", False),
        WithdrawalRow(3, "forged", False),
        WithdrawalRow(4, "", True),
    ]
    turn = batch()
    for fact in (changes.Confirmed((4,)), changes.Doubted((1,)), changes.Confirmed((1,))):
        turn.record(fact)
    store.commit(turn)
    assert [row.eid for row in store.of().withdrawals()] == [2, 3]


def test_of_what_one_turn_says_of_a_result_the_last_counts(store: Store) -> None:
    first, again = ResultRow("homes", "1", 1.0, b"old"), ResultRow("homes", "1", 2.0, b"new")
    turn = batch()
    turn.put_result(first)
    turn.drop_result("homes", "1")
    assert turn.results_in("homes") == {"1": None}
    turn.put_result(again)
    store.commit(turn)
    assert store.of().results("homes") == [again]
    turn = batch()
    turn.put_result(first)
    turn.put_result(ResultRow("homes", "2", 1.0, b""))
    turn.drop_result("homes", "1")
    store.commit(turn)
    assert [row.key for row in store.of().results("homes")] == ["2"]


def test_results_are_read_by_scope_and_by_key(store: Store) -> None:
    first, second = batch(), batch()
    for n in range(130):
        first.put_result(ResultRow("homes", f"{n:03}", float(n // 2), b"old"))
    second.put_result(ResultRow("homes", "007", 200.0, b"new"))
    second.put_result(ResultRow("other", "1", 0.0, b""))
    store.commit(first)
    store.commit(second)
    assert [row.key for row in store.of().results("homes", 4)] == ["007", "128", "129", "126"]
    assert store.of().results_of("homes", ["007", "nothing"]) == [ResultRow("homes", "007", 200.0, b"new")]
    assert len(store.of().results_of("homes", [f"{n:03}" for n in range(200)])) == 130
    assert [tuple(row) for row in store.of().scopes()] == [("homes", 130), ("other", 1)]
    store.commit(batch(results={("homes", "007"): None}, dropped_scopes=["other"]))
    assert [tuple(row) for row in store.of().scopes()] == [("homes", 129)]
    assert store.of().results_of("homes", ["007"]) == []


def test_N5_a_forgotten_run_takes_its_journal_and_snapshot_along(store: Store) -> None:
    store.commit(
        batch(
            runs=[running(1), running(2)],
            journal=[entry(1, 1), entry(2, 4)],
            snapshots=[SnapshotRow(1, 1, b"a"), SnapshotRow(2, 4, b"b")],
        )
    )
    store.commit(batch(forgotten_runs=[1]))
    assert [row.eid for row in store.of().runs()] == [2]
    assert list(store.of().journal(1)) == []
    assert store.of().snapshot(1) is None
    assert [row.run for row in store.of().journal(2)] == [2]
    assert store.of().snapshot(2) is not None


def test_old_entries_of_a_run_are_dropped_and_the_last_are_kept(store: Store) -> None:
    store.commit(batch(runs=[running(1), running(2)], journal=[entry(1 + n % 2, n) for n in range(1, 21)]))
    store.commit(batch(trimmed=[(1, 20, 3)]))
    assert [row.seq for row in store.of().journal(1)] == [16, 18, 20]
    assert len(list(store.of().journal(2))) == 10
    store.commit(batch(trimmed=[(1, 20, 3), (2, 20, 100)]))
    assert [row.seq for row in store.of().journal(1)] == [16, 18, 20]
    assert len(list(store.of().journal(2))) == 10


def test_no_entry_behind_the_line_is_dropped(store: Store) -> None:
    store.commit(batch(runs=[running(1)], journal=[entry(1, n) for n in range(1, 11)]))
    store.commit(batch(trimmed=[(1, 4, 1)]))
    assert [row.seq for row in store.of().journal(1)] == [5, 6, 7, 8, 9, 10]


def test_several_batches_are_one_commit(store: Store) -> None:
    store.commit(
        batch(journal=[entry(1, 1)], runs=[running(1)]), Batch(1), batch(runs=[running(1, state="end")])
    )
    assert store.of().runs() == [running(1, state="end")]
    assert len(list(store.of().journal(1))) == 1


def test_a_batch_knows_whether_it_is_empty() -> None:
    for slot in SLOTS:
        filled = Batch(1)
        assert not filled
        rows = getattr(filled, slot)
        rows.update({1: 1}) if isinstance(rows, dict) else rows.append(1)
        assert filled


def test_each_change_of_memory_has_its_slot() -> None:
    filled = Batch(1)
    new = added(3)
    for change in (
        new,
        changes.Held(9, (3, 4)),
        changes.Unheld(9, (4,)),
        changes.Used(("mail.triage", "s1", "in"), (3,), 9),
        changes.Reserved((5,)),
        changes.Released((5,)),
        changes.Outdated((4,)),
        changes.Keyed("email", "@id", "x"),
        changes.Undeclared((2,)),
        changes.Forgotten((1,), (8,)),
    ):
        filled.record(change)
    assert filled.elements == [new]
    assert filled.held == [(9, 3), (9, 4)]
    assert filled.unheld == [(9, 4)]
    assert filled.marks == [("mail.triage", "s1", "in", 3, 9)]
    assert filled.outdated == [4]
    assert filled.keys == [("email", "@id", "x")]
    assert filled.undeclared == [2]
    assert (filled.forgotten_elements, filled.forgotten_runs) == ([1], [8])
