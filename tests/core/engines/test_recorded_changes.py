"""The changes of journals that are there already: they are read, and written again to the byte."""

from base64 import b64decode
from pathlib import Path

import msgspec
import pytest

from narval.core.engines.registry import engine_of_run

RECORDED = [
    line.split("\t")
    for line in (Path(__file__).parent / "recorded_changes.tsv").read_text("ascii").splitlines()
]
"""For one change of each type with all its fields: its kind of run, its type, and how the journal has it."""


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in RECORDED}))
def test_a_recorded_change_is_read_and_written_alike(kind: str) -> None:
    decoder = msgspec.msgpack.Decoder(engine_of_run(kind).changes)
    recorded = [(name, b64decode(data)) for of, name, data in RECORDED if of == kind]
    changes = [(type(change).__name__, change) for change in (decoder.decode(data) for _, data in recorded)]
    assert [(name, msgspec.msgpack.encode(change)) for name, change in changes] == recorded
