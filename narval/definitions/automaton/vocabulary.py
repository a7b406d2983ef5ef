"""The vocabulary of automata, as a table; names may be written in either case (A1)."""

from __future__ import annotations

import re
from shlex import split

from narval.definitions.reading import xml
from narval.definitions.reading.xml import COMMON, Attribute, Word, Words
from narval.definitions.recipe.vocabulary import TIME, kind, target, timeout

# fmt: off
_SIGNALS = frozenset({
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT",
    "SIGKILL", "SIGPIPE", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
    "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2",
    "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
})
# fmt: on
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def command(text: str) -> tuple[str, ...]:
    """A command as words: quotes and backslashes are read as a shell would, and nothing else is."""
    try:
        words = tuple(split(text))
    except ValueError as error:
        raise ValueError("a command", f" ({error})") from None
    if not words:
        raise ValueError("a command, such as sh or 'rsync -a src dst'")
    return words


def words(text: str) -> tuple[str, ...]:
    """Names of files, apart by blanks; they may have * and ?."""
    return command(text)


def label(text: str) -> str:
    """How a program may end: a status, a signal, the end of its time limit, or anything else (A2)."""
    if re.fullmatch(r"[0-9]{1,3}", text) and int(text) <= 255:
        return str(int(text))
    if text in ("timeout", "signal", "*"):
        return text
    if text.upper() in _SIGNALS:
        return text.upper()
    raise ValueError("a status from 0 to 255, signal, a name such as SIGTERM, timeout or *")


def size(text: str) -> int:
    """So many bytes."""
    written = re.fullmatch(r"([0-9]{1,12})\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if written is None or not int(written[1]):
        raise ValueError("a number of bytes, such as 512M or 2G")
    return int(written[1]) * _UNITS[written[2].upper()]


def variable(text: str) -> str:
    """The name of a variable of the environment."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("the name of a variable, such as SUBJECT")
    return text


_PLACE = {"directory": Attribute(xml.anything), "grace": Attribute(xml.seconds)}
_LIMITS = {
    "cpu": Attribute(xml.integer(1)),
    "memory": Attribute(size),
    "files": Attribute(xml.integer(1)),
}
WORDS: Words = {
    **COMMON,
    "automaton": Word(
        {
            "group": Attribute(xml.name),
            "name": Attribute(xml.name),
            "max-parallel": Attribute(xml.integer(1)),
            "decay": Attribute(xml.seconds),
            "on-restart": Attribute(xml.one_of("retry", "error")),
            **_PLACE,
            **_LIMITS,
        },
        ("description", "state", "transition", "env"),
    ),
    "state": Word(
        {
            "name": Attribute(xml.identifier, required=True),
            "command": Attribute(command),
            "type": Attribute(kind),
            "target": Attribute(target),
            "timeout": Attribute(timeout),
            "retries": Attribute(xml.integer(0)),
            "backoff": Attribute(xml.seconds),
            "max-visits": Attribute(xml.integer(1)),
            "creates": Attribute(words),
            "needs": Attribute(words),
            "unless": Attribute(command),
            "on-restart": Attribute(xml.one_of("retry", "error")),
            **_PLACE,
            **_LIMITS,
        },
        ("description", "command", "env", "input", "after", "wait"),
    ),
    "command": Word({"command": Attribute(command, required=True)}, None),
    "env": Word(
        {
            "name": Attribute(variable, required=True),
            "value": Attribute(xml.anything),
            "select": Attribute(xml.anything),
        },
        ("match",),
    ),
    "input": Word({}, ("match",)),
    "after": TIME,
    "wait": Word({"signal": Attribute(xml.identifier, required=True)}),
    "transition": Word(
        {
            "from": Attribute(xml.identifier, required=True),
            "label": Attribute(label, required=True),
            "to": Attribute(xml.identifier, required=True),
        },
        ("description",),
    ),
}
