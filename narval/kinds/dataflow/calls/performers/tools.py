"""The tools that performers of outside operators use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.documents import NumberReader
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.results import SessionResults
from narval.kinds.dataflow.calls.sending import Sender
from narval.kinds.dataflow.calls.web import Web


class FlowTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of the performers of one session."""

    code: UserCode
    """The code of modules."""
    results: SessionResults
    """The results of the session."""
    web: Web
    show: Callable[[str], None]
    """Shows a line to the user."""
    sources: Mapping[str, FlowSource] = {}
    """The sources of the settings."""
    senders: Mapping[str, Sender] = {}
    """The senders, by address prefix."""
    home: Path | None = None
    """The base folder of relative paths."""
    elements: Callable[[str], list[tuple[int, str, str]]] | None = None
    """Looks up the elements of memory that match a pattern: eid, name and text."""
    labels: set[str] = msgspec.field(default_factory=set)
    """The labels of everything the session has received from outside and from memory."""
    numbers: NumberReader = msgspec.field(default_factory=NumberReader)
    """Reads the numbers of the session."""
