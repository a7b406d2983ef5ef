"""The handle of a task: it identifies the program that works as the task (K48)."""

from __future__ import annotations

from collections.abc import Mapping

TASK = "NARVAL_TASK"
"""The variable with the handle that `narval task init` printed; in the code of a task, its number."""

CALL = "NARVAL_CALL"
"""The variable with the id of the call that a program answers."""

FOR_GOOD = 1e8
"""The default wait in seconds: three years."""

SLICE = 600.0
"""Seconds of one request for an object: each request renews the program's lease."""


def handle_in(environment: Mapping[str, str]) -> str:
    """The handle in an environment; "" without one."""
    task, call = environment.get(TASK, ""), environment.get(CALL, "")
    return f"{task}.{call}" if task.isdecimal() and call else task
