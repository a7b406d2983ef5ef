"""What a step or a transition requires of memory, whatever kind it is of."""

from __future__ import annotations

from typing import Literal

import msgspec

from narval.memory.patterns.pattern import Condition


class Context(msgspec.Struct, frozen=True):
    """Where to look first for elements (table 2.7): what fits one of `alternatives` is nearer (N15)."""

    origin: Literal["memory", "plan"]
    alternatives: tuple[Condition, ...]


class TransitionCondition(msgspec.Struct, frozen=True):
    """An element that must be there before a transition fires (table 2.6); `use`: it triggers it once."""

    condition: Condition
    use: bool = False
