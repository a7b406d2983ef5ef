"""The commands of engines.

*Inner* commands take effect inside the turn, as soon as they are given, and are recorded as facts. *Outer*
ones are performed after the commit. An outer command has an id that derives from its cause, so a second
delivery is recognised.
"""

from __future__ import annotations

import msgspec

from narval.core.definitions.action.needs import Needs
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element
from narval.core.engines.events import Failure, Plain
from narval.core.patterns.pattern import Bound

# --- inner ----------------------------------------------------------------------------------------------


class Add(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Add an element to memory, and to the run's context if it is to be held."""

    element: Element
    held: bool = True


class AddToContext(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Add elements to the run's context: it was given them, or they triggered it."""

    eids: tuple[int, ...]


class MarkUsed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Mark elements as used by one input or condition."""

    scope: MarkScope
    eids: tuple[int, ...]


class Reserve(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Keep elements for a call that will outdate them."""

    eids: tuple[int, ...]


class Release(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Let reserved elements be taken again; they are offered to the index again."""

    eids: tuple[int, ...]


class Outdate(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Replace elements: nothing takes them any more."""

    eids: tuple[int, ...]


class RecordUnique(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Record that a unique output gave this value."""

    name: str
    expression: str
    value: str


class ScheduleForget(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Forget this run, and what it alone holds, at a moment (seconds since 1970, UTC)."""

    at: float


class Watch(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Ask for `Matched` when an element comes that fits one of these conditions and may be taken.

    Stays until `Unwatch`. `scopes` go with `conditions` one to one: an element marked there does not count.
    With `or_outdated` it also fires when an element that fits is replaced or forgotten: a step that waits for
    a reserved one to come free must know that it never will, and a condition of absence that it holds. A
    `standing` watch is kept as long as the calls of its step are, to each of which it may add another;
    exploration skips it, as it would never end. It also fires when one of `elements` is replaced or
    forgotten. With `unless_reserved` a replacement does not fire it while others that fit are reserved or
    come: otherwise, each of many steps that take turns at one element would be told at each turn.
    """

    watch: str
    conditions: tuple[Bound, ...]
    scopes: tuple[MarkScope | None, ...]
    or_outdated: bool = False
    standing: bool = False
    elements: tuple[int, ...] = ()
    unless_reserved: bool = False


class Unwatch(msgspec.Struct, frozen=True, tag=True, gc=False):
    """End a watch."""

    watch: str


class SetTimer(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Ask for `TimerFired` at a moment (seconds since 1970, UTC).

    A `calendar` timer is for a date of the calendar: it fires early when the clock was set back or the zone
    has changed, so that the date is computed again. Any other is the end of a length of time: setting the
    clock moves it along. `keeps` are elements that will be needed then: they are not forgotten before. A
    `standing` timer is set again and again; exploration follows it as often as makes a difference.
    """

    wake: str
    at: float
    calendar: bool = False
    keeps: tuple[int, ...] = ()
    standing: bool = False


class CancelTimer(msgspec.Struct, frozen=True, tag=True, gc=False):
    """End a timer."""

    wake: str


RESTART_PAUSE = 1.0
"""The fewest seconds between starts of a definition that starts itself and has nothing to wait for."""


class Start(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Start a top-level run of the current version of a definition, at once or at a moment."""

    name: str
    elements: tuple[int, ...] = ()
    at: float | None = None
    attempt: int = 0


class Finish(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """End the run: `state` in its kind's own word, `phase` one of done, failed, cancelled.

    `eids` go to its caller; `error` is the eid of the error element that says why. `after` is the failed run
    before it in a row, whose failure it makes good if it is done.
    """

    state: str
    phase: str
    eids: tuple[int, ...] = ()
    error: int | None = None
    after: int = 0


# --- outer ----------------------------------------------------------------------------------------------


class Program(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A program of the operating system."""

    words: tuple[str, ...]
    """Its command line."""
    text: str = ""
    """Its standard input."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that are added to those that the daemon has."""
    selects: tuple[tuple[str, str], ...] = ()
    """Variables whose value is the text that an XPath selects of the input of that name."""
    directory: str = ""
    """The directory in which it runs."""
    creates: tuple[str, ...] = ()
    """Files that it makes: it is not run when they are there and no older than `needs`."""
    needs: tuple[str, ...] = ()
    """Files that it reads."""
    unless: tuple[str, ...] = ()
    """The command line of a program: when that succeeds, this one is not run."""
    cpu: int | None = None
    """The seconds of processor time that it may take."""
    memory: int | None = None
    """The bytes of memory that it may have."""
    files: int | None = None
    """The number of files that it may have open."""
    grace: float = 2.0
    """The seconds between SIGTERM and SIGKILL."""
    processes: int | None = None
    """The most processes that it and all that it starts may be at once."""
    run_processes: int | None = None
    """The most processes that all programs of its run may be at once."""
    reaches: Needs | None = None
    """The only places that it may reach besides its own file; None if not stated."""

    @property
    def is_limited(self) -> bool:
        """True if limits are set before it begins."""
        most = (self.cpu, self.memory, self.files, self.processes, self.run_processes)
        return any(limit is not None for limit in most)


SEND = "send"
"""The kind of the calls that send elements to other agents (G27); their name has the names of these."""


FLOW = "flow"
"""The kind of the calls that run a session of a dataflow: their name is the dataflow's (T29)."""


NOTICE = "notice"
"""The kind of the calls that write to people about work (P60): their name is the way, their step a person."""


PROGRAM = "program"
"""The kind of the calls that run a program of the operating system."""

SIGNAL = "signal"
"""The kind of the calls that tell another run something within the turn (K52), as any signal is told.

Their name is that of the definition whose standing run is told; `payload` has the name of the `signal`, its
`arguments`, and the eid of the `run` that is told instead, if it is another. Their elements join its context,
but not that of a standing run, which would keep them for ever.
"""


class Call(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Have something done outside the engine; exactly one `Returned` will name `call`."""

    call: str
    """Its id, which it keeps when it is tried again."""
    kind: str
    """The kind of what answers: an action, a transform, a program, a person, or the run of a definition."""
    name: str
    """The name of what answers."""
    step: str
    """The part of the run that calls."""
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The elements of each input, by input id."""
    listed: tuple[str, ...] = ()
    """The inputs that take a list."""
    elements: tuple[int, ...] = ()
    """The first context of a run that answers."""
    nearby: tuple[tuple[int, ...], ...] = ()
    """The elements nearest to the calling step, nearest rank first."""
    timeout: float | None = None
    """The seconds after which it is given up; None for no limit."""
    on_restart: str = ""
    """The fate of a call that was under way when the daemon ended: retry or error; "": retry, but error for a
    tool that may not be called twice, which the runtime writes as it records the call.
    """
    attempt: int = 1
    """The number of the try, from 1."""
    begun: bool = False
    """True once a call that is announced has begun, or any other is made again; the runtime keeps it."""
    program: Program | None = None
    """The program that a call of the kind "program" runs."""
    payload: dict[str, Plain] | None = None
    """Plain data that goes with it, such as the token of a node or the environment of a process."""
    agent: str = ""
    """The agent whose definition answers, if it is another: only what the call is given is sent along."""
    approve: str = ""
    """The work by which somebody has to agree before the call is made; "" for none."""
    approved: tuple[str, ...] = ()
    """The works that have approved it, of this `version`; the runtime keeps them."""
    version: str = ""
    """The version of what it calls, as it was approved."""
    always: str = ""
    """The rules that somebody agreed to with it: they are added before this try of it is made."""
    undoable: bool = False
    """True if an action undoes it: its beginning is recorded first, as a call that never began is not
    undone.
    """

    @property
    def is_announced(self) -> bool:
        """True if its beginning is recorded first."""
        return self.on_restart == "error" or self.undoable


def telling(
    call: str,
    name: str,
    step: str,
    signal: str,
    arguments: dict[str, Plain],
    elements: tuple[int, ...] = (),
    *,
    run: int = 0,
) -> Call:
    """A call that tells the standing run of a definition a signal, or with `run` that run."""
    payload: dict[str, Plain] = {"signal": signal, "arguments": arguments}
    if run:
        payload["run"] = run
    return Call(call, SIGNAL, name, step, elements=elements, payload=payload)


class CancelCall(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Give up a call: its `Returned` will say `abandoned`."""

    call: str


class Answer(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Answer a signal: with a value, or a problem.

    If a run made a call by the signal, this is the return of that call, with the `eids` of the value.
    """

    signal: str
    value: dict[str, Plain] | None = None
    problem: Failure | None = None


_OfMemory = Add | AddToContext | MarkUsed | Reserve | Release | Outdate | RecordUnique | ScheduleForget
Inner = _OfMemory | Watch | Unwatch | SetTimer | CancelTimer | Start | Finish
Outer = Call | CancelCall | Answer
Command = Inner | Outer
