"""An unknown memory: every answer that it could give is tried.

An answer holds for the rest of the event: an element keeps meeting the demands it was said to meet, and
demands that nothing met stay unmet until something arrives. So no two answers contradict each other, as far
as that can be proved, and every possible memory gives the answers of one of the ways tried.

Two rules limit the ways without excluding any. Of the elements that a query names, either none fits or all
do, since a search that finds none of them searches further. And a query finds at most `MANY` elements that
were not known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any

from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.prototype import Output, Prototype
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element, Tree
from narval.core.engines.commands import Call, Command
from narval.core.engines.effects import EFFECTS
from narval.core.engines.events import Caller, OutputElement, Plain
from narval.core.engines.view import FileTimes, GuardVerdict, verdict_of
from narval.core.memory.labels import Labels, MadeOf
from narval.core.patterns.contradictions import contradictory, demands
from narval.core.patterns.pattern import Bound, Condition, Pattern, condition
from narval.trials.explore.assumptions import ANY, Assumptions, Choices, TooManyWays

MANY = 2
"""The number of elements that represents any greater number."""

_DATES = "9000-01-01", "1800-01-01", ""
"""Texts of a future date, of a past one, and of none."""

_UNKNOWN = b"<any/>"


class Targets:
    """The targets of calls, which accept exploration's outputs, whatever a step requires of them.

    Engines use them in place of a library.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self.built: dict[Any, Any] = {}
        self._made: dict[tuple[str, str], Any] = {}

    def get(self, kind: str, name: str) -> Any:
        """The definition in the form that an engine sees, or None."""
        identity = kind, name
        if identity not in self._made:
            definition = self._library.get(kind, name)
            has_prototype = getattr(definition, "prototype", None) is not None
            self._made[identity] = _Target(definition) if has_prototype else definition
        return self._made[identity]

    def outputs(self, kind: str, name: str) -> tuple[OutputElement, ...]:
        """The elements of a successful call: one for each possible output."""
        real = getattr(self._library.get(kind, name), "prototype", None)
        outputs = real.outputs if real is not None else ()
        possible = (output for output in outputs if not contradictory(demands(output.condition.bind())))
        return tuple(OutputElement(_given_for(output.id), output.id) for output in possible)

    def is_source(self, kind: str, name: str) -> bool:
        """True if its calls run on and yield elements."""
        return getattr(self._library.get(kind, name), "where", "") == "source"


class _Target:
    """A definition with the outputs that exploration produces."""

    def __init__(self, definition: Any) -> None:
        self._definition = definition
        real: Prototype = definition.prototype
        self.prototype = Prototype(
            real.inputs, tuple(_AnyOutput(output) for output in real.outputs), real.keeps
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._definition, name)


class _AnyOutput(Output):
    """An output that accepts exploration's element for it, whatever a step adds to its patterns."""

    def __init__(self, output: Output | None = None, **fields: Any) -> None:
        """Make it from an output of the target; or, when a step makes one from this, from its fields."""
        if output is not None:
            fields = {"id": output.id, "list": output.list, "optional": output.optional}
        super().__init__(**fields)

    @cached_property
    def condition(self) -> Condition:
        """The condition that only the element made for this output satisfies."""
        return condition(f"{ANY}[@of='{self.id.encode().hex()}']")


def _given_for(output: str) -> bytes:
    return f"<{ANY} of='{output.encode().hex()}'/>".encode()


MISFIT = OutputElement(_UNKNOWN)
"""An element that fits no output."""


