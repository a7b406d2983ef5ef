"""The events of engines. Each event has an `id`, unique in the home, and its moment `at` (seconds
since 1970, UTC); every identifier an engine needs derives from the id and an ordinal.
"""

from __future__ import annotations

from typing import Any

import msgspec

from narval.core.agreeing import Who

Plain = str | int | float | bool | None | list[Any] | dict[str, Any]
"""Plain data; the contents of lists and tables are plain too."""


LABELS = "labels"
"""The argument of a signal, or of a start by a service run, that carries labels."""

UNDOES = "undoes"
"""The word that tells a run that undoes another, as it begins, which one."""


INTERRUPTED = "interrupted"
"""The error of a call that is not to be repeated and was under way when what answered it ended."""

LOOK = (
    "look whether it was done: if so, `narval retry RUN --done` goes on behind it; "
    "if not, `narval retry RUN` does it again; `narval errors show INCIDENT` tells what each run was given"
)
"""The words that follow its reason."""


class OutputElement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An element that a call gave back, not yet in memory: its bytes, and the output it was given for.

    One with `to` is a message to that agent (G28): no engine is told of it, and it comes last.
    """

    xml: bytes
    output: str | None = None
    to: str = ""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a call did not do its work: a stable `kind`, a message for people, more lines in `detail`.

    `final` says that trying again cannot help.
    """

    kind: str
    message: str
    detail: str = ""
    final: bool = False


