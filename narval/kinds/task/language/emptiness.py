"""Windows that hold no time at all, whenever they are counted from: a rule with such windows never fires."""

from __future__ import annotations

from collections.abc import Iterator

from narval.kinds.task.language.moments import DAY
from narval.kinds.task.language.windows import AllOf, AnyOf, Parameter, TimeSpec, Window, windows

_MOST_BASES = 500
"""Specifications for which more bases had to be tried are not judged."""


def is_empty(spec: TimeSpec) -> bool:
    """True if no time is in a specification, whatever its parameters are and whatever it is counted from.

    Days on which the clock is shifted are left out of account. Where it cannot be told it is False.
    """
    if isinstance(spec, AnyOf):
        return all(map(is_empty, spec.specs))
    if isinstance(spec, AllOf):
        if any(map(is_empty, spec.specs)):
            return True
        known = tuple(inner for inner in spec.specs if not _has_parameter(inner))
        return len(known) > 1 and _is_never(AllOf(known))
    return False


def _windows_in(spec: TimeSpec) -> Iterator[Window]:
    if isinstance(spec, Window):
        yield spec
    else:
        for inner in spec.specs:
            yield from _windows_in(inner)


def _has_parameter(spec: TimeSpec) -> bool:
    return any(isinstance(window.value, Parameter) for window in _windows_in(spec))


def _is_never(spec: AllOf) -> bool:
    """True if there is no time whatever the base: all bases between two of those tried give the same."""
    found = list(_windows_in(spec))
    of_clock = {_seconds(window) for window in found if window.is_of_clock}
    lengths = {_seconds(window) for window in found if not window.is_of_clock}
    if not of_clock:
        return not windows(spec, 0.0, "UTC", {})
    if any(not value.is_integer() for value in (*of_clock, *lengths)):
        return False  # what falls together exactly cannot be told
    turns = sorted({(clock - length) % DAY for clock in of_clock for length in (0.0, *lengths)})
    if len(turns) > _MOST_BASES:
        return False
    between = [
        (turn + following) / 2 for turn, following in zip(turns, [*turns[1:], turns[0] + DAY], strict=True)
    ]
    return not any(windows(spec, DAY + base, "UTC", {}) for base in (*turns, *between))


def _seconds(window: Window) -> float:
    assert not isinstance(window.value, Parameter)
    return float(window.value.seconds)
