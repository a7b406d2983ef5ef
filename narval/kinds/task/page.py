"""The pages of tasks: queues, tasks at work, cases, events with their windows, the path of an
object (K67).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from narval.core.agreeing import Role
from narval.core.errors import NotFoundError, TaskRefusedError
from narval.kinds.task.cli.tables import sentence
from narval.kinds.task.operations.overview import STATES
from narval.surfaces.http.page import READERS, Follows, Redirect, Shown, Visit, act, page, segment

LISTED = 50
"""Rows on a page."""

CASE_TONES: Mapping[str, str] = {
    "active": "active", "held": "waiting", "aborting": "waiting", "blocked": "failed",
}  # fmt: skip
"""The tones of the states of cases."""

PLACE_TONES: Mapping[str, str] = {
    "task": "active", "event": "active", "held": "waiting", "aborting": "waiting", "committed": "done",
    "aborted": "cancelled", "withdrawing": "waiting", "failed": "failed",
}  # fmt: skip
"""The tones of the states of objects."""

WINDOW_TONES: Mapping[str, str] = {"open": "active", "shut": "idle"}
"""The tones of windows."""

VIEWS = (
    ("/tasks", "Queues"), ("/tasks/at-work", "At work"), ("/tasks/cases", "Cases"),
    ("/tasks/events", "Events"), ("/tasks/log", "Log"),
)  # fmt: skip
"""The lists of tasks, by path."""


def _listing(
    visit: Visit,
    template: str,
    view: str,
    rows: Sequence[Any],
    key: str,
    query: Mapping[str, Any] = {},
    *,
    turn: str = "before",
    **values: Any,
) -> Shown:
    """The page of a list, with `query` in its address. If there are more rows than it shows, it links to the
    next page, with the `key` of the last row as the parameter `turn`.
    """
    listed = rows[:LISTED]
    older = visit.url(view, **query, **{turn: listed[-1][key]}) if len(rows) > LISTED else ""
    shared = {
        "rows": listed,
        "older": older,
        "newest": visit.url(view) if visit.query.get("before") or visit.query.get("after") else "",
        "views": VIEWS,
        "view": view,
        "window_tones": WINDOW_TONES,
        "here": "/work",
        "section": "/tasks",
        **query,
    }
    links = {"next": older} if older else {}
    return Shown(template, shared | values, listed, links=links, follows=Follows(runs=True, faults=True))


@page("/a/{agent}/tasks", command="narval task types", options={"after": "--after"})
async def task_types_page(visit: Visit) -> Shown:
    """List the queues of all types, and on the first page the cases that cannot continue by themselves."""
    after = visit.query.get("after") or None
    rows = await visit.ask("task_types", limit=LISTED + 1, after=after)
    stuck: list[Any] = []
    if after is None:
        asked = (visit.ask("task_cases", state=state, limit=LISTED) for state in ("blocked", "held"))
        stuck = [row for listed in await asyncio.gather(*asked) for row in listed]
    values: dict[str, Any] = {"stuck": stuck, "case_tones": CASE_TONES}
    return _listing(visit, "tasks.html", "/tasks", rows, "type", turn="after", **values)


@page("/a/{agent}/tasks/at-work", command="narval task", options={"before": "--before"})
async def tasks_page(visit: Visit) -> Shown:
    """List the tasks at work, newest first."""
    rows = await visit.ask("tasks", limit=LISTED + 1, before=visit.number("before"))
    return _listing(visit, "tasks_at_work.html", "/tasks/at-work", rows, "eid")


@page(
    "/a/{agent}/tasks/cases", command="narval task cases", options={"state": "--state", "before": "--before"}
)
async def cases_page(visit: Visit) -> Shown:
    """List the cases that have not ended, all or those of a state."""
    query = {"state": visit.query.get("state") or None}
    rows = await visit.ask("task_cases", **query, limit=LISTED + 1, before=visit.number("before"))
    values: dict[str, Any] = {"states": STATES, "case_tones": CASE_TONES}
    return _listing(visit, "task_cases.html", "/tasks/cases", rows, "case", query, **values)


async def _of_events(visit: Visit, operation: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The type and the object that a list is limited to, and its rows."""
    query = {"type": visit.query.get("type") or None, "object": visit.number("object")}
    asked = {"name": query["type"], "object": query["object"], "before": visit.number("before")}
    return query, await visit.ask(operation, limit=LISTED + 1, **asked)


