"""The errors that narval raises; an error's class says who has to act.

NarvalError
├── DefinitionError      the author of a definition: a file has faults, each with line and column
├── PatternError         the author of a pattern: it is not XPath, or cannot be evaluated here
├── ElementError         the sender of an element: it is malformed, hostile or refused by its schema
├── ActionError          the author of an action: it raised, hung, died or returned wrong output
├── RequestError         the caller: no such run, no such definition, a wrong argument
│   ├── NotFoundError     what the request names does not exist here
│   ├── NotOfferedError   a definition is not offered to the program that calls it
│   ├── WorkRefusedError  the rules of an item of work refuse an act
│   ├── ElsewhereError    another daemon has the agent that is asked
│   ├── TaskRefusedError  a task, its type or its object refuses a request
│   └── TokenError       a process refuses an operation on its tokens; a definition cannot be started
│       ├── NoTokenError             it has no such token, or it is ambiguous
│       ├── TokenCompleteError       the token is complete already
│       ├── NotExecutingError        the process has ended, is cancelled or held up
│       └── NotBacktrackableError    it cannot go back to the token, or not past another
├── OperatorError        the operator of the daemon: its home or its settings
│   ├── NoHomeError      there is no home at that path
│   ├── HomeHeldError    another program holds the home
│   └── SettingsError    etc/narval.toml, etc/people.toml or etc/trust.toml has faults
├── SurroundingsError    the machine: disk, file system, peers
│   ├── StoreError       the store cannot be read or written
│   │   ├── RefusedRowsError the store is sound, but does not accept these rows
│   │   ├── FencedError      another daemon has the agents of this commit
│   │   ├── StoreAwayError   its server is not answering; nothing is lost
│   │   │   └── CutOffError   a turn of the home's own agent needed an answer: the daemon starts over
│   │   └── UnreadableError  one record in it cannot be understood, or is missing; the rest is sound
│   ├── NotFetchedError  the published collections of an agent are not fetched yet
│   └── DaemonGoneError  the daemon does not answer
│       ├── SilentError       it did not answer in time a request that records nothing
│       └── UnansweredError   it ended, or was silent, before it answered: it may have done it
└── InternalError        narval itself: an illegal transition, a broken invariant
"""

# Without annotations as texts: see `kinds`.

from collections.abc import Iterable
from typing import NamedTuple


class NarvalError(Exception):
    """An error that narval raises deliberately."""


class Fault(NamedTuple):
    """A fault in a file: its place, what is wrong, and what to do next. `line` and `column` count from 1.

    A `warning` is about something allowed that may be unintended: the file is accepted.
    """

    path: str
    line: int
    column: int
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {'warning: ' * self.warning}{self.message}"


class FaultWarning(UserWarning):
    """Files of a home that a program has opened have faults: their contents are not loaded, or unchanged."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__(self.faults)  # the constructor's arguments, so that it can be copied

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


class DefinitionError(NarvalError):
    """A file has one or more faults; `.path .line .column` are those of the first."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(sorted(faults))
        if not self.faults:
            raise ValueError("expected at least one fault, got none")
        first = self.faults[0]
        self.path, self.line, self.column = first.path, first.line, first.column
        super().__init__("\n".join(str(fault) for fault in self.faults))


class PatternError(NarvalError):
    """An invalid pattern: `text` is the expression, `column` (from 1) the place of the fault."""

    def __init__(self, text: str, message: str, column: int = 1) -> None:
        self.text, self.message, self.column = text, message, column
        excerpt = text if len(text) <= 200 else f"{text[:200]}…"
        super().__init__(f"{message} in the pattern {excerpt!r}")


class ElementError(NarvalError):
    """An element was refused. `kind` is a stable word: malformed, doctype, too-large, too-deep, invalid,
    reserved, no-memory.
    """

    def __init__(self, kind: str, message: str, line: int = 1, column: int = 1) -> None:
        self.kind, self.message, self.line, self.column = kind, message, line, column
        super().__init__(message)


