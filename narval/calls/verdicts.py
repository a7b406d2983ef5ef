"""Verdicts: the judgement of the home's rules on a call that goes outside (docs/reference/trust.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from narval.agent.agent import AgentState
from narval.agent.labelling import came_with, labels_of_paths, paths_in
from narval.agent.run import Run
from narval.calls.leaving import leaving, says_receiver
from narval.core.definitions.action.definition import Action
from narval.core.definitions.telling.sentence import listed
from narval.core.elements.element import Element, Origin
from narval.core.elements.titles import title_of
from narval.core.engines.commands import NOTICE, PROGRAM, SEND, Call
from narval.core.engines.events import Failure
from narval.core.errors import InternalError
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, Condition, Pattern
from narval.core.source.secrets import HIDDEN, hide_secrets
from narval.core.trust.contents import is_free, leading_in, paths_there, values_of, written
from narval.core.trust.needs import may_copy
from narval.core.trust.origins import came_in, chosen, origins_of
from narval.core.trust.parts import (
    AGENTS,
    PROGRAMS,
    VALUES,
    WRITTEN_WORK,
    Part,
    elements_given,
    inputs_of,
    parts_of,
)
from narval.core.trust.rules import FROM, KNOWN, Facts, Judgement, Rule, Rules, Verdict, only_secrets
from narval.core.trust.selection import looks_at
from narval.files.trust_file import TRUST_FILE

_READS_MORE = re.compile(r"\$from(?![\w.-])(?!/@[A-Za-z_])")
"""The pattern for an expression that reads more of `$from` than attributes of its root."""

REFUSED = "refused-by-rule"
"""The error type of a call that a rule refuses."""

MOST_SOURCES = 10
"""The most source elements that are named for a part."""

LONGEST_PLACE = 80
"""The most characters of a place in a question."""

LONGEST_PLACES = 140
"""The most characters of all places in a question."""


def deciding(agent: AgentState, run: Run) -> tuple[int, ...]:
    """The runs that decided on a call of a run: the run, and its callers."""
    return tuple([each.eid for each in agent.runs.with_callers(run)])


def facts_of(agent: AgentState, rules: Rules, run: Run, call: Call, action: Action | None) -> Facts:
    """The facts about a call for the rules; `action` is its target, None for a program and for a call that
    goes to another home. For an action that only reads outside, only secrets are judged.
    """
    memory = agent.memory
    says_where = None if action is None else action.says_where
    if call.agent:
        says_where = says_receiver(call)
    elif call.kind == NOTICE:
        says_where = ()  # people.toml determines the receiver
    all_parts = parts_of(memory, call, says_where, deciding(agent, run))
    inputs = elements_given(memory, call)
    parts = tuple(part for part in all_parts if part.labels and _is_there(part, inputs))
    if call.kind == NOTICE or _gives_values(call):  # values that the run contains
        labels = memory.labels.names(memory.labels.whole(memory.labels.of((run.eid,))))
        parts = (Part(VALUES, "", bool(call.program), labels, (run.eid,)), *parts)
    contents = tuple(_copied(agent, call)) if action is not None and may_copy(action) else ()
    parts = (*parts, *contents)
    if action is not None and action.reads_outside:
        parts = tuple(part for each in parts if (part := only_secrets(each)).labels)
    return Facts(_named(call), run.name, parts, _Holding(agent, rules, run, inputs, parts, contents).holds)


def _copied(agent: AgentState, call: Call) -> Iterator[Part]:
    """The contents of the files that the inputs of a call name, as parts of these inputs; those of a closed
    part of the home, such as `data/memory.xml`, may be any secret.
    """
    labels = agent.memory.labels
    for slot, eids in inputs_of(call):
        for eid in eids:
            if number := labels_of_paths(agent, [*paths_in(agent, eid)]):
                yield Part(slot, "", False, labels.names(number), (eid,))


def _gives_values(call: Call) -> bool:
    """True if a call passes values of its run that are in no element."""
    if call.agent:
        return bool((call.payload or {}).get("environment"))
    return call.program is not None and bool(call.program.environment)


def _named(call: Call) -> str:
    """The name that rules use for the called target."""
    if call.agent:
        return f"{AGENTS}{call.agent}"
    if call.kind == NOTICE:
        return f"{WRITTEN_WORK}{call.name}"
    return f"{PROGRAMS}{call.name}" if call.kind == PROGRAM else call.name


def shown_part(part: Part) -> str:
    """The description of a part, for people."""
    if not part.input:
        return "whether it is made"
    return f"`{part.path or part.input}` of {part.input}" if part.path else f"`{part.input}`"


def refused_by_rule(run: Run, called: str, verdict: Verdict) -> Failure:
    """The failure of a call that a rule refuses."""
    rule, part, judgement = verdict.rule, verdict.part, verdict.judgement
    if rule is None or part is None or judgement is None:
        raise InternalError(f"expected the rule that refuses {called}, got none")
    where, why = f"line {rule.line} of {TRUST_FILE}", f": {rule.why}" if rule.why else ""
    what = f"{shown_part(part)}, which has the label {judgement.label}"
    return Failure(
        REFUSED,
        f"{run.name} may not call {called}: the rule on {where} refuses {what}{why}",
        final=True,
    )


def question_of(
    memory: Memory, calls: Sequence[Call], action: Action | None, asking: Iterable[Part] = ()
) -> str:
    """A question that names what calls of one step do, and where: "mail.send to ann@example.org?".

    It names all places as far as there is room, first those of the parts that make rules ask (`asking`), and
    then the number of others. A place from an element that the owner has declared, such as an outbox, is
    named only if it is one of these, or if there is no other. The text is copied unchanged from the elements:
    it may contain any character.
    """
    first = calls[0]
    name = (
        "send" if first.kind == SEND else f"{PROGRAMS}{first.name}" if first.kind == PROGRAM else first.name
    )
    if len(calls) > 1:
        name = f"{len(calls)} calls of {name}"
    places = list(dict.fromkeys(one.agent for call in calls for one in leaving(memory, call)))
    places = places or _places(memory, calls, action, asking)
    if not places:
        about = _said_to_tool(memory, first) if len(calls) == 1 and action is not None and action.tool else ""
        return f"{name} with {_quoted(about)}?" if about else f"{name}?"
    return f"{name} to {_listed_places(places)}?"


def _listed_places(places: Sequence[str]) -> str:
    """Places on one line: as many as there is room for, and the number of others."""
    texts = [_shortened(place) if " " not in place else _quoted(place) for place in places]
    ends = list(accumulate(len(text) + len(", ") for text in texts))
    fit = max(1, sum(end <= LONGEST_PLACES for end in ends))
    return listed([*texts[:fit], *([f"{len(texts) - fit} more"] if texts[fit:] else [])])


def _said_to_tool(memory: Memory, call: Call) -> str:
    """The few words that tell a person what a tool is given; "" if attributes do not say it."""
    elements = (memory.element(eid) for _, eids in call.inputs for eid in eids)
    attributes = (element.attributes.items() for element in elements if element is not None)
    own = ({name: value for name, value in each if name != "eid" and name[0] != "{"} for each in attributes)
    return next(filter(None, (title_of(hide_secrets(each)) for each in own)), "")


def _quoted(words: str) -> str:
    """Words of others, cut short and quoted, so that they cannot be mistaken for ours."""
    return '"{}"'.format(_shortened(words).replace('"', "'"))


def _shortened(words: str) -> str:
    return words if len(words) <= LONGEST_PLACE else f"{words[: LONGEST_PLACE - 1]}…"


def _places(
    memory: Memory, calls: Sequence[Call], action: Action | None, asking: Iterable[Part]
) -> list[str]:
    """The places that calls name, each on one line."""
    declared = [(part.slot, part.path) for part in (action.says_where if action is not None else None) or ()]
    first = [(part.input, part.path) for part in asking if part.where and declared]
    places = [place for part in dict.fromkeys(first) for place in _said_at(memory, calls, *part)]
    places += [place for part in declared for place in _said_at(memory, calls, *part, own=False)]
    owner = (place for part in declared if part[1] for place in _said_at(memory, calls, *part))
    return list(dict.fromkeys(places or owner))


def _said_at(
    memory: Memory, calls: Iterable[Call], slot: str, path: str, *, own: bool | None = None
) -> Iterator[str]:
    """The values of a part in the elements that calls are given; with `own`, only in those that the owner has
    declared (True), or has not.
    """
    eids_there = (eid for call in calls for id, eids in call.inputs for eid in eids if id == slot)
    for eid in eids_there:
        element = memory.element(eid)
        if element is not None and own in (None, eid in memory.declared):
            values = values_of(element.xml, path) if path else _all_said(element)
            yield from filter(None, (" ".join(hide_secrets(value).split()) for value in values))


def _all_said(element: Element) -> Iterator[str]:
    """All values of an element except its eid and those named as secrets."""
    root = element.tree()
    root.attrib.pop("eid", None)
    for node in root.iter("*"):
        yield from (value for value in hide_secrets(dict(node.attrib)).values() if value != HIDDEN)
        yield from filter(None, (node.text, node.tail))


def lines_about(agent: AgentState, verdict: Verdict) -> Iterator[str]:
    """Lines about each part that makes a call ask: its labels, the rule that asks, and the origin of the
    labels.
    """
    asking: dict[Part, list[Judgement]] = {}
    for judgement in verdict.judgements:
        if judgement.then == "ask":
            asking.setdefault(judgement.part, []).append(judgement)
    for part, judgements in asking.items():
        rule, why = judgements[0].rule, judgements[0].why
        line = f"the rule on line {rule.line} of {TRUST_FILE} asks" if rule is not None else "so it asks"
        labels = ", ".join(judgement.label for judgement in judgements)
        yield f"{shown_part(part)} is labelled {labels}; {line}{f': {why}' if why else ''}"
        arrived = came_in(agent.memory, part.eids, models=True) if part.input else None
        sources = arrived or part.eids
        yield from (_came(agent, part, eid) for eid in sources[:MOST_SOURCES])
        if len(sources) > MOST_SOURCES:
            yield f"{shown_part(part)} comes from {len(sources) - MOST_SOURCES:,} elements more"


def _came(agent: AgentState, part: Part, eid: int) -> str:
    """A line about the origin of a part's content."""
    run, element = agent.runs.get(eid), agent.memory.element(eid)
    verb = "comes from" if part.input else "was decided by"
    if run is not None:
        return f"{shown_part(part)} {verb} run {eid} of {run.name}"
    if element is None:
        return f"{shown_part(part)} {verb} {eid}, which is forgotten"
    origin = element.origin or Origin()
    maker = agent.runs.get(origin.run)
    by = f" by step {origin.step}" if origin.step else ""
    of = f" of {maker.name}" if maker is not None else ""
    sent = f" from the agent {origin.agent}" if origin.agent else ""
    return f"{shown_part(part)} {verb} {element.name} {eid}{by}{of}{sent}"


