"""Notify: tells the user of a home about failures, on the desktop, by mail, chat, a command or a push
service.

Programs are run with a list of arguments, never by a shell: a stranger may have written the words of an
error.
"""

from __future__ import annotations

import asyncio
import base64
import html
import json
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree

import narval
from narval import ActionError, Element, FetchError, Input, Needs, Output, action, call
from narval.api import MailAccount, compose_mail, one_line, send_by_chat, send_mail, timestamp

PROGRAM_SECONDS = 30
"""The seconds that a program has to deliver a notice."""
NOTIFY_BY_BUS = [
    "busctl",
    "--user",
    "call",
    "org.freedesktop.Notifications",
    "/org/freedesktop/Notifications",
    "org.freedesktop.Notifications",
    "Notify",
    "susssasa{sv}i",
]
PUSHES = ("ntfy", "gotify", "home-assistant", "telegram", "slack", "discord")
"""The kinds of push services, each with its own form of message."""
MOST_PUSHED = 1_900
"""The most characters of a pushed message: the smallest limit of these services is 2,000."""
MOST_BY_CHAT = 4_000
"""The most characters of a message by chat."""
HELD = {"way": ("desktop", "mail", "chat", "command", "push"), "kind": PUSHES}
"""The words for a way."""
MOST_SAID = 1_000
"""The most characters of an error that a notice repeats."""


@action(
    inputs=[Input("failure", "failure[@run and @name]")],
    outputs=[Output("notice", "notice[@once]", optional=True, unique="@once")],
    runs="inline",
    pure=True,
    description="A notice of a run that failed, one for a cause in a day.",
)
def note(failure: Element) -> etree._Element:
    """Return `<notice subject="…" run="…" once="CAUSE DAY">text</notice>`.

    A cause is the definition's name with the step and the type of its error. A second notice of one within a
    day (UTC) is dropped by its `once`.
    """
    attributes = failure.attributes
    step, kind = attributes.get("step", ""), attributes.get("type", "no reason is known")
    day = datetime.fromtimestamp(failure.added, UTC).date().isoformat()
    once = f"{attributes['name']} {step} {kind} {day}"
    where = f" in step {step}" if step else ""
    made = etree.Element("notice", run=attributes["run"], once=one_line(once, MOST_SAID))
    made.set("subject", one_line(f"narval: {attributes['name']} failed", MOST_SAID))
    said = f"Run {attributes['run']} of {attributes['name']} failed{where}: {kind}: {failure.text}"
    made.text = one_line(said, MOST_SAID)
    return made


@action(
    inputs=[
        Input("notice", "notice[@subject]", reads="subject run once"),
        Input("way", "notify[@way]", holds=HELD, reads="name way to command service kind"),
        Input("identity", "identity[@address]", optional=True),
        Input("outbox", "outbox[@path or @host]", optional=True),
    ],
    outputs=[Output("told", "told[@way]")],
    description="Tell the user a notice: on the desktop, by mail, by chat, by a command, by a push service.",
    where=["way", "identity/@address", "outbox"],
    needs=Needs(
        hosts=["{outbox/@host}:{outbox/@port}", "[services]", "[chats]"],
        folders=["{outbox/@path} rw"],
        programs=["notify-send", "busctl", "{notify/@command}"],
        secrets=["{outbox/@secret}", "[services]"],
    ),
)
async def tell(
    notice: Element, way: Element, identity: Element | None = None, outbox: Element | None = None
) -> etree._Element:
    """Send the user a notice in the way that `<notify way="desktop|mail|chat|command|push"/>` names."""
    here = call()
    attributes, run = way.attributes, notice.attributes.get("run")
    text = notice.text.strip()
    if run:
        home = f"--home {shlex.quote(str(here.home))} " if here.home else ""
        text += f"\n\nnarval {home}why {run}"
    letter = Letter(notice.attributes["subject"], text, identity, outbox)
    send = WAYS.get(attributes["way"])
    if send is None:
        raise _wrong(f"expected way to be one of {', '.join(WAYS)}, got {attributes['way']!r}")
    await send(attributes, letter)
    made = etree.Element("told", way=attributes["way"], at=timestamp())
    if run:
        made.set("run", run)
    return made


class Letter(NamedTuple):
    """A notice to deliver, and the data for a mail of it."""

    subject: str
    text: str
    identity: Element | None = None
    outbox: Element | None = None


async def _on_desktop(attributes: Mapping[str, str], letter: Letter) -> None:
    """Show it by `notify-send`, else directly by D-Bus; bodies may contain markup, so it is escaped."""
    body = html.escape(letter.text, quote=False)
    if shutil.which("notify-send"):
        line = ["notify-send", "--app-name=narval", "--", letter.subject, body]
    elif shutil.which("busctl"):
        line = [*NOTIFY_BY_BUS, "--", "narval", "0", "", letter.subject, body, "0", "0", "-1"]
    else:
        raise _wrong("there is neither notify-send nor busctl; install one, or tell by mail or command")
    await _run(line, "")


async def _by_mail(attributes: Mapping[str, str], letter: Letter) -> None:
    """Send it through the outbox of the home, to `to` or to the identity's own address."""
    if letter.identity is None or letter.outbox is None:
        raise _wrong(
            "a notice by mail needs an identity and an outbox in memory (docs/reference/modules/mail.md)"
        )
    to = attributes.get("to") or letter.identity.attributes["address"]
    about: dict[str, Any] = {"to": to, "subject": letter.subject, "auto": "auto-generated"}
    mail = Element(0, compose_mail("notice", letter.identity, None, letter.text, **about))
    await send_mail(mail, MailAccount(letter.outbox.attributes, call().home))


