"""The operation `tell`: what a definition does, in sentences, and how two tellings differ (D1, D3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from narval.ask.definitions.one import find_definition
from narval.ask.registry import Form, operation
from narval.ask.text import Row
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.telling.sentence import tell as sentences_of
from narval.daemon.daemon import Daemon


@operation("read")
async def tell(daemon: Daemon, name: str, kind: str | None = None) -> list[Form]:
    """The sentences that say what a definition does, made from it alone: `{"definition", "kind", "file",
    "line", "column", "depth", "text"}`, where a sentence of greater depth details the one before it.

    The words for what it calls come from the loaded definitions. `kind` chooses one if several kinds have the
    name. Raises RequestError.
    """
    return told(find_definition(daemon, name, kind), daemon.agent.library)


def told(definition: Definition, library: Library) -> list[Form]:
    """The sentences about a definition, in the form of answers."""
    of = {"definition": definition.full_name, "kind": definition.kind, "file": definition.path}
    return [{**of, **sentence._asdict()} for sentence in sentences_of(definition, library)]


def changes(old: Iterable[Row], new: Iterable[Row]) -> Iterator[Form]:
    """The sentences that only one of two tellings has, each with `change`: "added" or "taken away".

    Definitions are compared by kind and name, their sentences in their order.
    """
    before, after = _by_definition(old), _by_definition(new)
    for key in dict.fromkeys((*after, *before)):
        yield from differences(before.get(key, []), after.get(key, []), "depth", "text")


def differences(before: Sequence[Row], after: Sequence[Row], *keys: str) -> Iterator[Form]:
    """The rows that only one of two lists has, compared by these keys, each with `change`: "added" or "taken
    away".
    """
    old, new = ([tuple(row[key] for key in keys) for row in rows] for rows in (before, after))
    for tag, first, last, start, end in SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            yield from ({"change": "taken away", **row} for row in before[first:last])
            yield from ({"change": "added", **row} for row in after[start:end])


def _by_definition(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    by_definition: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_definition.setdefault((row["kind"], row["definition"]), []).append(row)
    return by_definition
