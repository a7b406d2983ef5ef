"""The operation `propose`: definitions that nobody accepted yet are put where nothing runs them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.checking import check_texts, faults_in
from narval.ask.json_forms import fault as form_of
from narval.ask.json_forms import moment
from narval.ask.registry import operation
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

PROPOSALS = "proposals"
"""The folder of a home with a folder for each proposal; no definition is read from it."""

TEXTS = "texts"
"""The folder of a proposal with its files."""

ABOUT = "proposal.json"
"""The file of a proposal that says by whom it is, when it came, and what was wrong with it then."""

WISH = "wish.txt"
"""The file of a proposal with the wish in words."""

MOST_OF_ONE = 20
"""The proposals that one who asks may have at a time."""

LONGEST_WISH = 4_000
"""The most characters of a wish."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")


@operation("write")
async def propose(
    daemon: Daemon, name: str, texts: dict[str, str], wish: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Put definitions, texts by the name of their file, into `proposals/NAME/`, with the wish in words; the
    answer has their faults.

    Nothing there runs. Python is refused, and so is more than 64 kB; who asks may have 20 at a time, and
    replace their own.
    """
    if daemon.home is None:
        raise RequestError("a home in memory has no folders; open one on a disk")
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"expected a name of a to z, digits and -, that begins with a letter, got {name!r:.80}"
        )
    if len(wish) > LONGEST_WISH:
        raise RequestError(f"expected a wish of at most {LONGEST_WISH:,} characters, got {len(wish):,}")
    check_texts(texts)
    folder, by = daemon.home.path / PROPOSALS, str(asker)
    await asyncio.to_thread(_check_place, folder, name, by)
    faults = [{**form_of(fault), "warning": fault.warning} for fault in await faults_in(daemon, texts)]
    about = {"name": name, "by": by, "at": moment(daemon.rounds.clock.now()), "faults": faults}
    try:
        await asyncio.to_thread(_write, folder, name, by, texts, wish, about)
    except OSError as error:
        raise RequestError(f"{PROPOSALS}/{name} cannot be written: {error.strerror}") from None
    return {"path": f"{PROPOSALS}/{name}", **about}


def _check_place(folder: Path, name: str, by: str) -> None:
    """Raise RequestError where there is no place for a proposal of that name."""
    owner = _by(folder / name)
    if owner is not None and owner != by:
        raise RequestError(f"there is a proposal {name} of somebody else; choose another name")
    own = [path for path in folder.glob("[!.]*") if path.name != name and _by(path) == by]
    if len(own) >= MOST_OF_ONE:
        raise RequestError(f"{by} has {len(own)} proposals, as many as one may have")


def _by(path: Path) -> str | None:
    """By whom a proposal is; "" where that cannot be read, None without a proposal."""
    if not path.exists():
        return None
    try:
        return str(json.loads((path / ABOUT).read_text(encoding="utf-8"))["by"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _write(folder: Path, name: str, by: str, texts: dict[str, str], wish: str, about: dict[str, Any]) -> None:
    """Write a proposal whole, in place of one of that name."""
    folder.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}-"))
    try:
        (made / TEXTS).mkdir()
        for file, text in texts.items():
            (made / TEXTS / file).write_text(text, encoding="utf-8", errors="replace")
        (made / WISH).write_text(wish, encoding="utf-8", errors="replace")
        (made / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
        _check_place(folder, name, by)  # another may have come meanwhile
        if (folder / name).exists():
            shutil.rmtree(folder / name)
        made.rename(folder / name)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
