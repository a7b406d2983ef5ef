"""Reminders: after it was sent, a reminder ends, or recurs (docs/reference/modules/reminders.md)."""

from __future__ import annotations

from lxml import etree

import narval
from narval import ActionError, Element, Input, Output, action
from narval.api import iso_moment, next_reminder, read_date


@action(
    inputs=[Input("reminder", "reminder[@at]", outdates=True, reads="at every zone person chat")],
    outputs=[Output("again", "reminder[@at]", optional=True)],
    where=[],
    description="Ends a reminder whose time has come; one with `every` is set to its next time.",
)
async def done(reminder: Element) -> etree._Element | None:
    """Return the same reminder for its next time after now; nothing without `every`."""
    every = reminder.attributes.get("every", "")
    if not every:
        return None
    now = narval.now()
    zone = reminder.attributes.get("zone") or str(now.tzinfo)
    try:
        last = read_date(reminder.attributes["at"], str(now.tzinfo))
        moment = next_reminder(every, last, zone, now.timestamp())
    except ValueError as error:
        raise ActionError(f"reminder {reminder.eid}: {error}", "bad-reminder", final=True) from None
    if moment is None:
        return None
    again = reminder.tree()
    again.attrib.pop("eid", None)
    again.set("at", iso_moment(moment, zone))
    return again
