"""Exits: a module that calls `os._exit` or `os.abort` in this program raises, and the program continues. One
that raises KeyboardInterrupt itself does not end it either.
"""

from __future__ import annotations

import opcode
import os
import sys
from collections.abc import Callable
from typing import Any

_REFUSED = ("_exit", "abort")

_RAISE = opcode.opmap["RAISE_VARARGS"]

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


def ends_program(error: BaseException) -> bool:
    """True of a KeyboardInterrupt that is not raised by a statement of a module: Ctrl-C raises it."""
    trace = error.__traceback__ if isinstance(error, KeyboardInterrupt) else None
    if trace is None:
        return isinstance(error, KeyboardInterrupt)
    while trace.tb_next is not None:
        trace = trace.tb_next
    of_module = type(trace.tb_frame.f_globals.get("__loader__")) in _has_loaded
    return not (of_module and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE)


def _refusing(name: str, end: Callable[..., Any]) -> Callable[..., None]:
    def refusing(*arguments: Any) -> None:
        loader = type(sys._getframe(1).f_globals.get("__loader__"))
        if _has_loaded.get(loader) == os.getpid():
            raise RefusedExit(f"os.{name}({', '.join(map(repr, arguments))})")
        end(*arguments)

    return refusing
