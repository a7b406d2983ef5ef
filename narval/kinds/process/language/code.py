"""Code that modules declare for processes, besides actions (sections 3 to 6, 10 and 13).

These are node types, predicates, date and string functions, joins and listeners. They have no prototype, but
receive a token. All processes share their names, so no two modules may declare the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from narval.core.definitions.library import ModuleDefinition
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault
from narval.kinds.process.language.properties import faults

Kind = Literal["node-type", "predicate", "date-function", "string-function", "join", "listener"]
Where = Literal["thread", "worker", "inline", "async"]

BUILT_IN_DATE: tuple[Kind, str] = ("date-function", "now")
"""The date function that needs no code: the moment at which it is asked. A home may declare its own."""

HOOKS = ("guard", "execute", "backtrack", "is_backtrackable")
"""The methods that a node type may have (section 1)."""

DECLARATION = "__narval_code__"
"""The attribute of a function or class that holds its `CodeDeclaration`."""

EVENTS: Mapping[str, int] = {
    "PROCESS_CREATED": 0, "PROCESS_STARTED": 1, "PROCESS_PENDING_COMPLETE": 2, "PROCESS_COMPLETED": 3,
    "PROCESS_PENDING_CANCEL": 4, "PROCESS_CANCELED": 5,
    "NODE_TOKEN_CREATED": 6, "NODE_TOKEN_ACCEPTED": 7, "NODE_TOKEN_EXECUTED": 8, "NODE_TOKEN_DISCARDED": 9,
    "NODE_TOKEN_SKIPPED": 10, "NODE_TOKEN_COMPLETED": 11, "NODE_TOKEN_BACKTRACKED": 12,
    "ARC_TOKEN_CREATED": 13, "ARC_TOKEN_PROCESSED": 14, "ARC_TOKEN_COMPLETED": 15,
    "ARC_TOKEN_BACKTRACKED": 16, "ARC_TOKEN_MERGED": 17,
    "NODE_TOKEN_DELAYED": 18, "ARC_TOKEN_INCOMPLETE_JOIN": 19,
}  # fmt: skip
"""The events of a process, and the bit of each (section 3)."""

ALL_EVENTS = (1 << len(EVENTS)) - 1


def mask_of(events: Iterable[str]) -> int:
    """The mask of the named events; that of all events if none are named. Raises ValueError."""
    mask = 0
    for event in events:
        name = event.upper().replace("-", "_")
        if name not in EVENTS:
            raise ValueError(f"expected an event of a process, found {event!r:.80}{closest(name, EVENTS)}")
        mask |= 1 << EVENTS[name]
    return mask or ALL_EVENTS


class Code(ModuleDefinition, frozen=True, eq=False, kw_only=True):
    """A function or class that processes use by name.

    `hooks` are those of a node type, `properties` its annotated attributes with their types. It is
    `evaluated` if some property is written in Rubric: such properties are evaluated before code of the node
    runs. `mask` has the bits of a listener's events; one that listens `everywhere` gets those of every
    process. `gives` are the names of the elements that a node type may give; None: any.
    """

    kind: Kind
    where: Where = "thread"
    hooks: frozenset[str] = frozenset()
    properties: Mapping[str, Any] = {}
    mask: int = 0
    everywhere: bool = False
    evaluated: bool = False
    gives: tuple[str, ...] | None = None

    @property
    def full_name(self) -> str:
        """Its name without a group, as processes use it."""
        return self.name

    @property
    def key(self) -> str:
        """Its name among the functions and classes of modules."""
        return f"{self.kind}:{self.name}"

    def faults(self, path: str, custom: Iterable[tuple[str, str, tuple[int, int]]]) -> Iterator[Fault]:
        """The faults of a node's custom elements that fit no property of this node type (section 13). Each of
        `custom` is a dotted key, a text and the place of the text.
        """
        for key, text, place in custom:
            for where, problem in faults(self.properties, key, text, place):
                yield Fault(path, *where, f"type {self.name!r}: {problem}")


# --- declaring ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CodeDeclaration:
    """A declaration by a decorator, as the author of the function or class wrote it."""

    kind: Kind
    name: str | None = None
    runs: Literal["thread", "worker", "inline"] | None = None
    events: tuple[str, ...] = ()
    everywhere: bool = False
    pure: bool = False
    gives: tuple[str, ...] | None = None


Declared = TypeVar("Declared", bound=Callable[..., Any])


def _declare(target: Any, kind: Kind, **options: Any) -> Any:
    """The declared object, unchanged, or, given a name, a decorator that declares an object under it."""
    declaration = CodeDeclaration(kind, None if callable(target) else target, **options)

    def declare(declared: Declared) -> Declared:
        setattr(declared, DECLARATION, declaration)
        return declared

    return declare(target) if callable(target) else declare


def node_type(
    name: Any = None,
    /,
    *,
    runs: Literal["thread", "worker", "inline"] | None = None,
    pure: bool = False,
    gives: Iterable[str] | str | None = None,
) -> Any:
    """Declare a class as a node type, under its own name or another.

    It may have methods `guard`, `execute`, `backtrack` and `is_backtrackable`, each called with a token. Its
    annotated attributes are set from a node's `custom`. `execute` and `backtrack` run where `runs` says, as
    for an action; `pure` ones touch nothing outside. `gives` names the elements that they may return; any
    other is an error.
    """
    names = (gives,) if isinstance(gives, str) else None if gives is None else tuple(gives)
    return _declare(name, "node-type", runs=runs, pure=pure, gives=names)


def predicate(name: Any = None, /) -> Any:
    """Declare a function that guards and joins ask by name: given a token, it returns true or false."""
    return _declare(name, "predicate")


def date_function(name: Any = None, /) -> Any:
    """Declare a function that guards ask by name for a date: given a token, it gives a datetime."""
    return _declare(name, "date-function")


def string_function(name: Any = None, /) -> Any:
    """Declare a function that guards ask by name for a text: given a token, it gives a string."""
    return _declare(name, "string-function")


def join(name: Any = None, /) -> Any:
    """Declare a join that nodes name as `joinType="class"`: a function, or a class with a method `join`.

    It receives an arrival, and returns the waiting tokens to join, or None.
    """
    return _declare(name, "join")


def listener(name: Any = None, /, *, events: Iterable[str] | str = (), everywhere: bool = True) -> Any:
    """Declare a listener: a function, or a class with a method `notify`, that is given events of processes.

    It receives `events` (all, if none are named) of every process, or, if not `everywhere`, of those that
    name it.
    """
    chosen = (events,) if isinstance(events, str) else tuple(events)
    return _declare(name, "listener", events=chosen, everywhere=everywhere)
