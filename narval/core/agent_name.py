"""The name of an agent, and of a collection: what every home, store and message may call one."""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def agent_name(value: object) -> str:
    """Read the name of an agent. Raises ValueError with what was expected."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise ValueError("the name of an agent, a lower-case letter and up to 62 more, digits, - or _")
    return value
