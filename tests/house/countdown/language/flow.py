"""The flow of countdowns: they hold nothing, and give nothing that anybody made."""

from __future__ import annotations

from narval.core.definitions.library import Library
from narval.core.trust.flow import Flow
from tests.house.countdown.language.parser import Countdown


def flow(countdown: Countdown, library: Library) -> Flow:
    """The ways of elements through a countdown: there are none."""
    return Flow()
