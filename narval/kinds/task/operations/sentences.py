"""Sentences for the records of the two logs of tasks (K66)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
