"""Exits: a module that calls `os._exit` or `os.abort` in this program gets an exception, and the program
continues. Nor does the program end if a module raises KeyboardInterrupt itself. Children that this program
forks end with it.
"""

from __future__ import annotations

import opcode
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

_REFUSED = ("_exit", "abort")

_RAISE = opcode.opmap["RAISE_VARARGS"]

_has_loaded: dict[type, int] = {}
"""The classes whose instances load code that may not end a program, with the number of that program."""

_lifeline: list[int] = []
"""The two ends of a pipe that only this program can write to; its children read until it has ended."""


class RefusedExit(SystemExit):
    """A refused exit of the program; `call` is the function that was called."""

    def __init__(self, call: str) -> None:
        super().__init__(call)
        self.call = call


def refuse_exits_of(loader: type) -> None:
    """Prevent code loaded by instances of this class from ending any program but its own forks.

    All other callers of these functions end the program, as narval does in programs of its own.
    """
    if not _has_loaded:
        for name in _REFUSED:
            setattr(os, name, _refusing(name, getattr(os, name)))
    _has_loaded[loader] = os.getpid()


def ends_program(error: BaseException) -> bool:
    """True for a KeyboardInterrupt by Ctrl-C, not one raised by a statement of a module."""
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


def end_forks_with_program() -> None:
    """End the children that this program forks from now on, and their children, when it ends.

    A child forked by `multiprocessing` has copies of the home's lock and of its sockets: if it outlived a
    killed daemon, no other daemon could start. A program started by `subprocess` has no copies.
    """
    if not _lifeline:
        _lifeline[:] = os.pipe()
        os.register_at_fork(after_in_child=_follow_parent)


def _follow_parent() -> None:
    reading, writing = _lifeline
    if writing >= 0:  # a child's own children share its reading end
        os.close(writing)
        _lifeline[1] = -1
    threading.Thread(target=_end_at_hangup, args=(reading,), name="lifeline", daemon=True).start()


def _end_at_hangup(reading: int) -> None:
    os.read(reading, 1)  # nothing is ever written: the read ends when the pipe closes
    os._exit(1)
