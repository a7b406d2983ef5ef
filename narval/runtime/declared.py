"""What declares elements: the library (N2) and `data/memory.xml` (N4). Each is compared with memory when it is
read; what it declares is never forgotten, what it dropped loses its protection."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from narval.definitions.library import Library
from narval.engines import runnable
from narval.errors import ElementError, Fault
from narval.memory import change as changes
from narval.memory.element import CONTROL, elements_of, parse
from narval.runtime.store import DefinitionRow
from narval.runtime.turn import ACTED, START_PLAN, Turn

LIBRARY, MEMORY = "library", "memory.xml"


def declare_library(turn: Turn, library: Library, sources: Mapping[str, bytes]) -> None:
    """The definitions of a library become elements; versions that are gone are outdated (N2)."""
    wanted = {f"{each.kind}:{each.full_name}:{each.digest}": each.xml for each in library}
    gone = _compare(turn, LIBRARY, wanted)
    if gone:
        turn.change(changes.Outdated(gone))
    _keep_versions(turn, library, sources)


def _keep_versions(turn: Turn, library: Library, sources: Mapping[str, bytes]) -> None:
    """The store keeps each version that a run may need, and what to fall back on when a file goes bad (N13)."""
    wanted = {
        (each.kind, each.full_name, each.digest): (each.path, each.xml)
        for each in library
        if each.kind != "action"
    }
    for path, data in sources.items():
        wanted["module", path, hashlib.sha256(data).hexdigest()] = (path, data)
    known = {(row.kind, row.name, row.digest): row for row in turn.store.definitions()}
    for key, (path, data) in wanted.items():
        if key not in known:
            kind, name, digest = key
            turn.batch.definitions.append(DefinitionRow(digest, kind, name, path, data, turn.at))
    for key, row in known.items():
        if key not in wanted:
            turn.batch.definitions.append(row._replace(current=False))


def declare_memory(turn: Turn, elements: list[bytes]) -> None:
    """What `data/memory.xml` declares is in memory, once each (N4)."""
    wanted: dict[str, bytes] = {}
    for xml in elements:
        key = hashlib.sha256(xml).hexdigest()
        while key in wanted:
            key += "+"
        wanted[key] = xml
    _compare(turn, MEMORY, wanted)


def read_memory_file(path: Path) -> tuple[list[bytes] | None, list[Fault]]:
    """The elements a `memory.xml` declares, or None when it has faults."""
    try:
        data = path.read_bytes()
        return elements_of(data), []
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return None, [Fault("data/memory.xml", 1, 1, f"cannot be read: {error.strerror}")]
    except ElementError as error:
        return None, [Fault("data/memory.xml", error.line, error.column, error.message)]


def start_declared(turn: Turn, *, at_start: bool) -> None:
    """Act on `start-plan` elements: those that could not be obeyed yet, and at a start those that ask for it."""
    names = (START_PLAN, f"{{{CONTROL}}}{START_PLAN}")
    acted = turn.memory.marks.get(ACTED, set())
    for eid in list(turn.memory.named(names)):
        element = turn.memory.element(eid)
        if element is None or eid in turn.memory.outdated:
            continue
        root = parse(element.xml)
        if eid in acted:
            if at_start and root.get("at") == "start":
                turn.obey(element)
        elif runnable(turn.agent.library, root.get("recipe", "")) is not None:
            turn.obey(element)


def _compare(turn: Turn, who: str, wanted: Mapping[str, bytes]) -> tuple[int, ...]:
    """Add what is declared and not there yet; give back the eids of what is declared no more."""
    there = {
        key.partition(":")[2]: eid for eid, key in turn.memory.declared.items() if key.partition(":")[0] == who
    }
    gone = tuple(eid for key, eid in there.items() if key not in wanted)
    if gone:
        turn.change(changes.Undeclared(gone))
    for key, xml in wanted.items():
        if key not in there:
            turn.add(xml, declared=f"{who}:{key}")
    return gone

