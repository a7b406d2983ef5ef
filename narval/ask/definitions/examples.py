"""Operations on the examples that ship: list them, show one, and copy one into the home."""

from __future__ import annotations

import asyncio

import msgspec

from narval.ask.asker import PROGRAM, Asker
from narval.ask.definitions.editing import check_edits_here
from narval.ask.definitions.one import told
from narval.ask.definitions.proposing import drawn_before_runs, home_of
from narval.ask.registry import Form, operation
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.files.alterations import HOUSEHOLD, example_files, shipped_library
from narval.files.examples import examples as shipped_examples
from narval.files.examples import take_as
from narval.files.found_files import RECIPES
from narval.files.home import SCENARIOS
from narval.files.shipped import EXAMPLES, shipped


@operation("read")
async def examples(daemon: Daemon, about: str = "") -> list[Form]:
    """The examples that ship, by subject: `{"name", "subject", "about"}`, where `about` says in a sentence
    what it does. With words, only those of a subject, or with the words in their line.

    Raises RequestError if there is none.
    """
    rows = await asyncio.to_thread(shipped_examples, about)
    return [msgspec.to_builtins(one) for one in rows if one.name != HOUSEHOLD]


@operation("read")
async def example(daemon: Daemon, name: str) -> Form:
    """An example that ships, in the form of `examples`, with what its definitions do (`told`, in the form of
    `tell`) and their graphs (`drawn`, in the form of `drawn_proposal`), its `files`, scenarios too (`{"path",
    "text"}`), and `allowed`, as in `edit`.

    Raises RequestError if there is none.
    """

    def whole() -> Form:
        (row,) = (one for one in shipped_examples() if one.name == _found(name))
        paths = [path for path in example_files()[row.name] if path.startswith((RECIPES, SCENARIOS))]
        library = shipped_library()
        definitions = [one for one in library if one.path in paths]
        sentences = [line for one in definitions for line in told(one, library)]
        about = {"told": sentences, "drawn": drawn_before_runs(definitions)}
        files = [{"path": path, "text": (shipped() / path).read_text("utf-8", "replace")} for path in paths]
        allowed = daemon.files.settings.web.edit
        return {**msgspec.to_builtins(row), **about, "files": files, "allowed": allowed}

    return await asyncio.to_thread(whole)


@operation("write")
async def take_example(daemon: Daemon, name: str, group: str, *, asker: Asker = PROGRAM) -> Form:
    """Copy an example into recipes and scenarios of the home, with all names in a group: `{"name", "group",
    "paths"}`. This grants nothing. It is for those who may save edits.

    Raises RequestError, also if a file exists already.
    """
    home = home_of(daemon)
    check_edits_here(daemon, asker)
    if not daemon.agent.store.is_own:
        raise RequestError("an example is taken into the home; ask the home's own agent")
    paths = await asyncio.to_thread(lambda: take_as(home, _found(name), group))
    await daemon.reloader.reload()
    return {"name": name, "group": group, "paths": paths}


def _found(name: str) -> str:
    """The full name of an example, whether given with the common prefix or without. Raises RequestError."""
    names = [one for one in example_files() if one != HOUSEHOLD]
    whole = name if name.startswith(f"{EXAMPLES}/") else f"{EXAMPLES}/{name}"
    if whole not in names:
        raise RequestError(f"there is no example {name!r:.80}{closest(whole, names)}")
    return whole
