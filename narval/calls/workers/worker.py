"""The program of a worker: it answers calls from a pipe, one after another (N33).

    python -m narval.calls.workers.worker PARENT FOLDER MEMORY [CONFINED]

It moves the pipes out of the reach of actions, so that all prints of an action end up in the log. Modules
of actions are imported from texts: no file is read or written (N31). It dies with the daemon: by a signal
if the system supports that, else when its requests end.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import msgspec

from narval.calls import conversion
from narval.calls.context import CallContext, ModuleCode, Target, current_call
from narval.calls.record import Outcome
from narval.calls.workers.confined import Confined, confine
from narval.calls.workers.frames import (
    Allowance,
    Answered,
    CallFrame,
    FrameError,
    FrameReader,
    Logged,
    Progressed,
    Ready,
    WorkerMessage,
    pack,
    read_call,
    unpacked_call,
)
from narval.core.engines.events import Failure
from narval.core.errors import ActionError
from narval.core.source.text import SHIPPED
from narval.system.memory_limit import bound_memory
from narval.system.secret import without_given

_PR_SET_PDEATHSIG = 1
_MOST_MODULES = 32
_BETWEEN_PROGRESS = 0.05
_LONGEST_LOGGED = 8_192
_LIBC = ctypes.CDLL(None)
_flush_all = _LIBC.fflush  # looked up before a hook may refuse that


class Pipe:
    """The pipe to the daemon. Only this program writes to it, not its forks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_own(self) -> bool:
        """True in the program that created it, but not in its forks."""
        return os.getpid() == self._pid

    def send(self, message: WorkerMessage) -> None:
        """Send a message, whole."""
        if not self.is_own:
            os._exit(0)
        frame = memoryview(pack(message))
        with self._lock:
            while frame:
                frame = frame[os.write(self._descriptor, frame) :]


class WorkerModules:
    """The loaded modules, by path and content, so that a run keeps the version with which it began."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[tuple[str, str], ModuleType] = OrderedDict()

    def load(self, path: str, code: ModuleCode | None) -> ModuleType:
        """The module with this text; without `code`, with the present text of its file."""
        if code is None:
            name, text = Path(path).stem, Path(path).read_bytes()
            code = ModuleCode(name, ((name, path, text),), hashlib.sha256(text).hexdigest())
        key = (path, code.digest)
        if key not in self._loaded:
            self._loaded[key] = executed(path, code)
            if len(self._loaded) > _MOST_MODULES:
                _, oldest = self._loaded.popitem(last=False)
                drop(oldest)
        self._loaded.move_to_end(key)
        return self._loaded[key]


def main() -> None:
    """Answer calls until there are no more."""
    parent, folder, memory = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    sys.dont_write_bytecode = True  # modules/ is the user's folder
    _die_with(parent)
    requests, pipe = _take_pipes()
    with contextlib.suppress(OSError):  # the folder may have been removed since
        os.chdir(folder)
    if len(sys.argv) > 4:  # before there is another thread, or foreign code
        confine(msgspec.json.decode(sys.argv[4], type=Confined))
    calls: SimpleQueue[CallFrame] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, calls), daemon=True).start()
    modules = WorkerModules()
    if memory:
        bound_memory(memory)
    logging.getLogger().addHandler(_Log(pipe))
    logging.getLogger("narval").setLevel(logging.INFO)
    pipe.send(Ready())
    while True:
        frame = calls.get()
        outcome = _answer(frame, modules, pipe)
        _flush()
        try:
            pipe.send(Answered(frame.call, outcome))
        except FrameError as error:
            problem = Failure(error.kind, str(error), final=True)
            pipe.send(Answered(frame.call, Outcome(problem=problem)))


def _answer(frame: CallFrame, modules: WorkerModules, pipe: Pipe) -> Outcome:
    """The outcome of a call, whatever happens."""
    target, call = frame.target, unpacked_call(frame)
    call.attach(_Reporter(pipe).report)
    run = importlib.import_module(target.runner).answer if target.runner else _call
    outcome: Outcome = call.context().run(run, call, partial(_function, target, modules), frame.allowance)
    return outcome


def _call(call: CallContext, load: Callable[[], Any], allowance: Allowance) -> Outcome:
    """Load the module and call its function; a coroutine gets its own loop."""
    try:
        result = load()(**conversion.arguments(call.inputs))
        return Outcome(conversion.elements(conversion.awaited(result)))
    except BaseException as error:
        return Outcome(problem=conversion.failure(error, call.target.module_path, call.home))


def _function(target: Target, modules: WorkerModules) -> Any:
    """The function or class that a target names in a module. Raises ActionError."""
    module = modules.load(target.module_path, target.code)
    function = getattr(module, target.function_name, None)
    if not callable(function):
        raise ActionError(f"{target.module_path} has no function {target.function_name!r}", "no-function")
    return function


class _Log(logging.Handler):
    """Sends the log records of the present call's action to the daemon."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; print one that is logged outside a call."""
        try:
            text, current = without_given(self.format(record)), current_call()
            if current is None or not self._pipe.is_own:
                sys.stderr.write(f"{text}\n")
                return
            name, text = _in_utf8(record.name), _in_utf8(text[:_LONGEST_LOGGED])
            self._pipe.send(Logged(current.id, name, record.levelno, text))
        except Exception:  # a wrong log call fails no action
            self.handleError(record)


