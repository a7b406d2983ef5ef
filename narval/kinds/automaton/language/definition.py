"""Automaton: states that run programs, and transitions chosen by how those end (A1-A16).

An automaton is linked once, when it is loaded: each state gets its successors by label, and the states that
it waits for. Nothing is altered afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

import msgspec

from narval.core.definitions.action.needs import Needs
from narval.core.definitions.library import OwnNeed, RunDefinition
from narval.core.definitions.remote_calls import RemoteCall, called
from narval.core.definitions.schedule import Time
from narval.core.patterns.pattern import Condition

START, END = "start", "end"
"""The state that every automaton begins with, and the one whose success ends a run at once."""

SUCCESS, TIMEOUT, SIGNAL, ANY = "0", "timeout", "signal", "*"
"""Labels besides numbers and signal names: status 0, an expired time limit, any signal, any end without a
label of its own.
"""

_TOLD = "signal "


def signal_label(signal: str) -> str:
    """The label of a transition taken on a signal to the run; no program ends with it."""
    return _TOLD + signal


def signal_of(label: str) -> str:
    """The signal that takes transitions of this label; "" for a label about the end of a program."""
    return label[len(_TOLD) :] if label.startswith(_TOLD) else ""


class ProgramInput(msgspec.Struct, frozen=True):
    """Elements of the run's context that a program gets: as a variable, or on standard input.

    `name` is the variable, or "" for standard input. `select` is the XPath, evaluated on the newest matching
    element; the text of its result is the value. Standard input gets all matching elements, within a
    `memory`.
    """

    name: str
    condition: Condition
    select: str = "string(.)"


class ProgramLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a program: seconds of processor time, bytes of memory, open files, and concurrent
    processes (A19); None: no limit.
    """

    cpu: int | None = None
    memory: int | None = None
    files: int | None = None
    processes: int | None = None


class Contender(msgspec.Struct, frozen=True):
    """A command of a state, as words, never as text for a shell; `text` is its standard input.

    It is tried `retries` more times before the next contender.
    """

    words: tuple[str, ...]
    text: str = ""
    retries: int = 0
    backoff: float | None = None


class State(msgspec.Struct, eq=False):
    """A state: it runs the first of its `contenders` that succeeds, or calls its `target`."""

    name: str
    """The name of the state."""
    contenders: tuple[Contender, ...] = ()
    """The programs, in the order in which they are tried."""
    target: tuple[str, str] | None = None
    """The kind and name of the definition that it calls in place of a program."""
    timeout: float | None = None
    """The most seconds of an attempt."""
    retries: int = 0
    """The number of further attempts."""
    backoff: float | None = None
    """Seconds before the second attempt; doubled for each further one."""
    max_visits: int | None = None
    """The most times it may be entered."""
    creates: tuple[str, ...] = ()
    """The files that it creates: it is skipped if all exist and none is older than what it needs."""
    needs: tuple[str, ...] = ()
    """The files that it needs."""
    unless: tuple[str, ...] = ()
    """A command; if it exits with 0, the state is skipped."""
    after: tuple[Time, ...] = ()
    """The dates that it waits for when it is ready."""
    wait: str = ""
    """The signal that it waits for when it is ready."""
    on_restart: Literal["retry", "error"] = "retry"
    """The treatment of an attempt that a crash cut off."""
    grace: float = 2.0
    """Seconds between the terminating and the killing signal."""
    directory: str = ""
    """The working directory of its programs."""
    environment: Mapping[str, str] = {}
    """The environment variables of its programs."""
    reaches: Needs | None = None
    """The places that its programs may reach besides their own files; None if not declared."""
    inputs: tuple[ProgramInput, ...] = ()
    """The elements passed to its programs."""
    limits: ProgramLimits = ProgramLimits()
    """The resource limits of its programs."""
    line: int = 1
    """The line in the file."""
    follow: Mapping[str, tuple[State, ...]] = {}
    """The successors by label, including signals (`signal_label`)."""
    awaits: tuple[str, ...] = ()
    """The states whose 0 it needs before it starts, by name."""
    agent: str = ""
    """The agent whose definition it calls; "": its own."""

    @property
    def called(self) -> str:
        """Words for the definition that it calls; "" if it runs a program."""
        return called(*self.target, self.agent) if self.target is not None else ""

    @property
    def is_final(self) -> bool:
        """True if its 0 ends a branch of the run well: nothing follows it, or it is `end`."""
        return self.name == END or all(map(signal_of, self.follow))

    @property
    def interrupted_by(self) -> Iterator[str]:
        """The names of the signals that interrupt it."""
        return filter(None, map(signal_of, self.follow))

    def label(self, *words: str) -> str | None:
        """The first of these labels, most precise first, that has a transition; else `*`; else None."""
        for word in (*words, ANY):  # a loop rather than a generator: every state that ends calls this
            if word in self.follow:
                return word
        return None

    def __repr__(self) -> str:
        return f"<State {self.name}>"


