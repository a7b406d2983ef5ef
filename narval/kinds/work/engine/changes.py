"""The facts that change a work item (P36). Applying one decides nothing.

Each act has its moment, the person (`by`), who did it in that person's name (`actor`), the way, and the
number of the session, mail or file.
"""

from __future__ import annotations

from narval.core.engines.decision import Inputs
from narval.core.engines.run_state import RunBegan, RunChange

Values = dict[str, tuple[str, ...]]
"""The values of a form, by field."""


class WorkChange(RunChange, frozen=True):
    """A fact that changes a work item."""


class Asked(WorkChange, RunBegan, frozen=True):
    """The item was asked for; `elements` are the first context."""


class Offered(WorkChange, frozen=True):
    """The item is offered to those who `could` take it. They are shown `text`, whose SHA-256 is `shown`
    (P10): the text stands here, in the journal, and nowhere else.

    `people` are those named for the work and for each escalation, `directory` the digest of the directory.
    """

    at: float
    inputs: Inputs = ()
    title: str = ""
    text: str = ""
    shown: str = ""
    could: tuple[str, ...] = ()
    people: tuple[tuple[str, ...], ...] = ()
    requesters: tuple[str, ...] = ()
    directory: str = ""
    deadline: float | None = None
    priority: float = 0.0
    defaults: Values = {}
    options: Values = {}


class WakeSet(WorkChange, frozen=True):
    """The next moment that the item waits for, under the name `wake`; None for none."""

    wake: str = ""
    at: float | None = None


class PersonAct(WorkChange, frozen=True):
    """An act of a person: when, by whom, how, by which right (P37)."""

    at: float
    by: str = ""
    actor: str = ""
    way: str = ""
    session: str = ""
    role: str = ""
    instead_of: str = ""


class Claimed(PersonAct, frozen=True):
    """A person has the item, until a moment if the claim has a lease. `back`: by a delegation that ended."""

    until: float | None = None
    back: bool = False


class Renewed(PersonAct, frozen=True):
    """The claimant did something: the lease begins anew."""

    until: float | None = None


class ClaimReleased(PersonAct, frozen=True):
    """A claim was given back; `of` is who had it, `why` the reason."""

    of: str = ""
    why: str = ""


class LeaseEnded(WorkChange, frozen=True):
    """A claim was over, or a delegation that nobody took up; `of` is who had it."""

    at: float
    of: str = ""


class Saved(PersonAct, frozen=True):
    """A draft was kept."""

    fields: Values = {}


class Delegated(PersonAct, frozen=True):
    """The claimant handed the item to another, `until` a moment if it is not taken up."""

    to: str = ""
    word: str = ""
    until: float | None = None


class DelegationEnded(WorkChange, frozen=True):
    """A delegation came back to who had made it (P25)."""

    at: float
    of: str = ""
    to: str = ""


class Voted(PersonAct, frozen=True):
    """One of several answered (P26)."""

    outcome: str = ""
    fields: Values = {}


class VoteChanged(PersonAct, frozen=True):
    """One of several changed an answer, or took it back: `outcome` is ""."""

    outcome: str = ""
    fields: Values = {}


class ItemAnswered(PersonAct, frozen=True):
    """The item is answered, by a person, by enough of them, or by the deadline's default: `by` is "".

    `answer` is the eid of the element.
    """

    outcome: str = ""
    fields: Values = {}
    answer: int = 0
    default: bool = False


class Refused(PersonAct, frozen=True):
    """A person took themselves out for good."""

    why: str = ""


class Reassigned(PersonAct, frozen=True):
    """An administrator had the item offered to others."""

    to: tuple[str, ...] = ()
    why: str = ""


class Reminded(WorkChange, frozen=True):
    """A reminder for all who may act; `due` is the moment of it, `times` how many have been due by now."""

    at: float
    due: float
    times: int
    to: tuple[str, ...] = ()


class Escalated(WorkChange, frozen=True):
    """The next escalation is taken: others may act too, or in place of those before."""

    at: float
    level: int
    to: tuple[str, ...] = ()


class Expired(WorkChange, frozen=True):
    """The deadline came, and no outcome stands for it."""

    at: float
    error: int | None = None


class Withdrawn(WorkChange, frozen=True):
    """The item was cancelled; `told` are those who are to know (P77)."""

    at: float
    why: str = ""
    by: str = ""
    actor: str = ""
    told: tuple[str, ...] = ()
    error: int | None = None


class GivenUp(WorkChange, frozen=True):
    """The item ended in a state, for nobody is left, or it cannot be offered."""

    at: float
    status: str = "failed"
    error: int | None = None


class NoticeAsked(WorkChange, frozen=True):
    """A person is to be written to by `call`, and why. The token of the notice counts `until` a moment; None
    for a notice without.
    """

    at: float
    call: str
    to: str
    why: str
    until: float | None = None


class NoticePutOff(WorkChange, frozen=True):
    """A notice did not go out, and is tried again at `due`; None once that is under way."""

    at: float
    call: str
    due: float | None = None


class NoticeGivenUp(WorkChange, frozen=True):
    """A notice did not go out, and is not tried again, and why."""

    at: float
    call: str
    to: str = ""
    why: str = ""


class Notified(WorkChange, frozen=True):
    """A person was written to: how, with which message, by which call."""

    at: float
    to: str = ""
    way: str = ""
    message: str = ""
    why: str = ""
    call: str = ""


class TokensVoided(WorkChange, frozen=True):
    """The tokens of these notices count no more (P63)."""

    at: float
    calls: tuple[str, ...]


class TokenSpent(WorkChange, frozen=True):
    """A token was used: its hash, and the notice that had it (P63)."""

    at: float
    token: str
    by: str = ""
    call: str = ""


class Fruitless(WorkChange, frozen=True):
    """A mail with the token of a notice was no answer (P63)."""

    at: float
    call: str


class TurnedAway(PersonAct, frozen=True):
    """An act that somebody tried in vain, and why (P36); after the first twenty that is only counted."""

    act: str = ""
    kind: str = ""
    why: str = ""
