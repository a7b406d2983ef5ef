"""Tables of tasks: tasks at work, objects in a queue, events, passed tasks, the parts of their runs, and the
records of the logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.ask.text import Row, clean, moment
from narval.surfaces.cli.render.tables import Column, of, plain


def _who(row: Row) -> str:
    """The person or program that works, or the people asked if none has taken it yet."""
    if row["item"]:
        asked = row["asked"] or "somebody"
        has = f"{row['claimed_by']} has" if row["claimed_by"] else f"for {asked}:"
        return f"{has} item {row['item']}"
    role = f" ({row['role']})" if row["role"] else ""
    agent = f" on {row['agent']}" if row["agent"] else ""
    return f"{row['user'] or ('a program' if row['program'] else row['code'] or '')}{role}{agent}"


def _called(row: Row) -> str:
    return f"{row['event']}({', '.join(row['parameters'])})"


def _at(key: str, title: str = "") -> Column:
    return Column(title or key, lambda row: moment(row[key]), is_moment=True)


TASKS = (
    Column("task", of("eid"), right=True),
    *plain("type", "state"),
    Column("object", of("object"), right=True),
    Column("who", _who, most=60),
    _at("since"),
)
QUEUE = (
    Column("object", of("object"), right=True),
    Column("now", of("now"), right=True),
    Column("case", of("case"), right=True),
    _at("since"),
    Column("part", lambda row: f"{row['part']} parts of {row['part_of']}" if row["part"] else ""),
)
EVENTS = (
    Column("id", of("eid"), right=True),
    Column("event", _called),
    Column("type", of("type")),
    Column("queue", lambda row: f"{row['queue']}{', in vain so far' if row['stage'] == 'false' else ''}"),
    Column("receiver", of("receiver"), right=True),
    Column("object", of("object"), right=True),
    Column("window", of("window")),
    _at("next"),
    _at("until"),
)


TYPES = (
    Column("type", of("type")),
    Column("waiting", lambda row: "" if row["waiting"] is None else f"{row['waiting']:,}", right=True),
    _at("oldest"),
    Column("takes", of("takes"), most=40),
    Column("at work", lambda row: f"{row['at_work']:,}" if row["at_work"] else "", right=True),
    Column("events", lambda row: f"{sum(row['events'].values()):,}" if any(row["events"].values()) else "",
           right=True),
    Column("windows", lambda row: ", ".join(f"{n} {word}" for word, n in row["windows"].items() if n)),
    _at("next"),
)  # fmt: skip
CASES = (
    Column("case", of("case"), right=True),
    *plain("state"),
    Column("object", of("object"), right=True),
    Column("where", of("where")),
    _at("since"),
    Column("why", of("why"), most=60),
)
TIMES = (
    Column("type", lambda row: row["type"] if row["state"] is None else ""),
    Column("state", of("state")),
    Column("seconds", lambda row: f"{row['seconds']:g}", right=True),
    Column("times", of("times"), right=True),
    Column("now", lambda row: "yes" if row["open"] else ""),
    Column("waited", lambda row: "" if row["waited"] is None else f"{row['waited']:g}", right=True),
)
PASSED = (
    _at("at"),
    Column("object", of("object"), right=True),
    Column("task", of("task"), right=True),
    *plain("type", "result", "compensation"),
)


def _ordinal(row: Row) -> str:
    return f"{row['ordinal']} of {row['parent']}" if row.get("parent") else ""


_OBJECTS = (
    Column("object", of("id"), right=True),
    Column("now", of("object"), right=True),
    *plain("state", "type", "event"),
    _at("since"),
    Column("part", _ordinal),
    Column("why", of("why")),
)
_TRAIL = (
    Column("step", of("id")),
    *PASSED[:2],
    Column("task", of("instance"), right=True),
    *PASSED[3:5],
    *plain("state", "compensator", "why"),
)
_QUEUED = (
    Column("object", of("id"), right=True),
    Column("case", of("case"), right=True),
    Column("state", of("state")),
    _at("at", "since"),
    Column("part", _ordinal),
)
_INSTANCES = (
    Column("task", of("id"), right=True),
    *TASKS[2:4],
    *plain("user", "role"),
    _at("since"),
)
_RAISED = (
    Column("event", of("id"), right=True),
    Column("name", _called),
    Column("queue", of("state")),
    Column("object", of("object"), right=True),
    _at("at", "raised"),
    _at("until", "next"),
)
PARTS = (
    (_OBJECTS, "objects"), (_TRAIL, "trail"),
    (_QUEUED, "queue"), (_INSTANCES, "instances"), (_RAISED, "events"),
)  # fmt: skip
"""The tables of a case and of a service run, by the key in the answer to `show`."""


def record(row: Row) -> str:
    """A record of a log in a sentence (K66)."""
    return clean(f"{moment(row['at'])}  {sentence(row)}")


def sentence(row: Mapping[str, Any]) -> str:
    """A record of a log in words, without its moment."""
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
