"""Types and events of a `.task` file as they were read, with their places; nothing is looked up yet."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from narval.core.patterns.pattern import Condition
from narval.core.source.tokens import Token
from narval.kinds.task.language.definition import Invocation, Mode, Script
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
