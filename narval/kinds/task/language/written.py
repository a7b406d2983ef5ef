"""Types and events of a `.task` file as they were read, with their places; nothing is looked up yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from narval.core.definitions.reading.lexer import NUMBER
from narval.core.definitions.reading.walks import reached
from narval.core.definitions.suggestions import closest, nearest
from narval.core.patterns.pattern import Condition
from narval.core.source.tokens import Token
from narval.kinds.task.language.definition import PREDEFINED, Invocation, Mode, Script
from narval.kinds.task.language.windows import TimeSpec


class WrittenRule(msgspec.Struct):
    """A rule; with `is_global` it is a global event, every `period` seconds if that is given."""

    event: Token
    parameters: list[Token] = []
    mode: Mode = ""
    is_global: bool = False
    period: float | None = None
    weekdays: tuple[int, ...] = ()
    before_condition: TimeSpec | None = None
    condition: Condition | bool = True
    before_action: TimeSpec | None = None
    action: Script = ()
    retries: int = 0


class WrittenState(msgspec.Struct):
    """A state: `ref` is the number or name that comes first, `title` the name behind a number."""

    ref: Token
    title: Token | None = None
    exposed: bool = True
    scripts: dict[str, Script] = {}
    edges: list[tuple[Token, Token]] = []
    rules: list[WrittenRule] = []

    @property
    def place(self) -> Token:
        """The word that names it."""
        return self.title or self.ref


class WrittenType(msgspec.Struct):
    """A type: the lists of names and the strings of its clauses by their keywords, its states and routes.

    `broken` is true if a part could not be parsed, so that a missing part proves nothing.
    """

    name: Token
    """Its name."""
    lists: dict[str, list[Token]] = {}
    """The names of clauses, by their keywords."""
    given: dict[str, Token] = {}
    """The strings of clauses, by their keywords, and its WORK."""
    invocation: Invocation | None = None
    """The way in which instances begin, if given."""
    period: float | None = None
    """The seconds from one instance to the next, if they begin by themselves."""
    weekdays: tuple[int, ...] = ()
    """The weekdays on which they begin (0 is Monday); () for all."""
    states: list[WrittenState] = []
    """Its states."""
    routes: dict[str, tuple[Token, Script]] = {}
    """The scripts of terminal states, by their names, each with the ON."""
    broken: bool = False
    """True if a part could not be parsed."""

    def set_invocation(self, invocation: Invocation, period: float | None) -> None:
        """Record how instances begin."""
        self.invocation, self.period = invocation, period

    def set_weekdays(self, weekdays: tuple[int, ...]) -> None:
        """Record the weekdays on which instances begin."""
        self.weekdays = weekdays

    def break_off(self) -> None:
        """Record that a part could not be parsed."""
        self.broken = True

    def one(self, clause: str) -> Token | None:
        """The first name of a clause."""
        return next(iter(self.lists.get(clause, ())), None)

    @property
    def globals(self) -> Iterator[WrittenRule]:
        """The global events in its states."""
        return (rule for state in self.states for rule in state.rules if rule.is_global)


class Specification(msgspec.Struct):
    """Everything in a file."""

    types: list[WrittenType] = []
    events: list[WrittenRule] = []


Note = Callable[[Token, str], None]
"""A function that records a fault at a word."""


class StateTable:
    """The states of a type by name, and the edges between them. Unknown and duplicate names are faults."""

    def __init__(self, type: WrittenType, note: Note) -> None:
        self._note = note
        self.written: dict[str, WrittenState] = {}
        """The states that are declared, by name."""
        self._names: dict[str, str] = {}
        self._meant: dict[str, set[str | None]] = {}
        """The states that edges to unknown states probably mean, by the state where the edge begins."""
        for state in type.states:
            self._declare(state)
        self.final = tuple(dict.fromkeys(filter(None, map(self.named, type.lists.get("FINAL", ())))))
        self.terminal = frozenset((*PREDEFINED, *self.final))
        self.edges: dict[str, dict[str, str]] = {
            name: self._edges(name, state) for name, state in self.written.items()
        }

    def _declare(self, state: WrittenState) -> None:
        name = _canonical(state.place.text)
        number_of = {**dict.fromkeys(self.written, name), **self._names}
        words = dict.fromkeys((state.ref.text, name))
        for word in words:
            if word in number_of:
                self._note(state.ref, f"the state {word} is declared twice; give one another name")
                return
        self.written[name] = state
        self._names.update(dict.fromkeys(words, name))

    def _edges(self, name: str, state: WrittenState) -> dict[str, str]:
        edges: dict[str, str] = {}
        for event, target in state.edges:
            to = self.named(target)
            if to is None:
                self._meant.setdefault(name, set()).add(self._nearest(target.text))
            if event.text in edges:
                self._note(event, f"the event {event.text} leads from this state twice; remove one edge")
            elif to is not None:
                edges[event.text] = to
        return edges

    def number_of(self, name: str) -> str:
        """The number of a state; "" for none."""
        state = self.written.get(name)
        return state.ref.text if state is not None and state.ref.kind == NUMBER else ""

    def find(self, text: str) -> str | None:
        """The name of the state that a name or number refers to; None if there is none."""
        name = _canonical(text)
        return name if name in PREDEFINED else self._names.get(text)

    def named(self, word: Token) -> str | None:
        """The name of the state that a word refers to; None, and a fault, if it is not declared."""
        number = self.find(word.text)
        if number is None:
            self._note(word, f"there is no state {word.text!r:.60}{self.hint(word.text)}")
        return number

    def hint(self, text: str) -> str:
        """The end of a message about an unknown state."""
        return closest(text, (*self._names, *PREDEFINED))

    def _nearest(self, text: str) -> str | None:
        return self.find(nearest(text, (*self._names, *PREDEFINED)) or "")

    def after(self, *names: str) -> set[str]:
        """The states reachable from these, including these; a mistyped target counts as the probable one."""
        ways = ((name, {*edges.values(), *self._meant.get(name, ())}) for name, edges in self.edges.items())
        return reached(names, [([name], to - {None}) for name, to in ways])

    def leading_to(self, names: Iterable[str]) -> set[str]:
        """The states from which one of these can be reached, including these. A state with an edge to an
        unknown state may lead there too.
        """
        ways = [([to], [name]) for name, edges in self.edges.items() for to in edges.values()]
        ways += [([to], [name]) for name, meant in self._meant.items() for to in meant if to is not None]
        return reached((*names, *(name for name, meant in self._meant.items() if None in meant)), ways)


def _canonical(text: str) -> str:
    return text.upper() if text.upper() in PREDEFINED else text
