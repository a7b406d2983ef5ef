"""A new home, made from the sample that ships and its owner's choices."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from narval.core.errors import RequestError, SurroundingsError
from narval.files.found_files import MODULES
from narval.files.home import PARTS, SCENARIOS, Home
from narval.files.making.choices import HomeChoices, chosen_memory, chosen_settings
from narval.files.shipped import EXAMPLES, OF_THE_EXAMPLES, shipped
from narval.files.trust_file import TRUST_FILE

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


def create_home(
    path: Path | str, sample: Path | None = None, *, bare: bool = False, choices: HomeChoices | None = None
) -> Home:
    """Make a home that is ready to run, from the sample that ships, with its owner's choices. Existing files
    are not altered; if making fails, or is interrupted, nothing of it is left.

    Shipped modules are not copied: they are used in place (`shipped`). Nor are examples. A bare home has only
    the settings of the sample, no recipes, no rules about what may go where, and an empty memory.

    Raises RequestError if a home exists already, SurroundingsError if it cannot be written.
    """
    home, choices = Home(path), choices or HomeChoices()
    refuse_home(home)
    with ExitStack() as made:
        try:
            for folder in reversed(
                [place for place in (home.path, *home.path.parents) if not place.exists()]
            ):
                folder.mkdir()
                made.callback(_remove, folder)
            with tempfile.TemporaryDirectory(prefix=".narval-init-", dir=home.path) as scratch:
                _fill(sample or shipped(), Path(scratch), choices, bare=bare)
                for part in (*PARTS, SCENARIOS):
                    if Path(scratch, part).is_dir() and not (home.path / part).exists():
                        made.callback(shutil.rmtree, home.path / part, ignore_errors=True)
                        Path(scratch, part).rename(home.path / part)
            for folder in (home.inbox, home.var):
                if not folder.exists():
                    made.callback(_remove, folder)
            home.inbox.mkdir(exist_ok=True)
            home.prepare()
        except OSError as error:
            why = error.strerror or error
            raise SurroundingsError(f"cannot make a home in {home.path}: {why}; nothing was made") from error
        made.pop_all()
    return home


def refuse_home(home: Home) -> None:
    """Raise RequestError if no home can be made: one exists, or the path is not a folder."""
    if home.exists():
        run, add = f"narval --home {home.quoted} run", f"narval init --demo {home.quoted}"
        raise RequestError(f"{home.path} is a home already; start it: {run}; add the demo to it: {add}")
    if home.path.exists() and not home.path.is_dir():
        raise RequestError(f"expected a folder or nothing at {home.path}, found something else")


def _remove(folder: Path) -> None:
    """Remove a folder that was made, unless it has content by now."""
    with suppress(OSError):
        folder.rmdir()


def _fill(sample: Path, scratch: Path, choices: HomeChoices, *, bare: bool) -> None:
    """Make the parts of a new home in a folder."""
    copy_sample(sample, scratch, _OF_A_BARE_HOME if bare else (*PARTS, SCENARIOS))
    memory, settings = scratch / "data" / "memory.xml", scratch / "etc" / "narval.toml"
    if bare:
        (scratch / TRUST_FILE).unlink(missing_ok=True)  # the asking work would be a recipe: there is none
        memory.write_text(_EMPTY_MEMORY, encoding="utf-8")
    elif memory.is_file():
        memory.write_text(chosen_memory(memory.read_text("utf-8"), choices), encoding="utf-8")
    if settings.is_file():
        settings.write_text(chosen_settings(settings.read_text("utf-8"), choices), encoding="utf-8")
    if choices.mailbox is not None:
        shutil.rmtree(scratch / "data" / "demo", ignore_errors=True)


def copy_sample(sample: Path, target: Path, filled: Collection[str]) -> None:
    """Copy these parts of the sample to a new home; `data` has the demo's mail and feeds."""
    for part in (*PARTS, SCENARIOS):
        if part in filled and (sample / part).is_dir():
            copied = _of_the_examples if part == MODULES else _NOT_COPIED
            shutil.copytree(sample / part, target / part, ignore=copied)
        elif part in PARTS:
            (target / part).mkdir()


def _of_the_examples(folder: str, names: list[str]) -> set[str]:
    """The modules that are not copied: all except those of the examples."""
    return {name for name in names if Path(name).stem not in OF_THE_EXAMPLES}
