"""Prospects: how the rules would judge each label that can reach a part of a call, before the call is made.

A rule may depend on what only memory knows: whether an address is the sender's, what a text contains. Then it
may apply or not, and so may each rule after it: a label has several possible outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from narval.core.definitions.action.definition import Action
from narval.core.engines.commands import FLOW, NOTICE, PROGRAM
from narval.core.memory.labels import MODEL, SECRET
from narval.core.trust.parts import AGENTS, PROGRAMS, WRITTEN_WORK, Part
from narval.core.trust.reach import ReachedCall, ReachedPart
from narval.core.trust.rules import (
    ALL,
    SEVERITY,
    PartWord,
    Rule,
    Rules,
    Then,
    fits,
    holds_of_all,
    unsaid,
    word_of,
)
from narval.core.trust.ways_out import AWAY

Prospect = Literal["allowed", "depends", "asks", "refused"]
"""The prospect of a call, mildest first: nothing that can reach it asks; something may ask under some
conditions; a label that can reach it asks; or one is refused.
"""

_SURE: dict[Then, Prospect] = {"allow": "allowed", "ask": "asks", "refuse": "refused"}

Cause = Literal["", "memory", "code", "values"]
"""The reason why it depends: on an element found by rank, on code that does not declare what it passes on, or
on values that a rule requires; "" for none.
"""


class End(NamedTuple):
    """A possible outcome of a label for a call, and the rule that decides it; None if no rule applies."""

    then: Then
    rule: Rule | None


class LabelProspect(NamedTuple):
    """A label that can reach a part of a call, and how the rules judge it."""

    label: str
    prospect: Prospect
    depends: Cause
    ends: tuple[End, ...]
    """The possible outcomes, that of the first rule first; the last has no further condition."""


class Judged(msgspec.Struct, frozen=True, eq=False):
    """All labels that can reach a part, the most severe first. Parts that are alike share one."""

    labels: tuple[LabelProspect, ...]


class PartProspect(NamedTuple):
    """A part of a call, with all labels that can reach it."""

    part: ReachedPart
    word: PartWord
    judged: Judged

    @property
    def labels(self) -> tuple[LabelProspect, ...]:
        """The labels, the most severe first."""
        return self.judged.labels

    def with_labels(self, fitting: Callable[[str], bool]) -> PartProspect:
        """The part with only some of its labels."""
        return self._replace(judged=Judged(tuple(one for one in self.labels if fitting(one.label))))


class CallProspect(NamedTuple):
    """A call that goes outside, or to a program, with its most severe prospect."""

    call: ReachedCall
    prospect: Prospect
    depends: Cause
    parts: tuple[PartProspect, ...]

    @property
    def labels(self) -> frozenset[str]:
        """All labels that can reach any part of it."""
        return frozenset(one.label for part in self.parts for one in part.labels)


GRAVITY: tuple[Prospect, ...] = ("allowed", "depends", "asks", "refused")


def prospects(calls: Iterable[ReachedCall], rules: Rules | None) -> Iterator[CallProspect]:
    """The prospects, by rules, of calls that go outside, and of those that can reveal a secret there. With
    None they are those of a home without rules: a language model's answer asks.
    """
    judge = _Judge(rules)
    for call in calls:
        if call.call.kind == NOTICE and rules is None:
            continue
        if _goes_outside(call):
            yield _gravest(call, judge.parts(call))
        elif call.action is not None and call.action.reads_outside:
            # nothing but secrets is judged in a call that only reads outside
            parts = tuple(part.with_labels(partial(fits, f"{SECRET}{ALL}")) for part in judge.parts(call))
            if any(part.labels for part in parts):
                yield _gravest(call, parts)


def of_label(call: CallProspect, label: str) -> CallProspect | None:
    """The prospect of a call because of one label; None if the label cannot reach it. `model:*` is any."""
    parts = tuple(part.with_labels(partial(fits, label)) for part in call.parts)
    return _gravest(call.call, parts) if any(part.labels for part in parts) else None


def _gravest(call: ReachedCall, parts: tuple[PartProspect, ...]) -> CallProspect:
    judged = [one for part in parts for one in part.labels]
    gravest = max(judged, key=lambda one: GRAVITY.index(one.prospect), default=None)
    if gravest is None:
        return CallProspect(call, "allowed", "", parts)
    return CallProspect(call, gravest.prospect, gravest.depends, parts)


def name_of(call: ReachedCall) -> str:
    """The target's name in rules; it ends or starts with `*` for an agent not known in advance."""
    if call.call.kind == AWAY:
        return f"{AGENTS}{call.call.target}"
    if call.call.kind == NOTICE:
        return f"{WRITTEN_WORK}{call.call.target}"
    return f"{PROGRAMS}{call.call.target}" if call.call.kind == PROGRAM else call.call.target


