"""Code: the declarations of modules for processes, beside actions (sections 3 to 6, 10 and 13).

Node types, predicates, date and string functions, joins and listeners. They have no prototype: they are given
a token. Their names are known in all processes, so no two modules may give the same one.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from narval.definitions.library import ModuleDefinition
from narval.definitions.process.attribute_types import from_text, is_convertible
from narval.definitions.suggestions import closest
from narval.errors import ActionError, Fault

Kind = Literal["node-type", "predicate", "date-function", "string-function", "join", "listener"]
Where = Literal["thread", "worker", "inline", "async"]

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
    """The bits of events by name; all of them for none. Raises ValueError."""
    mask = 0
    for event in events:
        name = event.upper().replace("-", "_")
        if name not in EVENTS:
            raise ValueError(f"expected an event of a process, found {event!r:.80}{closest(name, EVENTS)}")
        mask |= 1 << EVENTS[name]
    return mask or ALL_EVENTS


class Code(ModuleDefinition, frozen=True, eq=False, kw_only=True):
    """A function or class that processes use by name.

    `hooks` are those of a node type, `properties` its annotated attributes with their types; `mask` has the
    bits of the events of a listener; one that listens `everywhere` is given those of every process.
    """

    kind: Kind
    where: Where = "thread"
    hooks: frozenset[str] = frozenset()
    properties: Mapping[str, Any] = {}
    mask: int = 0
    everywhere: bool = False

    @property
    def full_name(self) -> str:
        """Its own name: processes know no other."""
        return self.name

    @property
    def key(self) -> str:
        """Its name among the functions and classes of modules."""
        return f"{self.kind}:{self.name}"

    def faults(self, path: str, custom: Iterable[tuple[str, str, tuple[int, int]]]) -> Iterator[Fault]:
        """The faults of a node's custom elements, each a dotted key, a text and the place of that, for which
        this type of node has no property (section 13).
        """
        for key, text, place in custom:
            problem = _misfit(self.properties, key, text)
            if problem is not None and not _is_of_node(self.properties, key):
                yield Fault(path, *place, f"type {self.name!r}: {problem}")


# --- properties -----------------------------------------------------------------------------------------


def properties_of(owner: type) -> Mapping[str, Any]:
    """The annotated attributes of a class, and of those it inherits from, with their types."""
    known = owner.__dict__.get(_PROPERTIES)
    if known is None:
        known = types.MappingProxyType(_read_properties(owner))
        setattr(owner, _PROPERTIES, known)
    return known


_PROPERTIES = "__narval_properties__"
"""The attribute of a class that keeps them: to read annotations takes as long as to answer a question."""


def _read_properties(owner: type) -> dict[str, Any]:
    hints = typing.get_type_hints(owner)
    return {
        name: _bare(hint)
        for name, hint in hints.items()
        if not name.startswith("_") and typing.get_origin(hint) is not ClassVar
    }


def is_property_type(wanted: Any) -> bool:
    """True if a custom element can become a value of that type: of a text, or of parts."""
    if is_convertible(wanted):
        return True
    return isinstance(wanted, type) and bool(getattr(wanted, "__annotations__", None))


def assign(target: object, key: str, text: str) -> None:
    """Set the property that a dotted key names, making what is between. Raises LookupError, ValueError."""
    first, _, rest = key.partition(".")
    properties = properties_of(type(target))
    name = property_named(properties, first)
    if name is None:
        raise LookupError(f"no property {first!r}")
    if not rest:
        setattr(target, name, from_text(text.strip(), properties[name]))
        return
    inner = getattr(target, name, None)
    if inner is None:
        inner = properties[name]()
        setattr(target, name, inner)
    assign(inner, rest, text)


def made(code: type, custom: Mapping[str, str]) -> Any:
    """A node type with its properties set from what the node's `custom` says (section 13, custom mapping).

    Raises ActionError where it has no such property, or the text does not fit it.
    """
    node = code()
    for key, text in custom.items():
        if _is_of_node(properties_of(code), key):
            continue
        try:
            assign(node, key, text)
        except (LookupError, ValueError, TypeError) as error:
            raise ActionError(f"the property {key!r}: {error}", "bad-property", final=True) from None
    return node


def property_named(properties: Mapping[str, Any], written: str) -> str | None:
    """The property that a custom element names: as it is written, or as Python would write it."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", written).replace("-", "_").lower()
    found = (name for name in (written, snake, f"{snake}_") if name in properties)
    return next(found, None)


OF_NODE = frozenset({"timeout", "retries", "backoff", "on-error"})
"""The custom elements that any node may have, for narval: they are no properties of its type."""


def _is_of_node(properties: Mapping[str, Any], key: str) -> bool:
    return key in OF_NODE and property_named(properties, key) is None


def _misfit(properties: Mapping[str, Any], key: str, text: str) -> str | None:
    """The reason why there is no property for a dotted key, or its text does not fit; None where it does."""
    first, _, rest = key.partition(".")
    name = property_named(properties, first)
    if name is None:
        hint = closest(first, properties) or "; it has no properties" * (not properties)
        return f"there is no property {first!r}{hint}"
    wanted = properties[name]
    if rest:
        if is_convertible(wanted) or not isinstance(wanted, type):
            return f"the property {first!r} has no parts, found {rest!r}"
        return _misfit(properties_of(wanted), rest, text)
    try:
        from_text(text.strip(), wanted)
    except TypeError as error:
        return f"the property {first!r}: {error}"
    except Exception as error:
        return f"the property {first!r}: expected {_word(wanted)}, found {text.strip()!r:.80} ({error})"
    return None


def _bare(hint: Any) -> Any:
    """The type of `T | None` is T."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        others = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        return others[0] if len(others) == 1 else str
    return hint


def _word(wanted: Any) -> str:
    return str(getattr(wanted, "__name__", wanted))


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


Declared = TypeVar("Declared", bound=Callable[..., Any])


def _declare(given: Any, kind: Kind, **options: Any) -> Any:
    """The declared thing, unchanged, if it is given alone; or what will declare it under the given name."""
    declaration = CodeDeclaration(kind, None if callable(given) else given, **options)

    def declare(declared: Declared) -> Declared:
        setattr(declared, DECLARATION, declaration)
        return declared

    return declare(given) if callable(given) else declare


def node_type(
    name: Any = None, /, *, runs: Literal["thread", "worker", "inline"] | None = None, pure: bool = False
) -> Any:
    """Declare that a class is a type of nodes, under its own name or another.

    It may have methods `guard`, `execute`, `backtrack` and `is_backtrackable`, each called with a token; its
    annotated attributes are set from a node's `custom`. `execute` and `backtrack` run where `runs` has
    it, as of an action; `pure` ones touch nothing outside.
    """
    return _declare(name, "node-type", runs=runs, pure=pure)


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

    It is given an arrival, and returns those of the waiting tokens that are joined, or None.
    """
    return _declare(name, "join")


def listener(name: Any = None, /, *, events: Iterable[str] | str = (), everywhere: bool = True) -> Any:
    """Declare a listener: a function, or a class with a method `notify`, that is given events of processes.

    It is given `events` (all, if none are named) of every process, or, not `everywhere`, of those that name
    it.
    """
    chosen = (events,) if isinstance(events, str) else tuple(events)
    return _declare(name, "listener", events=chosen, everywhere=everywhere)
