"""Asker: who asks an operation, in what way, and what they may ask (P39, M7)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from narval.core.elements.element import Origin
from narval.core.errors import RequestError
from narval.system.logins import login

if TYPE_CHECKING:
    from narval.agent.turn import Turn

Scope = Literal["read", "write", "people"]
"""The right that an operation needs: `read` leaves the home as it is, `write` alters it, `people` is for acts
of people on their own work."""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

LONGEST_NAME = 64
"""The most characters of a person's name, and of a session's."""

WEB = "web"
"""The way of who has logged in to the monitor (M67)."""

CHAT = "chat"
"""The way of who writes by a chat (C5)."""

PYTHON = "python"
"""The way of a program that has opened the home itself."""

BY_LOGIN = (WEB, CHAT)
"""The ways of people who are known by a login or an account of their own; no one acts for them."""

NOBODY = -1
"""The number of the system's user that a program elsewhere is: none, so it is never taken for the owner."""

CHAT_SESSION = f"{CHAT}:"
"""The start of a session that is no login: the name of a chat follows."""

_NO_LABELS = nullcontext()
"""The context of what is given without labels."""


class Asker(msgspec.Struct, frozen=True):
    """One who asks."""

    person: str = ""
    """A name; "" for a program that speaks for no one."""
    uid: int | None = None
    """The number of the system's user; None: this program itself."""
    way: str = ""
    """The surface."""
    session: str = ""
    """The connection, the login on the web, or the name of the chat."""
    agent: str = ""
    """The agent that is meant; "": the home's own."""
    scopes: frozenset[Scope] = SCOPES
    """The scopes that may be asked."""
    actor: str = ""
    """The one who really asked, where one acts as another."""
    labels: tuple[str, ...] = ()
    """The labels of what this asker gives."""
    once: str = ""
    """The message of a chat because of which it is asked, as CHAT/NUMBER: it is done once for that."""

    def origin(self) -> Origin | None:
        """The origin of what this asker gives from outside; of what a program gives nothing is kept."""
        return Origin(**self.recorded) if self.person else None

    @property
    def recorded(self) -> dict[str, Any]:
        """The fields by which events and origins keep who asks; way and session are of monitor and chat."""
        how = {"way": self.way, "session": self.session} if self.way in BY_LOGIN else {}
        return {"by": self.person, "actor": self.actor, **how}

    def __str__(self) -> str:
        if self.way in BY_LOGIN:
            return f"{self.person} ({self.way}, session {self.session})"
        return f"{self.person} ({self.actor})" if self.actor else self.person or "a program"

    def giving(self, turn: Turn) -> AbstractContextManager[None]:
        """Let what is added meanwhile, and begun, have the labels of this asker."""
        if not self.labels:
            return _NO_LABELS
        return turn.transaction.coming_with(turn.agent.memory.labels.number(self.labels))

    def asking(self, agent: str) -> Asker:
        """The same asker, who means another agent; "" is the home's own."""
        return replace(self, agent=agent) if agent != self.agent else self

    def limited(self, given: Mapping[str, Any]) -> Asker:
        """The same asker with one scope alone, `given` as `{"scope": …}`: once, for all that is asked later.

        Raises RequestError.
        """
        if given.keys() != {"scope"} or given["scope"] not in get_args(Scope):
            scopes = ", ".join(get_args(Scope))
            raise RequestError(f"limit takes a scope, one of {scopes}, got {dict(given)!r:.80}")
        if self.scopes != SCOPES:
            raise RequestError(f"this connection is limited already, to {', '.join(sorted(self.scopes))}")
        return replace(self, scopes=frozenset({given["scope"]}))

    def acting_as(self, name: str, *, owner: int, session: str = "") -> Asker:
        """The same asker in the name of a person; for the owner of the home, by number, and root alone.

        With a `session` the person has logged in to the monitor themselves, or writes by a chat: that is
        their way, and no one acts for them. Raises RequestError.
        """
        if self.uid not in (owner, 0):
            may = f"only {login(owner)}, whose home this is, and root may act in another's name (--as)"
            raise RequestError(f"{may}, not {self}")
        person = person_name(name)
        if session:
            way, name = (
                (CHAT, session.removeprefix(CHAT_SESSION))
                if session.startswith(CHAT_SESSION)
                else (WEB, session)
            )
            return replace(self, person=person, way=way, session=_printable(name, "number of a session"))
        return replace(self, person=person, actor=self.person) if person != self.person else self


PROGRAM = Asker()
"""A program that speaks for no one, and may ask everything."""


def user(uid: int, way: str, session: str = "") -> Asker:
    """The asker that a user of the system is."""
    return Asker(login(uid), uid, way, session)


def person_name(text: str) -> str:
    """The name of a person as given. Raises RequestError for one that cannot be shown and told apart."""
    return _printable(text, "name of a person")


def _printable(text: str, what: str) -> str:
    if text and text.isprintable() and text == text.strip() and len(text) <= LONGEST_NAME:
        return text
    expectation = f"1 to {LONGEST_NAME} printable characters without blanks at the ends"
    raise RequestError(f"expected the {what}, {expectation}, got {text!r:.80}")
