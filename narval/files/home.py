"""Home: the folder of a daemon (`etc/ recipes/ modules/ data/ var/`; surfaces, "Home").

People write to the first four; files dropped into `inbox/` become elements. `var/` is for the daemon's user
alone: store, socket, log, and the lock of the program that holds the home. This module imports little, as
every command needs it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from narval.core.errors import HomeHeldError, NoHomeError, OperatorError, StoreError, SurroundingsError
from narval.system.regular_file import read_regular

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ("etc", "recipes", "modules", "data")
"""The folders that mark a folder as a home; some may be missing, but not all."""

SCENARIOS = "scenarios"
"""The folder of scenarios for simulation; it is optional."""

_TRACES = ("var/narval.log", "var/mail", "var/outbox")
"""The traces, beside its store, that only a daemon leaves in a home."""

_LONGEST_SOCKET = 107
"""The most bytes in the path of a Unix socket, on Linux."""


class Holder(NamedTuple):
    """The program that holds a home, since a moment (seconds since 1970, UTC); 0 if unknown.

    A daemon holds it until it is stopped, any other program until its task is done. A standby daemon waits
    for the end of another daemon of this home, on another machine. A daemon that starts while the server of
    its store is `away` waits for it: the text says why the server does not answer.
    """

    pid: int = 0
    since: float = 0.0
    is_daemon: bool = False
    is_standby: bool = False
    away: str = ""

    @property
    def waits(self) -> bool:
        """True of a daemon that has not started its work, and does not listen yet."""
        return self.is_standby or bool(self.away)

    def __str__(self) -> str:
        if not self.pid:
            return "another program"
        what = "a standby, program" if self.is_standby else "program"
        if self.away:
            what = "a daemon that waits for the server of its store, program"
        return f"{what} {self.pid} since {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _part(*names: str) -> cached_property[Path]:
    return cached_property(lambda home: home.path.joinpath(*names))


class Home:
    """The paths of one home; making a Home touches nothing.

    The code with which a command asks a daemon avoids `pathlib`, which would take a tenth of the command's
    time.
    """

    settings, schemas = _part("etc", "narval.toml"), _part("etc", "schemas")
    recipes, modules, inbox = _part("recipes"), _part("modules"), _part("inbox")
    memory = _part("data", "memory.xml")
    """The file that declares elements."""
    var, store, log = _part("var"), _part("var", "store.db"), _part("var", "narval.log")
    removed = _part("var", "removed")
    """The backups of removed agents."""

    def __init__(self, path: Path | str) -> None:
        self.folder = os.path.abspath(os.path.expanduser(path))

    @cached_property
    def path(self) -> Path:
        """The folder."""
        from pathlib import Path

        return Path(self.folder)

    def _at(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def __repr__(self) -> str:
        return f"Home({self.folder!r})"

    # --- finding ---------------------------------------------------------------------------------------

    @classmethod
    def find(cls, option: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Home:
        """The home of `--home`, else of NARVAL_HOME, else `~/.narval`. Raises NoHomeError."""
        chosen = option or environ.get("NARVAL_HOME") or "~/.narval"
        home = cls(chosen)
        if not home.exists():
            missing = "is no home" if os.path.isdir(home.folder) else "is not there"
            raise NoHomeError(
                f"expected a home, but {home.folder} {missing}; make one: narval init {home.quoted}"
                + ("" if option else ", or name another: narval --home DIR")
            )
        return home

    @property
    def quoted(self) -> str:
        """The path quoted for a shell."""
        import shlex  # here: only messages need it

        return shlex.quote(self.folder)

    @property
    def run_command(self) -> str:
        """The command that starts its daemon, as a user types it: with `--home` unless it is the default."""
        usual = Home(os.environ.get("NARVAL_HOME") or "~/.narval")
        return "narval run" if self.folder == usual.folder else f"narval --home {self.quoted} run"

    def exists(self) -> bool:
        """True if any of a home's folders exists."""
        return any(os.path.isdir(self._at(part)) for part in PARTS)

    def zone_name(self) -> str:
        """The zone in the settings; "" if they name none, and the machine's zone applies."""
        with suppress(OSError, ValueError):
            data = read_regular(self._at("etc", "narval.toml"))
            if any(b"timezone" in line for line in data.splitlines() if not line.lstrip().startswith(b"#")):
                import tomllib  # here: most homes name none, and most commands need no other setting

                named = tomllib.loads(data.decode()).get("timezone")
                return named if isinstance(named, str) else ""
        return ""

    def prepare(self) -> None:
        """Make `var/`, for the owner alone. Raises OperatorError if it belongs to another user."""
        try:
            self.var.mkdir(mode=0o700, exist_ok=True)
            status = self.var.stat()
            if status.st_uid != os.getuid():
                raise OperatorError(
                    f"{self.var} belongs to user {status.st_uid}, not to you ({os.getuid()}); "
                    "run as its owner, or take it over with chown"
                )
            if stat.S_IMODE(status.st_mode) != 0o700:
                self.var.chmod(0o700)
        except OSError as error:
            raise OperatorError(f"expected a folder one may write in {self.var}: {error}") from error

    # --- one holder -----------------------------------------------------------------------------------

    @contextmanager
    def lock(self, *, as_daemon: bool = False) -> Iterator[Callable[..., None]]:
        """Hold the home within the block; yields a function that notes its current state, by fields of a
        `Holder`.

        Raises HomeHeldError, which names the holder. The operating system releases the lock when its holder
        dies, however it dies; the children that it forked end with it.
        """
        from narval.system.exits import ending_forks_with_program

        self.prepare()
        try:
            handle = os.open(self._at("var", "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            why = f"{self.path} cannot be written: {error.strerror}: {self.var}/lock"
            raise OperatorError(f"{why}; commands that only look at a home work") from error
        try:
            # A program that only checks holds it for a moment: see `holder`.
            if not _lock(handle, fcntl.LOCK_EX, attempts=5):
                raise self.held_by(_read_holder(handle))
            holder = Holder(os.getpid(), time.time(), as_daemon)
            _write(handle, _noted(holder))
            try:
                with ending_forks_with_program():
                    yield lambda **now: _write(handle, _noted(holder._replace(**now)))
            finally:
                _write(handle, b"")
        finally:
            os.close(handle)

    def held_by(self, holder: Holder) -> HomeHeldError:
        """The error for a program that finds the home held."""
        if holder.pid == os.getpid():
            return HomeHeldError(f"{self.folder} is open in this program already; close it there first")
        then, socket = "see it: narval status; stop it: narval stop", self.known_socket()
        if holder.pid and not holder.waits and not (socket and os.path.exists(socket)):
            then = f"its socket is gone, unless it is starting or ending; `kill {holder.pid}` ends it well"
        if holder.pid and not holder.is_daemon:
            then = "it is not a daemon, but a program that works on the home; wait for its end, or end it"
        return HomeHeldError(f"{self.folder} is held by {holder}; {then}")

    def holder(self) -> Holder | None:
        """The program that holds the home now, or None."""
        try:
            handle = os.open(self._at("var", "lock"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return None if _lock(handle, fcntl.LOCK_SH) else _read_holder(handle)
        finally:
            os.close(handle)

    def wait_until_released(self) -> None:
        """Wait, however long, until no program holds the home; it blocks."""
        with open(self.var / "lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)

    def known_holder(self) -> Holder | None:
        """The program that noted itself as the holder, and holds the home; None also if it has not noted
        itself yet.

        The lock is tried only if a process with the noted id is alive: it may be another program's by now.
        """
        try:
            handle = os.open(self._at("var", "lock"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            noted = _read_holder(handle)
        finally:
            os.close(handle)
        return self.holder() if noted.pid and _is_alive(noted.pid) else None

    def is_held(self) -> bool:
        """True if a program is known to hold the home."""
        return self.known_holder() is not None

    # --- the control socket ---------------------------------------------------------------------------

    def socket(self, environ: Mapping[str, str] = os.environ) -> Path:
        """The path of the control socket: `var/control.sock`, or a short one when that is too long.

        The short one is in a private folder of its own under XDG_RUNTIME_DIR or the system's folder for
        temporary files. `var/socket` has its path, so that every program of this home finds it, and the
        identity of the folder `var`, so that a copy of a home has its own socket.
        """
        from pathlib import Path

        path = self.known_socket()
        if path is not None:
            return Path(path)
        self.prepare()
        folder = _private_folder(environ)
        _note(self.var / "socket", f"{folder}\n{_identity(str(self.var))}")
        return folder / "control.sock"

    def known_socket(self) -> str | None:
        """The path of the control socket; None if it is a short one that no daemon has made yet."""
        usual = self._at("var", "control.sock")
        if len(os.fsencode(usual)) <= _LONGEST_SOCKET:
            return usual
        with suppress(OSError):
            with open(self._at("var", "socket"), "rb") as file:
                folder, _, owner = os.fsdecode(file.read()).rpartition("\n")
            if owner == _identity(self._at("var")) and _is_private(folder):
                return os.path.join(folder, "control.sock")
        return None


def lost_store(home: Home) -> str:
    """The sentence on a home whose store in `var/` is gone; "" otherwise."""
    trace = next((trace for trace in _TRACES if os.path.lexists(home.path / trace)), "")
    if not trace or home.store.exists():
        return ""
    return (
        f"var/store.db is not there, but {trace} shows that the home had one; "
        "to have it back, put the file or a backup there (narval stop, narval restore FILE --force)"
    )


def refuse_lost_store(home: Home) -> None:
    """Raise StoreError if a home's store in `var/` is gone."""
    if lost := lost_store(home):
        raise StoreError(f"{lost}; to begin with an empty memory, start the daemon: {home.run_command}")


def _lock(handle: int, how: int, attempts: int = 1) -> bool:
    for attempt in range(attempts):
        if attempt:
            time.sleep(0.01)
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError as error:
            raise SurroundingsError(f"expected a file system with locks: {error}") from error
        return True
    return False


def _noted(holder: Holder) -> bytes:
    import json  # here and below: asking a daemon needs no JSON

    return json.dumps(holder._asdict()).encode()


def _read_holder(handle: int) -> Holder:
    import json

    try:
        noted, unknown = json.loads(os.pread(handle, 4096, 0)), Holder()._asdict()
        return Holder(**{name: type(unknown[name])(noted[name]) for name in unknown if name in noted})
    except (ValueError, TypeError):  # it has not written its number yet
        return Holder()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _write(handle: int, data: bytes) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, data, 0)


def _note(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_bytes(os.fsencode(text))
    scratch.replace(path)


def _identity(folder: str) -> str:
    """The device and inode of a folder, which a copy of it does not share."""
    status = os.stat(folder)
    return f"{status.st_dev}:{status.st_ino}"


def _is_private(folder: str) -> bool:
    """True for a folder, not a link to one, that only this user may enter."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _private_folder(environ: Mapping[str, str]) -> Path:
    """Make a folder with a short path and an unguessable name, for this user alone."""
    import tempfile  # few homes need it, and it imports much
    from pathlib import Path

    for base in (environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):  # noqa: S108
        short = len(os.fsencode(base)) + len("/narval-12345678/control.sock") <= _LONGEST_SOCKET
        if base.startswith("/") and short and os.access(base, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="narval-", dir=base))
    raise SurroundingsError("expected a folder with a short path for the control socket; set XDG_RUNTIME_DIR")
