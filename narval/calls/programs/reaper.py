"""The reaper, which ends the programs of a daemon that is gone (A12); also run as a separate program.

    python -I -S reaper.py OWNER LOCK FOLDER

Groups are reported to its standard input: `+123` when one begins, `-123` when it is gone. `=4711.5` is the
time of the monotonic clock until which the daemon is sure of its agents. If that time comes before a later
one is reported, all groups are killed at once, though the daemon may only have been stopped. Their numbers
are first written to the standard output, so that the daemon knows which programs it killed. When the input
ends, the daemon has ended: all remaining groups get SIGTERM and then SIGKILL, and so do programs that have
left their group but carry the owner in their environment. The reaper holds the lock until then, so that the
next daemon can wait for it. FOLDER has the control groups that account for the owner's programs (A19); they
are removed at the end. The reaper imports modules that Python has loaded anyway, and little more.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator

OWNER = "NARVAL_OWNER"
"""The variable that names the daemon, and its life, to which a program belongs."""
CALL = "NARVAL_CALL"
"""The variable with the call that a program answers, the same when the call is repeated after a crash."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_PAUSE, _NAP = 0.02, 0.05
_LOOKS = 2
"""Consecutive looks that must find nothing: one can miss a program that is just being started."""


def end_groups(groups: Iterable[int]) -> None:
    """End these groups of programs, and wait until they are gone or prove impossible to end."""
    left = set(groups)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = {group for group in left if send(group, number, os.killpg)}
        deadline = time.monotonic() + GRACE
        while left and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            left &= living_groups()


def kill_groups(groups: Iterable[int]) -> None:
    """Kill these groups at once, and report each first."""
    for group in groups:
        with contextlib.suppress(OSError):  # the daemon is gone, or has not read for long
            os.write(1, b"%d\n" % group)
        send(group, signal.SIGKILL, os.killpg)


def end_carriers(is_owned: Callable[[frozenset[bytes]], bool]) -> None:
    """Kill all programs whose environment `is_owned` accepts; wait until none is left."""
    deadline, clean = time.monotonic() + GRACE, 0
    while clean < _LOOKS and time.monotonic() < deadline:
        programs = list(carriers(is_owned))
        clean = 0 if programs else clean + 1
        for program in programs:
            send(program, signal.SIGKILL)
        time.sleep(_PAUSE)


def living_groups() -> set[int]:
    """The groups of all programs, without zombies."""
    return {group for group, state in _groups() if state not in "ZX"}


def carriers(is_owned: Callable[[frozenset[bytes]], bool]) -> Iterator[int]:
    """The other programs whose environment, as a set of variables, `is_owned` accepts."""
    for program in _all():
        if program == os.getpid():
            continue
        try:
            with open(f"/proc/{program}/environ", "rb") as file:
                environment = file.read()
        except OSError:  # gone, or another user's
            continue
        if is_owned(frozenset(environment.split(b"\0"))):
            yield program


def send(program: int, number: int, kill: Callable[[int, int], None] = os.kill) -> bool:
    """Send a signal to a program, or with `os.killpg` to a group; True if it exists."""
    try:
        kill(program, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to another user, perhaps by now
        pass
    return True


def group_name(owner: str) -> str:
    """The prefix of the control groups' names of an owner, or of several owners with a common prefix."""
    return f"narval-{owner}"


def remove_groups(folder: str, owner: str) -> None:
    """Remove the control groups of an owner, or of several owners with a common prefix, in a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(group_name(owner)):
                remove_group(os.path.join(folder, name))


def remove_group(path: str) -> None:
    """Remove a control group and its subgroups, unless a program is still in it."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                remove_group(entry.path)
        os.rmdir(path)


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGTERM, or its number if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _groups() -> Iterator[tuple[int, str]]:
    """The group of each program, and the letter of its state."""
    for program in _all():
        try:
            with open(f"/proc/{program}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue
        state, _, group = stat[stat.rindex(b")") + 2 :].split(b" ", 3)[:3]
        yield int(group), state.decode()


def _all() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _is_readable(seconds: float) -> bool:
    return bool(select.select([0], [], [], seconds)[0])


def main(owner: str, lock: str, folder: str) -> None:
    """Wait until the daemon is gone, and end its programs."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if lock:
        import fcntl  # only a home on disk has a lock

        fcntl.flock(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    os.set_blocking(1, False)  # a stopped daemon reads nothing
    groups: set[int] = set()
    rest, deadline = b"", None
    while True:
        if deadline is not None and not _is_readable(max(0.0, deadline - time.monotonic())):
            kill_groups(groups)
            groups, deadline = set(), None
        if not (data := os.read(0, 65536)):
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line[:1] == b"=":
                deadline = float(line[1:])
            else:
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
        time.sleep(_NAP)  # lines written during the nap wait in the pipe, and wake nothing
    end_groups(groups)
    marker = f"{OWNER}={owner}".encode()
    end_carriers(lambda environment: marker in environment)
    if folder:
        remove_groups(folder, owner)
    if lock:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lock)


if __name__ == "__main__":
    main(*sys.argv[1:])
