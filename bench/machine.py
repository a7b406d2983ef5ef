"""The machine that a measurement was made on, as far as it matters."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine(work: Path) -> dict[str, Any]:
    """What stands beside figures; `work` is the folder that stores are made in."""
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count(),
        "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}",
        "file_system": _said("stat", "-f", "-c", "%T", str(work)),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "lxml": version("lxml"),
        "commit": _said("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0"


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
