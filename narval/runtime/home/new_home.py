"""A new home, made from the sample that is shipped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from narval.errors import RequestError, SurroundingsError
from narval.runtime.home.found_files import MODULES
from narval.runtime.home.home import PARTS, SCENARIOS, Home
from narval.runtime.home.shipped import EXAMPLES, OF_THE_EXAMPLES, shipped

_OF_A_BARE_HOME = ("etc",)

_EMPTY_MEMORY = """\
<?xml version="1.0" encoding="utf-8"?>
<!--
  What the agent knows from the beginning. It is read at each start: what is new here is added to memory,
  what is dropped loses its protection (N4). Edit it freely.
-->
<memory>
</memory>
"""

_NOT_COPIED = shutil.ignore_patterns(EXAMPLES, "__pycache__", "*.pyc", ".*")


def create_home(path: Path | str, sample: Path | None = None, *, bare: bool = False) -> Home:
    """Make a home that runs as it is, from the sample that is shipped; nothing that exists is altered.

    Modules that ship are not copied: they count where they are (`shipped`). Nor are examples. A bare home has
    the settings of the sample alone, no recipes, and an empty memory.

    Raises RequestError when there is a home already, SurroundingsError when it cannot be written.
    """
    home = Home(path)
    if home.exists():
        raise RequestError(f"{home.path} is a home already; start it: narval --home {home.quoted} run")
    if home.path.exists() and not home.path.is_dir():
        raise RequestError(f"expected a folder or nothing at {home.path}, found something else")
    try:
        home.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".narval-init-", dir=home.path) as scratch:
            _copy_sample(sample or shipped(), Path(scratch), _OF_A_BARE_HOME if bare else (*PARTS, SCENARIOS))
            if bare:
                Path(scratch, "data", "memory.xml").write_text(_EMPTY_MEMORY, encoding="utf-8")
            for part in PARTS:  # whole or not at all, each of them
                Path(scratch, part).rename(home.path / part)
            if Path(scratch, SCENARIOS).is_dir() and not (home.path / SCENARIOS).exists():
                Path(scratch, SCENARIOS).rename(home.path / SCENARIOS)
        home.inbox.mkdir(exist_ok=True)
        home.prepare()
    except OSError as error:
        raise SurroundingsError(f"cannot make a home in {home.path}: {error}") from error
    return home


def _copy_sample(sample: Path, target: Path, filled: Collection[str]) -> None:
    """Copy what is shipped in these parts to a new home; `data` has the demo's mail and feeds."""
    for part in (*PARTS, SCENARIOS):
        if part in filled and (sample / part).is_dir():
            copied = _of_the_examples if part == MODULES else _NOT_COPIED
            shutil.copytree(sample / part, target / part, ignore=copied)
        elif part in PARTS:
            (target / part).mkdir()


def _of_the_examples(folder: str, names: list[str]) -> set[str]:
    """The modules that are not copied: all but those of the examples."""
    return {name for name in names if Path(name).stem not in OF_THE_EXAMPLES}
