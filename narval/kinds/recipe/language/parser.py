"""The XML of recipes: a `cookbook` of them, or one alone (tables 2.3-2.11, N6, N12, N13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Parsed
from narval.core.definitions.parsing import read_within
from narval.core.definitions.people.approvals import refer_to_approval
from narval.core.definitions.prototype import EMPTY, Context, Narrowing, Prototype, stated_inputs
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.times import appointments, is_appointment, times
from narval.core.definitions.reading.tools import read_tool
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import local_name
from narval.core.errors import DefinitionError
from narval.core.kinds import INLINE, KINDS
from narval.core.patterns.pattern import Condition
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode
from narval.kinds.recipe.language.arguments import NOW, ReadArgument, read_argument, slips_of
from narval.kinds.recipe.language.definition import EACH, In, Recipe, Sending, Step, Transition, link
from narval.kinds.recipe.language.faults import Dependency, check_graph, check_inputs, check_names, check_step
from narval.kinds.recipe.language.vocabulary import SEND, WORDS


def parse(source: Source, root: XmlNode) -> Parsed:
    """The recipes of a file whose root is `cookbook` or `recipe`."""
    return Reading(source, WORDS).parsed(_definitions, root)


def _definitions(reading: Reading, node: XmlNode) -> Iterator[Definition | None]:
    """The recipes of a file, each followed by the definitions within its steps; then other definitions."""
    root = reading.entry(node, local_name(node.tag) or "")
    seen: dict[tuple[str, str], int] = {}
    for entry in [root] if root.word == "recipe" else root.of("recipe"):
        group, name = entry.get("group") or root.get("group"), entry.get("name")
        if group is None and "group" not in {*entry.written, *root.written}:
            message = "recipe needs the attribute 'group'; add group=\"…\", here or on the cookbook"
            reading.fault(entry, message)
        if group and name and (group, name) in seen:
            line = seen[group, name]
            reading.fault(entry, f"expected a new name, found {group}.{name} of line {line} again", "name")
        elif group and name:
            seen[group, name] = entry.node.line
            reading.names.add((Recipe.kind, f"{group}.{name}"))
        yield _recipe(reading, entry, group, name)
        for step in entry.of("step"):
            for inner in step.of(*INLINE):
                if group and name and step.get("id"):
                    yield read_within(inner.word, reading, inner.node, group, f"{name}:{step.get('id')}")
    for beside in root.of(*INLINE) if root.word != "recipe" else ():
        yield read_within(beside.word, reading, beside.node, root.get("group", ""))


def _recipe(reading: Reading, entry: Entry, group: str | None, name: str | None) -> Recipe | None:
    """The recipe of an entry, linked; None if it lacks an essential part.

    A part with a fault is left out, and the others are still checked.
    """
    first_reference = len(reading.references)
    patterns = Patterns(reading)
    step_reader = _StepReader(reading, patterns, f"{group}.{name}")
    steps = reading.each_once(entry.of("step"), step_reader.step)
    reader = _TransitionReader(reading, patterns, steps)
    transitions = reading.each_once(entry.of("transition"), reader.transition)
    start, end = (
        reading.lookup(entry, f"{side}_step", steps, "the id of a step") for side in ("start", "end")
    )
    for place, message in check_graph(entry, start, steps):
        reading.fault_at(place, message)
    link(steps, transitions)
    names = check_names(reading, patterns, entry, steps, transitions, start)
    check_inputs(reading, patterns, entry, {*steps, *names, "plan"}, step_reader.dependencies)
    tool, xml = read_tool(reading, entry), reading.xml(entry, "recipe", {"group": group})
    if start is None or end is None or group is None or name is None or xml is None:
        return None
    return Recipe(
        start,
        end,
        steps,
        transitions,
        restart=entry.get("restart", "no"),
        names=names,
        group=group,
        name=name,
        decay=entry.get("decay"),
        on_withdraw=entry.get("on-withdraw"),
        tool=tool,
        **reading.version(entry, xml, first_reference),
    )


class _StepReader:
    """The reader of `step` entries."""

    def __init__(self, reading: Reading, patterns: Patterns, recipe: str) -> None:
        self._reading, self._patterns, self._recipe = reading, patterns, recipe
        self.dependencies: dict[int, list[Dependency]] = {}
        """The variables of its inputs, to be checked with its target, by the id of an input's entry."""

    def step(self, entry: Entry) -> Step:
        """The step, and a reference to its target."""
        self._patterns.begin(entry)
        foreach = self._patterns.of_attribute(entry, "foreach")
        until = self._patterns.of_attribute(entry, "until")
        self._check_repetition(entry)
        arguments, inputs = self._arguments(entry), self._narrowings(entry, "input")
        sending, own = _sending(self._reading, self._patterns, entry), EMPTY
        inline = self._inline(entry) if sending is None else None
        if sending is not None:
            own = _what_is_sent(self._reading, entry, inputs)
        elif "agent" in entry.written:
            own = self._remote_inputs(entry, inputs)
        target = entry.get("target", "") if sending is None else entry.get("to", TO_SELECTED)
        step = Step(
            entry.get("id", ""),
            entry.get("type", ""),
            f"{self._recipe}:{entry.get('id')}" if inline is not None else target,
            foreach=None if foreach is None else Condition((foreach,)),
            arguments=tuple(argument.xml for argument in arguments),
            places=tuple(argument.place for argument in arguments),
            values={at: each.variables for at, each in enumerate(arguments) if each.variables is not None},
            context=_context(self._reading, self._patterns, entry),
            inputs=inputs,
            outputs=self._narrowings(entry, "output"),
            timeout=entry.get("timeout"),
            retries=entry.get("retries", 0),
            backoff=entry.get("backoff"),
            on_restart=entry.get("on-restart", ""),
            max_parallel=entry.get("max-parallel"),
            until=None if until is None else Condition((until,)),
            every=entry.get("every"),
            line=entry.node.line,
            agent=entry.get("agent", ""),
            own_inputs=own,
            sending=sending,
            approve=entry.get("approve", ""),
            on_withdraw=entry.get("on-withdraw", ""),
            undo=entry.get("undo", ""),
        )
        if step.undo:
            self._reading.refer(entry.place("undo"), Action.kind, step.undo, f"undo of step {step.id!r}")
        if step.approve:
            what, place = f"step {step.id!r}", entry.place("approve")
            refer_to_approval(self._reading, place, step.kind, step.approve, what)
        if sending is None and not step.agent and step.kind and step.target:
            what = f"step {step.id!r}" if step.id else "this step"
            # A reference lives as long as the recipe, so it holds only the step, and nothing of the reading.
            at_foreach, at_until = entry.place("foreach"), entry.place("until")
            path = self._reading.source.path
            dependencies: list[Dependency] = []
            prompts = slips_of(entry) if step.kind == Action.kind else {}
            self.dependencies.update({id(slot): dependencies for slot in entry.of("input")})
            check = partial(
                check_step,
                step,
                dependencies=dependencies,
                prompts=prompts,
                foreach=at_foreach,
                until=at_until,
                path=path,
            )
            place = entry.place("target") if inline is None else inline.place()
            self._reading.refer(place, step.kind, step.target, what, check)
        return step

    def _inline(self, entry: Entry) -> Entry | None:
        """The definition within the step, in place of its target."""
        inlined = list(entry.of(*INLINE))
        for extra in inlined[1:]:
            self._reading.fault(extra, f"a step has one target, found another on line {inlined[0].node.line}")
        if not inlined:
            if "target" not in entry.written:
                self._reading.fault(entry, "step needs the attribute 'target'; add target=\"…\"")
            return None
        if "agent" in entry.written:
            self._reading.fault(entry, "agent: what is within this step is run here; remove this", "agent")
        if "target" in entry.written:
            message = f"target: this step has its {inlined[0].word} within it; remove one of them"
            self._reading.fault(entry, message, "target")
        if entry.get("type") not in (None, inlined[0].word):
            message = f"type: expected {inlined[0].word}, for that is within this step"
            self._reading.fault(entry, f"{message}; found {entry.get('type')!r}", "type")
        return inlined[0]

    def _remote_inputs(self, entry: Entry, inputs: tuple[Narrowing, ...]) -> Prototype:
        """The inputs of a step that calls another agent, which sees only these."""
        kind = entry.get("type")
        if kind in KINDS and not KINDS[kind].engine:
            remedy = "let a recipe there call it, and call that"
            message = f"{kind}: another agent runs recipes, processes and automata only; {remedy}"
            self._reading.fault(entry, message, "type")
        for output in entry.of("output"):
            self._reading.fault(output, f"a {kind} has no outputs that a step could tighten; remove this")
        return _stated(self._reading, inputs)

    def _check_repetition(self, entry: Entry) -> None:
        """Record what a step that is called again lacks, or may not have."""
        written = entry.written
        if "until" in written and "every" not in written:
            message = 'until needs every, the time from one call to the next; add every="1d"'
            self._reading.fault(entry, message, "until")
        if "every" in written and "until" not in written:
            message = (
                "every needs until, a pattern: an element that fits it ends the calls; add it, or remove this"
            )
            self._reading.fault(entry, message, "every")
        if "until" in written and "foreach" in written:
            why = "foreach: a step with until is called for no element of its own"
            remedy = "call a recipe for each element, and let a step of that have until"
            self._reading.fault(entry, f"{why}; {remedy}", "foreach")

    def _arguments(self, entry: Entry) -> list[ReadArgument]:
        arguments = self._reading.one(entry, "arguments")
        children = arguments.node.children if arguments is not None else ()
        own = frozenset({NOW, EACH} if "foreach" in entry.written else {NOW})
        read = (read_argument(self._reading, self._patterns, child, own) for child in children)
        return [argument for argument in read if argument is not None]

    def _narrowings(self, entry: Entry, word: str) -> tuple[Narrowing, ...]:
        return tuple(self._reading.each_once(entry.of(word), self._narrowing).values())

    def _narrowing(self, entry: Entry) -> Narrowing:
        self._patterns.of_matches(entry)
        match, namespaces = self._patterns.texts(entry)
        stated = {name: bool(value) for name, value in entry.values.items() if name != "id"}
        places = {name: entry.place(name) for name in entry.values}
        line, column = entry.place()
        return Narrowing(
            entry.get("id"),
            match,
            stated,
            namespaces,
            path=self._reading.source.path,
            line=line,
            column=column,
            places=places,
        )