def link(states: Mapping[str, State], follow: Mapping[str, Mapping[str, Iterable[State]]]) -> None:
    """Point states at each other, given the successors by state and label. A state comes first among its own:
    as it starts again, it has started nothing.
    """
    awaits: dict[str, list[str]] = {name: [] for name in states}
    for name, labels in follow.items():
        states[name].follow = {
            label: tuple(sorted(successors, key=lambda other: other.name != name))
            for label, successors in labels.items()
        }
        for successor in states[name].follow.get(SUCCESS, ()):
            awaits[successor.name].append(name)
    for name, state in states.items():
        state.awaits = tuple(awaits[name])


class Automaton(RunDefinition, frozen=True, eq=False):
    """The definition of a run of states. `states` are by name, in the order of the file.

    At most `max_parallel` programs run at once; None: as many as are ready. A run is given up after `timeout`
    seconds. With `restart`, another run begins when one has ended. Its programs and their descendants may be
    at most `processes` processes at once.
    """

    kind: ClassVar[str] = "automaton"

    states: Mapping[str, State]
    max_parallel: int | None = None
    timeout: float | None = None
    restart: bool = False
    processes: int | None = None

    def line_of(self, part: str) -> int:
        """The line of its file on which a state begins."""
        state = self.states.get(part)
        return state.line if state is not None else self.line

    @property
    def remote_calls(self) -> Iterator[RemoteCall]:
        """The states that call definitions of other agents."""
        for state in self.states.values():
            if state.agent and state.target is not None:
                part = f"state {state.name!r}"
                yield RemoteCall(state.agent, *state.target, part, state.line, state.timeout)

    @property
    def programs(self) -> Iterator[str]:
        """The names of the programs that its states run."""
        return (contender.words[0] for state in self.states.values() for contender in state.contenders)

    @property
    def own_needs(self) -> Iterator[OwnNeed]:
        """The programs that its states run, and what those reach."""
        for state in self.states.values():
            part = f"state {state.name!r}"
            for words in (*(contender.words for contender in state.contenders), state.unless):
                if words:
                    yield OwnNeed("program", words[0], part, state.line)
            for name, value in state.reaches.all if state.reaches is not None and state.contenders else ():
                yield OwnNeed(name.removesuffix("s"), value, part, state.line)

    @property
    def says_its_reach(self) -> bool:
        """True if all its programs are limited to what their states declare that they reach."""
        return all(state.reaches is not None for state in self.states.values() if state.contenders)

    @property
    def limits_processes(self) -> Iterator[int]:
        """The lines that limit the number of processes."""
        if self.processes is not None:
            yield self.line
        for state in self.states.values():
            if state.limits.processes is not None:
                yield state.line

    @property
    def times(self) -> tuple[Time, ...]:
        """The dates of all states."""
        return tuple(time for state in self.states.values() for time in state.after)

    @property
    def start(self) -> State:
        """The state with which every run begins."""
        return self.states[START]
