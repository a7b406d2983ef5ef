"""Requirements on memory that steps and transitions of any kind have."""

from __future__ import annotations

import msgspec

from narval.core.patterns.pattern import Condition


class Context(msgspec.Struct, frozen=True):
    """The elements to look at first (table 2.7): those that match one of `alternatives` are nearer (N15).

    With `of_run` these are elements in the context of the run itself, else elements in memory.
    """

    of_run: bool
    alternatives: tuple[Condition, ...]


class TransitionCondition(msgspec.Struct, frozen=True):
    """An element that must exist before a transition fires (table 2.6); `use`: it triggers it only once.

    `lasting`: it, or the elements it replaced, must have matched for that long (N38). `name` is the variable
    for it from then on. `listed`: it takes all matching elements, at least one (N43). `absent`: it holds
    while nothing matches, used or not, and takes nothing (N44).
    """

    condition: Condition
    use: bool = False
    lasting: float | None = None
    name: str = ""
    listed: bool = False
    absent: bool = False
