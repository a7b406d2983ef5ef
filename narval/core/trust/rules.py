"""Rules of what may go where: who decides before a call goes outside (docs/reference/trust.md).

A call has parts, and each part has the labels of the sources of its value. Each label of each part is judged
by the first rule that matches it, and the most severe judgement wins. What only memory knows, such as whether
an address is the sender's, is looked up in the `Facts`; so the same rules judge an actual call and one that a
definition could make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import msgspec

from narval.core.memory.labels import MODEL, SECRET, UNKNOWN
from narval.core.patterns.pattern import Pattern
from narval.core.trust.parts import Part
from narval.core.trust.selection import looked_at

Then = Literal["allow", "ask", "refuse"]
"""The possible outcomes of a call by rules, mildest first."""

SEVERITY: tuple[Then, ...] = get_args(Then)

PartWord = Literal["any", "where", "what", "whether"]
"""The parts that a rule applies to: all, those that say where something goes, those that say what, and what
decided that the call is made.
"""

Holding = Literal["text", "link", "address", "account"]
"""The contents of a part that a rule may require: freely written words, or a link, address or account."""

ALL = "*"
"""Every label, of one of the two kinds."""

FROM = "from"
"""The variable for an element that came in."""

KNOWN = "known."
"""The prefix of the variables for the values of `[known]`."""


class Rule(msgspec.Struct, frozen=True, dict=True):
    """A rule of `etc/trust.toml`. It applies to everything in the respects that it does not name."""

    then: Then
    """The outcome of a matching call."""
    origins: tuple[str, ...] = ()
    """The labels of its `from`: names, `model:*`, or `*`."""
    secrets: tuple[str, ...] = ()
    """The names of its `secret`, or `*`."""
    part: PartWord = "any"
    """The parts that it applies to."""
    actions: tuple[str, ...] = ()
    """The names of actions, or `mail.*`."""
    recipes: tuple[str, ...] = ()
    """The names of the definitions whose runs make the call, or `assistant.*`."""
    to: Pattern | None = None
    """The pattern that inputs of the call must match."""
    holds: tuple[Holding, ...] = ()
    """The contents, one of which the value of the part must have."""
    why: str = ""
    """The reason, for people."""
    line: int = 0
    """The line of the file where it starts."""

    def is_about(self, action: str, recipe: str, part: Part, label: str) -> bool:
        """True if it matches a label of a part of a call, as far as known without memory."""
        return (
            self.is_about_part(part, label) and self.is_about_action(action) and self.is_about_recipe(recipe)
        )

    def is_about_part(self, part: Part, label: str) -> bool:
        """True if it may apply to a label of a part, whatever the call."""
        return self.part in ("any", word_of(part)) and self._names(label) and self._looks_at(part)

    def is_about_action(self, name: str) -> bool:
        """True if it may apply to calls of an action."""
        return not self.actions or any(fits(pattern, name) for pattern in self.actions)

    def is_about_recipe(self, name: str) -> bool:
        """True if it may apply to calls of runs of a definition."""
        return not self.recipes or any(fits(pattern, name) for pattern in self.recipes)

    @property
    def variables(self) -> frozenset[str]:
        """The variables of its `to`."""
        return frozenset() if self.to is None else self.to.variables

    def _names(self, label: str) -> bool:
        if label.startswith(SECRET):
            return any(fits(name, label.removeprefix(SECRET)) for name in self.secrets)
        return bool(self.origins) and (label == UNKNOWN or any(fits(name, label) for name in self.origins))

    def _looks_at(self, part: Part) -> bool:
        """False if it allows a "where" part by a pattern that does not read that part: a pattern of `@to`
        says nothing about `@cc`, and neither does `$from/@cc`.
        """
        if self.to is None or not part.where or not part.path or self.then != "allow":
            return True
        return part.path in looked_at(self.to.text)


class Rules(msgspec.Struct, frozen=True, dict=True):
    """The contents of `etc/trust.toml`."""

    rules: tuple[Rule, ...] = ()
    """The rules, in order."""
    secrets: tuple[tuple[str, Pattern], ...] = ()
    """The names of secrets, each with the pattern of its elements."""
    known: Mapping[str, Pattern] = {}
    """The expressions of `[known]`, by name, for the values of `$known.NAME`."""


class Facts(msgspec.Struct, frozen=True):
    """A call, as the rules judge it."""

    action: str
    """The full name of the called definition."""
    recipe: str
    """The full name of the definition whose run makes the call."""
    parts: tuple[Part, ...]
    """Its parts with their labels; a part without an input is what decided that the call is made."""
    holds: Callable[[Rule, Part], bool] = lambda rule, part: True
    """True if `to` and `holds` of a rule, which need memory and values, hold for a part."""


class Judgement(NamedTuple):
    """A label of a part with the resulting outcome of the call, and the rule that decides it; None if no rule
    matches.
    """

    then: Then
    part: Part
    label: str
    rule: Rule | None

    @property
    def why(self) -> str:
        """The reason, for people."""
        if self.rule is not None:
            return self.rule.why
        return "no rule is about it" if self.then == "ask" else ""


class Verdict(NamedTuple):
    """The outcome of a call by rules, with the decisive judgement: the first of the most severe. `judgements`
    are all of them.
    """

    then: Then = "allow"
    judgement: Judgement | None = None
    judgements: tuple[Judgement, ...] = ()

    @property
    def rule(self) -> Rule | None:
        """The decisive rule."""
        return None if self.judgement is None else self.judgement.rule

    @property
    def part(self) -> Part | None:
        """The part of the call that the decisive rule judged."""
        return None if self.judgement is None else self.judgement.part

    @property
    def why(self) -> str:
        """The reason, for people."""
        return "" if self.judgement is None else self.judgement.why


def decide(rules: Rules, facts: Facts) -> Verdict:
    """The verdict on a call: each label of each part is judged by the first rule that matches it, and the
    most severe judgement wins. A call without labels is allowed.
    """
    return _verdict(tuple(_judgements(rules, facts)))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several calls that are all made or all refused."""
    return _verdict(tuple(one for verdict in verdicts for one in verdict.judgements))


