"""The operations that link an account at a chat with a person: the account sends a code."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from typing import Any

from narval.ask.asking_person import no_such_person
from narval.ask.registry import operation
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.people.chat.boxes import LinkCode

VALID = 600.0
"""Seconds for which a code is valid."""

MOST_TRIES = 20
"""The number of wrong codes from strangers after which a code is invalid."""

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_LENGTH = 10


@operation("write")
async def chat_link(daemon: Daemon, person: str) -> dict[str, Any]:
    """Make a code that links a person with the account that sends it to a chat, once and within ten minutes.
    An earlier code of the person becomes invalid.
    """
    people = daemon.agents.own.agent.lookup.people
    if people.person(person) is None:
        raise RequestError(no_such_person(person, people))
    if people.owner == person:
        raise RequestError(
            f"there is no etc/people.toml to have the address: write one with [people.{person}], "
            f'login = "{person}" and web = "operator"'
        )
    if not daemon.files.settings.chats:
        raise RequestError(
            "there is no chat in etc/narval.toml: write a table [chats.NAME] (docs/reference/chat.md)"
        )
    code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    until = daemon.rounds.clock.now() + VALID
    daemon.agents.own.chats.links[person] = LinkCode(_digest(code), until)
    return {
        "person": person,
        "code": code,
        "seconds": VALID,
        "chats": [one.name for one in daemon.files.settings.chats],
    }


@operation("read")
async def chat_linked(daemon: Daemon, person: str, wait: float = 0.0) -> dict[str, Any]:
    """The address, with its kind, from which a person's code was sent, or "" so far; waits `wait` seconds for
    it. `valid` is false once the code is invalid.
    """
    links, deadline = daemon.agents.own.chats.links, time.monotonic() + wait
    while True:
        link = links.get(person)
        left = min(
            deadline - time.monotonic(), link.until - daemon.rounds.clock.now() if link is not None else 0
        )
        if link is None or link.address or left <= 0:
            is_valid = link is not None and (link.address != "" or daemon.rounds.clock.now() < link.until)
            return {"person": person, "address": link.address if link is not None else "", "valid": is_valid}
        waiting = asyncio.ensure_future(link.found.wait())
        try:
            with link.waiting_for_it():
                await daemon.main_loop.wait_for(waiting, left)
        finally:
            waiting.cancel()


def may_be_code(daemon: Daemon, text: str, at: float) -> bool:
    """True for a text that looks like a code, while a valid code has not been sent."""
    links, code = daemon.agents.own.chats.links, text.strip().lower()
    if len(code) != _LENGTH or not set(code) <= set(_LETTERS):
        return False
    return any(not link.address and at < link.until for link in links.values())


def linked_by(daemon: Daemon, text: str, address: str, at: float) -> str | None:
    """The answer to a stranger who sent a person's code; None if the text is not such a code."""
    if not may_be_code(daemon, text, at):
        return None
    links, digest = daemon.agents.own.chats.links, _digest(text.strip().lower())
    for person, link in list(links.items()):
        if link.address:
            continue
        if at < link.until and hmac.compare_digest(link.digest, digest):
            link.was_sent(address)
            return _linked(person, address, is_waited_for=link.waiting > 0)
        link.was_not(MOST_TRIES)
    return None


def _linked(person: str, address: str, *, is_waited_for: bool) -> str:
    """The reply to the right code of a person."""
    if is_waited_for:
        return f"The code is right: you are linked once etc/people.toml has this address of {person}."
    return (
        f"The code is right, but `narval chat link {person}`, which made it, has ended: you are not linked. "
        f"Give that command again and send the new code while it waits, or add "
        f'"{address}" to chat of [people.{person}] in etc/people.toml'
    )


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
