"""Rules of what may go where: who decides before a call goes outside (docs/reference/trust.md).

A call has parts, and each part has the labels of what its value came from. Each label of each part is judged
by the first rule that fits it, and the severest of all judgements counts. What only memory can tell, such as
whether an address is the writer's, is asked of the `Facts`; so the same rules judge a call that is made and
one that a definition could make.
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
"""The possible ends of a call by rules, the mildest first."""

SEVERITY: tuple[Then, ...] = get_args(Then)

PartWord = Literal["any", "where", "what", "whether"]
"""The parts that a rule is about: all, those that say where something goes, those that say what, and what
decided that the call came to be.
"""

Holding = Literal["text", "link", "address", "account"]
"""The contents of a part that a rule may ask for: words that somebody wrote freely, or what leads
somewhere."""

ALL = "*"
"""Every label, of one of the two kinds."""

FROM = "from"
"""The variable that stands for an element that came in."""

KNOWN = "known."
"""The start of the variables that stand for the values of `[known]`."""


class Rule(msgspec.Struct, frozen=True, dict=True):
    """A rule of `etc/trust.toml`. It covers everything in the respects that it does not name."""

    then: Then
    """The end of a call that fits."""
    origins: tuple[str, ...] = ()
    """The labels of its `from`: names, `model:*`, or `*`."""
    secrets: tuple[str, ...] = ()
    """The names of its `secret`, or `*`."""
    part: PartWord = "any"
    """The parts that it is about."""
    actions: tuple[str, ...] = ()
    """The names of actions, or `mail.*`."""
    recipes: tuple[str, ...] = ()
    """The names of the definitions whose runs make the call, or `assistant.*`."""
    to: Pattern | None = None
    """The pattern that inputs of the call must fit."""
    holds: tuple[Holding, ...] = ()
    """The contents, one of which the value of the part must have."""
    why: str = ""
    """The reason, for people."""
    line: int = 0
    """The line of the file at which it begins."""

    def is_about(self, action: str, recipe: str, part: Part, label: str) -> bool:
        """True if it fits a label of a part of a call, as far as that can be told without memory."""
        return (
            self.part in ("any", word_of(part))
            and self._names(label)
            and self.is_about_action(action)
            and self.is_about_recipe(recipe)
            and self._looks_at(part)
        )

    def is_about_action(self, name: str) -> bool:
        """True if it may be about calls of an action."""
        return not self.actions or any(fits(pattern, name) for pattern in self.actions)

    def is_about_recipe(self, name: str) -> bool:
        """True if it may be about calls of runs of a definition."""
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
        """False if it allows a part that says where by a pattern that does not look at that part: a pattern
        of `@to` says nothing of `@cc`, and neither does `$from/@cc`.
        """
        if self.to is None or not part.where or not part.path or self.then != "allow":
            return True
        return part.path in looked_at(self.to.text)


class Rules(msgspec.Struct, frozen=True, dict=True):
    """All that `etc/trust.toml` says."""

    rules: tuple[Rule, ...] = ()
    """The rules, in their order."""
    secrets: tuple[tuple[str, Pattern], ...] = ()
    """The names of secrets, each with the pattern of the elements that are secret."""
    known: Mapping[str, Pattern] = {}
    """The expressions of `[known]`, by name: the values that `$known.NAME` stands for."""


def _holds_always(rule: Rule, part: Part) -> bool:
    return True


class Facts(msgspec.Struct, frozen=True):
    """A call, as rules are tried on it."""

    action: str
    """The full name of the definition that is called."""
    recipe: str
    """The full name of the definition whose run calls."""
    parts: tuple[Part, ...]
    """Its parts with their labels; a part without an input is what decided that the call came to be."""
    holds: Callable[[Rule, Part], bool] = _holds_always
    """True if `to` and `holds` of a rule, which need memory and values, hold of a part."""


class Judgement(NamedTuple):
    """A label of a part with the end of the call that follows from it, and the rule that says so; None if no
    rule fits.
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
    """The end of a call by rules, with the judgement that counts: the first of the severest. `judgements` are
    all of them.
    """

    then: Then = "allow"
    judgement: Judgement | None = None
    judgements: tuple[Judgement, ...] = ()

    @property
    def rule(self) -> Rule | None:
        """The rule that counts."""
        return None if self.judgement is None else self.judgement.rule

    @property
    def part(self) -> Part | None:
        """The part of the call that it counts for."""
        return None if self.judgement is None else self.judgement.part

    @property
    def why(self) -> str:
        """The reason, for people."""
        return "" if self.judgement is None else self.judgement.why


def decide(rules: Rules, facts: Facts) -> Verdict:
    """The verdict on a call: each label of each part is judged by the first rule that fits it, and the
    severest judgement counts. A call without labels is allowed.
    """
    return _verdict(tuple(_judgements(rules, facts)))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several calls that are made or not made together."""
    return _verdict(tuple(one for verdict in verdicts for one in verdict.judgements))


def _verdict(judgements: tuple[Judgement, ...]) -> Verdict:
    if not judgements:
        return Verdict()
    counting = max(judgements, key=lambda judgement: SEVERITY.index(judgement.then))
    return Verdict(counting.then, counting, judgements)


def only_secrets(part: Part) -> Part:
    """The same part with only the labels of secrets."""
    labels = tuple(label for label in part.labels if label.startswith(SECRET))
    return msgspec.structs.replace(part, labels=labels)


def word_of(part: Part) -> PartWord:
    """The word for the sort of a part: where, what or whether."""
    return "whether" if not part.input else "where" if part.where else "what"


def unsaid(label: str) -> Then:
    """The end of a call because of a label that no rule is about: secrets ask, and so do answers of language
    models, and what may be anything.
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
    """True if a rule fits whatever is in a part: there is nothing to try a pattern on."""
    return rule.to is None and (not rule.holds or "text" in rule.holds or rule.then != "allow")


def fits(pattern: str, name: str) -> bool:
    """True if a name equals the pattern of a rule, or begins with what is before its `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith(ALL) else name == pattern


class RuleUse(NamedTuple):
    """The calls that a rule has judged, and the moment of the last one."""

    calls: int = 0
    last: float = 0.0


class RuleUses:
    """The calls that each rule has judged, wherever it is in the file; a call counts once for a rule."""

    def __init__(self) -> None:
        self._uses: dict[Rule, RuleUse] = {}

    def note(self, verdict: Verdict, at: float) -> None:
        """Count a verdict at a moment."""
        for rule in {_without_line(one.rule) for one in verdict.judgements if one.rule is not None}:
            self._uses[rule] = RuleUse(self.of(rule).calls + 1, at)

    def of(self, rule: Rule) -> RuleUse:
        """The calls that a rule has judged."""
        return self._uses.get(_without_line(rule), RuleUse())


def _without_line(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, line=0)
