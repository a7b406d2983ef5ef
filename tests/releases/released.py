"""Releases of narval that others have: each its wheel, and a store that it wrote with runs under way.

    python -m tests.releases.released

writes the store of the last release anew, by its wheel. One that others have is never written again.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sysconfig
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.acceptance.home import PATIENCE, Narval, make, until
from tests.store.older_stores import FILES

HERE = Path(__file__).parent
WHEELS = sorted(HERE.glob("*.whl"))


def version_of(wheel: Path) -> str:
    """The version of a release."""
    return wheel.name.split("-")[1]


class Released(Narval):
    """The command line of a release, in an environment of its own, on one home."""

    def __init__(self, home: Path, python: Path) -> None:
        super().__init__(home)
        self._python = python

    def line(self, *arguments: str | Path) -> list[str]:
        return [str(self._python), *super().line(*arguments)[1:]]

    def __call__(self, *arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.line(*arguments), input=given, capture_output=True, timeout=PATIENCE)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon that is ready; it is ended well, unless it was killed."""
        pipe = subprocess.PIPE
        with subprocess.Popen(self.line("run", *arguments), stdout=pipe, stderr=subprocess.DEVNULL) as daemon:
            assert daemon.stdout is not None
            ready = daemon.stdout.readline()
            try:
                assert b"is ready" in ready, ready
                yield daemon
            finally:
                daemon.terminate()


def install(wheel: Path, folder: Path) -> Path:
    """The Python of a new environment that has a release, and shares what it imports with this one."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    # that folder alone: its own .pth files are not read, so the narval of this tree is not there
    (packages / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def new_home(folder: Path) -> Narval:
    """A home with definitions of each kind that wait."""
    home = make(folder)
    for path, text in FILES.items():
        home.write(path, text)
    return home


BEGUN = ("w.waits", "w.calls", "desk.order", "guard.door")


def begin(narval: Narval) -> None:
    """Have runs of each kind wait, and kill the daemon."""
    with narval.running() as daemon:
        narval("add", "-", given=b"<memory><mail n='0'/><mail n='1'/></memory>")
        for name in BEGUN:
            narval.ask("start", name)
        until(lambda: len(narval.ask("memory", "ack")) == 2, "two plans wait, one called by another")
        daemon.kill()


def write() -> Path:
    """Write the store of the last release; the file."""
    wheel = WHEELS[-1]
    kept = HERE / f"{version_of(wheel)}.sql"
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder, "home")).home
        begin(Released(home, install(wheel, Path(folder, "venv"))))
        with closing(sqlite3.connect(home / "var" / "store.db")) as store, kept.open("w") as file:
            file.writelines(f"{line}\n" for line in store.iterdump())
    return kept


def put(home: Path, wheel: Path) -> None:
    """Have a home the store that a release wrote."""
    (home / "var").mkdir(mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(home / "var" / "store.db")) as store:
        store.executescript((HERE / f"{version_of(wheel)}.sql").read_text("utf-8"))


if __name__ == "__main__":
    print(write())
