"""The methods of an agent for tasks: acts of programs and people, and queries (K16, K48–K67)."""

from __future__ import annotations

from narval.kinds.task.operations import administration, overview, programs, queries, records
from narval.surfaces.python.runner import forward


class OfTasks:
    """Methods that put objects, begin and move tasks, and raise events. Refusals raise TaskRefusedError."""

    task_put = forward(administration.task_put)
    task_init = forward(programs.task_init)
    task_get = forward(programs.task_get)
    task_assert = forward(programs.task_assert)
    task_raise = forward(programs.task_raise)
    task_wait = forward(programs.task_wait)
    task_state = forward(programs.task_state)
    task_down = forward(programs.task_down)
    task_stop = forward(administration.task_stop)
    task_finish = forward(administration.task_finish)
    task_retry = forward(administration.task_retry)
    tasks = forward(queries.tasks)
    task_events = forward(queries.task_events)
    task_queue = forward(queries.task_queue)
    task_where = forward(queries.task_where)
    task_passed = forward(records.task_passed)
    task_log = forward(records.task_log)
    task_time = forward(records.task_time)
    task_times = forward(records.task_times)
    task_types = forward(overview.task_types)
    task_cases = forward(overview.task_cases)
