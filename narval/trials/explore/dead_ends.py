"""Dead ends: answers of people, and errors in their place, after which nothing can go on (P81).

Memory may hold another answer that fits, or be given one some day, so this is a note and no proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.definitions.library import Definition, Library
from narval.core.engines.structure import Exit, Finding, HasExits
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.trials.explore.contradictions import contradictory, demands


def dead_ends(definition: Definition, library: Library, engine: HasExits) -> Iterator[Finding]:
    """The outcomes that no way on from a part takes, and the errors that no way for errors takes.

    Where there is no way for errors at all, the walk tells that nobody handles them.
    """
    for found in engine.exits(definition):
        target = library.get(*found.target)
        for outcome in getattr(target, "outcomes", ()):
            name = getattr(target, "answer_name", "")
            if found.ways and _are_closed(found.ways, name, f"{name}[@outcome='{outcome.name}']"):
                yield _finding(definition, found, f"is answered {outcome.name}, no transition")
        for error in getattr(target, "errors", ()):
            if found.on_error and _are_closed(found.on_error, "error", f"error[@type='{error}']"):
                yield _finding(definition, found, f"ends in the error {error}, no error link")


def _are_closed(ways: Iterable[tuple[Condition, ...]], name: str, pattern: str) -> bool:
    """True if each way has a condition on elements of a name that none of a pattern fits."""
    given = compile_pattern(pattern, {})
    return all(
        any(
            contradictory(demands(Condition((*wanted.patterns, given)).bind()))
            for wanted in way
            if wanted.names == frozenset({name}) and not wanted.variables
        )
        for way in ways
    )


def _finding(definition: Definition, found: Exit, what: str) -> Finding:
    _, name = found.target
    message = f"step {found.part!r}: when {name} {what} goes on"
    return Finding(definition.path, found.line, 1, "note", found.part, message)
