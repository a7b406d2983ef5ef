"""Examples that ship: list them, and copy one into the user's own files under another group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath

import msgspec

from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.files import alterations
from narval.files.found_files import RECIPES
from narval.files.home import SCENARIOS, Home
from narval.files.shipped import EXAMPLES, shipped

_GROUP = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_COMMENT = re.compile(r"<!--(.*?)-->|/\*(.*?)\*/|((?://[^\n]*\n)+)", re.DOTALL)
_SUBJECT = re.compile(r"^(?:<!--|/\*|//) Subject: ([^*\n]*?) *(?:-->|\*/)?\n", re.MULTILINE)
_DESCRIPTION = re.compile(r"<description>(.*?)</description>", re.DOTALL)

SUBJECTS = (
    "mail", "calendar", "prices and pages", "household", "family and health", "purchases and money", "house",
    "computers", "office",
)  # fmt: skip
"""The subjects of examples, in order. The last line of an example names its subject."""

OTHERS = "other"
"""The subject of an example that names none."""


class Example(msgspec.Struct, frozen=True):
    """An example: its name, its subject, and its purpose, in one sentence."""

    name: str
    subject: str
    about: str


def examples(about: str = "") -> list[Example]:
    """All examples that ship, by subject; with `about` those of a subject, or with some words in their
    descriptions.

    Raises RequestError if there is none.
    """
    named = [_example(name, paths) for name, paths in alterations.example_files().items()]
    order = {subject: at for at, subject in enumerate(SUBJECTS)}
    every = sorted(named, key=lambda one: (order.get(one.subject, len(order)), one.name))
    words = about.strip().lower()
    fitting = [one for one in every if words in f"{one.name} {one.subject} {one.about}".lower()]
    if not fitting:
        raise RequestError(f"no example is about {about!r}; their subjects are: {', '.join(SUBJECTS)}")
    return fitting


def _example(name: str, paths: list[str]) -> Example:
    """An example, from its own file: its subject, and the first sentence of its description. An example with
    several agents has its description in its scenario.
    """
    stem = name.removeprefix(f"{EXAMPLES}/")
    own = sorted(path for path in paths if path.startswith(RECIPES) and PurePath(path).stem == stem)
    text = (shipped() / (own[-1] if own else f"{SCENARIOS}/{name}.xml")).read_text("utf-8")
    subject = _SUBJECT.search(text)
    said = (_COMMENT if own else _DESCRIPTION).search(_SUBJECT.sub("", text))
    words = next(filter(None, said.groups()), "") if said is not None else ""
    plain = " ".join(words.replace("//", " ").split())
    about = re.split(r"(?<=\.) ", plain, maxsplit=1)[0]
    return Example(name, subject[1] if subject is not None else OTHERS, about)


def take_as(home: Home, name: str, group: str, *, force: bool = False) -> list[str]:
    """Copy an example into the user's own recipes and scenarios, with all names in a group; returns the
    paths.

    Raises RequestError, SurroundingsError.
    """
    examples = alterations.example_files()
    if name not in examples:
        raise RequestError(f"expected an example that ships, found {name!r}{closest(name, examples)}")
    if name == alterations.HOUSEHOLD:
        raise RequestError(f"{name} is of several agents, and not of one group: take it without --as")
    if not _GROUP.fullmatch(group) or group == EXAMPLES:
        raise RequestError(
            f"--as: expected a name for a group of your own, letters, digits, - and _, found {group!r}"
        )
    paths = [path for path in examples[name] if not alterations.is_of_server(path)]
    renamed = _Renamed(paths, group)
    new = {renamed.path(path): path for path in paths}
    there = [path for path in new if (home.path / path).exists()]
    if there and not force:
        raise RequestError(f"{there[0]} exists already; choose another group, or replace it with --force")
    new |= {path: path for path in alterations.needed_by(paths) if not (home.path / path).exists()}
    new |= alterations.tools_to_take(home, examples[name])
    copies: dict[str, Path | str] = {path: shipped() / source for path, source in new.items()}
    copies |= {
        path: renamed.text((shipped() / source).read_text("utf-8"))
        for path, source in new.items()
        if source in paths
    }
    return alterations.put_copies(home, copies, {path: [path] for path in there})


class _Renamed:
    """The names of an example in another group: those of its definitions, and those of its files.

    Most definitions have their group in the text. That of tasks, dataflows and transforms is the first part
    of the file name; it becomes GROUP, or GROUP-PART if two would have the same name.
    """

    def __init__(self, paths: list[str], group: str) -> None:
        self._group = group
        named = [(each.kind, each.full_name) for each in alterations.shipped_library() if each.path in paths]
        written = {(kind, name.removeprefix(f"{EXAMPLES}.")) for kind, name in named if _is_written(name)}
        parts = {name.partition(".")[0] for _, name in named if not _is_written(name)}
        of_files = {(kind, name.partition(".")[2]) for kind, name in named if not _is_written(name)}
        is_taken = bool(written & of_files)
        self._parts = {part: f"{group}-{part}" if is_taken else group for part in parts}
        self._names = {name: self._renamed(name) for _, name in named}
        self._paths = {path: self.path(path) for path in paths}

    def _renamed(self, name: str) -> str:
        part, _, rest = name.partition(".")
        return f"{self._group if part == EXAMPLES else self._parts[part]}.{rest}"

    def path(self, path: str) -> str:
        """The path of a file of the example, in a folder of the group."""
        folder, file = path.split("/")[0], PurePath(path).name
        part, _, rest = file.partition(".")
        if folder == RECIPES and part in self._parts and not rest.endswith("xml"):
            file = f"{self._parts[part]}.{rest}"
        return f"{folder}/{self._group}/{file}"

    def text(self, text: str) -> str:
        """The text of a file of the example, with the new names."""
        text = text.replace(f'group="{EXAMPLES}"', f'group="{self._group}"')
        text = _replaced(_replaced(text, self._paths), self._names)
        return re.sub(rf"\b{EXAMPLES}/(?=[\w.-]+ -->)", f"{self._group}/", text)


def _replaced(text: str, names: Mapping[str, str]) -> str:
    """A text with names replaced, each where it is a whole word."""
    if not names:
        return text
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w/.-])({either})(?![\w/-]|\.\w)", lambda match: names[match[1]], text)


def _is_written(name: str) -> bool:
    return name.startswith(f"{EXAMPLES}.")
