"""Descriptions of transforms: their inputs and outputs; only the stylesheet says how."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import takes
from narval.core.definitions.telling.sentence import Sentence
from narval.core.definitions.transform.definition import Transform


def sentences(transform: Transform, library: Library) -> Iterator[Sentence]:
    """The sentences that describe a transform."""
    yield Sentence("It makes elements of others by a stylesheet, and touches nothing else.", transform.line)
    for text, deeper in takes(transform.prototype):
        yield Sentence(text, transform.line, depth=deeper)
    version = hashlib.sha256(transform.xml).hexdigest()[:12]
    yield Sentence(
        f"How it makes them is not told in words: its stylesheet is of version {version}.", transform.line
    )
