"""Secrets by name: an environment variable, or a file in `etc/` that only its owner may read."""

from __future__ import annotations

import os
from pathlib import Path


def secret_named(name: str, home: Path | None) -> str:
    """Give the secret of a name; `home` is where `etc/` is, None for a home in memory.

    Raises ValueError, with what to do, where there is none or others may read it.
    """
    if name in os.environ:
        return os.environ[name]
    if not name or Path(name).name != name or name.startswith("."):
        raise ValueError(f"expected the name of an environment variable or of a file in etc/, got {name!r}")
    file = (home or Path()) / "etc" / name
    if not file.is_file():
        raise ValueError(
            f"its secret is neither in the environment nor a file of etc/: {name!r}; write it to {file} and "
            f"chmod 600 that"
        )
    if file.stat().st_mode & 0o077:
        raise ValueError(f"others may read its secret: chmod 600 {file}")
    return file.read_text("utf-8").strip()
