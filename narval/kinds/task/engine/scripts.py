"""Scripts (KA27): a small machine that stands still where a statement waits, and goes on from there.

A position is the place of a statement in its script, then by turns the branch of a choice and the place in
that.
"""

from __future__ import annotations

from collections.abc import Callable

from narval.kinds.task.engine import functions
from narval.kinds.task.engine.changes import ScriptAt
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.state import ScriptFrame
from narval.kinds.task.engine.values import Values, name_of
from narval.kinds.task.language.script import Choice, Perform, Script, Statement

Position = tuple[int, ...]

Move = Callable[[InstanceDecision, str], None]
"""Goes along an edge to a state. Raises ScriptFault."""


def run(decision: InstanceDecision, move: Move) -> bool:
    """Run the script under way up to where it waits; True if it came to its end. Raises ScriptFault."""
    frame = decision.state.frames[-1]
    script, position = decision.script(frame), frame.position
    values = Values(decision.view, frame, decision.state.object or frame.carried)
    while True:
        statement = _at(script, position)
        if statement is None:
            if len(position) == 1:
                return True
            position = _after(position[:-2])
        elif isinstance(statement, Choice):
            position = (*position, 0 if values.holds(statement.test) else 1, 0)
        else:
            position = _after(position)
            if _perform(decision, frame, statement, values, position, move):
                return False


def _at(script: Script, position: Position) -> Statement | None:
    block = script
    for place, branch in zip(position[:-1:2], position[1::2], strict=True):
        choice = block[place]
        assert isinstance(choice, Choice), choice
        block = choice.otherwise if branch else choice.then
    return block[position[-1]] if position[-1] < len(block) else None


def _after(position: Position) -> Position:
    return (*position[:-1], position[-1] + 1)


def _perform(
    decision: InstanceDecision,
    frame: ScriptFrame,
    statement: Perform,
    values: Values,
    position: Position,
    move: Move,
) -> bool:
    """Do a statement; True where the script stands still after it. Raises ScriptFault."""
    match statement.name:
        case "assert":
            decision.change(ScriptAt(position))
            move(decision, name_of(functions.first(statement)))
            return True
        case "route":
            functions.route(decision, frame, statement, values)
        case "split" | "copy":
            functions.divide(decision, statement, values)
        case "launch":
            functions.run_program(decision, frame, statement, "launch")
        case "exec":
            _wait(decision, position, functions.run_program(decision, frame, statement, "script"))
            return True
        case "raise" if (target := functions.edge_of(decision, statement)) is not None:
            decision.change(ScriptAt(position))
            move(decision, target)
            return True
        case "raise":
            _wait(decision, position, functions.raise_it(decision, statement, values))
            return True
        case _:
            _wait(decision, position, *functions.call_action(decision, frame, statement, values))
            return True
    return False


def _wait(decision: InstanceDecision, position: Position, call: str, reserved: tuple[int, ...] = ()) -> None:
    decision.change(ScriptAt(position, call, reserved))