class UnknownMemory:
    """The `View` of an engine for one way through one event; its answers are recorded in `assumptions`.

    `calls` are the active ones. `watched` are the elements that are still current, since the run would have
    been notified otherwise. No recurring date was missed: a missed one is like a later one. One person holds
    every role (P16).
    """

    people = Directory.of_owner("somebody")
    labels = Labels()
    zone = "UTC"
    up_since = 0.0

    def __init__(
        self,
        targets: Targets,
        choices: Choices,
        calls: Mapping[str, Call],
        next_eid: int,
        now: float,
        watched: frozenset[int] = frozenset(),
    ) -> None:
        self.library, self._choices, self._calls, self._now = targets, choices, calls, now
        self._assumptions = Assumptions(choices, next_eid)
        self._counts = dict.fromkeys(watched, True)
        self._texts: dict[Pattern, str] = {}
        self.answers: dict[str, bool] = {}
        """The answer given to each condition, by its text: True if something in memory satisfies it."""

    @property
    def next_eid(self) -> int:
        """The eid of the next element."""
        return self._assumptions.next_eid

    def element(self, eid: int) -> Element | None:
        """The element; one that represents others is unknown."""
        return self._assumptions.added.get(eid) or Element(eid, _UNKNOWN)

    def matching(self, bound: Bound, scope: MarkScope | None, *, newest_first: bool = False) -> Iterator[int]:
        """The elements known to satisfy it, then a few more, or none; their age has no influence here."""
        assumptions, asked, matches = self._assumptions, demands(bound), False
        for eid in assumptions.met():
            if assumptions.surely(eid, asked, scope):
                matches = True
                yield eid
        for _ in range(MANY):
            if assumptions.surely_none(asked, scope):
                return
            if not self._choices.whether():
                if not matches:
                    assumptions.none_fits(asked, scope)
                    self.answers.setdefault(bound.text, False)
                return
            matches = True
            self.answers[bound.text] = True
            yield assumptions.fresh(asked, scope)

    def among(self, eids: Iterable[int], bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        """The elements of `eids` that satisfy it: of those from before the event, all or none."""
        asked = demands(bound)
        for eid in eids:
            if self._assumptions.is_among(eid, asked, scope):
                self.answers[bound.text] = True
                yield eid

    def judge(self, eids: Iterable[int], bound: Bound) -> GuardVerdict:
        """The verdict of a guard: there are no labels here."""
        return verdict_of(eids)

    def note_sources(self, eid: int, made_of: MadeOf) -> None:
        """Keep nothing: there are no labels here."""

    def fits(self, element: Element, bound: Bound) -> bool:
        """True if an element satisfies it; known only of an argument within the definition itself."""
        may_fit = element.origin is None or not bound.admits(element.name)
        if may_fit and element.eid < 0 and not any(pattern.variables for pattern in bound.patterns):
            return bound.test(Tree(element))
        return self._assumptions.fits(element.eid, demands(bound))

    def fits_since(self, eid: int, bound: Bound, scope: MarkScope | None, known: float = inf) -> float:
        """For ever, or only now: a lasting condition has lasted long enough, or has not.

        `known` is ignored: it belongs to an eid, and exploration treats all elements as one.
        """
        return -inf if self._assumptions.lasts(demands(bound)) else self._now

    def current(self, eid: int) -> int | None:
        """The element, or None; an element replaced by another is treated as unchanged."""
        if eid not in self._counts:
            self._counts[eid] = self._choices.whether()
        return eid if self._counts[eid] else None

    def was_missed(self, moment: float) -> bool:
        """True if the daemon was not running at a moment; both answers are tried."""
        return not self._choices.whether()

    def text_of(self, expression: Pattern, elements: Mapping[str, Sequence[Element]]) -> str:
        """A future date, a past one, or none."""
        if expression not in self._texts:
            self._texts[expression] = _DATES[self._choices.choose(len(_DATES))]
        return self._texts[expression]

    def context(self, run: int) -> Iterable[int]:
        """Nothing: the context of a run is in memory too, where every search ends (N15)."""
        return ()

    def caller(self, run: int) -> Caller | None:
        """None: elements near a caller are in memory too."""
        return None

    def answered_at(self, run: int, step: str) -> Iterable[str]:
        """Nothing: exploration does not distinguish who answers an item."""
        return ()

    def started_by(self, run: int) -> str:
        """The unknown person who started the run."""
        return ""

    def name_of(self, run: int) -> str | None:
        """None: elements made by other runs are treated like those from before."""
        return None

    def reserved(self, bound: Bound, scope: MarkScope | None) -> bool:
        """True if a call elsewhere has reserved an element that would satisfy it; both answers are tried."""
        return not contradictory(demands(bound)) and not self._choices.whether()

    def unique_seen(self, name: str, expression: str, value: str) -> bool:
        """True if a unique output produced this value before."""
        return not self._choices.whether()

    def is_up_to_date(
        self, directory: str, creates: tuple[str, ...], needs: tuple[str, ...], times: FileTimes
    ) -> bool:
        """No: if outputs are up to date, the consequences are those of a successful call."""
        return False

    def definition(self, kind: str, name: str) -> Any:
        """The current definition of that kind and name."""
        return self.library.get(kind, name)

    def pending_call(self, call: str) -> Call | None:
        """An active call of the run, as it was requested."""
        return self._calls.get(call)

    def active_watch(self, watch: str) -> None:
        """None: the subject of a condition can be resolved again at any time."""

    def schema_fault(self, xml: bytes) -> str | None:
        """None: refusal by a schema is one of the ways in which outputs can be wrong (N7)."""
        return None

    @property
    def listeners(self) -> Mapping[str, int]:
        """None: the answers of listeners are not explored."""
        return {}

    def ask(self, function: str, arguments: Mapping[str, Plain], /) -> Plain:
        """Raise TooManyWays: the answers of the user's code are unknown."""
        raise TooManyWays(f"{function} is asked, and what it answers is not known")

    def apply(self, run: int, command: Command, /) -> None:
        """Assume what a command changes in memory."""
        facts = EFFECTS[type(command)].facts
        for fact in facts(run, command) if facts is not None else ():
            self._assumptions.apply(fact)
