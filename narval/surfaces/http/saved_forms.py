"""Forms that were sent after their session had ended, or while no daemon answered: each is kept until its
person is back in that browser, or sends it again.

They are kept only in this program's memory, one for each session, and only for sessions that exist or
existed, so strangers cannot fill it. A kept form is shown to its person, who may send it; it has no effect
by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple

from narval.surfaces.http.page import Fields, Visitor
from narval.surfaces.http.sessions import WebSession

KEPT = 3600.0
"""Seconds for which a form is kept."""

MOST = 16
"""The most forms that are kept; one more replaces the oldest."""

LONG = 1_000_000
"""The most bytes of a form that is kept."""

UNWRITTEN = frozenset({"shown", "claimed", "digest", "version", "edits", "these"})
"""The fields that pages fill in to record what was shown: they are kept, and not offered for editing."""

SESSION_ENDED = "Your session had ended, so nothing was done."
"""The reason why a form of an ended session is kept, as shown on its page."""

NOT_ANSWERED: Mapping[int, str] = {
    503: "No daemon answered: nothing was done, unless the daemon ended in the middle of it.",
    504: "The daemon did not answer: it may be done. Look before you send it again.",
}
"""The reason why a form is kept, by the status of the answer to it."""


class SavedForm(NamedTuple):
    """A form: its person, its target, its fields, why it is kept, and until when."""

    person: str
    address: str
    fields: Fields
    why: str
    until: float


class SavedForms:
    """The kept forms, by the number of the session that may see them."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._forms: dict[int, SavedForm] = {}

    def keep(self, ended: WebSession, address: str, fields: Fields) -> None:
        """Keep a form of an ended session, in place of a previous one."""
        self._keep(
            ended.number, SavedForm(ended.person, address, fields, SESSION_ENDED, self._seconds() + KEPT)
        )

    def keep_undone(self, visitor: Visitor, address: str, fields: Fields, why: str) -> None:
        """Keep a form that no daemon answered, unless it is too long, in place of a previous one."""
        if sum(map(len, chain(*fields.pairs))) <= LONG:
            form = SavedForm(visitor.person, address, fields, why, self._seconds() + KEPT)
            self._keep(int(visitor.session), form)

    def _keep(self, session: int, form: SavedForm) -> None:
        now = self._seconds()
        self._forms.pop(session, None)
        alive = [(number, form) for number, form in self._forms.items() if now < form.until]
        self._forms = dict(alive[-(MOST - 1) :])
        self._forms[session] = form

    def hand_over(self, ended: WebSession, session: WebSession) -> bool:
        """Give a browser's new session access to the form of its previous one; True if there is a form."""
        form = self.of(ended.number)
        self.drop(ended.number)
        if form is None or form.person != session.person:
            return False
        self._forms[session.number] = form
        return True

    def of(self, session: int) -> SavedForm | None:
        """The form that a session may see."""
        form = self._forms.get(session)
        return form if form is not None and self._seconds() < form.until else None

    def drop(self, session: int, address: str = "") -> None:
        """Drop the form of a session; with an address, only if it was sent there."""
        form = self._forms.get(session)
        if form is not None and address in ("", form.address):
            del self._forms[session]
