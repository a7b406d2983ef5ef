"""Exits: a module that calls `os._exit` or `os.abort` in this program raises, and the program continues."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_REFUSED = ("_exit", "abort")

_has_loaded: dict[type, int] = {}
"""The classes whose instances load code that may not end a program, and that program."""


class RefusedExit(SystemExit):
    """An end of the program that was refused; `call` is the function that was called."""

    def __init__(self, call: str) -> None:
        super().__init__(call)
        self.call = call


def refuse_exits_of(loader: type) -> None:
    """Prevent code loaded by instances of this class from ending any programs but those that it forks itself.

    All other callers of these functions end the program, as narval does in programs of its own.
    """
    if not _has_loaded:
        for name in _REFUSED:
            setattr(os, name, _refusing(name, getattr(os, name)))
    _has_loaded[loader] = os.getpid()


def _refusing(name: str, end: Callable[..., Any]) -> Callable[..., None]:
    def refusing(*arguments: Any) -> None:
        loader = type(sys._getframe(1).f_globals.get("__loader__"))
        if _has_loaded.get(loader) == os.getpid():
            raise RefusedExit(f"os.{name}({', '.join(map(repr, arguments))})")
        end(*arguments)

    return refusing
