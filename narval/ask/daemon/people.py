"""Operations on the people of the home (P15, M66), and on who may make a login or a token."""

from __future__ import annotations

from datetime import date
from typing import Any

from narval.ask.registry import operation
from narval.core.definitions.people.directory import Away, day_of
from narval.daemon.daemon import Daemon


@operation("read")
async def people(daemon: Daemon) -> list[dict[str, Any]]:
    """The people of the home, in the order of its file: name, login, roles, rights on pages, addresses at
    chats, zone and quiet hours, when they are away and who stands in; and the digest of the directory, which
    changes with any of these.

    The roles include those below a person's own. Without a file the home's owner is the only person, and
    holds every role (P16).
    """
    directory = daemon.agent.lookup.people
    today = day_of(daemon.rounds.clock.now(), daemon.host.loop.view.zone)
    return [
        {
            "person": person.name,
            "name": person.full_name,
            "login": person.login,
            "roles": list(directory.roles_of(person.name)),
            "web": person.web,
            "chat": list(person.chat),
            "zone": person.zone,
            "quiet": person.quiet,
            "away": _away(person.away, today),
            "admin": directory.is_admin(person.name),
            "directory": directory.digest,
        }
        for person in directory.people
    ]


def _away(away: Away | None, today: date) -> dict[str, Any] | None:
    """The absence of a person, unless it has ended; `now` on its days."""
    if away is None or (away.last is not None and away.last < today):
        return None
    first, last = (day.isoformat() if day is not None else None for day in (away.first, away.last))
    return {"from": first, "to": last, "instead": away.instead or None, "now": away.covers(today)}


@operation("read")
async def vouch(daemon: Daemon) -> bool:
    """Check that the asker may make a login, a token or a code that identifies a person to this home; returns
    True. Raises RequestError for anyone else.

    A program beside the daemon asks before it makes one.
    """
    return True
