"""Graphs drawn by Graphviz's program `dot`, where it is installed."""

from __future__ import annotations

import shutil
import subprocess

from narval.core.errors import SurroundingsError

TIME = 60.0
"""The most seconds for a drawing."""


def svg(dot: str) -> bytes:
    """A graph as SVG. Raises SurroundingsError."""
    program = shutil.which("dot")
    if program is None:
        raise SurroundingsError(
            "expected Graphviz's program dot, which is not installed; "
            "install it (Debian: apt install graphviz), or take the text of --dot to where it is"
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=dot.encode("utf-8"), capture_output=True, timeout=TIME, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SurroundingsError(f"Graphviz's program {program} did not draw the graph: {error}") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise SurroundingsError(f"Graphviz's program {program} refused the graph: {message[:500]}")
    return done.stdout
