"""The page of errors: the classes that are raised, and the kinds that elements and refusals have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from narval.core import errors
from tests.house.code import read
from tests.house.pages.tables import code, table
from tests.places import ROOT

PATH = "reference/errors.md"

HEAD = """\
# Errors

Made from the code by `python -m tests.house.pages`; a test compares. The class of an error says who has
to act. If a program asks a daemon, the answer has the class, its `kind` if it has one, and the message. A
command prints the message and ends with the [status](cli.md#what-all-commands-share) of its class.

```text
{tree}
```
"""

ELEMENTS = """
## Types of `error` elements

A failure in a run leaves an `error` element: `<error type="…" plan="…" step="…">` with a `message`, and a
`detail` with the traceback where there is one: the lines of the home's files, the last one of a library, and
then what caused it, or the members of an exception group. A group of one fails as its member does. So
`{$err/message}` is its sentence, and `{$err}` is all of it. Its `type` is one of these. If an action raises
an exception that is not an `ActionError`, the `type` is the name of its class. Recipes can continue from
errors ([error links](recipe.md), [how to](../how-to/react-to-a-failed-run.md)).
The table has the beginning of each message,
with … for what is filled in.
"""

REFUSALS = """
## Kinds of refusals

A refused request changes nothing. The answer has one of these kinds.
"""

REFUSED = """
## Kinds of elements that are refused

An `ElementError` has one of these kinds: narval does not take the given XML.
"""

OF_ELEMENTS = (
    "ActionError", "Failure", "FlowError", "FetchError", "FeedError", "TransformError", "add_error", "fail",
    "add_error_element", "make_error", "error_element", "BadOutputError", "_wrong", "_error",
)  # fmt: skip
"""The names of what is called where an `error` element will come of it."""

OF_REFUSALS = (
    "WorkRefusedError", "NotSoError", "No", "TaskRefusedError", "OperationRefused", "RefusedSignal",
    "Refusal", "refuse", "refusal",
)  # fmt: skip
"""The names of what is called where somebody who asks is refused."""

MODULE = ROOT / "narval/core/error_types.py"

MODULE_HEAD = '''\
"""The types of `error` elements that narval makes itself; `python -m tests.house.pages` lists them.

Any other type may contain text from outside, so it is shown only where the error's message is.
"""

from __future__ import annotations

OTHER = "_OTHER"
"""The word for any other type."""

OWN_TYPES = frozenset(
    {
'''

KIND = re.compile(r"[a-z]+(-[a-z]+)*")
LONGEST = 90


class Found(NamedTuple):
    """A kind where it is used: the room, and the message as far as it is written there."""

    kind: str
    room: str
    message: str


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD.format(tree=paragraph_after_first(errors.__doc__ or ""))
    found = uses()
    for head, names in ((ELEMENTS, OF_ELEMENTS), (REFUSALS, OF_REFUSALS), (REFUSED, ("ElementError",))):
        yield head
        yield from table(("kind", "message", "room"), rows(found, names))


def module_lines() -> Iterator[str]:
    """The lines of the module that lists narval's own types of `error` elements."""
    yield from MODULE_HEAD.splitlines()
    yield from (
        f'        "{kind}",' for kind in sorted({use.kind for name, use in uses() if name in OF_ELEMENTS})
    )
    yield from ("    }", ")")


def paragraph_after_first(text: str) -> str:
    """The tree within the docstring of the errors."""
    return text.partition("\n\n")[2].strip()


def rows(found: Iterable[tuple[str, Found]], names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """A row for each kind: the first messages, and the rooms."""
    by_kind: dict[str, list[Found]] = {}
    for name, use in found:
        if name in names:
            by_kind.setdefault(use.kind, []).append(use)
    for kind, uses_of in sorted(by_kind.items()):
        messages = list(dict.fromkeys(use.message for use in uses_of if use.message))[:2]
        rooms = dict.fromkeys(use.room for use in uses_of)
        yield code(kind), "; ".join(messages), "<br>".join(map(code, list(rooms)[:3]))


@cache
def uses() -> tuple[tuple[str, Found], ...]:
    """Every use of a kind in narval and the modules that ship, by the name of what is called."""
    files = [*sorted((ROOT / "narval").rglob("*.py")), *sorted((ROOT / "modules").rglob("*.py"))]
    known: dict[str, set[str]] = {}
    found: list[tuple[str, Found]] = []
    for name, text in (pair for path in files for pair in texts_named(path)):
        known.setdefault(name, set()).add(text)
    once = {name: texts.pop() for name, texts in known.items() if len(texts) == 1}
    for path in files:
        constants = {**once, **dict(texts_named(path))}
        room = str(path.relative_to(ROOT).with_suffix("")).removeprefix("narval/")
        for node in ast.walk(read(path).tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in (*OF_ELEMENTS, *OF_REFUSALS, "ElementError"):
                kind, message = kind_and_message(name, node, constants)
                if kind:
                    found.append((name, Found(kind, room, message)))
    return tuple(found)


def texts_named(path: Path) -> Iterator[tuple[str, str]]:
    """The constants of a module that are words."""
    for node in read(path).tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                yield name, text


def kind_and_message(name: str, call: ast.Call, constants: Mapping[str, str]) -> tuple[str, str]:
    """The kind that a call gives, and the message; "" for what is no literal."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg in ("kind", "message"))]
    first = 1 if name in ("ActionError", "BadOutputError", "TransformError") else 0
    kind, message = "", ""
    for at, argument in enumerate(given):
        text = written(argument, constants)
        if not kind and at >= first and KIND.fullmatch(text):
            kind = text
        elif " " in text and not message:
            message = text
    return kind, message


def written(node: ast.expr, constants: Mapping[str, str]) -> str:
    """A text as it is written in the code, with … for what is filled in."""
    match node:
        case ast.Constant(value=str() as text):
            return shortened(text)
        case ast.JoinedStr(values=values):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in values)
            return shortened("".join(map(str, parts)))
        case ast.Name(id=name):
            return constants.get(name, "")
    return ""


def shortened(text: str) -> str:
    """The beginning of a text."""
    text = re.sub("…{2,}", "…", " ".join(text.split())).replace("<", "\\<").replace("*", "\\*")
    return text if len(text) <= LONGEST else text[: text.rindex(" ", 0, LONGEST)] + " …"
