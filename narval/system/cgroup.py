"""Control groups: the folders with which Linux counts processes, and limits the number in each (A19).

Both hierarchies work: the old one of the controller `pids`, and the unified one if the group of this program
has `pids`. In the latter, a group with programs of its own, like the daemon's, passes on only controllers of
threads: groups within it must be *threaded*, which makes no difference for whole programs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CONTROLLER = "pids"
MEMBERS = "cgroup.procs"
"""The file of a group to which a program writes its number to join."""
_ALL = "max"


class NoGroupError(Exception):
    """No control group can be made here; the message says why, and what to do."""


@cache
def own_group() -> Path:
    """The folder of this program's group, in which others can be made. Raises NoGroupError."""
    group = find_group(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    if not group.is_dir():
        raise NoGroupError(f"{group}, the control group of this program, is not there")
    if not (os.access(group, os.W_OK) and os.access(group / MEMBERS, os.W_OK)):
        raise NoGroupError(
            f"{group} is not for this user to write; run the daemon as a service with Delegate=pids"
        )
    controllers = group / "cgroup.controllers"
    if controllers.exists() and CONTROLLER not in controllers.read_text().split():
        raise NoGroupError(
            f"{group} has no controller {CONTROLLER}; run the daemon as a service with Delegate=pids"
        )
    return group


def obstacle() -> str:
    """The reason why processes cannot be counted here; "" if they can."""
    try:
        own_group()
    except (NoGroupError, OSError) as error:
        return str(error)
    return ""


def find_group(groups: str, mounts: str) -> Path:
    """The folder of the group that counts processes, found in /proc/self/cgroup and /proc/self/mountinfo.

    Raises NoGroupError.
    """
    paths = {controllers: path for _, controllers, path in _split(groups)}
    named = next((names for names in paths if CONTROLLER in names.split(",")), "")
    for line in mounts.splitlines():
        head, _, tail = line.partition(" - ")
        (root, place), (kind, _, options) = head.split()[3:5], tail.split()[:3]
        fits = CONTROLLER in options.split(",") if named else True
        if kind == ("cgroup" if named else "cgroup2") and fits and (named or "" in paths):
            return Path(place) / os.path.relpath(paths[named], root)
    raise NoGroupError("this system has no control groups that count processes")


def make_group(within: Path, name: str, most: int | None) -> Path:
    """Make a group of at most `most` processes and threads; with None the enclosing group sets the limit.

    An existing group is reused. Raises NoGroupError.
    """
    group = within / name
    try:
        _hand_on(within)
        with contextlib.suppress(FileExistsError):
            group.mkdir(mode=0o700)
        kind = group / "cgroup.type"
        if kind.exists() and kind.read_text().split() == ["domain", "invalid"]:
            kind.write_text("threaded")
        (group / "pids.max").write_text(_ALL if most is None else str(most))
    except OSError as error:
        raise NoGroupError(f"{group} could not be made: {error.strerror}") from None
    return group


def _hand_on(group: Path) -> None:
    """Pass the controller on to the groups within a group, where that has to be declared."""
    handed = group / "cgroup.subtree_control"
    if handed.exists() and CONTROLLER not in handed.read_text().split():
        handed.write_text(f"+{CONTROLLER}")


def _split(groups: str) -> Iterator[tuple[str, str, str]]:
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        yield number, controllers, path