EVENT_OPTIONS = {"type": "", "object": "--object", "before": "--before"}


@page("/a/{agent}/tasks/events", command="narval task events", options=EVENT_OPTIONS)
async def task_events_page(visit: Visit) -> Shown:
    """List the events that have not ended, with their windows: of all types or one, or of an object."""
    query, rows = await _of_events(visit, "task_events")
    return _listing(visit, "task_events.html", "/tasks/events", rows, "eid", query)


LOG_OPTIONS = {"object": "--object", "type": "--type", "before": "--before"}


@page("/a/{agent}/tasks/log", command="narval task log", options=LOG_OPTIONS)
async def task_log_page(visit: Visit) -> Shown:
    """List the records of the two logs, newest first: of all, of a type, of an object."""
    query, rows = await _of_events(visit, "task_log")
    records = told(rows[:LISTED])
    return _listing(visit, "task_log.html", "/tasks/log", rows, "seq", query, records=records)


def told(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records of a log, each with its sentence."""
    return [{**row, "sentence": sentence(row)} for row in rows]


@page("/a/{agent}/tasks/types/{name}", command="narval task queue {name}", options={"after": "--after"})
async def queue_page(visit: Visit) -> Shown:
    """List the objects in the queue of a type, the next one first."""
    name, after = visit.path["name"], visit.number("after")
    rows = await visit.ask("task_queue", name=name, limit=LISTED + 1, after=after)
    path = f"/tasks/types/{segment(name)}"
    return _listing(visit, "task_queue.html", path, rows, "object", turn="after", name=name)


@page("/a/{agent}/tasks/objects/{object:int}", command="narval task where {object}")
async def object_page(visit: Visit) -> Shown:
    """Show where an object is, the tasks it passed, its times, and the events that concern it."""
    object = visit.path["object"]
    where = await visit.ask("task_where", object=object)
    passed, times, events, log = await asyncio.gather(
        visit.ask("task_passed", object=object),
        visit.ask("task_times", object=object),
        visit.ask("task_events", object=object, limit=LISTED),
        visit.ask("task_log", object=object, limit=LISTED),
    )
    values = {
        "object": object,
        "where": where,
        "places": list(_places(where)),
        "passed": passed,
        "times": times,
        "events": events,
        "records": told(log),
        "place_tones": PLACE_TONES,
        "window_tones": WINDOW_TONES,
        "here": "/work",
        "section": "/tasks",
    }
    return Shown("task_object.html", values, where, follows=Follows(runs=True))


def _places(place: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """An object and its parts, each with its depth."""
    yield {**place, "depth": depth}
    for part in place["parts"]:
        yield from _places(part, depth + 1)


@act("/a/{agent}/tasks/objects/{object:int}/{what}")
async def act_on_object(visit: Visit) -> Redirect:
    """Let a held object continue, to its task or another, or stop the task that has it."""
    object, what = visit.path["object"], visit.path["what"]
    where = await visit.ask("task_where", object=object)
    if what == "retry":
        to = visit.fields.get("to").strip()
        await visit.act("task_retry", case=where["case"], object=where["object"], to=to)
    elif what == "stop":
        if where["task"] is None:
            raise TaskRefusedError("over", f"no task has object {object} now: it is {where['where']}")
        await visit.act("task_stop", run=where["task"], reason=visit.fields.get("reason"))
    else:
        raise NotFoundError(f"there is no act {what!r:.40} on objects; there are retry and stop")
    return Redirect(visit.url(f"/tasks/objects/{object}"))


SECTIONS: tuple[tuple[str, str, str, tuple[Role, ...]], ...] = (("/work", "Tasks", "/tasks", READERS),)
"""The lists beside a page of the navigation: its path, their label and path, the roles that may see them."""
