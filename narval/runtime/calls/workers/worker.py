"""The program that workers are: it answers one call after another, asked through a pipe (N33).

    python -m narval.runtime.calls.workers.worker PARENT FOLDER MEMORY

It takes the pipes away from where actions could reach them, so that whatever an action prints ends in the
log, and dies with the daemon: by signal where the system has one for that, else when its requests end.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import hashlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from narval.engines.events import Failure
from narval.errors import ActionError
from narval.runtime.calls import conversion
from narval.runtime.calls.backend import Outcome, Task
from narval.runtime.calls.context import CurrentCall
from narval.runtime.calls.workers import transforms
from narval.runtime.calls.workers.frames import (
    Answered,
    CallFrame,
    FrameError,
    FrameReader,
    Progressed,
    Ready,
    Said,
    pack,
    read_asked,
    unpacked_input,
)
from narval.runtime.system.memory_limit import bound_memory

_PR_SET_PDEATHSIG = 1
_MOST_MODULES = 32
_BETWEEN_PROGRESS = 0.05
_LIBC = ctypes.CDLL(None)


class Pipe:
    """What the daemon hears of this program. Only the program itself writes to it, none that it forks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def send(self, message: Said) -> None:
        """Send a message, whole."""
        if os.getpid() != self._pid:
            os._exit(0)
        frame = memoryview(pack(message))
        with self._lock:
            while frame:
                frame = frame[os.write(self._descriptor, frame) :]


class _Text(importlib.abc.SourceLoader):
    """A module whose text is at hand: nothing is read and nothing is written."""

    def __init__(self, path: str, text: bytes) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._text


class WorkerModules:
    """The modules loaded, by path and content, so that a run keeps the version it began with."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[tuple[str, str], ModuleType] = OrderedDict()

    def load(self, path: str, text: bytes | None) -> ModuleType:
        """The module with this text, or else with the text that its file has now."""
        if text is None:
            text = Path(path).read_bytes()
        key = (path, hashlib.sha256(text).hexdigest())
        if key not in self._loaded:
            self._loaded[key] = _executed(path, text, key[1])
            if len(self._loaded) > _MOST_MODULES:
                _, oldest = self._loaded.popitem(last=False)
                _drop(oldest)
        self._loaded.move_to_end(key)
        return self._loaded[key]


def main() -> None:
    """Answer calls until there are no more."""
    parent, folder, memory = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    sys.dont_write_bytecode = True  # modules/ is the user's folder
    _die_with(parent)
    requests, pipe = _take_pipes()
    with contextlib.suppress(OSError):  # the folder may have been removed meanwhile
        os.chdir(folder)
    calls: SimpleQueue[CallFrame] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, calls), daemon=True).start()
    modules = WorkerModules()
    if memory:
        bound_memory(memory)
    pipe.send(Ready())
    while True:
        asked = calls.get()
        outcome = _answer(asked, modules, pipe)
        _flush()
        answered = Answered(asked.call, outcome.elements, outcome.problem, outcome.value)
        try:
            pipe.send(answered)
        except FrameError as error:
            pipe.send(Answered(asked.call, [], Failure("bad-output", str(error), final=True)))


def _answer(asked: CallFrame, modules: WorkerModules, pipe: Pipe) -> Outcome:
    """Whatever happens, there is an answer."""
    home = None if asked.home is None else Path(asked.home)
    current = CurrentCall(
        asked.call,
        asked.run,
        asked.step,
        home,
        asked.deadline,
        attempt=asked.attempt,
        listener=_Reporter(pipe).report,
    )
    inputs = {id: unpacked_input(value) for id, value in asked.inputs.items()}
    task = Task(
        call=asked.call,
        run=asked.run,
        step=asked.step,
        action=asked.action,
        where="transform" if asked.is_transform else "worker",
        module_path=asked.path,
        function_name=asked.function,
        source=asked.source,
        inputs=inputs,
        home=home,
        payload=asked.payload,
    )
    if asked.payload is not None:
        from narval.runtime.calls.process_code import execution

        return current.context().run(execution.answer, task, partial(_function, task, modules))
    if asked.is_transform:
        return current.context().run(transforms.answer, task, asked.folders, asked.memory)
    return current.context().run(_call, task, modules)


def _call(task: Task, modules: WorkerModules) -> Outcome:
    """Load the module and call its function; a coroutine gets a loop of its own."""
    try:
        result = _function(task, modules)(**conversion.arguments(task.inputs))
        return Outcome(conversion.elements(conversion.awaited(result)))
    except BaseException as error:
        return Outcome(problem=conversion.problem(error, task.module_path, task.home))


def _function(task: Task, modules: WorkerModules) -> Any:
    """What a task calls: a function, or the class of a node."""
    module = modules.load(task.module_path, task.source)
    function = getattr(module, task.function_name, None)
    if not callable(function):
        raise ActionError(f"{task.module_path} has no function {task.function_name!r}", "no-function")
    return function


def _executed(path: str, text: bytes, digest: str) -> ModuleType:
    """The module, in a package of its own, so that `from .other import name` finds the file beside it."""
    package = ModuleType(f"narval_module_{digest[:16]}")
    package.__path__ = [str(Path(path).parent)]
    sys.modules[package.__name__] = package
    name = f"{package.__name__}.{Path(path).stem}"
    loader = _Text(path, text)
    spec = importlib.util.spec_from_loader(name, loader, origin=path)
    if spec is None:
        raise ImportError(f"{path} cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and their like look for the module there
    try:
        loader.exec_module(module)
    except BaseException:
        _drop(module)
        raise
    return module


def _drop(module: ModuleType) -> None:
    """Let go of a module, and of what it imported from beside it."""
    package = module.__name__.rpartition(".")[0]
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]


class _Reporter:
    """Sends on how far a call is, but not more often than anybody could look."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe, self._next = pipe, 0.0

    def report(self, current: CurrentCall) -> None:
        """The call said how far it is."""
        if current.progressed is None:
            return
        done, total = current.progressed
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _BETWEEN_PROGRESS
            self._pipe.send(Progressed(current.id, done, total))


def _die_with(parent: int) -> None:
    """Be killed when the parent dies, even in the middle of a call."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before that was asked for
        os._exit(1)


def _take_pipes() -> tuple[int, Pipe]:
    """Keep the pipes to oneself: actions read nothing, and print to what goes to the log."""
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
    """Hand on what is asked; when nobody can ask any more, end, with all that was started here."""
    frames = FrameReader()
    while data := os.read(requests, 256 * 1024):
        for body in frames.feed(data):
            calls.put(read_asked(body))
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _flush() -> None:
    """Let what was printed, here and by code in C, come before the answer."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    _LIBC.fflush(None)


if __name__ == "__main__":
    main()
