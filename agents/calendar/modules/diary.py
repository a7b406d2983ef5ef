"""The diary of the house: one thing an evening."""

import re
from datetime import date, timedelta
from xml.sax.saxutils import quoteattr

from narval import Element, Input, Output, action

TAKEN = Input("taken", "appointment[@date]", list=True, optional=True)


@action(
    inputs=[Input("invitation", "email[@subject]", use=True), TAKEN],
    outputs=[
        Output("entered", "appointment", optional=True),
        Output("clash", "clash", optional=True),
    ],
    pure=True,
)
def enter(invitation: Element, taken: list[Element]) -> str:
    """The appointment that an invitation is for, or what there is that evening already."""
    what, day = _read(invitation.attributes["subject"])
    for other in taken:
        if other.attributes["date"] == day:
            return f"<clash date={quoteattr(day)} why={quoteattr(other.attributes['what'])}/>"
    return f"<appointment date={quoteattr(day)} what={quoteattr(what)}/>"


@action(inputs=[TAKEN], outputs=[Output("evening", "evening")], pure=True)
def evening(taken: list[Element]) -> str:
    """The first evening after those that are known to be taken in a row."""
    days = sorted(other.attributes["date"] for other in taken)
    day = date.fromisoformat(days[0]) if days else date(2026, 12, 1)
    while day.isoformat() in days:
        day += timedelta(days=1)
    return f'<evening date="{day.isoformat()}"/>'


def _read(subject: str) -> tuple[str, str]:
    """What an invitation is to, and the day: "Invitation: dinner on 2026-12-05"."""
    found = re.fullmatch(r"Invitation: (.+) on ([0-9]{4}-[0-9]{2}-[0-9]{2})", subject)
    if found is None:
        raise ValueError(f'expected "Invitation: … on 2026-12-05", got: {subject}')
    return found[1], found[2]
