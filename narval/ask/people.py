"""The people of the home, and the one of them who asks: by login, by the name they act for, or none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from narval.ask.asker import BY_LOGIN, CALLER, CLIENT, PEER, PYTHON, Asker
from narval.ask.registry import operation
from narval.core.agreeing import Act, Who, refusal, sentence
from narval.core.definitions.people.directory import Away, Directory, day_of
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError, WorkRefusedError
from narval.daemon.daemon import Daemon


def person_of(daemon: Daemon, asker: Asker) -> str:
    """The person who asks: the login's own, the one acted for, or the one named on the web and in a chat.

    Raises WorkRefusedError (P45).
    """
    people, is_named = daemon.agent.lookup.people, bool(asker.actor) or asker.way in BY_LOGIN
    person = people.person(asker.person) if is_named else people.by_login(asker.person)
    is_python = not asker.actor and asker.way == PYTHON
    if person is None and is_python:
        person = people.person(asker.person)
    if person is not None:
        return person.name
    if not asker.person:
        raise WorkRefusedError("not-eligible", "no person is named; use --as, or agent.by(…) in Python")
    if is_named or is_python:
        raise WorkRefusedError("not-eligible", no_such_person(asker.person, people))
    add = f'add login = "{asker.person}" to those of a person'
    why = f"the login {asker.person} belongs to no person in etc/people.toml; {add}"
    raise WorkRefusedError("not-eligible", why)


def onlooker(daemon: Daemon, asker: Asker) -> str | None:
    """The person who looks; None for a program, and for the owner and root outside the directory.

    Raises WorkRefusedError for anyone else outside the directory.
    """
    if not asker.person:
        return None
    try:
        return person_of(daemon, asker)
    except WorkRefusedError:
        if asker.actor or asker.way in BY_LOGIN or asker.uid not in (0, _owner(daemon)):
            raise
        return None


def no_such_person(name: str, people: Directory) -> str:
    """The message that the directory has no person of a name."""
    suggestion = closest(name, [person.name for person in people.people])
    return f"there is no person {name!r} in etc/people.toml{suggestion}"


_ELSEWHERE: Mapping[str, Who] = {CLIENT: "client", CALLER: "caller", PEER: "peer"}


def who_asks(daemon: Daemon, asker: Asker) -> Who:
    """The asker as the table of agreeing identifies it."""
    if asker.call:
        return "program"
    if asker.way in _ELSEWHERE:
        return _ELSEWHERE[asker.way]
    if asker.way not in BY_LOGIN and asker.uid in (None, 0, _owner(daemon)):
        return "another" if asker.actor else "owner"
    people = daemon.agent.lookup.people
    person = people.person(asker.person)
    is_reader = person is not None and person.web == "reader" and asker.way in BY_LOGIN
    return "operator" if people.is_operator(asker.person) else "reader" if is_reader else "person"


def who_acts(daemon: Daemon, asker: Asker) -> Who | None:
    """The asker as a work item identifies it; None for a person whom a program that opened the home names.
    Such a person is identified by name.
    """
    who = who_asks(daemon, asker)
    return None if asker.way == PYTHON and who == "owner" else who


def check_may(daemon: Daemon, asker: Asker, act: Act) -> None:
    """Raise RequestError unless the asker may do an act."""
    if why := refusal(act, who_asks(daemon, asker), asker.person, asker.through):
        raise RequestError(why)


def why_not_administering(daemon: Daemon, asker: Asker, *responsible: str) -> str:
    """The reason why an asker may not administer the work of others; "" for the home's owner, root,
    administrators and `responsible` people.
    """
    who, person = who_asks(daemon, asker), onlooker(daemon, asker)
    is_one = person is None or who == "owner" or person in responsible
    is_one = is_one or daemon.agent.lookup.people.is_admin(str(person))
    return (refusal if is_one else sentence)("administer", who, asker.person, asker.through)


def _owner(daemon: Daemon) -> int | None:
    return daemon.home.path.stat().st_uid if daemon.home is not None else None


@operation("read")
async def people(daemon: Daemon) -> list[dict[str, Any]]:
    """The people of the home, in the order of its file: name, login, roles, rights on pages, addresses at
    chats, zone (that of the home for those without their own) and quiet hours, when they are away and who
    stands in; and the digest of the directory, which changes with any of these.

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
            "zone": person.zone or daemon.agent.clockwork.zone,
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
