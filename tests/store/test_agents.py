"""One store keeps several agents apart: what one wrote is read of it alone (G1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from narval.core.elements.element import Origin
from narval.core.errors import RefusedRowsError, StoreError
from narval.store.batch import (
    HOME_AGENT,
    PASSIVE,
    SLOTS,
    SUSPENDED,
    AgentRow,
    Batch,
    DeadLetterRow,
    DefinitionRow,
    MarkRow,
    MessageRow,
    MomentRow,
    QueuedRow,
    ResultRow,
    SnapshotRow,
    TakenRow,
    WithdrawalRow,
)
from narval.store.open import open_store
from narval.store.store import Store
from tests.store.conftest import KINDS, making_stores
from tests.store.stores import added, batch, content, entry, reopened, running

AGENTS = {number: AgentRow(number, f"{number:032x}", f"agent-{number}") for number in (1, 2, 3)}


def of(agent: int, turn: int) -> Batch:
    """A turn that fills every slot that brings something, under the numbers of every other agent's turn."""
    own = f"{agent}.{turn}"
    return batch(
        agent,
        agents=[AGENTS[agent]],
        definitions=[DefinitionRow(f"d{turn}", "recipe", f"r{turn}", "r.xml", own.encode(), 1.0)],
        shared=[added(100 + turn, f"<d of='{own}'/>".encode(), f"library:{own}")],
        elements=[added(turn, f"<e of='{own}'/>".encode(), f"by:{own}", Origin(50, own))],
        held=[(50, turn), (51, turn)],
        marks=[MarkRow("r", "s", "i", turn, 50 + agent)],
        withdrawals={turn: WithdrawalRow(turn, own, False)},
        labels=[(turn, own)],
        keys=[("e", "@of", own)],
        runs=[running(50, name=own), running(51)],
        journal=[entry(50, turn * 9, own)],
        snapshots=[SnapshotRow(50, turn * 9 - 9, own.encode())],
        queued=[QueuedRow(turn, 50, own.encode())],
        moments=[MomentRow(str(turn), 1.0, own.encode())],
        results={
            (scope, str(turn)): ResultRow(scope, str(turn), 1.0, own.encode())
            for scope in ("kept", f"session {agent}")
        },
        meta=[("sequence", own)],
        messages=[MessageRow(agent, 1 + agent % 3, turn, own, "element", 1.0, None, b"", own.encode())],
        taken=[TakenRow(agent, agent, turn)],
        dead_letters=[DeadLetterRow(agent, "shop", turn, own, "element", own, 1.0, None, b"", b"")],
    )


def fill(store: Store, *agents: int) -> None:
    """Turns of these agents one after another, several of them in one commit."""
    for turn in (1, 2, 3):
        store.commit(*(of(agent, turn) for agent in agents))


READERS: dict[str, Any] = {
    "identity": lambda store: store.identity(),
    "elements": lambda store: [
        (kept.element.xml, kept.element.origin, *kept[1:]) for kept in store.elements()
    ],
    "contexts": lambda store: list(store.contexts()),
    "marks": lambda store: list(store.marks()),
    "withdrawals": lambda store: list(store.withdrawals()),
    "labels": lambda store: list(store.labels()),
    "keys": lambda store: list(store.keys()),
    "queue": lambda store: store.queue(),
    "moments": lambda store: store.moments(),
    "results": lambda store: store.results("kept"),
    "results_of": lambda store: store.results_of("kept", ["1", "3", "9"]),
    "scopes": lambda store: store.scopes(),
    "meta": lambda store: dict(store.meta),
    "runs": lambda store: store.runs(),
    "journal": lambda store: list(store.journal(50)),
    "journal after a line": lambda store: list(store.journal(50, 9)),
    "snapshot": lambda store: store.snapshot(50),
    "definitions": lambda store: store.definitions(None),
    "definition": lambda store: store.definition("d2"),
    "stored_files": lambda store: store.stored_files("r.xml"),
}


class Filled(NamedTuple):
    """A store that has all agents, and one for each alone; they are only read."""

    together: Store
    alone: dict[int, Store]


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """Stores of every kind, with the same turns."""
    with making_stores(request.param, tmp_path_factory.mktemp("filled")) as make:
        stores = Filled(make(), {agent: make() for agent in AGENTS})
        fill(stores.together, *AGENTS)
        for agent, store in stores.alone.items():
            fill(store, agent)
        yield stores


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_the_rows_of_its_agent_alone(filled: Filled, reader: str) -> None:
    together, read = filled.together, READERS[reader]
    for agent, alone in filled.alone.items():
        assert read(together.of(agent)) == read(alone.of(agent))
    if not together.is_volatile:  # one in memory has nothing to give at a start
        found = [read(together.of(agent)) for agent in AGENTS]
        assert all(found)
        assert found[0] != found[1] != found[2] or reader == "contexts"


