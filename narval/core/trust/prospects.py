"""Prospects: how the rules would judge each label that can reach a part of a call, before the call is made.

A rule may depend on what only memory knows: whether an address is the sender's, what a text contains. Then it
may apply or not, and so may each rule after it: a label has several possible outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


class PartProspect(NamedTuple):
    """A part of a call, with all labels that can reach it, the most severe first."""

    part: ReachedPart
    word: PartWord
    labels: tuple[LabelProspect, ...]


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
    for call in calls:
        if call.call.kind == NOTICE and rules is None:
            continue
        if _goes_outside(call):
            yield _gravest(call, tuple(_of_part(call, part, rules) for part in call.parts))
        elif call.action is not None and call.action.reads_outside:
            parts = tuple(_only_secrets(_of_part(call, part, rules)) for part in call.parts)
            if any(part.labels for part in parts):
                yield _gravest(call, parts)


def of_label(call: CallProspect, label: str) -> CallProspect | None:
    """The prospect of a call because of one label; None if the label cannot reach it. `model:*` is any."""
    parts = tuple(
        part._replace(labels=tuple(one for one in part.labels if fits(label, one.label)))
        for part in call.parts
    )
    return _gravest(call.call, parts) if any(part.labels for part in parts) else None


def _may_be_about(rule: Rule, action: str, recipe: str, piece: Part, label: str) -> bool:
    """True of a rule that names some of the agents to which something may go that is not known before."""
    receiver = action.removeprefix(AGENTS)
    named = any(name.startswith(AGENTS) and name.endswith(receiver.strip(ALL)) for name in rule.actions)
    anyone = msgspec.structs.replace(rule, actions=())
    return ALL in receiver and named and anyone.is_about(action, recipe, piece, label)


def _only_secrets(part: PartProspect) -> PartProspect:
    """The part with only the labels of secrets: nothing else is judged in a call that only reads outside."""
    return part._replace(labels=tuple(one for one in part.labels if one.label.startswith(SECRET)))


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


def _of_part(call: ReachedCall, part: ReachedPart, rules: Rules | None) -> PartProspect:
    piece = Part(part.input, part.path, part.where)
    judged = [_of_label(call, part, piece, label, rules) for label in sorted(part.all)]
    judged.sort(key=lambda one: -GRAVITY.index(one.prospect))
    return PartProspect(part, word_of(piece), tuple(judged))


def _of_label(
    call: ReachedCall, part: ReachedPart, piece: Part, label: str, rules: Rules | None
) -> LabelProspect:
    ends = tuple(_ends(call, piece, label, rules))
    worst = max((end.then for end in ends), key=SEVERITY.index)
    best = min((end.then for end in ends), key=SEVERITY.index)
    if worst == "allow":
        return LabelProspect(label, "allowed", "", ends)
    if label in part.labels:
        if best == worst:
            return LabelProspect(label, _SURE[worst], "", ends)
        return LabelProspect(label, "depends", "values", ends)
    return LabelProspect(label, "depends", "memory" if label in part.by_memory else "code", ends)


def _ends(call: ReachedCall, piece: Part, label: str, rules: Rules | None) -> Iterator[End]:
    """The possible outcomes of a label for a call, up to the first rule that applies in any case."""
    if rules is None:
        yield End("ask" if label.startswith(MODEL) else "allow", None)
        return
    action, recipe = name_of(call), call.definition.full_name
    for rule in rules.rules:
        is_about = rule.is_about(action, recipe, piece, label)
        if not is_about and not (
            call.call.kind == AWAY and _may_be_about(rule, action, recipe, piece, label)
        ):
            continue
        is_sure = is_about and rule.to is None and not rule.holds
        if call.call.kind == FLOW:
            is_sure = holds_of_all(rule, piece)
            if not is_sure:
                continue
        yield End(rule.then, rule)
        if is_sure:
            return
    yield End(unsaid(label), None)
