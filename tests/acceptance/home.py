"""A home on a disk, and the command line as a program of its own: nothing is faked here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from narval.files.new_home import create_home
from tests.forked_commands import Command, command
from tests.places import ROOT

PATIENCE = 120.0
"""Seconds to wait for what must come; a test that waits this long has failed."""


class Narval:
    """The command line on one home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def write(self, path: str, content: str | bytes) -> Path:
        """A file of the home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def __call__(self, *arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """A command, to its end."""
        return command(self.line(*arguments)[3:], given, PATIENCE)

    def ask(self, *arguments: str | Path) -> Any:
        """What a command answers as JSON; it must succeed."""
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def daemon(self, *arguments: str) -> Command:
        """A daemon; it may not be ready yet."""
        return Command(self.line("run", *arguments)[3:])

    def limited(self, limits: Callable[[], None]) -> subprocess.Popen[bytes]:
        """A daemon that begins with these limits; it may not be ready yet."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.line("run"), stdout=pipe, stderr=pipe, preexec_fn=limits)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Command]:
        """A daemon that is ready; it is ended well."""
        daemon = self.daemon(*arguments)
        try:
            ready = daemon.stdout.readline()
            assert b"is ready" in ready, ready
            yield daemon
        finally:
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.communicate()
                raise

    def line(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "narval", "--home", str(self.home), *map(str, arguments)]


def make(folder: Path, **files: str) -> Narval:
    """A home with nothing in it but these files: `recipes`, `module` (of group w), `memory`, `settings`."""
    places = {
        "recipes": "recipes/w.xml",
        "module": "modules/w.py",
        "memory": "data/memory.xml",
        "settings": "etc/narval.toml",
    }
    narval = Narval(folder)
    for part in ("etc", "recipes", "modules", "data"):
        (folder / part).mkdir(parents=True)
    for name, content in files.items():
        narval.write(places[name], content)
    return narval


def shipped(folder: Path) -> Narval:
    """The home that ships, with the demo's mail."""
    create_home(folder)
    return Narval(folder)


def copy_example(home: Path, name: str) -> None:
    """Put the files of one example that ships into a home: the others would be read at each start too."""
    folder = home / "recipes" / "examples"
    folder.mkdir(parents=True)
    for path in (ROOT / "recipes" / "examples").glob(f"{name}.*"):
        shutil.copy(path, folder)


def until(fact: Callable[[], Any], what: str) -> Any:
    """Wait for something to become true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = fact()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE:g} seconds")


def one_step(name: str, target: str, more: str = "") -> str:
    """A recipe of group w with one step."""
    return (
        f'<recipe group="w" name="{name}" start_step="s" end_step="s">'
        f'<step id="s" type="action" target="{target}" {more}/></recipe>'
    )


def is_alive(pid: int) -> bool:
    """Whether a program runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
