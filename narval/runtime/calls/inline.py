"""Calls answered in the loop itself, at once: for actions that take microseconds (N33).

Nothing can interrupt such an action, so its time limit is not kept; and nothing can give it up, count it or
find it under way, for by then it is over. So it has no backend.
"""

from __future__ import annotations

from contextvars import copy_context

from narval.runtime.calls.backend import Outcome
from narval.runtime.calls.context import CallContext
from narval.runtime.calls.conversion import answer


def answer_at_once(call: CallContext) -> Outcome:
    """Call the function of a call's target, in a context of its own."""
    return copy_context().run(answer_within, call)


def answer_within(call: CallContext) -> Outcome:
    """Call the function of a call's target, in the context of variables that is there."""
    call.enter()
    return answer(call)
