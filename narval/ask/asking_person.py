"""The person who asks: by login, by the name they act for, or no one."""

from __future__ import annotations

from narval.agent.run import Run
from narval.ask.asker import BY_LOGIN, PYTHON, Asker
from narval.core.definitions.people.directory import FOR_A_CLIENT, GRANTING, Directory
from narval.core.definitions.suggestions import closest
from narval.core.errors import WorkRefusedError
from narval.daemon.daemon import Daemon

_NAMED = 10
"""The most people of a home that the error names when a program speaks for none of them."""


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
        raise WorkRefusedError(
            "not-eligible", "a program speaks for nobody; name a person: --as, or agent.by(…) in Python"
        )
    if is_named:
        raise WorkRefusedError("not-eligible", no_such_person(asker.person, people))
    if is_python:
        there = ", ".join([each.name for each in people.people[:_NAMED]])
        raise WorkRefusedError("not-eligible", f"{no_such_person(asker.person, people)}; there are {there}")
    add = f'add login = "{asker.person}" to those of a person'
    raise WorkRefusedError("not-eligible", f"the login {asker.person} is nobody's in etc/people.toml; {add}")


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


def is_owner(daemon: Daemon, asker: Asker) -> bool:
    """True for the home's owner and root in their own name, and for the program that opened the home; not
    for a program that a run has started.
    """
    is_personal = not asker.actor and not asker.call and asker.way not in BY_LOGIN
    return is_personal and asker.uid in (None, 0, _owner(daemon))


def asks_permission(run: Run) -> bool:
    """True for an item that asks if something may be done: a call, what a client asks for, or a grant."""
    is_held = run.caller is not None and run.caller.held is not None
    return is_held or run.name in (FOR_A_CLIENT, GRANTING)


def _owner(daemon: Daemon) -> int | None:
    return daemon.home.path.stat().st_uid if daemon.home is not None else None
