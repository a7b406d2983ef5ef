"""Descriptions of what can reach a call: plain sentences about prospects, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from narval.core.definitions.telling.sentence import listed, verbatim
from narval.core.engines.commands import NOTICE
from narval.core.memory.labels import (
    ANY_MODEL,
    CALENDAR,
    FEED,
    FILE,
    HOOK,
    HTTP,
    MAIL,
    MODEL,
    PROGRAM,
    SECRET,
    SERVER,
    STORE,
    UNKNOWN,
    WEB,
)
from narval.core.trust.prospects import (
    CallProspect,
    Cause,
    End,
    Judged,
    LabelProspect,
    PartProspect,
    name_of,
)
from narval.core.trust.reach import WayStep
from narval.core.trust.rules import Then

_WORDS = {
    MAIL: "a stranger's mail",
    FEED: "a feed",
    WEB: "the web",
    CALENDAR: "a calendar",
    FILE: "a file that was read",
    PROGRAM: "a program",
    "chat": "a stranger's chat",
    UNKNOWN: "what came before there were labels",
    ANY_MODEL: "a language model",
}
_STARTS = {
    HOOK: "the webhook {}",
    HTTP: "the caller {}",
    MODEL: "the language model {}",
    SECRET: "what is secret",
    SERVER: "the server {} of MCP",
    STORE: "the store {}",
}
_THEN: dict[Then, str] = {"allow": "allowed", "ask": "asks", "refuse": "refused"}

_WRITTEN = "if a rule asks or refuses, it says the number of the item alone"

_CAUSES: dict[Cause, str] = {
    "memory": "depends on memory",
    "code": "depends on code",
    "values": "depends on what it says",
}


_NO_RULE = " because no rule is about it"


class Line(NamedTuple):
    """A line for people; a deeper line gives details of the one before."""

    text: str
    depth: int = 0


def who(label: str) -> str:
    """The phrase for the source that a label names."""
    if label in _WORDS:
        return _WORDS[label]
    for start, words in _STARTS.items():
        if label.startswith(start):
            return words.format(label.removeprefix(start))
    return f"what code calls {label}"


def outlook(call: CallProspect) -> str:
    """The prospect of a call, in a few words."""
    return _CAUSES.get(call.depends, call.prospect)


def lines_of_call(call: CallProspect) -> Iterator[Line]:
    """The lines that say what can reach a call, and how the rules judge it."""
    made = call.call.call
    yield Line(f"{name_of(call.call)} at {made.part} (line {made.line}): {outlook(call)}")
    action = call.call.action
    if action is not None and action.says_where is None and action.prototype.inputs:
        yield Line("its code does not say which parts say where, so each of them may", 1)
    if made.kind == NOTICE and call.prospect != "allowed":
        yield Line(_WRITTEN, 1)
    reached = [part for part in call.parts if part.labels]
    for text, parts in _alike(reached):
        yield Line(f"{_subject(parts)} {text}", 1)
    free = [part for part in call.parts if part.word == "where" and not part.labels]
    if free:
        yield Line(f"{_subject(free)} cannot come from outside", 1)


def summary_of_call(call: CallProspect) -> str:
    """The single line for a call that is allowed whatever reaches it."""
    made, labels = call.call.call, sorted(call.labels)
    reached = (
        f"{_why_allowed(call)}, whatever comes to it from {_all(labels)}"
        if labels
        else ": nothing from outside comes to it"
    )
    return f"{name_of(call.call)} at {made.part} (line {made.line}): {outlook(call)}{reached}"


def _why_allowed(call: CallProspect) -> str:
    """The reason why a call is allowed whatever reaches it: by rules, or because none applies."""
    ends = [end for part in call.parts for one in part.labels for end in one.ends]
    lines = sorted({end.rule.line for end in ends if end.rule is not None})
    rules = (
        f" by the rule{'s' if lines[1:] else ''} on line{'s' if lines[1:] else ''} {listed(map(str, lines))}"
    )
    unsaid = _NO_RULE if any(end.rule is None for end in ends) else ""
    return f"{rules if lines else ''}{' or' if lines and unsaid else ''}{unsaid}"


def way_in_words(way: Sequence[WayStep]) -> Iterator[str]:
    """The lines for the places on a label's path, from where it comes in."""
    for step in way:
        at = ", ".join(filter(None, (step.definition, step.part)))
        yield f"{step.words} ({at})" if at else step.words


