"""Forms that were sent after their session had ended: each is kept until its person is back in that browser.

They are kept in the memory of this program alone, one of each session, and only of sessions that there were:
no one else can fill it. What is kept is shown to its person, who sends it or not; nothing acts on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from narval.surfaces.http.page import Fields
from narval.surfaces.http.sessions import WebSession

KEPT = 3600.0
"""Seconds for which a form is kept."""

MOST = 32
"""So many forms are kept; one more takes the place of the oldest."""

LONG = 256 * 1024
"""The most bytes of a form that is kept."""


class SavedForm(NamedTuple):
    """A form: whose it is, where it was sent, its fields, and until when it is kept."""

    person: str
    address: str
    fields: Fields
    until: float


class SavedForms:
    """The forms that are kept, by the number of the session that may see them."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._forms: dict[int, SavedForm] = {}

    def keep(self, ended: WebSession, address: str, fields: Fields) -> None:
        """Keep a form of a session that has ended, in place of one before it."""
        now = self._seconds()
        self._forms.pop(ended.number, None)
        alive = [(number, form) for number, form in self._forms.items() if now < form.until]
        self._forms = dict(alive[-(MOST - 1) :])
        self._forms[ended.number] = SavedForm(ended.person, address, fields, now + KEPT)

    def hand_over(self, ended: WebSession, session: WebSession) -> bool:
        """Let the session that was begun after another in a browser see its form; True if there is one."""
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
        """Keep the form of a session no more; with an address, only if it was sent there."""
        form = self._forms.get(session)
        if form is not None and address in ("", form.address):
            del self._forms[session]
