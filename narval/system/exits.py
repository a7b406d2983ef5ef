"""Exits: a module that calls `os._exit` or `os.abort` in this program gets an exception, and the program
continues. Nor does the program end if a module raises KeyboardInterrupt itself. Children that this program
forks end with it.
"""

from __future__ import annotations

import opcode
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_REFUSED = ("_exit", "abort")

_RAISE = opcode.opmap["RAISE_VARARGS"]

_has_loaded: dict[type, int] = {}
"""The classes whose instances load code that may not end a program, with the number of that program."""


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


@contextmanager
def ending_forks_with_program() -> Iterator[None]:
    """End the children that this program forks within the block, and their children, when it ends.

    A child forked by `multiprocessing` has copies of the home's lock and of its sockets: if it outlived a
    killed daemon, no other daemon could start. A program started by `subprocess` has no copies.
    """
    _lifeline.hold()
    try:
        yield
    finally:
        _lifeline.holders -= 1


class _Lifeline:
    """A pipe that only one program can write to; its forked children read until that program has ended."""

    def __init__(self) -> None:
        self.holders = 0
        self._program = self._reading = self._writing = -1
        self._identity: tuple[int, ...] = ()
        self._is_registered = False

    def hold(self) -> None:
        self.holders += 1
        if self._program != os.getpid():  # a child that holds a home has children of its own
            self._program = os.getpid()
            self._reading, self._writing = os.pipe()
            self._identity = os.fstat(self._reading)[:3]
        if not self._is_registered:
            self._is_registered = True
            os.register_at_fork(after_in_child=self._follow_parent)

    def _follow_parent(self) -> None:
        if not self.holders or not self._is_open():
            return
        if self._writing >= 0:  # a child's own children share its reading end
            os.close(self._writing)
            self._writing = -1
        threading.Thread(target=self._end_at_hangup, name="lifeline", daemon=True).start()

    def _is_open(self) -> bool:
        """True if the child has not closed the pipe, as one that becomes a daemon does."""
        try:
            return os.fstat(self._reading)[:3] == self._identity
        except OSError:
            return False

    def _end_at_hangup(self) -> None:
        try:
            is_over = os.read(self._reading, 1) == b""  # nothing is ever written
        except OSError:
            is_over = False
        if is_over:
            os._exit(1)


_lifeline = _Lifeline()