class HeldCalls(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Calls of one step that are not made before somebody agrees."""

    kind: str
    """The kind of the definition that they call."""
    name: str
    """Its name."""
    version: str
    """Its version, a digest."""
    where: str
    """The place where it runs."""
    asking: str
    """The definition of the run whose step it is."""
    calls: tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]
    """Each call with what it is given, by input."""
    void: str = ""
    """The version that was agreed to before, if the definition has changed since."""
    because: str = ""
    """The reason why somebody is asked, where neither step nor home asks."""
    parts: tuple[str, ...] = ()
    """The lines about the parts of the calls because of which rules ask."""
    always: str = ""
    """The rules that would allow the same for ever; "" where these cannot be said."""
    doubtful: tuple[int, ...] = ()
    """The elements of the calls that were doubtful already when somebody was asked."""
    question: str = ""
    """The question that names what is called and where it goes, where neither step nor home asks: it names
    the item. It contains text from outside.
    """
    fails: bool = False
    """True if it is sure that the run fails where nobody agrees."""

    def given(self) -> set[int]:
        """The elements that the calls are given."""
        return {eid for _, inputs in self.calls for _, eids in inputs for eid in eids}


class Caller(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Which step of which run called this run, and the elements nearest to that step, nearest rank first."""

    run: int
    """The run; 0 if it is of another agent."""
    step: str
    """The step."""
    call: str
    """The call that this run answers; the id of its message if it came from another agent."""
    nearby: tuple[tuple[int, ...], ...] = ()
    """The elements nearest to the step, nearest rank first."""
    agent: str = ""
    """The agent that asked, if it is another."""
    asked_by: int = 0
    """The run of that agent."""
    depth: int = 0
    """The number of agents between it and the one that asked first."""
    held: HeldCalls | None = None
    """The calls that are made or not made by the result of the run; it then answers no call itself."""
    trace: str = ""
    """The trace of the run of that agent; "" if it has none."""
    digest: str = ""
    """The digest of what that agent asked for: another try of the call asks for the same."""

    @property
    def calls(self) -> tuple[str, ...]:
        """The call that the run answers, or those that are held back until it has ended."""
        return (self.call,) if self.held is None else tuple([call for call, _ in self.held.calls])


class CarriedOver(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of an earlier run that a new one takes over: its state, what it produced or took, its errors.

    `counts` says how many of the elements each condition took, if not one.
    """

    id: str
    state: str
    eids: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()


class Reusable(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The elements that one input or condition had in an earlier run: it may have them again."""

    id: str
    slot: str
    eids: tuple[int, ...] = ()


class Resume(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The place from which a run continues: the earlier run `of` had reached it, and is begun again from its
    `part`.

    `elements` were the first context of that run, `context` is all that it held. `followed`: another run has
    begun because that one had ended, or will.
    """

    of: int
    part: str
    elements: tuple[int, ...] = ()
    context: tuple[int, ...] = ()
    kept: tuple[CarriedOver, ...] = ()
    again: tuple[Reusable, ...] = ()
    followed: bool = False


class Started(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The start of a run."""

    id: int
    """The number of the event."""
    at: float
    """Its moment."""
    elements: tuple[int, ...] = ()
    """The first context of the run."""
    caller: Caller | None = None
    """The run and step that called it, if one did."""
    attempt: int = 0
    """The failures in a row before it."""
    resume: Resume | None = None
    """The parts of an earlier run from which this one continues, if it does."""
    environment: dict[str, str] = {}
    """The attributes that a process has from its start."""
    by: str = ""
    """The person who started it."""
    actor: str = ""
    """The person who did so in the name of `by`."""
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The elements that its caller gives to each input."""
    way: str = ""
    """The way by which it was started: "web" on the monitor."""
    session: str = ""
    """The number of the login."""
    after: int = 0
    """The last run that failed, after which it begins; 0 if none did."""


class Returned(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The end of a call: exactly one for each call, and one more for what comes back `late`."""

    id: int
    """The number of the event."""
    at: float
    """The moment."""
    call: str
    """The id of the call."""
    elements: tuple[OutputElement, ...] = ()
    """The elements that an action gives, which are not in memory yet."""
    eids: tuple[int, ...] = ()
    """The elements that a run gives, which are."""
    problem: Failure | None = None
    """The reason why it failed."""
    abandoned: bool = False
    """True if it was given up on request."""
    value: dict[str, Plain] | None = None
    """The status and output that a program left."""
    late: bool = False
    """True if it came back after it was given up: that is recorded, and no run is told."""


class CallStarting(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A call is about to be begun: recorded first, so that the next daemon knows.

    The call must not be made twice, or can be undone. Any other call has such an event only if it is made
    again because a daemon that may have begun it has ended (N29, N35).
    """

    id: int
    at: float
    call: str


class CallApproved(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """An agreement to a call, by some `work`, in a `version` of what it calls: it may be made.

    `always` are rules that its person agreed to as well: they are added to those of the home.
    """

    id: int
    at: float
    call: str
    work: str
    version: str
    always: str = ""


class Produced(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A call under way has elements already: a source yielded, a stream delivered a batch."""

    id: int
    at: float
    call: str
    elements: tuple[OutputElement, ...] = ()


class Matched(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A watch was satisfied: the element `eid` fits one of its conditions and may be taken."""

    id: int
    at: float
    watch: str
    eid: int


class TimerFired(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The moment of a `SetTimer` came; for a date of the calendar it may be early."""

    id: int
    at: float
    wake: str


class PersonsAct(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The way by which a person acts on work, and the number of the session, mail or file (P36).

    `token` is the hash of the token that a mail brought. `narval signal` can give none of this: a signal that
    has it came through an operation that knows who asks (P4).
    """

    way: str
    session: str = ""
    token: str = ""
    who: Who | None = None
    """The asker as the table of who may agree knows it; None for one of that name, by mail or in Python."""


class Signalled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A signal from outside; `Answer` replies to it.

    One of the name `gone` says that the `signal` of its arguments no longer needs an answer.
    """

    id: int
    """The number of the event."""
    at: float
    """Its moment."""
    signal: str
    """The id by which it is answered."""
    name: str
    """The name of what is to be done."""
    elements: tuple[OutputElement, ...] = ()
    """The elements that it brings."""
    arguments: dict[str, Plain] = {}
    """Its arguments; "from" is the `sender`, if there is one."""
    by: str = ""
    """The person who sent it, if one is known."""
    actor: str = ""
    """The person who did so in the name of `by`."""
    act: PersonsAct | None = None
    """The act on work that it is, and the way of the act."""
    sender: int = 0
    """The run that called by it; nothing from outside can set it."""
    way: str = ""
    """The way by which it came: "web" on the monitor."""
    session: str = ""
    """The number of the login."""

    def text(self, name: str) -> str:
        """A text among its arguments; "" without one."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """A whole number among its arguments; 0 without one."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list among its arguments."""
        value = self.arguments.get(name)
        return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


class Redefined(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The run, which has taken nothing yet, follows another version of its definition from now on (N31).

    Both versions are digests; the definition that its engine is given is the newer one.
    """

    id: int
    at: float
    before: str
    version: str


class Migrated(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The run follows another version of its definition from now on, in a state that has a place in it.

    The definition that its engine is given is the newer one.
    """

    id: int
    """The number of the event."""
    at: float
    """Its moment."""
    before: str
    """The version that it has followed, a digest."""
    version: str
    """The version that it follows from now on."""
    former: bytes = b""
    """The text of the version before, for the history of the run."""
    path: str = ""
    """The file of that text."""
    state: bytes = b""
    """The state that it has from now on, packed; the journal has it in a change."""
    names: dict[str, str] = {}
    """The names of parts that were renamed, old to new."""
    undoes: int = 0
    """The line of its history with the migration that this one takes back; 0: it takes none back."""
    by: str = ""
    """The person who asked for it."""
    actor: str = ""
    """The person who did so in the name of `by`."""
    way: str = ""
    """The way by which it was asked: "web" on the monitor."""
    session: str = ""
    """The number of the login."""


class Cancelled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The run is to end, because someone asked, by the monitor in a `session`, or its caller ended."""

    id: int
    at: float
    reason: str = ""
    by: str = ""
    actor: str = ""
    way: str = ""
    session: str = ""


_OfCalls = CallStarting | CallApproved | Returned | Produced
Event = Started | Redefined | Migrated | _OfCalls | Matched | TimerFired | Signalled | Cancelled
