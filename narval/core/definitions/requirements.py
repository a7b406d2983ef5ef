"""Requirements of memory that steps and transitions have, of whatever kind."""

from __future__ import annotations

import msgspec

from narval.core.patterns.pattern import Condition


class Context(msgspec.Struct, frozen=True):
    """The elements to look at first (table 2.7): those that fit one of `alternatives` are nearer (N15).

    With `of_run` they are those in the context of the run itself, else those in memory.
    """

    of_run: bool
    alternatives: tuple[Condition, ...]


class TransitionCondition(msgspec.Struct, frozen=True):
    """An element that must be there before a transition fires (table 2.6); `use`: it triggers it once.

    `lasting`: it must have fitted, itself or the elements it replaced, for that long (N38). `name` is the
    variable that stands for it from then on. `listed`: it takes all that fit, one at least (N43). `absent`:
    it holds as long as nothing fits, used or not, and takes nothing (N44).
    """

    condition: Condition
    use: bool = False
    lasting: float | None = None
    name: str = ""
    listed: bool = False
    absent: bool = False
