"""Commands: the keys of `[commands.NAME]`, the programs that actions may run by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from narval.files.toml import Reader, duration, flag, one_of, size, text


def _words(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    if not words or not all(isinstance(word, str) and word.count("{}") <= 1 for word in words):
        raise ValueError('a list of words, such as ["lp", "-d", "laser"], each with one {} at most')
    if not words[0] or "{}" in words[0]:
        raise ValueError("a list of words whose first is the program itself")
    return tuple(words)


def _environment(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(
        isinstance(said, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        for name, said in value.items()
    ):
        raise ValueError('variables and their texts, such as { LANG = "C" }')
    return tuple(value.items())


def _statuses(value: object) -> tuple[int, ...]:
    found = value if isinstance(value, list) else []
    if not found or not all(type(status) is int and 0 <= status < 256 for status in found):
        raise ValueError("a list of statuses from 0 to 255, such as [0, 1]")
    return tuple(found)


COMMAND_READERS: Mapping[str, Reader] = {
    "run": _words,
    "folder": text,
    "seconds": duration,
    "environment": _environment,
    "dashes": flag,
    "statuses": _statuses,
    "bytes": size,
    "output": one_of("text", "xml"),
}
"""The readers of a command."""
