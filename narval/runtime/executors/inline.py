"""Calls answered in the loop itself, at once: for what takes microseconds (N33).

Nothing can interrupt such an action, so its time limit is not kept; and nothing can give it up, count it or
find it under way, for when anybody could look it is over. So it has no place among the others.
"""

from __future__ import annotations

from narval.runtime.calling import CurrentCall
from narval.runtime.executors.contract import Outcome, Task
from narval.runtime.executors.conversion import answer


def answer_at_once(task: Task) -> Outcome:
    """Call the function of a task, in a context of its own."""
    call = CurrentCall(task.call, task.run, task.step, task.home, attempt=task.attempt)
    return call.context().run(answer, task)
