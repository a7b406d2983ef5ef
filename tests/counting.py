"""Calls of functions, counted: what a piece of work costs, the same on each machine."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any, Self


class CountedCalls:
    """How many functions this thread calls within `with`: of Python and C, or those of the events that
    `sys.setprofile` names so. Those of files whose paths contain a text of `but` do not count. The collector
    rests: what it would end, earlier tests have left.
    """

    def __init__(self, *counts: str, but: tuple[str, ...] = ()) -> None:
        self.number = 0
        self._counts = counts or ("call", "c_call")
        self._but = but
        self._collects = False

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        if self._collects:
            gc.enable()

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in self._counts and not any(part in frame.f_code.co_filename for part in self._but):
            self.number += 1