class _TransitionReader:
    """The reader of `transition` entries between steps, which are given by id."""

    def __init__(self, reading: Reading, patterns: Patterns, steps: Mapping[str, Step]) -> None:
        self._reading, self._patterns, self._steps = reading, patterns, steps
        self._orders = count()

    def transition(self, entry: Entry) -> Transition:
        """The transition; links to unknown steps are left out."""
        self._patterns.begin(entry)
        conditions = self._patterns.requirements(entry)
        own = frozenset(name for condition in entry.of("condition") if (name := condition.get("as")))
        ins, outs = self._links(entry, "in"), self._links(entry, "out")
        self._refuse_with_absence(entry)
        if any(written.get("on-error") for written, _ in ins):
            self._refuse_durations(entry)
        return Transition(
            entry.get("id", ""),
            entry.get("priority", 0),
            next(self._orders),
            tuple(In(step, written.get("on-error", False)) for written, step in ins),
            tuple(step for _, step in outs),
            conditions,
            _context(self._reading, self._patterns, entry),
            tuple(times(self._reading, (time for time in entry.of("time") if not is_appointment(time)))),
            entry.node.line,
            appointments=tuple(appointments(self._reading, self._patterns, entry.of("time"), own)),
        )

    def _refuse_with_absence(self, entry: Entry) -> None:
        for condition in entry.of("condition"):
            for word in ("use", "list", "as", "for") if condition.get("absent") else ():
                if condition.get(word):
                    message = f"{word}: a condition with absent takes nothing; remove this, or absent"
                    self._reading.fault(condition, message, word)

    def _refuse_durations(self, entry: Entry) -> None:
        for condition in entry.of("condition"):
            if "for" in condition.written:
                why = "the conditions of an error link hold when its step has failed, or never"
                remedy = "remove this, and let a transition after the next step wait"
                self._reading.fault(condition, f"for: {why}; {remedy}", "for")

    def _links(self, entry: Entry, word: str) -> list[tuple[Entry, Step]]:
        """The links of one direction with their steps: at least one, and each step once."""
        links = list(entry.of(word))
        if not links:
            far = {"in": "from which step", "out": "to which step"}[word]
            self._reading.fault(entry, f'transition needs an {word} that says {far}; add <{word} idref="…"/>')
        seen: set[str] = set()
        for written in links:
            target = written.get("idref")
            if target in seen:
                message = f"{word} names the step {target!r} a second time; remove one"
                self._reading.fault(written, message, "idref")
            elif target is not None and target not in self._steps:
                hint = closest(target, self._steps)
                message = f"{word}: expected the id of a step, found {target!r}{hint}"
                self._reading.fault(written, message, "idref")
            seen.add(target)
        steps = [(written, self._steps.get(written.get("idref"))) for written in links]
        return [(written, step) for written, step in steps if step is not None]