def test_what_goes_goes_from_its_agent_alone(store: Store) -> None:
    fill(store, *AGENTS)
    before = {agent: content(store, agent) for agent in AGENTS}
    store.commit(
        batch(
            2,
            definitions=[DefinitionRow("d9", "recipe", "r1", "r.xml", b"new", 2.0)],
            outdated=[1],
            undeclared=[1],
            runs=[running(51, state="end")],
            trimmed=[(50, 27, 1)],
            dequeued=[1],
            moments_done=["1"],
            results={("kept", "1"): None},
            dropped_scopes=["session 2"],
            unheld=[(50, 1), (51, 1)],
            forgotten_elements=[2, 3],
            forgotten_runs=[50],
            taken=[TakenRow(2, 3, 1)],
            letters_settled=[before[2]["dead letters"][0].line],
        )
    )
    after = {agent: content(store, agent) for agent in AGENTS}
    assert (after[1], after[3]) == (before[1], before[3])
    changed = {part for part in after[2] if after[2][part] != before[2][part]}
    unchanging = {"keys"} if not store.is_volatile else {part for part in before[2] if not before[2][part]}
    assert changed == set(before[2]) - unchanging


def test_G17_a_commit_with_rows_that_are_refused_records_nothing_and_the_next_is_taken(path: Path) -> None:
    with open_store(path) as store:
        fill(store, *AGENTS)
        before = {agent: content(store, agent) for agent in AGENTS}
        with pytest.raises(RefusedRowsError, match=r"UNIQUE.*nothing of this turn was performed"):
            store.commit(of(1, 4), of(2, 3), of(3, 4))
        assert {agent: content(store, agent) for agent in AGENTS} == before
        store.commit(of(1, 4), of(3, 4))
        after = {agent: content(store, agent) for agent in AGENTS}
        assert after[2] == before[2]
        assert before[1] != after[1]
        assert before[3] != after[3]


def test_G1_the_home_has_an_agent_whose_id_is_its_own_and_stays(
    path: Path, make_store: Callable[[], Store]
) -> None:
    own = make_store().of().identity()
    assert re.fullmatch("[0-9a-f]{32}", own.id)
    assert own.id != make_store().of().identity().id
    store = open_store(path)
    known = store.of(HOME_AGENT).identity()
    store.commit(batch(agents=[known._replace(name="ada")]))
    assert reopened(store, path).of().identity() == known._replace(name="ada")


def test_another_agent_than_the_first_may_be_the_own_one_of_a_home(store: Store) -> None:
    fill(store, *AGENTS)
    assert (store.own, store.of().agent) == (HOME_AGENT, HOME_AGENT)
    assert [store.of(number).is_own for number in AGENTS] == [True, False, False]
    store.use_own(2)
    assert store.of().identity() == AGENTS[2]
    assert [store.of(number).is_own for number in AGENTS] == [False, True, False]


def test_G1_no_two_agents_of_a_store_have_one_name(path: Path) -> None:
    with open_store(path) as store, pytest.raises(StoreError, match=r"UNIQUE"):
        store.commit(batch(2, agents=[AgentRow(2, "0" * 32, store.of().identity().name)]))


def test_a_turn_registers_any_agent_and_all_of_them_are_listed(store: Store) -> None:
    own = store.of().identity()
    ada = AgentRow(2, "a" * 32, "ada", PASSIVE, "", 17.5)
    store.commit(batch(agents=[ada]))
    assert list(store.agents()) == [own, ada]
    store.commit(batch(2, agents=[ada._replace(state=SUSPENDED, why="asked to")]))
    assert store.of(2).identity() == ada._replace(state=SUSPENDED, why="asked to")


def test_G20_an_agent_goes_with_all_that_it_has(store: Store) -> None:
    fill(store, *AGENTS)
    kept = [content(store, agent) for agent in (1, 3)]
    store.commit(batch(removed_agents=[2]))
    assert list(store.agents()) == [AGENTS[1], AGENTS[3]]
    assert [content(store, agent) for agent in (1, 3)] == kept
    store.commit(batch(agents=[AGENTS[2]]))
    assert not any(found for part, found in content(store, 2).items() if part != "identity")


def test_an_agent_that_is_not_there_is_refused(path: Path) -> None:
    with open_store(path) as store, pytest.raises(StoreError, match=r"expected agent 7 in .*store\.db"):
        store.of(7).identity()


def test_every_slot_that_brings_something_is_among_the_readers() -> None:
    going = {"retired", "outdated", "undeclared", "trimmed", "dequeued", "moments_done", "unheld"}
    going |= {"forgotten_elements", "forgotten_runs", "removed_agents", "letters_settled"}
    going |= {"dropped_scopes"}
    filled = of(1, 1)
    assert {slot for slot in SLOTS if getattr(filled, slot)} == set(SLOTS) - going
