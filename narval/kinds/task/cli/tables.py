"""Tables of tasks: those at work, objects in a queue, events, tasks passed, the parts of their runs; and the
records of the logs.
"""

from __future__ import annotations

from collections.abc import Callable

from narval.ask.text import Row, clean, moment
from narval.surfaces.cli.render.tables import Column


def _of(key: str) -> Callable[[Row], object]:
    return lambda row: "" if row.get(key) is None else row[key]


def _who(row: Row) -> str:
    role = f" ({row['role']})" if row["role"] else ""
    return f"{row['user'] or ('a program' if row['program'] else '')}{role}"


def _called(row: Row) -> str:
    return f"{row['event']}({', '.join(row['parameters'])})"


def _at(key: str, title: str = "") -> Column:
    return Column(title or key, lambda row: moment(row[key]), is_moment=True)


TASKS = (
    Column("task", _of("eid"), right=True),
    Column("type", _of("type")),
    Column("state", _of("state")),
    Column("object", _of("object"), right=True),
    Column("who", _who, most=60),
    _at("since"),
)
QUEUE = (
    Column("object", _of("object"), right=True),
    Column("now", _of("now"), right=True),
    Column("case", _of("case"), right=True),
    _at("since"),
    Column("part", lambda row: f"{row['part']} parts of {row['part_of']}" if row["part"] else ""),
)
EVENTS = (
    Column("id", _of("eid"), right=True),
    Column("event", _called),
    Column("type", _of("type")),
    Column("queue", lambda row: f"{row['queue']}{', in vain so far' if row['stage'] == 'false' else ''}"),
    Column("receiver", _of("receiver"), right=True),
    Column("object", _of("object"), right=True),
    _at("next"),
    _at("until"),
)
PASSED = (
    _at("at"),
    Column("object", _of("object"), right=True),
    Column("task", _of("task"), right=True),
    Column("type", _of("type")),
    Column("result", _of("result")),
    Column("compensation", _of("compensation")),
)


def _ordinal(row: Row) -> str:
    return f"{row['ordinal']} of {row['parent']}" if row.get("parent") else ""


_OBJECTS = (
    Column("object", _of("id"), right=True),
    Column("now", _of("object"), right=True),
    Column("state", _of("state")),
    Column("type", _of("type")),
    Column("event", _of("event")),
    _at("since"),
    Column("part", _ordinal),
    Column("why", _of("why")),
)
_TRAIL = (
    Column("step", _of("id")),
    *PASSED[:2],
    Column("task", _of("instance"), right=True),
    *PASSED[3:5],
    Column("state", _of("state")),
    Column("compensator", _of("compensator")),
    Column("why", _of("why")),
)
_QUEUED = (
    Column("object", _of("id"), right=True),
    Column("case", _of("case"), right=True),
    Column("state", _of("state")),
    _at("at", "since"),
    Column("part", _ordinal),
)
_INSTANCES = (
    Column("task", _of("id"), right=True),
    *TASKS[2:4],
    Column("user", _of("user")),
    Column("role", _of("role")),
    _at("since"),
)
_RAISED = (
    Column("event", _of("id"), right=True),
    Column("name", _called),
    Column("queue", _of("state")),
    Column("object", _of("object"), right=True),
    _at("at", "raised"),
    _at("until", "next"),
)
PARTS = (
    (_OBJECTS, "objects"), (_TRAIL, "trail"),
    (_QUEUED, "queue"), (_INSTANCES, "instances"), (_RAISED, "events"),
)  # fmt: skip
"""The tables of a case and of a standing run, by the key in the answer to `show`."""


def record(row: Row) -> str:
    """A record of a log in a sentence (K66)."""
    return clean(f"{moment(row['at'])}  {_sentence(row)}")


def _sentence(row: Row) -> str:
    task = f"task {row['task']} ({row['type']})"
    if row["log"] == "object":
        return f"object {row['object']} entered {task}"
    if "state" in row:
        return f"{task} entered {row['state']}" + (f" with object {row['object']}" if row["object"] else "")
    event = row.get("event") or f"event {row.get('number')}"
    if "to" in row:
        who = task if row["task"] else row["by"] or "somebody"
        carried = f" with object {row['object']}" if row["object"] else ""
        return f"{who} raised {event} to {row['to']}{carried}"
    receiver = task if row["task"] else row["type"]
    if "condition" in row:
        return f"{event}: condition for {receiver}: {'true' if row['condition'] else 'false'}"
    return f"{event}: action for {receiver}: {row['action']}"
