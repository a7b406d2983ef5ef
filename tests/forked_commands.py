"""Commands of the command line, as forks of one program that has imported what all of them import.

Run as a program, this file is the one that forks. What it is told to run is a program of its own, with its
own streams, environment and folder, and it comes to `narval.__main__.main` as one that is started does. It
ends with whoever asked for it.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Command:
    """`narval` with these words, at work beside the test: what `subprocess.Popen` would be, of a fork."""

    def __init__(
        self, words: list[str], given: bytes = b"", environment: dict[str, str] | None = None
    ) -> None:
        told = {"words": words, "folder": os.getcwd(), "environment": environment or dict(os.environ)}
        self._asked = socket.socket(socket.AF_UNIX)
        self._answers = self._asked.makefile("rb", buffering=0)
        self._said: list[bytes] = [b"", b""]
        self._readers: list[threading.Thread] = []
        out, writes_out = os.pipe()
        err, writes_err = os.pipe()
        self.stdout, self.stderr = io.FileIO(out), io.FileIO(err)
        with (
            tempfile.TemporaryFile() as reads,
            io.FileIO(writes_out, "w"),
            io.FileIO(writes_err, "w"),
        ):
            reads.write(given)
            reads.seek(0)
            self._asked.connect(_forks())
            socket.send_fds(self._asked, [b"!"], [reads.fileno(), writes_out, writes_err])
        self._asked.sendall(json.dumps(told).encode() + b"\n")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, or None."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has. Raises subprocess.TimeoutExpired after so many seconds."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired("narval", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """All that it writes until it has ended."""
        if not self._readers:
            self._readers = [
                threading.Thread(target=self._read, args=args, daemon=True)
                for args in enumerate((self.stdout, self.stderr))
            ]
            for reader in self._readers:
                reader.start()
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired("narval", timeout or 0)
        self.wait(timeout)
        return self._said[0], self._said[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and how is about to be told
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it by force."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._asked], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._asked.close()
        return self.returncode

    def _read(self, place: int, stream: io.FileIO) -> None:
        with stream:
            self._said[place] = stream.readall()


def command(
    words: list[str], given: bytes, timeout: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `narval` with these words to its end. Raises subprocess.TimeoutExpired after so many seconds."""
    running = Command(words, given)
    try:
        out, err = running.communicate(timeout)
    except subprocess.TimeoutExpired:
        running.kill()
        raise
    return subprocess.CompletedProcess(words, running.wait(), out, err)


PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
told = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect("{forks}")
    socket.send_fds(asked, [b"!"], [0, 1, 2])
    asked.sendall(json.dumps(told).encode() + b"\\n")
    with asked.makefile("r") as answers:
        _, status = answers
sys.exit(int(status) if int(status) >= 0 else 128 - int(status))
"""


def write_program(file: Path) -> None:
    """Write a program that stands for `narval` where a shell is to find it. A test that ends it by force
    ends the command with it; other signals do not reach that.
    """
    file.write_text(PROGRAM.format(python=sys.executable, forks=_forks()))
    file.chmod(0o755)


@cache
def _forks() -> str:
    """The socket of the program that forks; it ends when nobody holds its standard input open."""
    program = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert program.stdout is not None
    atexit.register(program.communicate)
    return program.stdout.readline().decode().strip()


# --- the program that forks -------------------------------------------------------------------------------


def serve() -> None:
    """Fork for whoever connects, until standard input ends."""
    sys.path[0] = str(ROOT)
    import gc
    import pkgutil
    from importlib import import_module

    import narval

    modules = [module.name for module in pkgutil.walk_packages(narval.__path__, "narval.")]
    for name in modules:
        if ".calls.cluster." in name:  # it begins threads, which no fork has
            continue
        with suppress(ImportError):  # what needs an extra that is not here
            import_module(name)
    parsed_once = import_module("tests.parsed_once")
    parsed_once.parse_each_once()
    parsed_once.parse_what_ships()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # a shell has what it puts in the background ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    at_work: dict[int, socket.socket] = {}
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/socket")
        listening.listen(64)
        print(f"{folder}/socket", flush=True)
        while True:
            ready, _, _ = select.select([0, listening, woken, *at_work.values()], [], [])
            if 0 in ready:
                return
            if woken in ready:
                os.read(woken, 4096)
                _tell_who_asked(at_work)
            for pid, asked in at_work.items():
                if asked in ready:  # closed: whoever asked has gone
                    os.kill(pid, signal.SIGKILL)
            if listening in ready:
                asked, _ = listening.accept()
                _, streams, _, _ = socket.recv_fds(asked, 1, 3)
                with asked.makefile("r") as text:
                    told = json.loads(text.readline())
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for held in (listening, asked, *at_work.values()):
                        held.close()
                    _become(streams, told)
                for stream in streams:
                    os.close(stream)
                at_work[pid] = asked
                with suppress(OSError):
                    asked.sendall(f"{pid}\n".encode())


def _tell_who_asked(at_work: dict[int, socket.socket]) -> None:
    """Tell how those have ended that did."""
    while at_work:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with at_work.pop(pid) as asked, suppress(OSError):
            asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(streams: list[int], told: dict[str, Any]) -> None:
    """Be the program that is asked for, to its end."""
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
