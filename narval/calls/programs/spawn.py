"""Start of a program in its own group, without ever running Python in it (A2, A14)."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The statuses that shells give a command that does not exist, or cannot be run."""

LIMITING = "/bin/sh"
"""The program that sets limits."""

_WITH_LIMITS = '''\
[ -z "$4" ] || echo $$ >"$4/cgroup.procs" || exit 126
[ -z "$1" ] || { ulimit -S -t "$1" && ulimit -H -t "$(($1 + 1))"; } || exit 126
[ -z "$2" ] || ulimit -v "$2" || exit 126
[ -z "$3" ] || ulimit -n "$3" || exit 126
shift 4
exec "$@"'''
"""The script that sets limits: at its processor time a program gets SIGXCPU, and a second later SIGKILL."""


class CannotStartError(Exception):
    """A program was not started, for example by `run_program` of a call. `status` is as in a shell: 127 if
    the program does not exist, else 126.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Confine = Callable[[], None]
"""Confines the thread that calls it, for good. Raises OSError."""


class StartedProgram(NamedTuple):
    """A started program: its process id, also that of its group, and a function that returns its status."""

    pid: int
    status: Callable[[], int]


class Pipes(NamedTuple):
    """The standard input, output and error of a program. Without `input`, the input is empty."""

    input: int | None
    output: int
    error: int


def limited(
    words: Sequence[str], cpu: int | None, memory: int | None, files: int | None, group: Path | None
) -> list[str]:
    """A command that sets its own limits before it becomes the program, so that no program runs without
    limits.

    `group` is the control group that accounts for it (A19), or None. Limits set from outside, after the
    start, would come too late for programs that it starts at once.
    """
    if cpu is None and memory is None and files is None and group is None:
        return list(words)
    kilobytes = "" if memory is None else str(max(1, memory // 1024))
    return [
        LIMITING,
        "-c",
        _WITH_LIMITS,
        "narval",
        _text(cpu),
        kilobytes,
        _text(files),
        str(group or ""),
        *words,
    ]


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    pipes: Pipes,
    confine: Confine | None = None,
) -> StartedProgram:
    """Start a program in a folder; with `confine`, from a thread that it has confined first. Raises
    CannotStartError.
    """
    searched = environment.get("PATH", os.defpath)
    try:
        path = _path_of(words[0], searched, directory)
        if directory == os.getcwd():
            begin = partial(_spawned, path, words, environment, pipes)
        else:
            begin = partial(_started_in, directory, path, words, environment, pipes)
        return begin() if confine is None else _in_a_thread(confine, begin)
    except (OSError, ValueError) as error:
        _search.cache_clear()
        _examine(words[0], searched, directory)
        raise _refusal(error, words[0], directory) from None


def _in_a_thread(confine: Confine, begin: Callable[[], StartedProgram]) -> StartedProgram:
    """Start a program from a temporary thread that has given up access to whatever the program may not reach.

    A thread gives up access only for itself and what it starts. So no Python runs in the program, and the
    program is never unconfined.
    """
    started: list[StartedProgram] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            confine()
            started.append(begin())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="narval-confined")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return started[0]


def _spawned(path: str, words: Sequence[str], environment: Mapping[str, str], pipes: Pipes) -> StartedProgram:
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    pid = os.posix_spawn(
        path,
        list(words),
        environment,
        file_actions=[
            nothing if pipes.input is None else (os.POSIX_SPAWN_DUP2, pipes.input, 0),
            (os.POSIX_SPAWN_DUP2, pipes.output, 1),
            (os.POSIX_SPAWN_DUP2, pipes.error, 2),
        ],
        setpgroup=0,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT),
    )
    return StartedProgram(pid, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _started_in(
    directory: str, path: str, words: Sequence[str], environment: Mapping[str, str], pipes: Pipes
) -> StartedProgram:
    """Start a program in a folder, which posix_spawn cannot do; this takes a tenth longer."""
    program = subprocess.Popen(
        list(words),
        executable=path,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL if pipes.input is None else pipes.input,
        stdout=pipes.output,
        stderr=pipes.error,
        process_group=0,
    )
    return StartedProgram(program.pid, program.wait)


def _path_of(name: str, path: str, directory: str) -> str:
    """The path of the program, which may not exist. Raises CannotStartError if PATH has no such program."""
    if "/" in name:
        return os.path.join(directory, name)
    there = _search(name, path)
    if there is None:
        _search.cache_clear()  # it may exist the next time
        raise CannotStartError(NOT_FOUND, f"{name}: no such program in {path or 'an empty PATH'}")
    return there


def _examine(name: str, path: str, directory: str) -> None:
    """Raise CannotStartError, with the reason, if the program or its folder is invalid. Called only after a
    failed start, so that no other start pays for it.
    """
    if not os.path.isdir(directory):
        raise CannotStartError(NOT_FOUND, f"{directory}: there is no such folder to run {name} in")
    there = _path_of(name, path, directory)
    if "/" in name and not os.path.exists(there):
        raise CannotStartError(NOT_FOUND, f"{name}: no such program")
    if os.path.isdir(there) or not os.access(there, os.X_OK):
        raise CannotStartError(NOT_EXECUTABLE, f"{name}: not a program that may be run")


@lru_cache(maxsize=256)
def _search(name: str, path: str) -> str | None:
    for mode in (os.F_OK | os.X_OK, os.F_OK):
        program = shutil.which(name, mode, path)
        if program is not None:
            return os.path.abspath(program)
    return None


def _refusal(error: OSError | ValueError, name: str, directory: str) -> CannotStartError:
    if isinstance(error, ValueError):
        return CannotStartError(NOT_EXECUTABLE, f"{name}: {error}")
    if error.errno == errno.ENOEXEC:
        return CannotStartError(NOT_EXECUTABLE, f"{name}: it has no #! line, and is no program otherwise")
    status = NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
    return CannotStartError(status, f"{name}: {error.strerror}")