class ActionError(NarvalError):
    """An action failed. `kind` becomes the `type` of the error element.

    If `final`, another attempt cannot help: the step's `retries` are not used.
    """

    def __init__(self, message: str, kind: str = "action-failed", *, final: bool = False) -> None:
        self.kind, self.final = kind, final
        super().__init__(message)


class RequestError(NarvalError):
    """A wrong request: no such run, no such definition, a wrong argument."""


class NotFoundError(RequestError):
    """A request names something that does not exist here, or no longer: a run, a definition, a person."""


class NotOfferedError(RequestError):
    """A definition is not offered to the program that calls it."""


class WorkRefusedError(RequestError):
    """An act on an item of work that its rules refuse; nothing has changed. `kind` is a stable word (P82).

    `detail` is data about it, as JSON, or "".
    """

    def __init__(self, kind: str, message: str, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        super().__init__(message)


class TaskRefusedError(RequestError):
    """A task, its type or an object refuses a request; nothing has changed. `kind` is a stable word."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class TokenError(RequestError):
    """A process refuses an operation on its tokens, or a definition cannot be started; nothing has changed.
    `kind` is a stable word.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class NoTokenError(TokenError):
    """The process has no such token, or it is ambiguous: no-token, ambiguous."""


class TokenCompleteError(TokenError):
    """The token is complete already: token-complete."""


class NotExecutingError(TokenError):
    """The process has ended, is cancelled or held up: not-executing, cancelled."""


class NotBacktrackableError(TokenError):
    """The process cannot go back: not-complete, already-backtracked, not-backtrackable."""


class OperatorError(NarvalError):
    """The operator of the daemon has something to correct."""


class NoHomeError(OperatorError):
    """There is no home at that path."""


class HomeHeldError(OperatorError):
    """Another program holds the home."""


class SettingsError(OperatorError):
    """`etc/narval.toml`, `etc/people.toml` or `etc/trust.toml` has faults."""


class SurroundingsError(NarvalError):
    """The machine failed: disk, file system, a peer."""


class StoreError(SurroundingsError):
    """The store cannot be read or written; what was confirmed is safe."""


class RefusedRowsError(StoreError):
    """The store does not accept the rows of a commit (too large, a constraint); it is sound."""


class FencedError(StoreError):
    """A commit for agents that another daemon owns now; nothing of it is recorded (G47).

    `agents` are their numbers; the store is sound, and accepts the batches of others.
    """

    def __init__(self, message: str, agents: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.agents = agents


class StoreAwayError(StoreError):
    """The server of the store is not answering; nothing that was confirmed is lost (G52)."""


class CutOffError(StoreAwayError):
    """A turn of the home's own agent failed because it had to read from the store: the daemon
    starts over.
    """


class NotFetchedError(SurroundingsError):
    """Collections that an agent follows have not been fetched yet in their published version (G58)."""


class UnreadableError(StoreError):
    """A record of the store cannot be understood, or is missing; the rest of the store is sound."""


class DaemonGoneError(SurroundingsError):
    """The daemon that holds the home does not answer."""


STILL_AT_IT = "and may still be doing it"
"""The words about a daemon that has not answered a request in time."""


class SilentError(DaemonGoneError):
    """The daemon is running, but did not answer in time a request that records nothing."""


class UnansweredError(DaemonGoneError):
    """The daemon ended or was silent before it answered a request: it may have done it.

    `what` happened, and `then` says how to continue.
    """

    def __init__(self, what: str, then: str = "look before you ask again") -> None:
        self.what, self.then = what, then
        super().__init__(what, then)

    def __str__(self) -> str:
        return f"{self.what}; what it was asked may be recorded: {self.then}"


class ElsewhereError(RequestError):
    """An agent is active at another daemon, the only one that can do what was asked."""


class InternalError(NarvalError):
    """narval broke one of its own rules; please report it."""
