"""The operations `versions` and `difference`: the versions of a definition that the store keeps (M43)."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

from narval.ask.definitions.definition import MODULE, text_of
from narval.ask.json_forms import moment
from narval.ask.lookup import files_of, find_definition
from narval.ask.registry import operation
from narval.core.definitions.library import ModuleDefinition
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.store.batch import DefinitionRow
from narval.system.long_work import TimeSlice

SHORTEST = 6
"""The fewest characters of a digest that may name a version."""


@operation("read")
async def versions(daemon: Daemon, name: str, kind: str | None = None) -> list[dict[str, Any]]:
    """The versions of a definition in the store, newest first.

    Each has its digest, file and text, since when it is stored, whether it is the current one, how many runs
    follow it, and how many of these are active. For what a module declares, the versions of the module.
    """
    follow, active, time_slice = Counter[str](), Counter[str](), TimeSlice()
    for run in list(daemon.agent.runs.values()):
        await time_slice.yield_if_due()
        if run.name == name:
            follow[run.digest] += 1
            active[run.digest] += run.active
    return [
        {
            "kind": row.kind,
            "name": row.name,
            "digest": row.digest,
            "path": row.path,
            "loaded": moment(row.loaded),
            "current": row.current,
            "runs": follow[row.digest],
            "active": active[row.digest],
            "source": text_of(row.kind, row.path, row.source),
        }
        for row in _kept(daemon, name, kind)
    ]


@operation("read")
async def difference(
    daemon: Daemon, name: str, old: str, new: str | None = None, kind: str | None = None
) -> dict[str, Any]:
    """The difference between the texts of two versions as a unified diff: from the one whose digest begins
    with `old` to that of `new`, by default the current one. Raises RequestError.
    """
    rows = _kept(daemon, name, kind)
    before, after = _version(rows, name, old), _version(rows, name, new)
    old_text, new_text = (text_of(row.kind, row.path, row.source).splitlines() for row in (before, after))
    old_name, new_name = (f"{row.path} {row.digest[:12]}" for row in (before, after))
    lines = difflib.unified_diff(old_text, new_text, old_name, new_name, lineterm="")
    return {"old": before.digest, "new": after.digest, "diff": "".join(f"{line}\n" for line in lines)}


def _kept(daemon: Daemon, name: str, kind: str | None) -> list[DefinitionRow]:
    """The stored versions, newest first. Raises RequestError if there are none."""
    store, present = daemon.agent.store, None
    rows = store.definitions(None, name)
    kinds = {row.kind for row in rows if kind in (None, row.kind)}
    if len(kinds) != 1:
        present = find_definition(daemon, name, kind)
        kinds = {present.kind}
    if isinstance(present, ModuleDefinition):
        path = files_of(daemon).loaded.texts[present.group].path
        rows, kinds = store.definitions(None, path), {MODULE}
    return sorted((row for row in rows if row.kind in kinds), key=lambda row: (-row.loaded, not row.current))


def _version(rows: list[DefinitionRow], name: str, digest: str | None) -> DefinitionRow:
    if digest is None:
        current = next((row for row in rows if row.current), None)
        if current is None:
            raise RequestError(f"no version of {name} is loaded now; name the digests of two")
        return current
    matching = [row for row in rows if row.digest.startswith(digest)] if len(digest) >= SHORTEST else []
    if len(matching) != 1:
        digests = ", ".join(row.digest[:12] for row in rows)
        raise RequestError(
            f"expected the digest of a version of {name}, or its first {SHORTEST} characters or more, "
            f"got {digest!r:.80}; there are {digests}"
        )
    return matching[0]
