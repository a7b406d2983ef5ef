"""The root, or the only fault, of a text."""

from __future__ import annotations

import pytest

from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml


def root_of(text: str | bytes) -> XmlNode:
    data = text.encode() if isinstance(text, str) else text
    return read_xml(Source("a.xml", data))


def fault_of(text: str | bytes) -> str:
    with pytest.raises(DefinitionError) as caught:
        root_of(text)
    assert len(caught.value.faults) == 1
    return str(caught.value)
