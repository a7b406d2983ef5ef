"""Garbage collection suspended where it found nothing: during start-up, of which it took a tenth, and in a
check of a whole home.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def resume() -> None:
    """Resume collection, permanently excluding all objects made so far."""
    gc.freeze()
    gc.enable()


@contextmanager
def suspended() -> Iterator[None]:
    """Suspend collection within the block, and permanently exclude the objects made in it."""
    gc.disable()
    try:
        yield
    finally:
        resume()


@contextmanager
def resting() -> Iterator[None]:
    """Suspend collection within the block, which makes much and throws little away."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class FirstTime:
    """A block that suspends collection the first time: it imports, and imported objects stay.

    Later blocks change nothing, nor does any block if the program has disabled collection itself.
    """

    def __init__(self) -> None:
        self._is_over = False

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend collection within the first block, and permanently exclude the objects made in it."""
        if self._is_over or not gc.isenabled():
            yield
            return
        self._is_over = True
        with suspended():
            yield
