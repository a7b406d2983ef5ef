"""Dead ends: outcomes of what people are asked after which nothing can go on (P81).

Memory may hold another answer that fits, or be given one some day, so this is a note and no proof.
"""

from __future__ import annotations

from collections.abc import Iterator

from narval.definitions.library import Definition, Library
from narval.engines.structure import Exit, Finding, HasExits
from narval.exploration.contradictions import contradictory, demands
from narval.memory.patterns.pattern import Condition, compile_pattern


def dead_ends(definition: Definition, library: Library, engine: HasExits) -> Iterator[Finding]:
    """The outcomes that no way on from a part takes."""
    for found in engine.exits(definition):
        target = library.get(*found.target)
        for outcome in getattr(target, "outcomes", ()):
            if all(_is_closed(way, target, outcome.name) for way in found.ways):
                yield _finding(definition, found, outcome.name)


def _is_closed(way: tuple[Condition, ...], target: object, outcome: str) -> bool:
    """True if one of the conditions is about the answer, and no answer of this outcome fits it."""
    name = getattr(target, "answer_name", "")
    answered = compile_pattern(f"{name}[@outcome='{outcome}']", {})
    about = (wanted for wanted in way if wanted.names == frozenset({name}) and not wanted.variables)
    return any(contradictory(demands(Condition((*wanted.patterns, answered)).bind())) for wanted in about)


def _finding(definition: Definition, found: Exit, outcome: str) -> Finding:
    _, name = found.target
    message = f"step {found.part!r}: when {name} is answered {outcome}, no transition goes on"
    return Finding(definition.path, found.line, 1, "note", found.part, message)
