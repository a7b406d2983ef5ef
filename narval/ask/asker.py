"""The asker of an operation: a person or program, its surface and its scopes (P39, M7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from narval.core.elements.element import Origin
from narval.core.errors import RequestError
from narval.system.logins import login

Scope = Literal["read", "write", "people"]
"""The right that an operation needs: `read` changes nothing, `write` changes the home, `people` is for the
acts of people on their own work.
"""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

LONGEST_NAME = 64
"""The most characters of a person's name, and of a session's."""

WEB = "web"
"""The way of a person logged in to the monitor."""

CHAT = "chat"
"""The way of a person writing by chat."""

PYTHON = "python"
"""The way of a program that opened the home itself, without a daemon."""

CLIENT, CALLER, PEER = "mcp", "http", "peer"
"""The ways of an MCP client, a program that calls over HTTP, and another home."""

BY_LOGIN = (WEB, CHAT)
"""The ways of people identified by their own login or account; no one acts for them."""

NOBODY = -1
"""The user id of a program elsewhere; no user of this system has it, so it is never taken for the owner."""

CHAT_SESSION = f"{CHAT}:"
"""The prefix of a session that is a chat, not a login; the chat's name follows."""


class Asker(msgspec.Struct, frozen=True):
    """A person or program that asks."""

    person: str = ""
    """A name; "" for a program that speaks for no one."""
    uid: int | None = None
    """The user id in the system; None for this program itself."""
    way: str = ""
    """The surface."""
    session: str = ""
    """The connection, the web login, or the name of the chat."""
    agent: str = ""
    """The agent that is asked; "" for the home's own."""
    scopes: frozenset[Scope] = SCOPES
    """The scopes that may be asked."""
    actor: str = ""
    """The person who really asked, if one acts for another."""
    labels: tuple[str, ...] = ()
    """The labels of what this asker adds."""
    call: str = ""
    """The id of the call that started the asking program; "" for none."""
    program: str = ""
    """A description of that program for people, such as `a program of run 12`; "" for none."""
    once: str = ""
    """The chat message that causes the request, as CHAT/NUMBER; the request takes effect once for it."""

    def origin(self) -> Origin | None:
        """The origin of what this asker adds from outside; None for a program."""
        return Origin(**self.recorded) if self.person else None

    @property
    def through(self) -> str:
        """The person, or the program of a run, that really asks in the person's name; "" for neither."""
        return self.actor or self.program

    @property
    def recorded(self) -> dict[str, Any]:
        """The fields that record the asker in events and origins; way and session for monitor and chat."""
        how = {"way": self.way, "session": self.session} if self.way in BY_LOGIN else {}
        return {"by": self.person, "actor": self.through, **how}

    def __str__(self) -> str:
        if self.way in BY_LOGIN:
            return f"{self.person} ({self.way}, session {self.session})"
        return f"{self.person} ({self.actor})" if self.actor else self.person or "a program"

    def asking(self, agent: str) -> Asker:
        """The same asker, asking another agent; "" is the home's own."""
        return replace(self, agent=agent) if agent != self.agent else self

    def limited(self, limits: Mapping[str, Any]) -> Asker:
        """The same asker limited to one scope, `given` as `{"scope": …}`, for all later requests; once only.

        Raises RequestError.
        """
        if limits.keys() != {"scope"} or limits["scope"] not in get_args(Scope):
            scopes = ", ".join(get_args(Scope))
            raise RequestError(f"limit takes a scope, one of {scopes}, got {dict(limits)!r:.80}")
        if self.scopes != SCOPES:
            raise RequestError(f"this connection is limited already, to {', '.join(sorted(self.scopes))}")
        return replace(self, scopes=frozenset({limits["scope"]}))

    def acting_as(self, name: str, *, owner: int, session: str = "") -> Asker:
        """The same asker in the name of a person; allowed to the owner of the home, by user id, and to root.

        With a `session` the person has logged in to the monitor or writes by chat: that becomes the way, and
        no one acts for them. Raises RequestError.
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
"""A program that speaks for no one and may ask everything."""


def user(uid: int, way: str, session: str = "") -> Asker:
    """The asker for a user of the system."""
    return Asker(login(uid), uid, way, session)


def person_name(text: str) -> str:
    """The name of a person as given. Raises RequestError if it cannot be displayed unambiguously."""
    return _printable(text, "name of a person")


def _printable(text: str, what: str) -> str:
    if text and text.isprintable() and text == text.strip() and len(text) <= LONGEST_NAME:
        return text
    expectation = f"1 to {LONGEST_NAME} printable characters without blanks at the ends"
    raise RequestError(f"expected the {what}, {expectation}, got {text!r:.80}")
