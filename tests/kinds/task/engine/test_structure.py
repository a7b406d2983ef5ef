"""What `check --explore` tells of tasks beside others: failures nobody takes over, steps not undone."""

from __future__ import annotations

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from narval.trials.explore.findings import examine

WAYS = """
TASK TYPE enter
  INVOCATION: MANUAL
  INITIAL a
  STATE a EXPOSED
    ON EVENT go GOTO FORWARD
    ON EVENT odd GOTO EXCEPTION
  ON FORWARD
    if (obj.n) route(look); else route(g.look);

TASK TYPE look
  INITIAL b
  STATE b EXPOSED
    ON EVENT bad GOTO ABORT
    ON EVENT good GOTO COMMIT
"""


def told(text: str, name: str) -> list[tuple[str, str, str]]:
    parsed = parse(Source("g.task", text.encode()))
    assert not parsed.faults, parsed.faults
    library = Library(parsed.definitions)
    definition = library.get("task", name)
    assert definition is not None, name
    return [(found.severity, found.part, found.message) for found in examine(definition, library).findings]


def test_K29_what_nobody_takes_over_is_told() -> None:
    held = "what comes to EXCEPTION is held for a person: add ON EXCEPTION, or a type `exception`"
    assert told(WAYS, "g.enter") == [("note", "EXCEPTION", held)]
    taken = """
TASK TYPE exception
  INITIAL c
  STATE c EXPOSED
    ON EVENT go GOTO ABORT
"""
    assert told(WAYS + taken, "g.enter") == []


def test_K47_steps_that_nothing_compensates_are_told() -> None:
    left = "an ABORT leaves what these did before as it is: g.enter; they have no COMPENSATED BY"
    assert told(WAYS, "g.look") == [("note", "ABORT", left)]
