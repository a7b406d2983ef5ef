"""Tools: the means of those who do the work of operators outside."""

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
    """The means of those who work outside for one session."""

    code: UserCode
    """The code of modules."""
    results: SessionResults
    """The results of the session."""
    web: Web
    show: Callable[[str], None]
    """Shows a line to people."""
    sources: Mapping[str, FlowSource] = {}
    """The sources of the settings."""
    senders: Mapping[str, Sender] = {}
    """The ways to send, by the beginnings of addresses."""
    home: Path | None = None
    """The folder at which relative paths begin."""
    elements: Callable[[str], list[tuple[int, str, str]]] | None = None
    """Gives what of memory matches a pattern: its eid, its name, and its text."""
    labels: set[str] = msgspec.field(default_factory=set)
    """The labels of what came in for the session, from outside and out of memory."""
    numbers: NumberReader = msgspec.field(default_factory=NumberReader)
    """Reads the numbers of the session."""