def _in_utf8(text: str) -> str:
    """A text with an escape for each half of a surrogate pair, which UTF-8 cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Reporter:
    """Sends progress to the daemon, limited to the rate at which a person can read."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe, self._next = pipe, 0.0

    def report(self, call: CallContext) -> None:
        """Send the progress of a call, unless progress was sent just before."""
        if call.progressed is None:
            return
        done, total = call.progressed
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _BETWEEN_PROGRESS
            self._pipe.send(Progressed(call.id, done, total))


def _die_with(parent: int) -> None:
    """Have this program killed when the parent dies, even during a call."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the request
        os._exit(1)


def _take_pipes() -> tuple[int, Pipe]:
    """Take the standard pipes away from actions, which then read nothing and print to the log."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    return requests, Pipe(answers)


def _read(requests: int, calls: SimpleQueue[CallFrame]) -> None:
    """Queue calls as they arrive; when the pipe is closed, end with all programs started here."""
    frames = FrameReader()
    while data := os.read(requests, 256 * 1024):
        for body in frames.feed(data):
            calls.put(read_call(body))
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _flush() -> None:
    """Flush all prints, including those of C code, so that they arrive before the answer."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    _flush_all(None)


# --- modules from texts -----------------------------------------------------------------------------------


def executed(path: str, code: ModuleCode) -> ModuleType:
    """The module of a file, in a new package with everything that it may import.

    Modules that are not among the texts are found beside the file: `from .other import name`.
    """
    above = code.name.removeprefix(f"{SHIPPED}.").count(".") + path.endswith("/__init__.py")
    package = ModuleType(f"narval_module_{code.digest[:16]}")
    package.__path__ = [str(Path(path).parents[above])]
    sys.modules[package.__name__] = package
    sys.meta_path.insert(0, _Texts(package.__name__, code.parts))
    name = f"{package.__name__}.{code.name}"
    try:
        return importlib.import_module(name)
    except BaseException:
        _drop(package.__name__)
        raise


def drop(module: ModuleType) -> None:
    """Drop a module, and the modules that it imported from beside it."""
    _drop(module.__name__.partition(".")[0])


def _drop(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "package", "") != package]


class _Text(importlib.abc.SourceLoader):
    """Loads a module from a given text."""

    def __init__(self, path: str, text: bytes) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._text


class _Shared(importlib.abc.Loader):
    """Loads a shipped module under the name by which a module of a home imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self._name)


class _Texts(importlib.abc.MetaPathFinder):
    """Finds the modules of a package among texts."""

    def __init__(self, package: str, parts: Iterable[tuple[str, str, bytes]]) -> None:
        self.package = package
        self._texts = {name: (path, text) for name, path, text in parts}
        self._texts[SHIPPED] = f"{SHIPPED}/__init__.py", b""

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module given as text, or of a shipped module."""
        package, _, name = fullname.partition(".")
        if package != self.package:
            return None
        loader: importlib.abc.Loader
        if name in self._texts:
            loader = _Text(*self._texts[name])
        elif f"{SHIPPED}.{name}" in self._texts:
            loader = _Shared(f"{self.package}.{SHIPPED}.{name}")
        else:
            return None
        return importlib.util.spec_from_loader(fullname, loader)


if __name__ == "__main__":
    main()
