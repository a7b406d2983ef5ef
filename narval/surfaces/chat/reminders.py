"""Reminders by chat: a line such as `remind me at 17:30: call Ben`, told where it was written."""

from __future__ import annotations

from narval.core.definitions.reminder import may_be_reminder
from narval.surfaces.chat import short_forms
from narval.surfaces.chat.line import Dealt, Line


async def handle(line: Line) -> Dealt | None:
    """Set the reminder that a line asks for; None of a line about something else. Raises NarvalError."""
    if not may_be_reminder(line.text):
        return None
    row = await line.once("remind", text=line.text, chat=line.chat.name, maybe=True)
    if not row:
        return None
    return Dealt.saying(
        f"reminder {short_forms.reminder(row)}", private_to=line.name if line.is_in_room else ""
    )
