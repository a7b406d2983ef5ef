"""The events of engines. Each event has an `id`, unique in the home, and its moment `at` (seconds since 1970,
UTC); every identifier an engine needs is derived from the id and an ordinal.
"""

from __future__ import annotations

from typing import Any

import msgspec

from narval.core.agreeing import Who

Plain = str | int | float | bool | None | list[Any] | dict[str, Any]
"""Plain data; lists and tables contain plain data too."""

LABELS = "labels"
"""The argument of signals and starts that carries labels."""

UNDOES = "undoes"
"""The argument that tells an undoing run, at its start, which run to undo."""

INTERRUPTED = "interrupted"
"""The error of an active call that must not be repeated, when its executor ended."""

LOOK = (
    "look whether it was done: if so, `narval retry RUN --done` goes on behind it; "
    "if not, `narval retry RUN` does it again; `narval errors show INCIDENT` tells what each run was given"
)
"""The words that follow its reason."""


class OutputElement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An element returned by a call, not yet in memory: its bytes, and the output it was given for.

    One with `to` is a message to that agent (G28): engines never see it, and it comes last.
    """

    xml: bytes
    output: str | None = None
    to: str = ""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The reason why a call failed: a stable `kind`, a message for people, more lines in `detail`.

    `final` says that another attempt cannot succeed.
    """

    kind: str
    message: str
    detail: str = ""
    final: bool = False


