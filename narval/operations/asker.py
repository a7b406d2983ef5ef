"""Asker: who asks an operation, in what way, and what they may ask (P39, M7)."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from narval.memory.elements.element import Origin
from narval.runtime.system.logins import login

Scope = Literal["read", "write", "people"]
"""The right that an operation needs: `read` leaves the home as it is, `write` alters it, `people` is about
who may do what."""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))


class Asker(msgspec.Struct, frozen=True):
    """One who asks.

    `person` is a name, "" for a program that speaks for nobody; `actor` who really asked where one acts as
    another (P39). `uid` is the number of the system's user, `way` the surface, `session` the connection,
    `agent` the agent that is meant ("": the home's own), `scopes` what may be asked.
    """

    person: str = ""
    uid: int | None = None
    way: str = ""
    session: str = ""
    agent: str = ""
    scopes: frozenset[Scope] = SCOPES
    actor: str = ""

    def origin(self) -> Origin | None:
        """The origin of what this asker gives from outside; of what a program gives nothing is kept."""
        return Origin(by=self.person, actor=self.actor) if self.person else None


PROGRAM = Asker()
"""A program that speaks for nobody, and may ask everything."""


def user(uid: int, way: str, session: str = "") -> Asker:
    """The asker that a user of the system is."""
    return Asker(login(uid), uid, way, session)
