"""Rows and batches for tests of stores."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from narval.core.elements import changes
from narval.core.elements.element import Element, Origin
from narval.core.engines.commands import SetTimer
from narval.core.engines.events import TimerFired
from narval.store.batch import (
    HOME_AGENT,
    Advance,
    Batch,
    DeadLetterRow,
    DefinitionRow,
    MarkRow,
    MessageRow,
    MomentRow,
    QueuedRow,
    RunRow,
    SnapshotRow,
    TakenRow,
    WithdrawalRow,
)
from narval.store.open import open_store
from narval.store.store import Store


class Moved(msgspec.Struct, frozen=True, tag=True):
    """A change, as an engine would have it."""

    step: str
    to: str


def added(
    eid: int, xml: bytes = b"<email/>", declared: str = "", origin: Origin | None = None
) -> changes.Added:
    return changes.Added(Element(eid, xml, 1_700_000_000.25, origin), declared)


def entry(run: int, seq: int, step: str = "s1") -> Advance:
    return Advance(
        run, seq, TimerFired(seq, seq + 0.5, "w"), (Moved(step, "done"),), (SetTimer("next", 9.0),)
    )


def running(eid: int, **fields: Any) -> RunRow:
    row = RunRow(eid, "plan", "mail.triage", "d1", "running", "active", 5.0)
    return row._replace(**fields)


def batch(agent: int = HOME_AGENT, **slots: Any) -> Batch:
    return Batch(agent, **slots)


def content(kept: Store, agent: int = HOME_AGENT) -> dict[str, Any]:
    """All that a store gives back of an agent."""
    store = kept.of(agent)
    return {
        "elements": [(*_plain(kept.element), kept.declared, kept.outdated) for kept in store.elements()],
        "contexts": list(store.contexts()),
        "marks": list(store.marks()),
        "withdrawals": list(store.withdrawals()),
        "labels": list(store.labels()),
        "keys": list(store.keys()),
        "runs": store.runs(),
        "journals": {row.eid: list(store.journal(row.eid)) for row in store.runs()},
        "snapshots": [store.snapshot(row.eid) for row in store.runs()],
        "queue": store.queue(),
        "moments": store.moments(),
        "results": [(scope, store.results(scope)) for scope, _ in store.scopes()],
        "definitions": store.definitions(None),
        "messages": kept.letters.messages(agent),
        "taken": kept.letters.taken(agent),
        "dead letters": kept.letters.dead(agent),
    }


def _plain(element: Element) -> tuple[Any, ...]:
    return element.eid, element.name, element.xml, element.added, element.origin


def reopened(store: Store, path: Path) -> Store:
    store.close()
    return open_store(path)


HARNESS = """
import os, random, resource, signal, sys
from pathlib import Path
from narval.core.engines.events import TimerFired
from narval.core.errors import StoreError
from narval.core.elements.changes import Added
from narval.core.elements.element import Element, Origin
from narval.store.batch import Advance, Batch, RunRow
from narval.store.open import open_store

def turn(number, size=1):
    '''A turn that touches many tables, and can be checked to be whole.'''
    batch = Batch(1)
    for at in range(size):
        eid = number * size + at + 1
        batch.elements.append(Added(Element(eid, b'<e>' + b'x' * 200 + b'</e>', 1.0, Origin(1, 's'))))
        batch.held += [(1, eid), (2, eid)]
    batch.runs.append(RunRow(1, 'plan', 'a', 'd', str(number), 'active', 1.0))
    batch.runs.append(RunRow(2, 'plan', 'a', 'd', str(number), 'active', 1.0))
    batch.journal.append(Advance(1, number + 1, TimerFired(number, 1.0, 'w'), (), ()))
    return batch

def child(work):
    '''Run work in a program of its own that is not waited upon politely; its exit status.'''
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f'{type(error).__name__}: {error}', flush=True)
            os._exit(7)
    return pid
"""


def harness(program: str, *arguments: object) -> str:
    """What a program of its own prints; it may fork, limit and kill itself as it likes."""
    done = subprocess.run(
        [sys.executable, "-c", HARNESS + textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def whole_turns(path: Path, size: int = 1) -> int:
    """How many turns the store has; fails if any of them is there in part."""
    with open_store(path) as store:
        known = store.of()
        elements, journal = list(known.elements()), list(known.journal(1))
        turns = len(journal)
        assert [kept.element.eid for kept in elements] == list(range(1, turns * size + 1))
        expected = [(run, eid) for run in (1, 2) for eid in range(1, turns * size + 1)]
        assert list(known.contexts()) == (expected if turns else [])
        assert [row.state for row in known.runs()] == ([str(turns - 1)] * 2 if turns else [])
    return turns


def filled_store(path: Path, *, clean: bool) -> dict[str, Any]:
    """A store with something in every table; its content."""
    source = path if clean else path.with_name("open.db")
    store = open_store(source)
    for number in range(60):
        letter = (str(number), "element", 1.0, None, b"from", b"<e/>")
        store.commit(
            batch(
                elements=[added(number + 1, b"<e>" + str(number).encode() * 100 + b"</e>")],
                runs=[running(1000 + number % 7)],
                held=[(1000 + number % 7, number + 1), (1000, number // 2 + 1)],
                marks=[MarkRow("a", "s", str(number), number + 1, 1000)],
                withdrawals={
                    number + 1: WithdrawalRow(number + 1, "" if number % 2 else "why", bool(number % 2))
                },
                labels=[(number + 1, "mail"), (number + 1, "model:far")],
                keys=[("n", "@x", str(number) * 5)],
                journal=[entry(1000 + number % 7, number * 3 + 1)],
                snapshots=[SnapshotRow(1000 + number % 7, number, b"state" * 20)],
                queued=[QueuedRow(number + 1, 1000, b"event")],
                moments=[MomentRow(str(number), float(number), b"deed")],
                definitions=[DefinitionRow(f"d{number}", "recipe", f"r{number}", "p", b"<recipe/>" * 9, 1.0)],
                messages=[MessageRow(HOME_AGENT, 2, number + 1, *letter)],
                taken=[TakenRow(HOME_AGENT, 3 + number, 1)],
                dead_letters=[DeadLetterRow(HOME_AGENT, "ada", number + 1, *letter[:2], "gone", *letter[2:])],
            )
        )
    kept = content(store)
    if not clean:
        store.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
        shutil.copy(source, path)
    store.close()
    return kept


def read_all(path: Path) -> dict[str, Any]:
    with open_store(path) as store:
        return content(store)


PAGE = 2048
