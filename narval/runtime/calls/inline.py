"""Calls answered in the loop itself, at once: for what takes microseconds (N33).

Nothing can interrupt such an action, so its time limit is not kept; and nothing can give it up, count it or
find it under way, for when anybody could look it is over. So it has no place among the others.
"""

from __future__ import annotations

from contextvars import copy_context

from narval.runtime.calls.backend import Inputs, Outcome, Task
from narval.runtime.calls.context import CurrentCall
from narval.runtime.calls.conversion import answer


def answer_at_once(task: Task, inputs: Inputs, current: CurrentCall) -> Outcome:
    """Call the function of a task, in a context of its own; `task` may be what many calls have in common."""
    return copy_context().run(_answer, task, inputs, current)


def _answer(task: Task, inputs: Inputs, current: CurrentCall) -> Outcome:
    current.enter()
    return answer(task, inputs, current.id)
