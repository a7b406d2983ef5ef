"""Files that homes of many tests have are parsed once in a run: what ships, above all.

A definition is frozen, and a daemon that reads its files again goes on with those that have not changed: a
home of the next test may as well. What has faults is parsed each time.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from narval.core.definitions.library import Parsed
from narval.core.source.text import Source
from narval.files.agents import collections

MOST = 2000
_parse = collections.parse_file
_parsed: dict[Source, Parsed] = {}


def _parse_once(source: Source) -> Parsed:
    if source not in _parsed:
        parsed = _parse(source)
        if parsed.faults:
            return parsed
        if len(_parsed) >= MOST:
            _parsed.clear()
        _parsed[source] = parsed
    return _parsed[source]


def parse_each_once() -> None:
    """From now on, in this program."""
    collections.parse_file = _parse_once


def parse_what_ships() -> None:
    """Have what ships, examples too, parsed and compiled before it is asked for, without its scripts: to read
    one starts a thread.
    """
    from narval.files.reading import load
    from narval.files.shipped import shipped, shipped_modules

    with tempfile.TemporaryDirectory() as home:
        for part in ("recipes", "modules"):
            shutil.copytree(shipped() / part, Path(home, part))
        for file in Path(home, "recipes").rglob("*"):
            if file.is_file() and b"<script" in file.read_bytes():
                file.unlink()
        load(Path(home))
    shipped_modules().load(shipped_modules().names)
