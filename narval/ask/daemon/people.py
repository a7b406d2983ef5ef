"""Operations on who is known: the people of the home (P15, M66), and who may make a login or a token."""

from __future__ import annotations

from typing import Any

from narval.ask.registry import operation
from narval.daemon.daemon import Daemon


@operation("read")
async def people(daemon: Daemon) -> list[dict[str, Any]]:
    """The people of the home, in the order of its file: name, login, roles, rights on pages, addresses at
    chats, zone and quiet hours; and the digest of the directory, which changes with any of it.

    The roles include those below a person's own. Without a file there is only the home's owner, who holds
    every role (P16).
    """
    directory = daemon.agent.lookup.people
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
            "admin": directory.is_admin(person.name),
            "directory": directory.digest,
        }
        for person in directory.people
    ]


@operation("read")
async def vouch(daemon: Daemon) -> bool:
    """True: the asker may make a login, a token or a code by which somebody is known to this home. Raises
    RequestError for any other.

    A program that makes one, beside the daemon, asks before it does.
    """
    return True
