"""The XML of recipes: a `cookbook` of them, or one alone (tables 2.3-2.11, N6, N12, N13)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from lxml import etree

from narval.definitions.library import Parsed, Reference
from narval.definitions.prototype import Narrowing
from narval.definitions.reading.xml import Entry, Reading, TooManyFaultsError
from narval.definitions.recipe.checks import Edge, check_graph, check_step
from narval.definitions.recipe.definition import In, Recipe, Step, Transition, in_order
from narval.definitions.recipe.vocabulary import WORDS
from narval.definitions.requirements import Context, TransitionCondition
from narval.definitions.schedule import Time, never
from narval.definitions.suggestions import closest, nearest
from narval.errors import ElementError
from narval.memory.elements.canonical import canonical, parse_untrusted
from narval.memory.elements.element import CONTROL, local_name
from narval.memory.patterns.pattern import Condition
from narval.source.text import Source
from narval.source.xml import XmlNode

_DAYS = ("monthdays", "yeardays", "weekdays", "months", "years")
"""The fields that a date may never come for, the likeliest first."""


def parse(source: Source, root: XmlNode) -> Parsed:
    """The recipes of a file whose root is `cookbook` or `recipe`."""
    found = Reading(source, WORDS)
    recipes: list[Recipe] = []
    references: list[Reference] = []
    names: set[tuple[str, str]] = set()
    with suppress(TooManyFaultsError):
        entry = found.entry(root, local_name(root.tag) or "")
        for recipe, builder in _recipes(found, entry, names):
            references.extend(builder.references)
            recipes.extend([recipe] if recipe is not None else [])
    return Parsed(tuple(recipes), tuple(references), tuple(sorted(set(found.faults))), frozenset(names))


def _recipes(
    found: Reading, root: Entry, names: set[tuple[str, str]]
) -> Iterator[tuple[Recipe | None, _RecipeBuilder]]:
    seen: dict[tuple[str, str], int] = {}
    for entry in [root] if root.word == "recipe" else root.of("recipe"):
        group, name = entry.get("group") or root.get("group"), entry.get("name")
        if group is None and "group" not in {*entry.written, *root.written}:
            found.fault(entry, "recipe needs the attribute 'group'; add group=\"…\", here or on the cookbook")
        if group and name and (group, name) in seen:
            line = seen[group, name]
            found.fault(entry, f"expected a new name, found {group}.{name} of line {line} again", "name")
        elif group and name:
            seen[group, name] = entry.node.line
            names.add(("recipe", f"{group}.{name}"))
        builder = _RecipeBuilder(found, entry)
        yield builder.build(group, name), builder


class _RecipeBuilder:
    """Makes one recipe of its entry; a part with a fault is left out, the others are checked anyway."""

    def __init__(self, found: Reading, entry: Entry) -> None:
        self._found, self._entry = found, entry
        self._steps: dict[str, Step] = {}
        self._transitions: dict[str, Transition] = {}
        self._edges: list[Edge] = []
        self.references: list[Reference] = []

    def build(self, group: str | None, name: str | None) -> Recipe | None:
        """The recipe, linked; None when it lacks what makes it one."""
        found, entry = self._found, self._entry
        first_pattern = len(found.patterns)
        steps = list(entry.of("step"))
        named = set(found.with_new_ids(steps))
        for each in steps:
            step = self._step(each)
            if each in named:
                self._steps[step.id] = step
        transitions = list(entry.of("transition"))
        named = set(found.with_new_ids(transitions))
        for order, each in enumerate(transitions):
            transition = self._transition(each, order)
            if each in named:
                self._transitions[transition.id] = transition
        start, end = self._end("start_step"), self._end("end_step")
        places = {each.get("id"): each.place("id") for each in steps if each.get("id") in self._steps}
        for place, message in check_graph(start.id if start else None, places, self._edges):
            found.fault_at(place, message)
        found.check_variables({*self._steps, "plan"}, "the id of a step of this recipe", first_pattern)
        self._link()
        xml = self._alone(group)
        if start is None or end is None or group is None or name is None or xml is None:
            return None
        return Recipe(
            group,
            name,
            start,
            end,
            self._steps,
            self._transitions,
            restart=entry.get("restart", False),
            decay=entry.get("decay"),
            descriptions=found.descriptions(entry),
            references=tuple(self.references),
            digest=hashlib.sha256(xml).hexdigest(),
            xml=xml,
            path=found.source.path,
            line=entry.node.line,
        )

    # --- steps ------------------------------------------------------------------------------------------

    def _step(self, entry: Entry) -> Step:
        found = self._found
        foreach = found.attribute_pattern(entry, "foreach")
        step = Step(
            entry.get("id", ""),
            entry.get("type", ""),
            entry.get("target", ""),
            foreach=None if foreach is None else Condition((foreach,)),
            arguments=tuple(self._arguments(entry)),
            context=self._context(entry),
            inputs=self._narrowings(entry, "input"),
            outputs=self._narrowings(entry, "output"),
            timeout=entry.get("timeout"),
            retries=entry.get("retries", 0),
            backoff=entry.get("backoff"),
            on_restart=entry.get("on-restart", "retry"),
            max_parallel=entry.get("max-parallel"),
            line=entry.node.line,
        )
        self._refer(entry, step)
        return step

    def _refer(self, entry: Entry, step: Step) -> None:
        if not step.kind or not step.target:
            return
        what = f"step {step.id!r}" if step.id else "this step"
        line, column = entry.place("target")
        path = self._found.source.path
        # A reference lives as long as the recipe: it holds the step alone, and nothing of how that was read.
        check = partial(check_step, step, foreach=entry.place("foreach"), path=path)
        self.references.append(Reference(step.kind, step.target, what, path, line, column, check))

    def _arguments(self, entry: Entry) -> Iterator[bytes]:
        arguments = self._found.one(entry, "arguments")
        for child in arguments.node.children if arguments is not None else ():
            try:
                yield _argument(child)
            except ElementError as error:
                self._found.fault(child, f"this cannot be an element: {error.message}")

    def _context(self, entry: Entry) -> Context | None:
        context = self._found.one(entry, "context")
        if context is None:
            return None
        if not any(context.of("match")):
            self._found.fault(context, "context needs a match that says which elements to look for first")
        alternatives = tuple(Condition((pattern,)) for pattern in self._found.match_patterns(context))
        return Context(context.get("from", "memory"), alternatives)

    def _narrowings(self, entry: Entry, word: str) -> tuple[Narrowing, ...]:
        narrowings = []
        nodes = list(entry.of(word))
        named = set(self._found.with_new_ids(nodes))
        for each in nodes:
            self._found.match_patterns(each)
            match, namespaces = self._found.texts(each)
            stated = {name: bool(value) for name, value in each.values.items() if name != "id"}
            places = {name: each.place(name) for name in each.values}
            if each in named:
                where = self._found.source.path, each.node.line, each.node.column
                narrowings.append(Narrowing(each.get("id"), match, stated, namespaces, *where, places))
        return tuple(narrowings)

    # --- transitions ------------------------------------------------------------------------------------

    def _transition(self, entry: Entry, order: int) -> Transition:
        conditions = [(each, self._found.conditions(each)) for each in entry.of("condition")]
        ins = [(each, step) for each in entry.of("in") if (step := self._end_of(each)) is not None]
        outs = [(each, step) for each in entry.of("out") if (step := self._end_of(each)) is not None]
        for word in ("in", "out"):
            self._links(entry, word)
        self._edges.append(self._edge(entry))
        if any(each.get("on-error") for each in entry.of("in")):
            for each in entry.of("condition"):
                if "for" in each.values:
                    why = (
                        "for: the conditions of an error link hold at once or never; "
                        "remove this, or let a step after the link wait"
                    )
                    self._found.fault(each, why, "for")
        return Transition(
            entry.get("id", ""),
            entry.get("priority", 0),
            order,
            tuple(In(step, each.get("on-error", False)) for each, step in ins),
            tuple(step for _, step in outs),
            tuple(
                TransitionCondition(condition, each.get("use", False), each.get("for"))
                for each, condition in conditions
                if condition is not None
            ),
            self._context(entry),
            tuple(self._times(entry)),
            entry.node.line,
        )

    def _links(self, entry: Entry, word: str) -> None:
        """Check that the links of one direction are there, and name each step once."""
        links = list(entry.of(word))
        if not links:
            far = {"in": "from which step", "out": "to which step"}[word]
            self._found.fault(entry, f'transition needs an {word} that says {far}; add <{word} idref="…"/>')
        seen: set[str] = set()
        for each in links:
            target = each.get("idref")
            if target in seen:
                self._found.fault(
                    each, f"{word} names the step {target!r} a second time; remove one", "idref"
                )
            elif target is not None and target not in self._steps:
                hint = closest(target, self._steps)
                self._found.fault(each, f"{word}: expected the id of a step, found {target!r}{hint}", "idref")
            seen.add(target)

    def _end_of(self, link: Entry) -> Step | None:
        return self._steps.get(link.get("idref"))

    def _edge(self, entry: Entry) -> Edge:
        """The transition as the checks of the graph see it: a misspelt id is the one that was meant."""
        ins = [self._meant(each.get("idref")) for each in entry.of("in")]
        outs = [(self._meant(each.get("idref")), each.place("idref")) for each in entry.of("out")]
        return Edge(
            entry.get("id", ""),
            tuple(each for each in ins if each is not None),
            tuple((each, place) for each, place in outs if each is not None),
        )

    def _meant(self, id: str | None) -> str | None:
        if id is None or id in self._steps:
            return id
        return nearest(id, self._steps)

    def _times(self, entry: Entry) -> Iterator[Time]:
        for each in entry.of("time"):
            time = Time(**each.values, line=each.node.line)
            if never([time]):
                given = [name for name in _DAYS if each.get(name)]
                why = f"this date never comes; correct {' or '.join(given)}"
                self._found.fault(each, why, given[0])
            yield time

    # --- the whole --------------------------------------------------------------------------------------

    def _end(self, attribute: str) -> Step | None:
        id = self._entry.get(attribute)
        if id is not None and id not in self._steps:
            hint = closest(id, self._steps)
            self._found.fault(
                self._entry, f"{attribute}: expected the id of a step, found {id!r}{hint}", attribute
            )
        return self._steps.get(id) if id is not None else None

    def _link(self) -> None:
        """Tell each step its transitions, those that leave it in the order in which they are tried (N22)."""
        ins: dict[str, list[Transition]] = {id: [] for id in self._steps}
        outs: dict[str, list[Transition]] = {id: [] for id in self._steps}
        for each in self._transitions.values():
            each.sources = tuple(link.step.id for link in each.ins)
            each.targets = tuple(step.id for step in each.outs)
            for step in each.outs:
                ins[step.id].append(each)
            for link in each.ins:
                outs[link.step.id].append(each)
        for id, step in self._steps.items():
            step.ins = tuple(ins[id])
            step.outs = in_order(outs[id])
            step.sole = _sole(step)
        for each in self._transitions.values():
            rivals = {rival.id: rival for link in each.ins for rival in link.step.outs}
            each.rivals = in_order(rivals.values())

    def _alone(self, group: str | None) -> bytes | None:
        """The recipe's bytes as a file of its own would have them."""
        try:
            root = parse_untrusted(self._entry.node.xml(all_namespaces=True))
            if group is not None and "group" not in self._entry.written:
                root.set("group", group)
            return canonical(root)
        except ElementError as error:
            self._found.fault(self._entry, f"this recipe cannot be kept in memory: {error.message}")
            return None


def _argument(node: XmlNode) -> bytes:
    """The bytes of an argument. Domain elements are bare (N6): a default control namespace is not theirs."""
    root = parse_untrusted(node.xml())
    for each in root.iter(f"{{{CONTROL}}}*"):
        if each.prefix is None:
            each.tag = etree.QName(each).localname
    etree.cleanup_namespaces(root)
    return canonical(root)


def _sole(step: Step) -> Transition | None:
    """The transition out of a step that has no rival and waits for nothing else."""
    if len(step.outs) != 1:
        return None
    only = step.outs[0]
    waits = len(only.ins) > 1 or only.ins[0].on_error or only.conditions or only.times
    return None if waits else only
