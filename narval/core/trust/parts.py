"""Parts: of what a call is given, which piece has which labels."""

from __future__ import annotations

import msgspec


class Part(msgspec.Struct, frozen=True):
    """A piece of what a call is given, with the labels of what its value came from."""

    input: str
    """The id of the input."""
    path: str = ""
    """The piece of it: `@to`, `child/@x`; "" for the whole."""
    where: bool = False
    """True if it says where something goes."""
    labels: tuple[str, ...] = ()
    """The labels, those of secrets too."""
    eids: tuple[int, ...] = ()
    """The elements that these came from."""
