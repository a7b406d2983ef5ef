"""Operations on definitions: those that are loaded, and the actions among them."""

from __future__ import annotations

from typing import Any

from narval.definitions.action.definition import Action
from narval.operations import json_forms
from narval.operations.registry import operation
from narval.runtime.daemon.daemon import Daemon


@operation("read")
async def definitions(daemon: Daemon) -> dict[str, Any]:
    """The definitions that are loaded, from which file, since when; and the faults of those that are not."""
    loaded = {file.path: file.loaded for file in daemon.files.loaded.files}
    rows = [
        {
            "kind": definition.kind,
            "name": definition.full_name,
            "path": definition.path,
            "line": definition.line,
            "digest": definition.digest,
            "loaded": json_forms.moment(loaded.get(definition.path) or None),
            "description": json_forms.description(definition.descriptions),
        }
        for definition in sorted(daemon.agent.library, key=lambda found: (found.kind, found.full_name))
    ]
    return {"definitions": rows, "faults": [json_forms.fault(fault) for fault in daemon.files.faults]}


@operation("read")
async def actions(daemon: Daemon) -> list[dict[str, Any]]:
    """The actions there are, with their inputs and outputs."""
    found = sorted(daemon.agent.library.of("action").items())
    return [json_forms.action(action) for _, action in found if isinstance(action, Action)]
