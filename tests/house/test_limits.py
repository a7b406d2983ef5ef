"""Sizes are a hint to think: what is larger stands in a list with its reason; nothing is split to pass."""

from __future__ import annotations

import ast

from tests.house.code import classes, modules, read
from tests.places import ROOT

FILE, CLASS, METHODS, TEST_FILE = 400, 200, 15, 600
"""Lines of a file, lines of a class, public methods of a class, lines of a file of tests."""

FILES_ALLOWED: dict[str, str] = {
    "narval.daemon.agents.lifecycle": "one table, with its events, its commands and its moves",
    "narval.core.definitions.action.parser": "actions in Python and in XML are one subject, checked alike",
    "narval.core.definitions.library": "definitions by name, what refers to them, and why one is not there",
    "narval.core.definitions.schedule": "dates, their fields and the calendar that gives them are one matter",
    "narval.surfaces.control.server": "the socket, who may ask at it, and its connections are one thing",
    "narval.kinds.process.engine.changes": "the facts of a kind, each with its effect, are one list",
    "narval.kinds.recipe.engine.changes": "the facts of a kind, each with its effect, are one list",
    "narval.kinds.recipe.engine.steps.running": "a step is followed from its inputs to the end of its calls",
    "narval.kinds.task.engine.server.changes": "the facts of a kind, each with its effect, are one list",
    "narval.calls.book": "the way of a call is read from when it is asked for until it is recorded",
    "narval.daemon.agents.supervisor": "commands of the lifecycle are done where hosts, calls, timers are",
    "narval.agent.loop": "what waits, the turn made of it and the budget of a turn are read together",
    "narval.daemon.daemon": "the parts of a home at work are opened, put together and closed in one place",
    "narval.daemon.rounds": "a round, its commit and what wakes the next are one way, followed on one page",
    "narval.core.patterns.pattern": "a pattern, a condition of several and a bound one are tried alike",
    "narval.surfaces.cli.command": "the frame of all commands: options, examples, errors, exit status",
    "narval.surfaces.cli.render.tables": "the columns of all tables stand in one place",
}
"""Modules with more lines, and why."""

METHODS_ALLOWED: dict[str, str] = {
    "Agent": "the home in a program: what Python offers, in one place",
    "AgentCalls": "the calls of an agent, and whichever activation is told of them, are one thing",
    "UnknownMemory": "it answers every question of a view",
    "DatabaseAgent": "it answers all that is read of an agent",
    "Decision": "the verbs by which all kinds decide are one vocabulary, looked up in one place",
    "ServerLeases": "whatever a daemon asks of the store about who holds an agent is asked there",
    "FilesInForce": "which files count for an agent, the home's own as any other, is asked there",
    "Store": "what a daemon asks of its store, whichever database that is, is one contract",
    "Supervisor": "whatever happens to an agent in a daemon is told there",
    "TurnView": "it answers every question of a view",
    "CallRecord": "each move of a call is made by itself, and who is told of it is one of them",
}
"""Classes with more public methods, and why."""

CLASSES_ALLOWED: dict[str, str] = {
    "_ActionMaker": "each part of a declaration is read where its faults are told",
    "AgentCalls": "the calls of an agent and their parts are counted, given up and ended together",
    "Agents": "what surfaces have done to an agent, and what keeps its name and number, is one thing",
    "Cluster": "the calls of a cluster are sent there, and what becomes of them and of it is told here",
    "Daemon": "the parts of a home at work are opened, asked and closed by one object",
    "Dispatcher": "what is performed, and what is performed again after a start or an outage, is one thing",
    "Frame": "a call of a plan, its tries, and what is passed, taken back and ended with each, are one thing",
    "Memory": "what elements, marks, contexts and doubts come to is asked and changed in one place",
    "ServerLeases": "all that a daemon asks of the table of leases, and knows of it, is one thing",
    "Supervisor": "each command of the lifecycle is done where hosts, calls and timers are",
    "Turn": "a run is told an event, and what follows is decided, recorded or taken back in one place",
    "Workers": "the workers of a pool are started, given calls, heard and ended in one place",
    "Simulation": "a scenario is played by one object, from its first moment to its report",
}
"""Classes with more lines, and why."""


def test_no_file_is_longer_than_can_be_read_at_one_sitting() -> None:
    long = {name: lines for name, path in modules().items() if (lines := read(path).text.count("\n")) > FILE}
    assert {name: lines for name, lines in long.items() if name not in FILES_ALLOWED} == {}
    assert sorted(set(FILES_ALLOWED) - set(long)) == []


def test_no_class_is_longer_than_its_purpose() -> None:
    long = {node.name: lines for _, node in classes() if (lines := lines_of(node)) > CLASS}
    assert {name: lines for name, lines in long.items() if name not in CLASSES_ALLOWED} == {}
    assert sorted(set(CLASSES_ALLOWED) - set(long)) == []


def test_no_class_offers_more_than_can_be_remembered() -> None:
    wide = {node.name: count for _, node in classes() if (count := len(public(node))) > METHODS}
    assert {name: count for name, count in wide.items() if name not in METHODS_ALLOWED} == {}
    assert sorted(set(METHODS_ALLOWED) - set(wide)) == []


TESTS_ALLOWED: dict[str, str] = {"tests/core/engines/dialogue.py": "one way of speaking with all engines"}
"""Files of tests with more lines, and why."""


def test_no_file_of_tests_is_too_long() -> None:
    files = (ROOT / "tests").rglob("*.py")
    sizes = {path: path.read_text(encoding="utf-8").count("\n") for path in files}
    long = {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > TEST_FILE}
    assert {name: size for name, size in long.items() if name not in TESTS_ALLOWED} == {}
    assert sorted(set(TESTS_ALLOWED) - set(long)) == []


def lines_of(node: ast.ClassDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def public(node: ast.ClassDef) -> list[str]:
    """The names of the public methods of a class."""
    members = (member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef))
    return [member.name for member in members if not member.name.startswith("_")]
