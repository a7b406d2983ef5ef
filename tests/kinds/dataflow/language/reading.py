"""What the tests of dataflows read their texts with."""

from __future__ import annotations

from narval.core.definitions.library import Parsed
from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from narval.kinds.dataflow.language.definition import DataflowDefinition, OperatorCall

ALIASES = "// example aliases\n"


def read(text: str, path: str = "recipes/p.plan") -> Parsed:
    return parse(Source(path, text.encode()))


def faults(text: str) -> list[str]:
    """All faults of a file, as `line:column: message`."""
    return [str(fault).partition(":")[2] for fault in read(text).faults]


def one(text: str) -> DataflowDefinition:
    """The first dataflow of a text without faults, which calls nothing that is elsewhere."""
    parsed = read(text)
    assert parsed.faults == (), "\n".join(map(str, parsed.faults))
    found = parsed.definitions[0]
    assert isinstance(found, DataflowDefinition)
    return found


def plan(body: str, inputs: str = "", outputs: str = "") -> str:
    """A plan with a body, each of whose calls has a line; the first has line 4."""
    return f"PLAN A {{\nINPUT: {inputs}\nOUTPUT: {outputs}\nBODY {{ {body} }} }}\n"


def call(found: DataflowDefinition, key: str) -> OperatorCall:
    return next(one for one in found.graph.calls if one.key == key)
