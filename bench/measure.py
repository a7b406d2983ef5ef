"""What every measurement needs: a scratch folder on a disk, a clock, and the line that tells a result.

A line has the form of the peers' scripts: `workload`, `peer` (here always narval), `version`, `n`, `seconds`,
`per_second`, `rss_mb`, and more where a workload has it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from time import perf_counter as now
from typing import Any

__all__ = ["emit", "home", "memory_of", "now", "percentile", "scratch", "us"]

MODULE = "modules/w.py"
RECIPES = "recipes/w.xml"
SETTINGS = "etc/narval.toml"
_GET_FLAGS, _SET_FLAGS, _TOP_FOLDER = 0x80086601, 0x40086602, 0x20000
"""`FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS` and the flag T of chattr."""


def memory_of(program: int | str = "self", field: str = "VmHWM") -> float:
    """Resident memory of a program in megabytes: the most it had, or (VmRSS) what it has now."""
    for line in Path(f"/proc/{program}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def emit(workload: str, n: int, seconds: float, **more: Any) -> None:
    """Print the line of one measurement."""
    line = {
        "workload": workload,
        "peer": "narval",
        "version": version("narval"),
        "n": n,
        "seconds": round(seconds, 6),
        "per_second": round(n / seconds, 1) if seconds > 0 else None,
        "rss_mb": more.pop("rss_mb", None) or memory_of(),
    }
    print(json.dumps(line | more), flush=True)


def us(seconds: float, count: int) -> float:
    """Microseconds for one of so many."""
    return round(seconds / count * 1e6, 3)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many per cent of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder for the time of a measurement, in $BENCH_TMP, which has to be on a real disk."""
    parent = Path(os.environ.get("BENCH_TMP", ".bench"))
    parent.mkdir(parents=True, exist_ok=True)
    _keep_apart(parent)
    folder = Path(tempfile.mkdtemp(dir=parent)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep_apart(parent: Path) -> None:
    """Have ext4 put each folder in this one into a part of the disk of its own, as it does with top folders.

    For minutes it searches past the inodes of deleted files, so that a measurement would pay for the files of
    the one before: a third of the processor time of a script that writes a mail at a time.
    """
    with suppress(OSError):  # of another file system
        file = os.open(parent, os.O_RDONLY)
        try:
            flags = int.from_bytes(fcntl.ioctl(file, _GET_FLAGS, bytes(8)), sys.byteorder)
            fcntl.ioctl(file, _SET_FLAGS, (flags | _TOP_FOLDER).to_bytes(8, sys.byteorder))
        finally:
            os.close(file)


def home(folder: Path, **files: str) -> Path:
    """A home with a module, recipes and settings, each as a text, and nothing else."""
    for place, name in (("module", MODULE), ("recipes", RECIPES), ("settings", SETTINGS)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(files.get(place, ""))
    (folder / "data").mkdir(exist_ok=True)
    return folder


def argument(place: int, default: Any) -> Any:
    """An argument of the command line, as the type of its default."""
    return type(default)(sys.argv[place]) if len(sys.argv) > place else default