def _goes_outside(call: ReachedCall) -> bool:
    if call.call.kind in (PROGRAM, FLOW, AWAY, NOTICE):
        return True
    return call.call.kind == Action.kind and (call.action is None or call.action.outside)


_About = tuple[tuple[int, bool], ...]
"""The rules that may apply to a call, by their positions, each with True if it is about the call's target."""


class _Judge:
    """Judges the labels of parts by rules, once for all parts that are alike."""

    def __init__(self, rules: Rules | None) -> None:
        self._rules = rules
        self._judged: dict[tuple[object, ...], Judged] = {}

    def parts(self, call: ReachedCall) -> tuple[PartProspect, ...]:
        """The prospects of the parts of a call."""
        about, is_flow = tuple(self._about(call)), call.call.kind == FLOW
        return tuple(self._part(part, about, is_flow) for part in call.parts)

    def _about(self, call: ReachedCall) -> Iterator[tuple[int, bool]]:
        action, recipe = name_of(call), call.definition.full_name
        for at, rule in enumerate(self._rules.rules if self._rules is not None else ()):
            is_about = rule.is_about_action(action)
            if (is_about or _names_some(rule, call, action)) and rule.is_about_recipe(recipe):
                yield at, is_about

    def _part(self, part: ReachedPart, about: _About, is_flow: bool) -> PartProspect:
        piece = Part(part.input, part.path, part.where)
        word, path = word_of(piece), part.path if part.where else ""
        key = (about, is_flow, word, path, part.labels, part.by_memory, part.by_code)
        if key not in self._judged:
            labels = [
                _of_label(part, label, tuple(self._ends(piece, label, about, is_flow)))
                for label in sorted(part.all)
            ]
            labels.sort(key=lambda one: -GRAVITY.index(one.prospect))
            self._judged[key] = Judged(tuple(labels))
        return PartProspect(part, word, self._judged[key])

    def _ends(self, piece: Part, label: str, about: _About, is_flow: bool) -> Iterator[End]:
        """The possible outcomes of a label for a call, up to the first rule that applies in any case."""
        if self._rules is None:
            yield End("ask" if label.startswith(MODEL) else "allow", None)
            return
        for at, is_about in about:
            rule = self._rules.rules[at]
            is_sure = (
                holds_of_all(rule, piece) if is_flow else is_about and rule.to is None and not rule.holds
            )
            if rule.is_about_part(piece, label) and (is_sure or not is_flow):
                yield End(rule.then, rule)
                if is_sure:
                    return
        yield End(unsaid(label), None)


def _names_some(rule: Rule, call: ReachedCall, action: str) -> bool:
    """True of a rule that names some of the agents to which something may go that is not known before."""
    receiver = action.removeprefix(AGENTS)
    return (
        call.call.kind == AWAY
        and ALL in receiver
        and any(name.startswith(AGENTS) and name.endswith(receiver.strip(ALL)) for name in rule.actions)
    )


def _of_label(part: ReachedPart, label: str, ends: tuple[End, ...]) -> LabelProspect:
    worst = max((end.then for end in ends), key=SEVERITY.index)
    best = min((end.then for end in ends), key=SEVERITY.index)
    if worst == "allow":
        return LabelProspect(label, "allowed", "", ends)
    if label in part.labels:
        if best == worst:
            return LabelProspect(label, _SURE[worst], "", ends)
        return LabelProspect(label, "depends", "values", ends)
    return LabelProspect(label, "depends", "memory" if label in part.by_memory else "code", ends)