class Refusal(NamedTuple):
    """A refused call: the line of its definition and of the rule, and the text."""

    line: int
    rule: int
    text: str


def refusals_of(call: CallProspect) -> Iterable[Refusal]:
    """The rules that refuse a call as soon as some label reaches it, each with the first part concerned."""
    refusals: dict[int, Refusal] = {}
    for part in call.parts:
        refused = [one for one in part.labels if one.prospect == "refused"]
        if refused:
            made, end = call.call.call, refused[0].ends[-1]
            come = f"is in {_named(part)}" if part.part.input else "decides that it is called"
            why = _because(end, " of etc/trust.toml")
            text = f"{made.part!r}: {name_of(call.call)} is {why} where {_from(refused)} {come}"
            rule = end.rule.line if end.rule is not None else 0
            refusals.setdefault(rule, Refusal(made.line, rule, text))
    return refusals.values()


def _alike(parts: Iterable[PartProspect]) -> list[tuple[str, list[PartProspect]]]:
    """The sentences about parts, each with all parts that it is about."""
    said: dict[tuple[str, str], list[PartProspect]] = {}
    for part in parts:
        said.setdefault((_said(part.judged, part.part.input == ""), part.word), []).append(part)
    return [(text, alike) for (text, _), alike in said.items()]


@lru_cache(maxsize=256)
def _said(judged: Judged, decides: bool) -> str:
    by_end: dict[str, list[LabelProspect]] = {}
    for one in judged.labels:
        by_end.setdefault(_end(one), []).append(one)
    come = "can be decided by" if decides else "can come from"
    sayings = [f"{come} {_from(labels)}: {end}" for end, labels in by_end.items()]
    return "; ".join(sayings)


def _from(labels: Iterable[LabelProspect]) -> str:
    return _all(one.label for one in labels)


def _all(labels: Iterable[str]) -> str:
    return listed((f"{who(label)} ({label})" for label in labels), "or")


_NAMED = "it goes to an agent that this names"
"""The condition of a rule about some of the agents to which something may go."""


def _end(one: LabelProspect) -> str:
    """The outcome of a call because of a label, in words."""
    *conditional, last = one.ends
    while conditional and conditional[-1].then == last.then:
        conditional.pop()
    ifs = [f"{_THEN[end.then]}{_rule(end)} if {condition_of(end) or _NAMED}" for end in conditional]
    text = "; else ".join([*ifs, _because(last)])
    if one.depends == "memory":
        return f"{text}, if it finds nothing nearer and takes what fits out of memory"
    if one.depends == "code":
        return f"{text}, if code passes that on which does not say what it passes on"
    return text


def _because(end: End, of: str = "") -> str:
    why = f", {end.rule.why}" if end.rule is not None and end.rule.why and end.then != "allow" else ""
    return f"{_THEN[end.then]}{_rule(end, of)}{why}"


def _rule(end: End, of: str = "") -> str:
    if end.rule is not None:
        return f" by the rule on line {end.rule.line}{of}"
    return _NO_RULE if end.then == "allow" else ""


def condition_of(end: End) -> str:
    """The phrase for what its rule requires of memory; "" if nothing."""
    rule = end.rule
    if rule is None:
        return ""
    asked = [f"{verbatim(rule.to.text)} fits"] if rule.to is not None else []
    if rule.holds:
        asked.append(f"it holds {listed((_a(word) for word in rule.holds), 'or')}")
    return " and ".join(asked)


def _a(word: str) -> str:
    return "words of its own" if word == "text" else f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _subject(parts: Sequence[PartProspect]) -> str:
    if not parts[0].part.input:
        return "that it is called"
    where = " (where it goes)" if parts[0].word == "where" else ""
    return f"{listed(map(_named, parts))}{where}"


def _named(part: PartProspect) -> str:
    return f"{part.part.input}/{part.part.path}" if part.part.path else part.part.input