def _verdict(judgements: tuple[Judgement, ...]) -> Verdict:
    if not judgements:
        return Verdict()
    counting = max(judgements, key=lambda judgement: SEVERITY.index(judgement.then))
    return Verdict(counting.then, counting, judgements)


def only_secrets(part: Part) -> Part:
    """The part with only the labels of secrets."""
    labels = tuple(label for label in part.labels if label.startswith(SECRET))
    return msgspec.structs.replace(part, labels=labels)


def word_of(part: Part) -> PartWord:
    """The type of a part: where, what or whether."""
    return "whether" if not part.input else "where" if part.where else "what"


def unsaid(label: str) -> Then:
    """The outcome for a label that no rule applies to: ask for secrets, for answers of language models, and
    for unknown sources.
    """
    return "ask" if label == UNKNOWN or label.startswith((SECRET, MODEL)) else "allow"


def _judgements(rules: Rules, facts: Facts) -> Iterator[Judgement]:
    for part in facts.parts:
        for label in part.labels:
            rule = next((rule for rule in rules.rules if _counts(rule, facts, part, label)), None)
            yield Judgement(unsaid(label) if rule is None else rule.then, part, label, rule)


def _counts(rule: Rule, facts: Facts, part: Part, label: str) -> bool:
    if not rule.is_about(facts.action, facts.recipe, part, label):
        return False
    return (rule.to is None and not rule.holds) or facts.holds(rule, part)


def holds_of_all(rule: Rule, part: Part) -> bool:
    """True if a rule applies to any contents of a part, when there is nothing to evaluate a pattern on."""
    return rule.to is None and (not rule.holds or "text" in rule.holds or rule.then != "allow")


def fits(pattern: str, name: str) -> bool:
    """True if a name equals the pattern of a rule, or starts with what is before the pattern's `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith(ALL) else name == pattern


class RuleUse(NamedTuple):
    """The number of calls that a rule has judged, and the moment of the last one."""

    calls: int = 0
    last: float = 0.0


class RuleUses:
    """The calls that each rule has judged, wherever it is in the file; a call counts once per rule."""

    def __init__(self) -> None:
        self._uses: dict[Rule, RuleUse] = {}

    def note(self, verdict: Verdict, at: float) -> None:
        """Count a verdict at a moment."""
        for rule in {_without_line(one.rule) for one in verdict.judgements if one.rule is not None}:
            self._uses[rule] = RuleUse(self.of(rule).calls + 1, at)

    def of(self, rule: Rule) -> RuleUse:
        """The use of a rule so far."""
        return self._uses.get(_without_line(rule), RuleUse())


def _without_line(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, line=0)
