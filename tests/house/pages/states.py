"""The page of the states of all runs and of their parts, from the tables that the engines go by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module

from narval.core.engines.run_state import RunState
from narval.core.kinds import KINDS
from narval.kinds.automaton.engine.state import STATE_MOVES
from narval.kinds.recipe.engine.state import STEP_MOVES, TRANSITION_MOVES
from narval.kinds.work.engine.table import DRAWN
from tests.house.pages.tables import code, codes, table

PATH = "reference/states.md"

HEAD = """\
# States

Made from the tables of the engines by `python -m tests.house.pages`; a test compares. Arrows lead from a
state of a run, or of a part of a run, to the states that can follow it. Any other move is an error of narval
itself, which is reported with the run's story. Every status of every kind belongs to one of four *phases*:
active, done, failed and cancelled. `narval runs --state` takes a phase as well. In memory the element of a
run has its status, as in `plan[@state='failed']`.
"""

PARTS: Mapping[str, tuple[tuple[str, Mapping[str, frozenset[str]]], ...]] = {
    "plan": (("A step of a plan", STEP_MOVES), ("A transition of a plan", TRANSITION_MOVES)),
    "automaton": (("A state of an automaton", STATE_MOVES),),
}
"""The parts of runs that have states of their own, by kind of run."""

TITLES = {
    "plan": "A plan",
    "plan-undo": "A run that undoes a plan",
    "automaton": "A run of an automaton",
    "process": "A process",
    "work": "An item of work",
    "task": "An instance of a task",
    "task-server": "The service run of a task type",
    "task-case": "A case of a task's object",
    "dataflow": "A run of a dataflow",
}

PAGES = {
    "plan": "recipe.md",
    "plan-undo": "recipe.md",
    "automaton": "automaton.md",
    "process": "process.md",
    "work": "work.md",
    "task": "tasks.md",
    "task-server": "tasks.md",
    "task-case": "tasks.md",
    "dataflow": "dataflows.md",
}


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for kind, state in states():
        page = PAGES[kind].removesuffix(".md")
        yield f"## {TITLES[kind]}\n\nThe kind `{kind}`; explained under [{page}]({page}.md).\n"
        labels = {(start, end): why for start, end, why in DRAWN} if kind == "work" else {}
        yield from drawn(state.MOVES, labels)
        yield ""
        yield from table(("a run that is", "has the phase"), phases(state))
        yield ""
        for title, moves in PARTS.get(kind, ()):
            yield f"### {title}\n"
            yield from drawn(moves)
            yield ""


def states() -> Iterator[tuple[str, type[RunState]]]:
    """The kinds of runs, each with the class of its states."""
    for row in KINDS.values():
        for kind, package in row.runs.items():
            module = import_module(f"{package}.state")
            (found,) = (
                value
                for value in vars(module).values()
                if isinstance(value, type)
                and issubclass(value, RunState)
                and value.__module__ == module.__name__
            )
            yield kind, found


def drawn(
    moves: Mapping[str, Iterable[str]], labels: Mapping[tuple[str, str], str] | None = None
) -> Iterator[str]:
    """A table of moves as a diagram, in the language of Mermaid; ends are sorted, for sets have no order."""
    yield "```mermaid\nstateDiagram-v2"
    yield f"    [*] --> {next(iter(moves))}"
    for start, ends in moves.items():
        for end in sorted(ends):
            label = (labels or {}).get((start, end), "")
            yield f"    {start} --> {end}{': ' * bool(label)}{label}"
    yield "```"


def phases(state: type[RunState]) -> Iterator[tuple[str, str]]:
    """The statuses of a kind by their phases; those that are not over are active."""
    known = dict.fromkeys((*state.MOVES, *(end for ends in state.MOVES.values() for end in sorted(ends))))
    by_phase: dict[str, list[str]] = {}
    for status in known:
        by_phase.setdefault(state.PHASES.get(status, "active"), []).append(status)
    for phase, statuses in by_phase.items():
        yield codes(statuses), code(phase)
