"""The records that a narval writes into a store: the fields of each, as JSON. It is run by each release."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

import msgspec

from narval.core.engines.commands import Command
from narval.core.engines.events import Event
from narval.core.engines.registry import engine_of_run, run_kinds
from narval.store.batch import Offer


def records() -> dict[str, list[str]]:
    """The names of the fields of each struct, those without a default with a `!` behind."""
    reached: dict[type, None] = {}
    waiting: list[Any] = [Event, Command, Offer]
    for engine in map(engine_of_run, run_kinds()):
        waiting += [engine.changes, engine.state_type]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if not isinstance(kind, type) or kind in reached or not issubclass(kind, msgspec.Struct):
            continue
        reached[kind] = None
        waiting += get_type_hints(kind).values()
    return {f"{kind.__module__.split('.')[2]}.{kind.__name__}": _fields(kind) for kind in reached}


def _fields(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name + "!" * field.required for field in msgspec.structs.fields(kind)]


if __name__ == "__main__":
    print(json.dumps(records(), sort_keys=True))
