"""Tools: the means of those who do the work of operators outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.flow_store import FlowStore
from narval.kinds.dataflow.calls.performers.numbers import NumberReader
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.sending import Sender
from narval.kinds.dataflow.calls.web import Web


class FlowTools(NamedTuple):
    """The means of those who work outside: code of modules, a way to show lines, a way to let time pass, the
    present moment, the store of dataflows, the name of the session there, the web, a reader of numbers, the
    sources of the settings, and ways to send by the beginnings of addresses. Relative paths begin at `home`.
    `elements` gives what of memory matches a pattern: its eid, its name, and its text. `dataflow` names a
    dataflow that remembers, with the values that it is given: what another session of it told and then failed
    is not told again.
    """

    code: UserCode
    show: Callable[[str], None]
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]
    store: FlowStore
    session: str
    web: Web
    numbers: NumberReader
    sources: Mapping[str, FlowSource] = MappingProxyType({})
    senders: Mapping[str, Sender] = MappingProxyType({})
    home: Path | None = None
    elements: Callable[[str], Awaitable[list[tuple[int, str, str]]]] | None = None
    dataflow: str = ""