async def _by_chat(attributes: Mapping[str, str], letter: Letter) -> None:
    """Send it to the person, or the room, in `to`, by a chat of the settings."""
    if not attributes.get("to"):
        raise _wrong('a notice by chat needs to="PERSON", or a room of [chats.NAME], found none')
    text = f"{letter.subject}\n{letter.text}"
    cut = text if len(text) <= MOST_BY_CHAT else f"{text[: MOST_BY_CHAT - 1]}…"
    await send_by_chat(attributes["to"], cut)


async def _by_command(attributes: Mapping[str, str], letter: Letter) -> None:
    """Run `command`, with the subject as its last argument, and the text on its standard input."""
    try:
        words = shlex.split(attributes.get("command", ""))
    except ValueError as error:
        raise _wrong(f"command is no list of words: {error}") from None
    if not words:
        raise _wrong('expected a command, such as command="logger -t narval", got none')
    # To most programs a text that looks like an option is one, and a stranger may have written it.
    subject = f"narval: {letter.subject}" if letter.subject.startswith("-") else letter.subject
    await _run([*words, subject], f"{letter.text}\n")


async def _by_push(attributes: Mapping[str, str], letter: Letter) -> None:
    """Send it to `[services.NAME]` of the settings, in the form for a service of its `kind`."""
    kind, name = attributes.get("kind", ""), attributes.get("service", "")
    if kind not in PUSHES or not name:
        raise _wrong(
            f'a notice by push needs service="NAME" and kind="{"|".join(PUSHES)}", found {kind or "none"!r}'
        )
    path, headers, body = _pushed(kind, attributes.get("to", ""), letter)
    service = narval.service("services", name)
    try:
        answer = await narval.fetch(path, method="POST", headers=headers, body=body, service=service)
    except FetchError as error:
        if error.kind in ("forbidden", "bad-address"):
            raise _wrong(f"{service}: {error}") from None
        raise ActionError(f"{service}: {error}", "not-told") from None
    if answer.status >= 300:
        said = one_line(answer.body[:500].decode("utf-8", "replace"), 500)
        why = f"{service}: {kind} answered {answer.status} {answer.reason}: {said}"
        passing = answer.status in (408, 425, 429) or answer.status >= 500
        raise ActionError(why, "not-told") if passing else _wrong(why)


def _pushed(kind: str, to: str, letter: Letter) -> tuple[str, dict[str, str], bytes]:
    """The path, the headers and the body of a notice, within a service.

    No text is interpreted as markup or as a mention, whoever wrote it.
    """
    text = letter.text[:MOST_PUSHED]
    if kind == "ntfy":
        title = base64.b64encode(letter.subject.encode()).decode("ascii")
        return "", {"Title": f"=?UTF-8?B?{title}?="}, text.encode()
    whole = f"{letter.subject}\n{text}"[:MOST_PUSHED]
    forms: dict[str, dict[str, object]] = {
        "gotify": {"title": letter.subject, "message": text},
        "home-assistant": {"title": letter.subject, "message": text},
        "telegram": {"chat_id": to, "text": whole},
        "slack": {"text": html.escape(whole, quote=False)},
        "discord": {"content": whole, "allowed_mentions": {"parse": []}},
    }
    path = {"gotify": "/message", "telegram": "/sendMessage"}.get(kind, "")
    return path, {"Content-Type": "application/json"}, json.dumps(forms[kind]).encode()


WAYS: Mapping[str, Callable[[Mapping[str, str], Letter], Awaitable[None]]] = {
    "desktop": _on_desktop,
    "mail": _by_mail,
    "chat": _by_chat,
    "command": _by_command,
    "push": _by_push,
}


def _wrong(message: str) -> ActionError:
    """The error for a wrongly configured way, which no retry can help."""
    return ActionError(message, "bad-way", final=True)


async def _run(line: list[str], text: str) -> None:
    """Run a program to its end, in the home, with a text as input; it and its children end in time."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as complaints:
        stdin.write(text.encode())
        stdin.seek(0)
        try:
            program = await asyncio.create_subprocess_exec(
                *line,
                stdin=stdin,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=complaints,
                cwd=call().home,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise _wrong(f"cannot run {line[0]}: {error.strerror}") from error
        try:
            status = await asyncio.wait_for(program.wait(), PROGRAM_SECONDS)
        except TimeoutError:
            raise ActionError(f"{line[0]} took more than {PROGRAM_SECONDS} s", "not-told") from None
        finally:
            if program.returncode is None:
                os.killpg(program.pid, signal.SIGKILL)
                await program.wait()
        if status:
            complaints.seek(0)
            said = one_line(complaints.read(500).decode("utf-8", "replace"), 500)
            raise ActionError(f"{line[0]} ended with status {status}: {said}", "not-told")


def _environment() -> dict[str, str]:
    """The environment of a program: the bus of the user's session is at its usual place, even if the daemon
    was not started in that session.
    """
    bus = Path(f"/run/user/{os.getuid()}/bus")
    usual = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}"} if bus.exists() else {}
    return usual | dict(os.environ)
