"""The handle of a task: how a program that works as one is known (K48)."""

from __future__ import annotations

from collections.abc import Mapping

TASK = "NARVAL_TASK"
"""The variable with the handle that `narval task init` has printed; of the code of a task, its number."""

CALL = "NARVAL_CALL"
"""The variable with the id of the call that a program answers."""

FOR_GOOD = 1e8
"""Seconds for which is waited where nothing else is said: three years."""

SLICE = 600.0
"""Seconds for which an object is asked for at a time: each time the lease of the program begins anew."""


def handle_in(environment: Mapping[str, str]) -> str:
    """The handle in an environment; "" without one."""
    task, call = environment.get(TASK, ""), environment.get(CALL, "")
    return f"{task}.{call}" if task.isdecimal() and call else task
