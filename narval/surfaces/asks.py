"""The interface to the daemon's operations that surfaces are given."""

from __future__ import annotations

from typing import Any, Protocol


class Asks(Protocol):
    """The interface to the daemon's operations."""

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation. Raises NarvalError."""
