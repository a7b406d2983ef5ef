"""The commands of engines.

*Inner* commands take effect inside the turn, as soon as they are given, and are recorded as facts. *Outer*
commands are performed after the commit. The id of an outer command derives from its cause, so a second
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
    """Add an element to memory, and to the run's context if `held`."""

    element: Element
    held: bool = True


class AddToContext(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Add elements to the run's context: they were given to it, or triggered it."""

    eids: tuple[int, ...]


class MarkUsed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Mark elements as used by one input or condition."""

    scope: MarkScope
    eids: tuple[int, ...]


class Reserve(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Reserve elements for a call that will outdate them."""

    eids: tuple[int, ...]


class Release(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Release reserved elements; they are offered to the index again."""

    eids: tuple[int, ...]


class Outdate(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Outdate elements: nothing takes them any longer."""

    eids: tuple[int, ...]


class RecordUnique(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Record that a unique output has given this value."""

    name: str
    expression: str
    value: str


class ScheduleForget(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Forget this run, and what only it holds, at a moment (seconds since 1970, UTC)."""

    at: float


class Watch(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Request `Matched` when an element arrives that matches one of these conditions and may be taken.

    Stays until `Unwatch`. `scopes` correspond to `conditions` one to one: an element marked there does not
    count. With `or_outdated` it also fires when a matching element is replaced or forgotten: a step that
    waits for a reserved element must learn that it will never be free, and a condition of absence that it now
    holds. A `standing` watch is kept as long as the calls of its step, to each of which it may add another;
    exploration skips it, as it would never end. It also fires when one of `elements` is replaced or
    forgotten. With `unless_reserved` a replacement does not fire it while other matching elements are
    reserved or arrive: otherwise, each of many steps that take turns at one element would be told at each
    turn.
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
    """Request `TimerFired` at a moment (seconds since 1970, UTC).

    A `calendar` timer is for a date of the calendar: it fires early when the clock was set back or the time
    zone has changed, so that the date is computed again. Any other timer ends a duration: setting the clock
    moves it along. `keeps` are elements that will be needed then: they are not forgotten before. A `standing`
    timer is set repeatedly; exploration follows it as often as makes a difference.
    """

    wake: str
    at: float
    calendar: bool = False
    keeps: tuple[int, ...] = ()
    standing: bool = False


class CancelTimer(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Cancel a timer."""

    wake: str


RESTART_PAUSE = 1.0
"""The minimum seconds between starts of a definition that starts itself and has nothing to wait for."""


class Start(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Start a top-level run of the current version of a definition, at once or at a moment."""

    name: str
    elements: tuple[int, ...] = ()
    at: float | None = None
    attempt: int = 0


class Finish(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """End the run: `state` in the word of its kind, `phase` one of done, failed, cancelled.

    `eids` go to its caller; `error` is the eid of the error element that says why. `after` is the previous
    failed run in a row; a run that is done settles its failure.
    """

    state: str
    phase: str
    eids: tuple[int, ...] = ()
    error: int | None = None
    after: int = 0


# --- outer ----------------------------------------------------------------------------------------------


class Program(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An operating-system program."""

    words: tuple[str, ...]
    """The command line."""
    text: str = ""
    """The standard input."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables added to the daemon's."""
    selects: tuple[tuple[str, str], ...] = ()
    """Environment variables whose value is the text that an XPath selects from the input of that name."""
    directory: str = ""
    """The working directory."""
    creates: tuple[str, ...] = ()
    """Files that it creates: it is not run when they exist and are no older than `needs`."""
    needs: tuple[str, ...] = ()
    """Files that it reads."""
    unless: tuple[str, ...] = ()
    """The command line of a test program: if that succeeds, this one is not run."""
    cpu: int | None = None
    """The limit of processor time, in seconds."""
    memory: int | None = None
    """The limit of memory, in bytes."""
    files: int | None = None
    """The limit of open files."""
    grace: float = 2.0
    """The seconds between SIGTERM and SIGKILL."""
    processes: int | None = None
    """The limit of simultaneous processes for the program and everything it starts."""
    run_processes: int | None = None
    """The limit of simultaneous processes for all programs of its run."""
    reaches: Needs | None = None
    """The only places that it may reach besides its own file; None if not stated."""

    @property
    def is_limited(self) -> bool:
        """True if limits are set before it starts."""
        most = (self.cpu, self.memory, self.files, self.processes, self.run_processes)
        return any(limit is not None for limit in most)


SEND = "send"
"""The kind of calls that send elements to other agents; the call's name lists the agents."""

FLOW = "flow"
"""The kind of calls that run a session of a dataflow; the call's name is the dataflow's."""

NOTICE = "notice"
"""The kind of calls that write to people about work: the name is the channel, the step a person."""

PROGRAM = "program"
"""The kind of calls that run an operating-system program."""

SIGNAL = "signal"
"""The kind of calls that send another run a signal within the turn.

The name is that of the definition whose service run is told. `payload` has the name of the `signal`, its
`arguments`, and the eid of the `run` to tell instead, if it is another. The call's elements join the run's
context, but not that of a service run, which would keep them for ever.
"""


class Call(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Request work outside the engine; exactly one `Returned` will name `call`."""

    call: str
    """Its id, kept across attempts."""
    kind: str
    """The kind of target: an action, a transform, a program, a person, or the run of a definition."""
    name: str
    """The name of the target."""
    step: str
    """The part of the run that calls."""
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The elements of each input, by input id."""
    listed: tuple[str, ...] = ()
    """The inputs that are lists."""
    elements: tuple[int, ...] = ()
    """The first context of a run that answers."""
    nearby: tuple[tuple[int, ...], ...] = ()
    """The elements nearest to the calling step, nearest rank first."""
    timeout: float | None = None
    """The seconds after which it is given up; None: no limit."""
    on_restart: str = ""
    """The treatment of an active call when the daemon ends: retry or error; "": retry, but error for a tool
    that may not be called twice, which the runtime writes as it records the call.
    """
    attempt: int = 1
    """The number of the attempt, from 1."""
    begun: bool = False
    """True once an announced call has started, or another call is made again; set by the runtime."""
    program: Program | None = None
    """The program to run, for a call of kind "program"."""
    payload: dict[str, Plain] | None = None
    """Plain data for the target, such as the token of a node or the environment of a process."""
    agent: str = ""
    """The agent whose definition answers, if it is another: only the call's inputs are sent along."""
    approve: str = ""
    """The work by which a person has to agree before the call is made; "" for none."""
    approved: tuple[str, ...] = ()
    """The works that have approved it, of this `version`; set by the runtime."""
    version: str = ""
    """The version of the target that was approved."""
    always: str = ""
    """The rules that a person agreed to with it: they are added before this attempt is made."""
    undoable: bool = False
    """True if an action undoes it: its start is recorded first, as a call that never started is not undone.
    """

    @property
    def is_announced(self) -> bool:
        """True if its start is recorded first."""
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
    """A call that signals the service run of a definition, or `run` if given."""
    payload: dict[str, Plain] = {"signal": signal, "arguments": arguments}
    if run:
        payload["run"] = run
    return Call(call, SIGNAL, name, step, elements=elements, payload=payload)


class CancelCall(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Give up a call: its `Returned` will say `abandoned`."""

    call: str


class Answer(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """Answer a signal with a value or a problem.

    If a run made a call by the signal, this is the return of that call, with the `eids` in the value.
    """

    signal: str
    value: dict[str, Plain] | None = None
    problem: Failure | None = None


_OfMemory = Add | AddToContext | MarkUsed | Reserve | Release | Outdate | RecordUnique | ScheduleForget
Inner = _OfMemory | Watch | Unwatch | SetTimer | CancelTimer | Start | Finish
Outer = Call | CancelCall | Answer
Command = Inner | Outer