def _is_there(part: Part, inputs: Mapping[str, Sequence[Element]]) -> bool:
    """False for a part that no input element has: a missing address goes nowhere."""
    if not part.path or part.input not in inputs:
        return True
    return any(any(values_of(element.xml, part.path)) for element in inputs[part.input])


class _Holding:
    """The conditions of rules on one call that need memory, evaluated when a rule needs them."""

    def __init__(
        self,
        agent: AgentState,
        rules: Rules,
        run: Run,
        inputs: Mapping[str, Sequence[Element]],
        parts: Sequence[Part],
        contents: Sequence[Part],
    ) -> None:
        self._agent, self._memory = agent, agent.memory
        self._rules, self._definition = rules, run.definition
        self._given, self._parts, self._contents = inputs, parts, contents
        self._fitting: dict[Rule, bool] = {}
        """The results of `to` of the rules evaluated so far, the same for each part."""

    def holds(self, rule: Rule, part: Part) -> bool:
        """True if `to` and `holds` of a rule are true of a part."""
        if rule.to is not None:
            if not self._is_about(rule, rule.to, part):
                return False
            if rule not in self._fitting:
                self._fitting[rule] = self._fits(rule, rule.to)
            if not self._fitting[rule]:
                return False
        return not rule.holds or self._contains(rule, part)

    # --- to -------------------------------------------------------------------------------------------

    def _is_about(self, rule: Rule, pattern: Pattern, part: Part) -> bool:
        """False if a rule would allow a place that its pattern does not fully cover: permission to write to a
        person says nothing about the outbox, nor about other content of an undivided input.
        """
        if rule.then != "allow" or not part.where:
            return True
        elements, names = self._given.get(part.input), Condition((pattern,)).names
        if elements is None or not (names is None or all(element.name in names for element in elements)):
            return False
        if part.path:
            return True  # the rule itself examines it
        others = self._others(part)
        return all(
            looks_at(pattern.text, path) for element in elements for path in paths_there(element.xml, others)
        )

    @cached_property
    def _arrived(self) -> list[Element] | None:
        """The elements by which the call's inputs came in; None if unknown."""
        nearest = (eid for part in self._parts if part.input for eid in part.eids)
        eids = came_in(
            self._memory, nearest, brings_in=lambda origin: any(True for _ in came_with(self._agent, origin))
        )
        return None if eids is None else list(origins_of(self._memory, eids))

    def _fits(self, rule: Rule, pattern: Pattern) -> bool:
        """True if the inputs to which a pattern may apply match it, for each element that came in.

        For a rule that allows, all must match; for any other, one is enough.
        """
        condition = Condition((pattern,))
        values = {name: self._known[name] for name in pattern.variables if name.startswith(KNOWN)}
        if FROM in pattern.variables:
            arrived = self._arrived or ()
            if not all(came.eid for came in arrived) and _READS_MORE.search(pattern.text):
                arrived = ()  # if another agent reported it, only attributes are known
            bounds = [condition.bind({**values, FROM: (came,)}) for came in arrived]
        else:
            bounds = [self._agent.lookup.known.bind(condition, values)]
        tried = [self._try(rule, bound, each) for bound in bounds for each in self._possible(condition)]
        return bool(tried) and (all(tried) if rule.then == "allow" else any(tried))

    def _possible(self, condition: Condition) -> Iterator[Element]:
        names = condition.names
        for elements in self._given.values():
            yield from (element for element in elements if names is None or element.name in names)

    def _try(self, rule: Rule, bound: Bound, element: Element) -> bool:
        """True if an element matches. One that is too large to test matches rules that do not allow."""
        tree = self._memory.tree(element)
        if bound.test(tree):
            return True
        too_large = any(
            pattern.outgrown_by(tree, most) for pattern, most in zip(bound.patterns, bound.room, strict=True)
        )
        return too_large and rule.then != "allow"

    @cached_property
    def _known(self) -> Mapping[str, Sequence[Element]]:
        """The values of `[known]`, by their variables."""
        values = self._agent.lookup.known.values
        return {f"{KNOWN}{name}": values(self._memory, of) for name, of in self._rules.known.items()}

    # --- holds ----------------------------------------------------------------------------------------

    def _contains(self, rule: Rule, part: Part) -> bool:
        if part.input not in self._given:
            return bool(part.input) and "text" in rule.holds  # from a program's environment
        if part in self._contents:
            return True  # of a file, which nobody reads for this
        values = list(self._values(part))
        choices = chosen(self._memory, part.eids)
        free = [value for value in values if is_free(value, choices, numbers=not part.where)]
        if "text" in rule.holds and free:
            return True
        author = self._definition.xml if self._definition is not None else b""
        return any(
            leading_in(value, kind) - (written(author, kind) if author else frozenset())
            for kind in rule.holds
            if kind != "text"
            for value in free
        )

    def _values(self, part: Part) -> Iterator[str]:
        for element in self._given[part.input]:
            yield from values_of(element.xml, part.path, self._others(part))

    def _others(self, part: Part) -> list[str]:
        """The paths of the other parts of its input."""
        return [other.path for other in self._parts if other.input == part.input and other.path]
