"""The interface to the daemon's operations that surfaces are given, and what they say of one that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from narval.core.errors import DaemonGoneError, NarvalError, SilentError, UnansweredError

STATUS_OF_GONE: Mapping[type[NarvalError], int] = {
    UnansweredError: 504,
    SilentError: 504,
    DaemonGoneError: 503,
}
"""The HTTP status of a request that may be recorded without an answer, of one that a daemon does not answer,
and of one that reached no daemon.
"""


class Asks(Protocol):
    """The interface to the daemon's operations."""

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation. Raises NarvalError."""