TO_SELECTED = "(to-select)"
"""The words in place of agents' names, if the sent elements name them."""

_OF_SENDING = ("to", "to-select", "await", "keep")
_OF_CALLING = ("target", "agent")


def _sending(reading: Reading, patterns: Patterns, entry: Entry) -> Sending | None:
    """The way a step sends; None if it calls something."""
    if entry.get("type") != SEND:
        for word in _OF_SENDING:
            if word in entry.written:
                reading.fault(entry, f'{word}: only a step of type="send" has this; remove it', word)
        return None
    written = entry.written
    for word in _OF_CALLING:
        if word in written:
            message = f"{word}: a step that sends calls nothing: `to` names the agents; remove this"
            reading.fault(entry, message, word)
    if ("to" in written) == ("to-select" in written):
        reading.fault(entry, 'send needs to="AGENT…", or to-select, an XPath that gives its name; add one')
    for output in entry.of("output"):
        reading.fault(output, "what is sent gives nothing back; remove this")
    select = patterns.of_attribute(entry, "to-select")
    if select is not None and (select.shape.xpath3 or select.variables):
        expectation = "an XPath 1.0 of the element that is sent, such as order/@shop"
        reading.fault(entry, f"to-select: expected {expectation}, found {select.text!r}", "to-select")
    return Sending(select.text if select is not None else "", "await" in written, entry.get("keep"))


def _what_is_sent(reading: Reading, entry: Entry, inputs: tuple[Narrowing, ...]) -> Prototype:
    """The input of a step that sends."""
    if len(inputs) != 1:
        what = "one input that says what is sent"
        add = '; add <input id="message"><match>…</match></input>' if not inputs else f", found {len(inputs)}"
        reading.fault(entry, f"send needs {what}{add}")
        return EMPTY
    return _stated(reading, inputs)


def _stated(reading: Reading, inputs: tuple[Narrowing, ...]) -> Prototype:
    """The prototype of the inputs that a step itself states; none if they have faults."""
    try:
        return stated_inputs(inputs)
    except DefinitionError as error:
        for fault in error.faults:
            reading.fault_at((fault.line, fault.column), fault.message)
        return EMPTY


def _context(reading: Reading, patterns: Patterns, entry: Entry) -> Context | None:
    """The `context` within a step or a transition."""
    written = reading.one(entry, "context")
    if written is None:
        return None
    if not any(written.of("match")):
        reading.fault(written, "context needs a match that says which elements to look for first")
    alternatives = tuple(Condition((pattern,)) for pattern in patterns.of_matches(written))
    return Context(written.get("from") == "plan", alternatives)
