"""Answers by mail: the act that a person wrote (P61), and whether a server confirms the writer (P65)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

ACTS = ("claim", "release", "refuse")
"""Acts besides the outcomes that the first line may name."""

_MOVE = re.compile(r"move[ \t]+(\S+)")
_FIELD = re.compile(r"([A-Za-z][\w.-]*)[ \t]*:[ \t]*(.*)")


class MailAnswer(NamedTuple):
    """The act that a mail requests, and its arguments."""

    act: str
    arguments: dict[str, Any]


def read_answer(body: str, outcomes: Collection[str]) -> MailAnswer:
    """The act that a text requests. Raises ValueError with the line that is not understood, "" if there is no
    line.

    The first line that is neither blank nor quoted is an outcome or another act, alone, or `move STATE`. The
    lines after it, up to a blank line, a quotation or `-- `, are fields.
    """
    lines = [line.strip() for line in body.splitlines()]
    first = next((at for at, line in enumerate(lines) if line and not line.startswith(">")), None)
    if first is None:
        raise ValueError("")
    word, fields = lines[first].lower(), dict[str, Any]()
    if (moved := _MOVE.fullmatch(word)) is not None:
        return MailAnswer("move", {"state": moved[1]})
    if word not in outcomes and word not in ACTS:
        raise ValueError(lines[first])
    for line in lines[first + 1 :]:
        if not line or line.startswith(">") or line == "--":
            break
        match = _FIELD.fullmatch(line)
        if match is None:
            raise ValueError(line)
        fields.setdefault(match[1], []).append(match[2])
    if word in outcomes:
        return MailAnswer("answer", {"outcome": word, "fields": fields})
    return MailAnswer(word, {"reason": " ".join(fields.get("reason", ()))})


# --- the writer -----------------------------------------------------------------------------------------


def is_authentic(results: str, sender: str) -> bool:
    """True if the results of a server (RFC 8601) say that a mail comes from the domain of its sender: dmarc
    passed, or dkim with a signature of that domain or of a parent domain. Unreadable results confirm nothing.
    """
    domain = sender.rpartition("@")[2].lower()
    for result in _without_comments(results).split(";"):
        words = re.sub(r"\s*=\s*", "=", result).lower().split()
        said: Mapping[str, str] = dict(word.split("=", 1) for word in words if "=" in word)
        of = (said.get("header.d") or said.get("header.i", "").rpartition("@")[2]).strip(".")
        signs = "." in of and (domain == of or domain.endswith(f".{of}"))
        if words and words[0] == "dmarc=pass" and said.get("header.from", domain) == domain:
            return True
        if words and words[0] == "dkim=pass" and signs:
            return True
    return False


def _without_comments(results: str) -> str:
    """The results without comments, which may be nested, and with `"` for each quoted text.

    It is empty if a comment or a quoted text has no end, or an end has no beginning.
    """
    lines: list[str] = []
    depth, is_quoted = 0, False
    characters = iter(results)
    for character in characters:
        if character == "\\" and (depth or is_quoted):
            next(characters, "")
        elif is_quoted:
            is_quoted = character != '"'
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            lines.append(" ")
            if depth < 0:
                return ""
        elif not depth and character == '"':
            is_quoted = True
            lines.append(character)
        elif not depth:
            lines.append(character)
    return "" if depth or is_quoted else "".join(lines)
