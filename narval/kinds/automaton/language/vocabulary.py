"""The vocabulary of automata, as a table; element names may be written in either case."""

from __future__ import annotations

import re
from shlex import split

from narval.core.definitions.action.needs import Needs, read_needs, table_of
from narval.core.definitions.reading.times import TIME
from narval.core.definitions.reading.vocabulary import (
    COMMON,
    ON_RESTART,
    RETRIES,
    Attribute,
    Word,
    Words,
    agent,
    anything,
    full_name,
    identifier,
    integer,
    kind,
    matching,
    name,
    seconds,
    yes_no,
)

# fmt: off
_SIGNALS = frozenset({
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT",
    "SIGKILL", "SIGPIPE", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
    "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2",
    "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
})
# fmt: on
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_AS_WRITTEN = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+""", re.DOTALL)
"""A word with its quotes."""
_REDIRECTS = re.compile(r"\d>&\d|\d?>>?[\w./~-]+")
_JOINS = re.compile(r"\|\|?|&&|;|\d?>>?|<")
"""A word between commands, or between a command and a file."""
_GOES_ON = re.compile(r"[\w./~$'\"]")
_ENDS = re.compile(r"[\w./-]+;")
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_EXPANDS = re.compile(
    r"[\w./~-]*\$(\{[A-Za-z_]\w*\}|[A-Za-z_]\w*)[\w./-]*|([\w.~-]*/)*\*\.\w+|([\w.~-]*/)+\*"
)
"""A word with a variable or a `*` wildcard."""
_COMPARING = frozenset({"expr", "test", "["})
"""Programs for which `>` and `|` are ordinary words."""


def command(text: str) -> tuple[str, ...]:
    """A command as words; quotes and backslashes work as in a shell, and nothing else is special."""
    try:
        words = tuple(split(text))
    except ValueError as error:
        raise ValueError("a command", f" ({error})") from None
    if not words:
        raise ValueError("a command, such as sh or 'rsync -a src dst'")
    return words


def word_for_a_shell(text: str) -> str:
    """The first word of a command that is clearly intended for a shell; "" if there is none. A quoted word is
    intended for the program.
    """
    words = _AS_WRITTEN.findall(text)
    for before, word, after in zip(words, words[1:], [*words[2:], ""], strict=False):
        is_value = before.startswith("-")  # it may be the value of an option
        if (
            _REDIRECTS.fullmatch(word)
            or (_JOINS.fullmatch(word) and _GOES_ON.match(after) and words[0] not in _COMPARING)
            or (_ENDS.fullmatch(word) and _NAME.fullmatch(after) and not is_value)
            or (_EXPANDS.fullmatch(word) and not is_value)
        ):
            return str(word)
    return ""


def label(text: str) -> str:
    """A label for the end of a program: a status, a signal, an expired time limit, or anything else."""
    if re.fullmatch(r"[0-9]{1,3}", text) and int(text) <= 255:
        return str(int(text))
    if text in ("timeout", "signal", "*"):
        return text
    if text.upper() in _SIGNALS:
        return text.upper()
    raise ValueError("a status from 0 to 255, signal, a name such as SIGTERM, timeout or *")


def size(text: str) -> int:
    """A number of bytes."""
    written = re.fullmatch(r"([0-9]{1,12})\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if written is None or not int(written[1]):
        raise ValueError("a number of bytes, such as 512M or 2G")
    return int(written[1]) * _UNITS[written[2].upper()]


variable = matching("[A-Za-z_][A-Za-z0-9_]*", "the name of a variable, such as SUBJECT")
"""The name of a variable of the environment."""


def reaches(text: str) -> Needs:
    """The places that a program may reach: hosts, folders, other programs and secrets, each literally."""
    needs = read_needs(text)
    for _, value in needs.all:
        if "{" in value or table_of(value):
            raise ValueError("a place itself, such as host example.org:443 or folder data rw")
    return needs


_PLACE = {"directory": Attribute(anything), "grace": Attribute(seconds), "reaches": Attribute(reaches)}
_NUMBER = Attribute(integer(1))
_LIMITS = {"cpu": _NUMBER, "memory": Attribute(size), "files": _NUMBER, "processes": _NUMBER}
WORDS: Words = {
    **COMMON,
    "automaton": Word(
        {
            "group": Attribute(name),
            "name": Attribute(name),
            "max-parallel": Attribute(integer(1)),
            "timeout": RETRIES["timeout"],
            "restart": Attribute(yes_no),
            "decay": Attribute(seconds),
            "on-restart": ON_RESTART,
            **_PLACE,
            **_LIMITS,
        },
        ("description", "state", "transition", "env"),
    ),
    "state": Word(
        {
            "name": Attribute(identifier, required=True),
            "command": Attribute(command),
            "type": Attribute(kind),
            "target": Attribute(full_name),
            "agent": Attribute(agent),
            **RETRIES,
            "max-visits": Attribute(integer(1)),
            "creates": Attribute(command),
            "needs": Attribute(command),
            "unless": Attribute(command),
            "on-restart": ON_RESTART,
            **_PLACE,
            **_LIMITS,
        },
        ("description", "command", "env", "input", "after", "wait"),
    ),
    "command": Word(
        {
            "command": Attribute(command, required=True),
            "retries": RETRIES["retries"],
            "backoff": RETRIES["backoff"],
        },
        None,
    ),
    "env": Word(
        {
            "name": Attribute(variable, required=True),
            "value": Attribute(anything),
            "select": Attribute(anything),
        },
        ("match",),
    ),
    "input": Word({}, ("match",)),
    "after": TIME,
    "wait": Word({"signal": Attribute(identifier, required=True)}),
    "transition": Word(
        {
            "from": Attribute(identifier, required=True),
            "label": Attribute(label),
            "signal": Attribute(identifier),
            "to": Attribute(identifier, required=True),
        },
        ("description",),
    ),
}
