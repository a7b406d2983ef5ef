"""Declarations by the files of an agent: elements of the library (N2) or `data/memory.xml`, and runs that
follow the newest version of their definition.

Each source is compared with memory when it is read. What it declares is never forgotten; what it no longer
declares loses its protection and is outdated. A definition of some kinds has one service run. Runs that
have taken nothing yet continue with the newest version (N31).
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from sys import intern

from msgspec.structs import replace

from narval.agent.agent import OVER_LIMIT, AgentState
from narval.agent.controls import can_start
from narval.agent.effects import outdate
from narval.agent.labelling import labels_at
from narval.agent.recovery import GONE
from narval.agent.run import Run
from narval.agent.runs import begin_service_run, is_withheld
from narval.agent.turn import Turn
from narval.core.definitions.library import Library, RunDefinition
from narval.core.elements import changes
from narval.core.elements.element import Element, Origin, identity, parse
from narval.core.elements.names import ACTED, STARTING
from narval.core.elements.own_elements import OUTDATED, make_error, make_note, make_request
from narval.core.engines.engine import redefinable
from narval.core.engines.events import Plain, Redefined, Signalled
from narval.core.engines.registry import standing_kinds
from narval.core.errors import Fault
from narval.core.kinds import IN_MODULES
from narval.core.memory.memory import Memory
from narval.store.batch import DefinitionRow

LIBRARY, MEMORY, GRANTS = "library", "memory.xml", "grants"


def declared_names(memory: Memory) -> Iterator[str]:
    """The root names of the elements that `data/memory.xml` declares."""
    for eid, key in memory.declared.items():
        if key.startswith(f"{MEMORY}:") and (element := memory.element(eid)) is not None:
            yield element.name


def declare_library(
    turn: Turn, library: Library, sources: Mapping[str, bytes], faults: Iterable[Fault] = ()
) -> None:
    """Declare the definitions of a library, and the faults of files that did not load.

    Versions that are gone are outdated, and so are the errors of files that load again.
    """
    declared = {
        f"{definition.kind}:{definition.full_name}:{definition.digest}": definition.xml
        for definition in library
    }
    declared |= {f"fault:{hashlib.sha256(xml).hexdigest()}": xml for xml in _errors(faults)}
    gone = _compare(turn, LIBRARY, declared)
    _share(turn, library)
    if gone:
        turn.transaction.change(changes.Outdated(gone))
    _keep_versions(turn, library, sources)


def declare_requests(turn: Turn, library: Library) -> bool:
    """Declare a `grant-request` for each definition whose needs are not granted; outdate requests that are
    granted or rejected. True if some were.
    """
    requests = (
        (definition, definition.withheld)
        for definition in library
        if isinstance(definition, RunDefinition) and definition.withheld is not None
        if not definition.withheld.is_rejected
    )
    declared: dict[str, bytes] = {}
    for definition, withheld in requests:
        xml = make_request(definition.kind, definition.full_name, definition.path, withheld.needs)
        declared[hashlib.sha256(xml).hexdigest()] = xml
    gone = _compare(turn, GRANTS, declared)
    current = tuple(eid for eid in gone if eid not in turn.agent.memory.outdated)
    if current:
        outdate(turn.transaction, current)
    return bool(current)


def _share(turn: Turn, library: Library) -> None:
    """Have the store keep the bytes of new definitions once for all agents."""
    batch = turn.transaction.batch
    shared = {definition.xml for definition in library} if batch.elements else ()
    batch.share({new.element.eid for new in batch.elements if new.element.xml in shared and new.declared})


def _errors(faults: Iterable[Fault]) -> Iterator[bytes]:
    """An error element for each file with faults."""
    for path, of_path in groupby(sorted(faults), key=attrgetter("path")):
        first, *others = of_path
        detail, line, column = "\n".join(map(str, others)), first.line, first.column
        yield make_error("bad-file", first.message, detail, path=path, line=line, column=column)


def _keep_versions(turn: Turn, library: Library, sources: Mapping[str, bytes]) -> None:
    """Keep each version that a run may need, and the last good version of a bad file."""
    current = {
        (definition.kind, definition.full_name, definition.digest): (definition.path, definition.xml)
        for definition in library
        if definition.kind not in IN_MODULES
    }
    for path, data in sources.items():
        current["module", path, hashlib.sha256(data).hexdigest()] = (path, data)
    stored = set(map(tuple, turn.agent.store.versions()))
    for key, (path, data) in current.items():
        if key not in stored:
            kind, name, digest = key
            turn.transaction.batch.definitions.append(DefinitionRow(digest, kind, name, path, data, turn.at))
    for kind, name, digest in sorted(stored - current.keys()):
        turn.transaction.batch.retired.append((digest, kind, name))


def declare_memory(turn: Turn, elements: list[bytes]) -> bool:
    """Declare the elements of `data/memory.xml`. A changed element replaces the one with the same identity; a
    missing one is outdated. If memory has no room for the new elements, it stays unchanged, and an error
    element says so. If an action wrote the file, its elements get the labels of what was written. True if an
    element that starts a run is missing or changed.
    """
    store = turn.agent.store
    folder = "" if store.is_own else f"agents/{store.identity().name}/"
    with turn.transaction.coming_with(labels_at(turn.agent, f"{folder}data/{MEMORY}")):
        return _declare_memory(turn, elements)


def _declare_memory(turn: Turn, elements: list[bytes]) -> bool:
    declared: dict[str, bytes] = {}
    for xml in elements:
        key = hashlib.sha256(xml).hexdigest()
        while key in declared:
            key += "+"
        declared[key] = xml
    there = _declared_by(turn, MEMORY)
    memory = turn.agent.memory
    dropped = [eid for key, eid in there.items() if key not in declared]
    before = {
        identified: eid
        for eid, element in zip(dropped, map(memory.element, dropped), strict=True)
        if element is not None and (identified := identity(element)) is not None
    }
    new = {key: xml for key, xml in declared.items() if key not in there}
    if over := turn.agent.excess_of_elements(new.values()):
        why = f"{OVER_LIMIT}: data/memory.xml is not taken over: {over}"
        turn.transaction.add_error(OVER_LIMIT, why, path="data/memory.xml")
        return False
    has_start_gone = not set(memory.named(STARTING)).isdisjoint(dropped)
    for key, xml in new.items():
        identified = identity(Element(0, xml))
        old = before.pop(identified, None) if identified is not None else None
        if old is None:
            turn.add(xml, declared=f"{MEMORY}:{key}")
        else:
            dropped.remove(old)
            replace_element(turn, old, xml, Origin(inputs=(old,)), f"{MEMORY}:{key}")
    if dropped:
        turn.transaction.change(changes.Undeclared(tuple(dropped)))
    current = tuple(eid for eid in dropped if eid not in memory.outdated)
    if current:
        outdate_elements(turn, current, "data/memory.xml no longer declares it")
    return has_start_gone


def outdate_elements(turn: Turn, eids: tuple[int, ...], reason: str, origin: Origin | None = None) -> int:
    """Outdate elements, and return the eid of the element that records this and why."""
    outdate(turn.transaction, eids)
    return turn.add(make_note(OUTDATED, eids, reason), replace(origin or Origin(), inputs=eids))


def replace_element(turn: Turn, old: int, xml: bytes, origin: Origin, declared: str | None = None) -> int:
    """Add an element in place of an old one, which is outdated, and return its eid.

    It is declared like the old one, unless `declared` says otherwise.
    """
    key = turn.agent.memory.declared.get(old, "")
    if key:
        turn.transaction.change(changes.Undeclared((old,)))
    new = turn.add(xml, replace(origin, replaces=(old,)), key if declared is None else declared)
    outdate(turn.transaction, (old,))
    return new


def start_declared(turn: Turn, again: Container[int]) -> bool:
    """Execute `start-plan` and `task-object` elements whose target was not loaded before; true if any waited.

    Those in `again` with at="start" are executed once more.
    """
    any_waited = False
    acted: Container[int] = turn.agent.memory.marks.get(ACTED, ())
    for eid in list(turn.agent.memory.named(STARTING)):
        element = turn.agent.memory.element(eid)
        if element is None or eid in turn.agent.memory.outdated:
            continue
        root = parse(element.xml)
        if eid not in acted:
            due, any_waited = can_start(turn.agent, root), True
        else:
            due = eid in again and root.get("at") == "start"
        if due:
            turn.controls.execute(element)
    return any_waited


def _compare(turn: Turn, declarer: str, declared: Mapping[str, bytes]) -> tuple[int, ...]:
    """Add what is declared and not in memory yet; return the eids of what is no longer declared."""
    there = _declared_by(turn, declarer)
    gone = tuple(eid for key, eid in there.items() if key not in declared)
    if gone:
        turn.transaction.change(changes.Undeclared(gone))
    for key, xml in declared.items():
        if key not in there:
            turn.add(xml, declared=intern(f"{declarer}:{key}"))
    return gone


def _declared_by(turn: Turn, declarer: str) -> dict[str, int]:
    """The elements that a declarer declares, by the digests of their text."""
    pairs = ((key.partition(":"), eid) for eid, key in turn.agent.memory.declared.items())
    return {digest: eid for (by, _, digest), eid in pairs if by == declarer}


RELOAD = "reload"
"""The signal that tells a service run that its definition changed, or with `gone` that it was removed."""


def keep_standing(turn: Turn) -> None:
    """Start a service run for each definition that has none, and notify those whose definition has changed,
    has been removed, or has come back (K41, K70).
    """
    agent = turn.agent
    library, signals = agent.library, agent.signals
    for kind, run_kind in standing_kinds().items():
        definitions = library.of(kind)
        for name, definition in definitions.items():
            run = agent.runs.active.get(signals.standing.get(name, 0))
            if is_withheld(definition):
                continue  # a run that has begun continues with its version
            if run is None:
                begin_service_run(turn.transaction, definition, run_kind)
            elif run.digest != definition.digest or name in signals.gone:
                run.follow(definition)
                turn.transaction.alter(run)
                _tell(turn, run)
    gone = {
        name: run
        for name, eid in signals.standing.items()
        if name not in library.of((run := agent.runs[eid]).engine.definition_kind)
    }
    if gone.keys() == signals.gone:
        return
    for name, run in gone.items():
        if name not in signals.gone:
            _tell(turn, run, gone=True)
    signals.lack(frozenset(gone))
    turn.transaction.batch.meta.append((GONE, " ".join(sorted(gone))))


def follow_newest(turn: Turn) -> None:
    """Make each run that was not called, and that has taken nothing yet, continue with what is loaded now:
    the newest versions of its definition and of the definitions that this calls.
    """
    library = turn.agent.library
    for run in list(turn.agent.runs.active.values()):
        newest = library.get(run.engine.definition_kind, run.name)
        if run.library is library or newest is None or run.caller is not None or run.state is None:
            continue
        if is_withheld(newest):
            continue  # it continues with the granted version
        if has_taken_nothing(turn.agent, run):
            before = run.digest
            run.follow(newest, library)
            if newest.digest != before:
                turn.transaction.alter(run)
                turn.tell(run.eid, Redefined(0, 0.0, before, newest.digest))


def has_taken_nothing(agent: AgentState, run: Run) -> bool:
    """True for a run that still waits at its beginning, if its engine can tell."""
    engine = redefinable(run.engine)
    if engine is None or run.state is None:
        return False
    return engine.is_untouched(run.definition, run.state, partial(agent.lookup.definition, run))


def _tell(turn: Turn, run: Run, **arguments: Plain) -> None:
    """Notify a service run about its definition; the sender is the run: nothing else can send this."""
    signal = Signalled(0, 0.0, "", RELOAD, arguments={**arguments, "from": run.eid}, sender=run.eid)
    turn.agent.queue.append((0, run.eid, signal))
