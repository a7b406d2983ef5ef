"""The places of imports: where a slow one is, and where one failed, with the remedy."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.system.exits import RefusedExit

log = logging.getLogger("narval.files")

_OF_HOME = re.compile(r"narval_[a-z]+_\d+\.(.+)")
"""The private name of a module of a home."""

_IN_CONTAINER = ("/run/.containerenv", "/.dockerenv")

LONG = 10.0
"""Seconds after which the place of an import is logged."""


@contextlib.contextmanager
def telling_when_long(folder: str) -> Iterator[None]:
    """Log, once the block has lasted `LONG` seconds, at which place of the folder's modules it is."""
    ended = threading.Event()
    threading.Thread(target=_tell_place, args=(ended, threading.get_ident(), folder), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _tell_place(ended: threading.Event, thread: int, folder: str) -> None:
    if ended.wait(LONG):
        return
    frame, place = sys._current_frames().get(thread), None
    while frame is not None and place is None:
        file = frame.f_code.co_filename
        if folder and file.startswith(folder):
            place = f"{file.removeprefix(folder)}:{frame.f_lineno}"
        frame = frame.f_back
    if place is not None:
        why = "nothing goes on before it ends; do in a function what takes long"
        log.warning("%s: its import has been here for %g s, and %s", place, LONG, why)


def fault_of(error: BaseException, file: str, source: Source, beside: Callable[[str], str]) -> Fault:
    """The fault of a file that could not be imported, at its place in the file. `beside` returns the
    statement that imports a module of the home by its name, "" if there is none.
    """
    if isinstance(error, SyntaxError) and error.filename in (file, source.path):
        line, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
        return source.fault(f"not Python: {error.msg}", line, column)
    line, column = _place(error.__traceback__, file)
    if isinstance(error, SystemExit):
        how = error.call if isinstance(error, RefusedExit) else "sys.exit"
        message = (
            f"the module ends the program when it is imported ({how}); do that in a function, or not at all"
        )
    else:
        lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
        message = f"the module cannot be imported: {lines[-1] if lines else type(error).__name__}"
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent and (statement := beside(absent.partition(".")[0])):
            message = f"{message}; modules of the home import each other so: {statement}"
        elif absent and (within := _OF_HOME.fullmatch(absent)):
            message = f"the module cannot be imported: there is no module {within[1]!r} beside it"
        elif absent and _is_of_a_package(top := absent.partition(".")[0]):
            message = f"{message}; {_to_install(top)}"
    return source.fault(message, line, column)


def _is_of_a_package(top: str) -> bool:
    """True if a package may bring a missing module: Python has none of this name, and none is there."""
    if top == "narval" or top in sys.stdlib_module_names:
        return False
    try:
        return find_spec(top) is None
    except (ImportError, ValueError):  # one without a specification is there
        return False


def _to_install(name: str) -> str:
    """The advice that installs the package of a module, usually of its name, into narval's environment."""
    pip, home = f"{sys.prefix}/bin/python -m pip install {name}", Path(sys.prefix)
    if "pipx" in home.parts and home.parent.name == "venvs":
        how = f"pipx inject {home.name} {name}"
    elif any(map(os.path.exists, _IN_CONTAINER)):
        how = f"add to the image: RUN {pip}"
    else:
        how = pip if os.access(sys.prefix, os.W_OK) else f"sudo {pip}"
    package = "install the package that has it, which is often called the same,"
    return f"{package} where narval runs ({how}), and start the daemon again"


def _place(trace: TracebackType | None, file: str) -> tuple[int, int]:
    """The last line and column of the file through which an error passed."""
    own = [frame for frame in traceback.extract_tb(trace) if frame.filename == file]
    return (own[-1].lineno or 1, (own[-1].colno or 0) + 1) if own else (1, 1)