class HeldCalls(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Calls of one step that are not made until a person agrees."""

    kind: str
    """The kind of the called definition."""
    name: str
    """The name of the called definition."""
    version: str
    """The version of the called definition, a digest."""
    where: str
    """The place where it runs."""
    asking: str
    """The definition of the run that the step belongs to."""
    calls: tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]
    """Each call with its elements, by input."""
    void: str = ""
    """The version that was agreed to before, if the definition has changed since."""
    because: str = ""
    """The reason to ask a person, if neither step nor home requires it."""
    parts: tuple[str, ...] = ()
    """The lines about the parts of the calls that make rules ask."""
    always: str = ""
    """The rules that would allow the same for ever; "" if they cannot be expressed."""
    doubtful: tuple[int, ...] = ()
    """The elements of the calls that were already doubtful when the person was asked."""
    question: str = ""
    """The question, which names the target and where it goes, if neither step nor home asks: it is the title
    of the item. It contains text from outside.
    """
    fails: bool = False
    """True if the run will certainly fail unless a person agrees."""

    def given(self) -> set[int]:
        """The elements given to the calls."""
        return {eid for _, inputs in self.calls for _, eids in inputs for eid in eids}


class Caller(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The step and run that called this run, and the elements nearest to that step, nearest rank first."""

    run: int
    """The run; 0 if it belongs to another agent."""
    step: str
    """The step."""
    call: str
    """The call that this run answers; the id of its message if it came from another agent."""
    nearby: tuple[tuple[int, ...], ...] = ()
    """The elements nearest to the step, nearest rank first."""
    agent: str = ""
    """The calling agent, if it is another."""
    asked_by: int = 0
    """The calling run of that agent."""
    depth: int = 0
    """The number of agents between that agent and the first caller."""
    held: HeldCalls | None = None
    """The calls that the result of this run allows or refuses; the run then answers no call itself."""
    trace: str = ""
    """The trace of the calling run of that agent; "" if it has none."""
    digest: str = ""
    """The digest of what that agent asked for: another attempt of the call asks for the same."""

    @property
    def calls(self) -> tuple[str, ...]:
        """The call that the run answers, or those held back until it has ended."""
        return (self.call,) if self.held is None else tuple([call for call, _ in self.held.calls])


class CarriedOver(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of an earlier run that a new one takes over: its state, what it produced or took, its errors.

    `counts` is the number of elements of each condition, if not one.
    """

    id: str
    state: str
    eids: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()


class Reusable(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The elements that one input or condition had in an earlier run, to be given to it again."""

    id: str
    slot: str
    eids: tuple[int, ...] = ()


class Resume(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The point from which a run continues: the earlier run `of` had reached it, and is restarted from its
    `part`.

    `elements` were the first context of that run; `context` is all that it held. `followed`: another run has
    started because that one had ended, or will.
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
    """The moment of the event."""
    elements: tuple[int, ...] = ()
    """The first context of the run."""
    caller: Caller | None = None
    """The run and step that called it, if any."""
    attempt: int = 0
    """The number of failures in a row before it."""
    resume: Resume | None = None
    """The parts of an earlier run that this one continues, if any."""
    environment: dict[str, str] = {}
    """The initial attributes of a process."""
    by: str = ""
    """The person who started it."""
    actor: str = ""
    """The person who acted in the name of `by`."""
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The elements of each input, given by its caller."""
    way: str = ""
    """The channel by which it was started: "web" for the monitor."""
    session: str = ""
    """The number of the login session."""
    after: int = 0
    """The last failed run, after which this one starts; 0 if there is none."""


class Returned(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The end of a call: exactly one for each call, plus one for a result that comes back `late`."""

    id: int
    """The number of the event."""
    at: float
    """The moment of the event."""
    call: str
    """The id of the call."""
    elements: tuple[OutputElement, ...] = ()
    """The elements that an action returns, not in memory yet."""
    eids: tuple[int, ...] = ()
    """The elements that a run returns, already in memory."""
    problem: Failure | None = None
    """The reason for a failure."""
    abandoned: bool = False
    """True if the call was given up on request."""
    value: dict[str, Plain] | None = None
    """The status and output of a program."""
    late: bool = False
    """True if it came back after the call was given up: this is recorded, but no run is told."""


class CallStarting(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A call is about to start: recorded first, so that the next daemon knows.

    The call must not be made twice, or can be undone. Any other call has this event only if it is repeated
    because a daemon that may have started it has ended (N29, N35).
    """

    id: int
    at: float
    call: str


class CallApproved(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A call was approved, by some `work`, in a `version` of its target: it may be made.

    `always` are rules that the person agreed to as well: they are added to those of the home.
    """

    id: int
    at: float
    call: str
    work: str
    version: str
    always: str = ""


class Produced(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """An active call has returned elements already: a source yielded, a stream delivered a batch."""

    id: int
    at: float
    call: str
    elements: tuple[OutputElement, ...] = ()


class Matched(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A watch was satisfied: the element `eid` matches one of its conditions and may be taken."""

    id: int
    at: float
    watch: str
    eid: int


class TimerFired(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The moment of a `SetTimer` has come; for a date of the calendar this may be early."""

    id: int
    at: float
    wake: str


class PersonsAct(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The channel by which a person acts on work, and its session, mail or file number (P36).

    `token` is the hash of the token in a mail. `narval signal` cannot set any of these: a signal that has
    them came through an operation that knows the asker (P4).
    """

    way: str
    session: str = ""
    token: str = ""
    who: Who | None = None
    """The asker as a row of `narval.core.agreeing`; None for a person of that name, by mail or in Python."""


class Signalled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A signal from outside; `Answer` replies to it.

    A signal named `gone` says that the `signal` in its arguments no longer needs an answer.
    """

    id: int
    """The number of the event."""
    at: float
    """The moment of the event."""
    signal: str
    """The id for the answer."""
    name: str
    """The name of the signal."""
    elements: tuple[OutputElement, ...] = ()
    """The elements that it brings."""
    arguments: dict[str, Plain] = {}
    """The arguments; "from" is the `sender`, if there is one."""
    by: str = ""
    """The person who sent it, if known."""
    actor: str = ""
    """The person who acted in the name of `by`."""
    act: PersonsAct | None = None
    """The channel of the act, if the signal is a person's act on work."""
    sender: int = 0
    """The run that called by it; nothing outside can set it."""
    way: str = ""
    """The channel by which it came: "web" for the monitor."""
    session: str = ""
    """The number of the login session."""

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

    Both versions are digests; the engine is given the newer definition.
    """

    id: int
    at: float
    before: str
    version: str


class Migrated(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The run follows another version of its definition from now on, in a state that fits that version.

    The engine is given the newer definition.
    """

    id: int
    """The number of the event."""
    at: float
    """Its moment."""
    before: str
    """The version that it followed until now, a digest."""
    version: str
    """The version that it follows from now on."""
    former: bytes = b""
    """The text of the earlier version, for the history of the run."""
    path: str = ""
    """The file of that text."""
    state: bytes = b""
    """The state that it has from now on, encoded; the journal has it in a change."""
    names: dict[str, str] = {}
    """The renamed parts, old name to new."""
    undoes: int = 0
    """The line of its history with the migration that this one takes back; 0 if there is none."""
    by: str = ""
    """The person who asked for it."""
    actor: str = ""
    """The person who acted in the name of `by`."""
    way: str = ""
    """The channel by which it was asked for: "web" for the monitor."""
    session: str = ""
    """The number of the login session."""


class Cancelled(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The run must end: a person asked for it (on the monitor in a `session`), or its caller ended."""

    id: int
    at: float
    reason: str = ""
    by: str = ""
    actor: str = ""
    way: str = ""
    session: str = ""


_OfCalls = CallStarting | CallApproved | Returned | Produced
Event = Started | Redefined | Migrated | _OfCalls | Matched | TimerFired | Signalled | Cancelled
