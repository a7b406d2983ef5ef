"""Tools: the means of those who do the work of operators outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from narval.runtime.calls.flow.flow_store import FlowStore
from narval.runtime.calls.flow.performing import UserCode
from narval.runtime.calls.flow.web import Web


class FlowTools(NamedTuple):
    """The means of those who work outside: code of modules, a way to show lines, a way to let time pass, the
    present moment, the store of dataflows, the name of the session there, the web.
    """

    code: UserCode
    show: Callable[[str], None]
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]
    store: FlowStore
    session: str
    web: Web
