"""Commands of the command line, as forks of one program that has imported what all of them import.

Run as a program, this file is the one that forks. What it is told to run is a program of its own, with its
own streams, environment and folder, and it comes to `narval.__main__.main` as one that is started does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def command(words: list[str], given: bytes, timeout: float) -> subprocess.CompletedProcess[bytes]:
    """Run `narval` with these words to its end. Raises subprocess.TimeoutExpired after so many seconds."""
    told = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    with (
        tempfile.TemporaryFile() as reads,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as asked,
    ):
        reads.write(given)
        reads.seek(0)
        asked.connect(_forks())
        socket.send_fds(asked, [b"!"], [file.fileno() for file in (reads, out, err)])
        asked.sendall(json.dumps(told).encode())
        asked.shutdown(socket.SHUT_WR)
        asked.settimeout(timeout)
        with asked.makefile("r") as answers:
            pid = int(answers.readline())
            try:
                status = int(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout) from None
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read())
        return subprocess.CompletedProcess(words, status, *said)


@cache
def _forks() -> str:
    """The socket of the program that forks; it ends when nobody holds its standard input open."""
    program = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert program.stdout is not None
    return program.stdout.readline().decode().strip()


# --- the program that forks -------------------------------------------------------------------------------


def serve() -> None:
    """Fork for whoever connects, until standard input ends."""
    sys.path[0] = str(ROOT)
    import gc

    import narval.__main__
    import narval.runtime.daemon.daemon
    import narval.surfaces.cli.without_daemon  # noqa: F401

    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/socket")
        listening.listen(64)
        print(f"{folder}/socket", flush=True)
        while True:
            ready, _, _ = select.select([0, listening], [], [])
            if 0 in ready:
                return
            asked, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _watch(asked)
            asked.close()


def _watch(asked: socket.socket) -> None:
    """Run what is asked for in a program below this one, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(asked, 1, 3)
    with asked.makefile("r") as text:
        told = json.load(text)
    pid = os.fork()
    if pid == 0:
        asked.close()
        _become(streams, told)
    with suppress(OSError):
        asked.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(streams: list[int], told: dict[str, Any]) -> None:
    """Be the program that was asked for, to its end."""
    import narval.__main__

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    time.tzset()
    sys.argv = ["narval", *told["words"]]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    status = 0
    try:
        narval.__main__.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
