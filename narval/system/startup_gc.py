"""Garbage collection suspended during start-up: it took a tenth of the start, and found nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def resume() -> None:
    """Collect from now on, excluding for good all objects made so far."""
    gc.freeze()
    gc.enable()


@contextmanager
def suspended() -> Iterator[None]:
    """Collect nothing within the block, and exclude for good the objects made in it."""
    gc.disable()
    try:
        yield
    finally:
        resume()


class FirstTime:
    """A block that collects nothing the first time: it imports, and imported objects stay.

    Later blocks change nothing, nor does any where the program collects by itself.
    """

    def __init__(self) -> None:
        self._is_over = False

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Collect nothing within the first block, and exclude for good the objects made in it."""
        if self._is_over or not gc.isenabled():
            yield
            return
        self._is_over = True
        with suspended():
            yield
