"""The dates that transitions wait for (N25): when the next one comes, and whether it has.

The clock of a transition starts once its in-steps have ended, and one date is set: the next that fits. The
runtime says when its moment is there, and says so early when the clock has been set back or the zone of the
home is another now: then the date is worked out anew.
"""

from __future__ import annotations

from narval.definitions.recipe.definition import Transition
from narval.engines import commands, dates
from narval.engines.recipe.changes import DateSet
from narval.engines.recipe.decision import RecipeDecision


def is_awaited(decision: RecipeDecision, transition: Transition) -> bool:
    """Whether a transition still has a date to wait for."""
    return bool(transition.times) and not decision.state.transition(transition.id).come


def set_date(decision: RecipeDecision, transition: Transition) -> bool:
    """Wait for the next date that fits; False when none ever comes again."""
    date = dates.next_date(transition.times, decision.view.zone, decision.event.at)
    if date is None:
        return False
    wake = decision.identifier()
    decision.change(DateSet(transition.id, date, wake))
    decision.command(commands.SetTimer(wake, date, dated=True))
    return True


def has_come(decision: RecipeDecision, transition: Transition) -> bool:
    """Whether the date that was set is there, or was missed and is not to be dropped for that."""
    date = decision.state.transition(transition.id).date
    return dates.has_come(transition.times, date, decision.event.at, decision.view)
