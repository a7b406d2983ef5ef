"""Forms that were sent after their session had ended, or while no daemon answered: each is kept until its
person is back in that browser, or sends it again.

They are kept in the memory of this program alone, one of each session, and only of sessions that there are or
were: no one else can fill it. What is kept is shown to its person, who sends it or not; nothing acts on it.
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
"""So many forms are kept; one more takes the place of the oldest."""

LONG = 1_000_000
"""The most bytes of a form that is kept."""


UNWRITTEN = frozenset({"shown", "digest", "version", "edits", "these"})
"""The fields that pages fill in, which say what a page had shown: they are kept, and nobody alters them."""

SESSION_ENDED = "Your session had ended, so nothing was done."
"""The reason why a form of an ended session is kept, as its page says it."""

NOT_ANSWERED: Mapping[int, str] = {
    503: "No daemon answered: nothing was done, unless the daemon ended in the middle of it.",
    504: "The daemon did not answer: it may be done. Look before you send it again.",
}
"""The reason why a form is kept, by the status of the answer to it."""


class SavedForm(NamedTuple):
    """A form: whose it is, where it was sent, its fields, why it is kept, and until when it is kept."""

    person: str
    address: str
    fields: Fields
    why: str
    until: float


class SavedForms:
    """The forms that are kept, by the number of the session that may see them."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._forms: dict[int, SavedForm] = {}

    def keep(self, ended: WebSession, address: str, fields: Fields) -> None:
        """Keep a form of a session that has ended, in place of one before it."""
        self._keep(
            ended.number, SavedForm(ended.person, address, fields, SESSION_ENDED, self._seconds() + KEPT)
        )

    def keep_undone(self, visitor: Visitor, address: str, fields: Fields, why: str) -> None:
        """Keep a form that no daemon answered, unless it is too long, in place of one before it."""
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
