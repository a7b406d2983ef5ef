"""The actions of a module: those declared by `@action`, and those of its XML tree (§2.1.3, N30).

The module is already imported; its source gives the line and column of every fault.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from msgspec.structs import replace

from narval.core.definitions.action.definition import (
    DECLARATION,
    Action,
    ActionDeclaration,
    Input,
    Output,
    Where,
    render,
)
from narval.core.definitions.action.needs import (
    NOTHING,
    Needs,
    Resources,
    checked_needs,
    read_needs,
    read_resources,
    resources_of,
)
from narval.core.definitions.action.parts import check_parts, misplaced, with_parts
from narval.core.definitions.action.tools_parser import parse as parse
from narval.core.definitions.prototype import HOLDS, NAME_OF, Prototype, check_replaces, parameter
from narval.core.definitions.reading import vocabulary
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.python import (
    RUNS,
    declarations,
    definition_of,
    first_paragraph,
    is_needed,
    misplaced_run,
)
from narval.core.definitions.reading.values import TextTemplate, template_from, template_in
from narval.core.definitions.reading.vocabulary import COMMON, Attribute, Word, Words
from narval.core.definitions.reading.xml import Entry, Place, Reading, TooManyFaultsError
from narval.core.definitions.suggestions import closest
from narval.core.definitions.unique import check_unique
from narval.core.elements.element import local_name
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import DefinitionError, Fault, PatternError
from narval.core.patterns.pattern import compile_pattern
from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from narval.core.trust.paths import keeps_in, slot_paths

PLACES = (*RUNS, "cluster")
"""The places where a function that is not a coroutine may run."""

MODULE_WORDS: Words = {
    **COMMON,
    "module": Word(
        {"name": Attribute(vocabulary.name), "version": Attribute(vocabulary.anything)},
        ("action", "description"),
    ),
    "action": Word(
        {
            "name": Attribute(vocabulary.name, required=True),
            "group": Attribute(vocabulary.name),
            "func": Attribute(vocabulary.identifier, required=True),
            "runs": Attribute(vocabulary.one_of(*PLACES)),
            "source": Attribute(vocabulary.yes_no),
            "pure": Attribute(vocabulary.yes_no),
            "describe": Attribute(vocabulary.anything),
            "outside": Attribute(vocabulary.yes_no),
            "model": Attribute(vocabulary.anything),
            "label": Attribute(vocabulary.anything),
            "resources": Attribute(read_resources),
            "where": Attribute(slot_paths),
            "keeps": Attribute(keeps_in),
            "needs": Attribute(read_needs),
            "undo": Attribute(vocabulary.full_name),
        },
        ("description", "input", "output"),
    ),
}


Slot = TypeVar("Slot", Input, Output)

_LABEL = re.compile("[a-z][a-z0-9-]*")
"""A label declared by an action: labels with a colon are reserved for narval."""


def declared(module: ModuleType, source: Source, group: str) -> tuple[list[Action], list[Fault]]:
    """The actions of an imported file, in order, and all their faults."""
    faults: list[Fault] = []
    maker = _ActionMaker(source, group, faults)
    with suppress(TooManyFaultsError):
        for name, function, declaration in declarations(module, DECLARATION, ActionDeclaration):
            maker.declared(name, function, declaration)
        text = getattr(module, "MODULE_XML", None)
        if text is not None:
            _Tree(maker, module, text).read()
    return sorted(maker.actions, key=lambda action: action.line), sorted(set(faults))


def _oddly_held(declared: Input | Output) -> Iterator[object]:
    """The values in an input's `holds` that are neither a kind nor words."""
    for held in declared.holds.values() if isinstance(declared, Input) else ():
        words = isinstance(held, tuple) and all(isinstance(word, str) for word in held)
        names = isinstance(held, str) and held.startswith(NAME_OF)
        if not (words or names or held in HOLDS):
            yield held


def _is_countable(declared: Input) -> bool:
    """True if `newest` is a count, and the input a list unless it is 0."""
    return type(declared.newest) is int and declared.newest >= 0 and (declared.list or not declared.newest)


def _contradictions(action: Action, where: Where, outside: bool | None) -> Iterator[str]:
    """The contradictions within a declaration."""
    if action.resources and where != "cluster":
        yield 'resources: only calls on a cluster have any; add runs="cluster"'
    if outside and action.pure:
        yield "what a pure action does is seen nowhere; leave out pure, or outside"
    if action.model and action.model not in (slot.id for slot in action.prototype.inputs):
        yield f"model: expected the id of the input that names the model, found {action.model!r:.80}"
    if action.label and _LABEL.fullmatch(action.label) is None:
        expectation = "expected a word such as web, of small letters, digits and hyphens"
        yield f"label: {expectation}, found {action.label!r:.80}"
    if action.pure and action.needs != NOTHING:
        yield "a pure action reaches nothing outside; leave out pure, or needs"
    if action.undo and re.fullmatch(r"[^.\s/]+\.[^\s/]+", str(action.undo)) is None:
        yield f"undo: expected the full name of an action, such as shop.refund, found {action.undo!r:.80}"
    if action.label and action.pure:
        yield "nothing comes in by what a pure action does; leave out pure, or label"


class _ActionMaker:
    """A builder of actions from declarations in either form, with the rules for both."""

    def __init__(self, source: Source, group: str, faults: list[Fault]) -> None:
        self.source, self.group, self.faults = source, group, faults
        self.actions: list[Action] = []
        self._reader = Reading(source, MODULE_WORDS, faults)

    def declared(self, variable: str, function: Any, declaration: ActionDeclaration) -> None:
        """Read an action declared by `@action`."""
        place, decorator = definition_of(self.source, variable, function)
        if isinstance(function, type) or not callable(function):
            self._fault(place, f"@action: expected a function, found {variable!r}, which is none")
            return
        name = variable if declaration.name is None else declaration.name
        try:
            vocabulary.name(name)
        except (TypeError, ValueError):
            expectation = "expected a name without dots, slashes and blanks"
            self._fault(place, f"@action: {expectation}, found {name!r:.80}")
            return
        text = xml_safe(str(declaration.description or first_paragraph(function)), "")
        parts = with_parts(self._prototype(declaration, place, decorator), declaration)
        for part, message in parts.faults:
            self._fault(_written(self.source, part, decorator) or place, f"@action: {message}")
        action = Action(
            group=self.group,
            name=name,
            function=variable,
            prototype=parts.prototype,
            says_where=parts.says_where,
            descriptions={"en": text} if text else {},
            pure=declaration.pure,
            describe=self._sentence(declaration, place, decorator),
            model=declaration.model or "",
            label=declaration.label or "",
            undo=declaration.undo or "",
            resources=self._resources(declaration, place),
            needs=self._needs(declaration, place),
            warnings=self._reader.warnings_so_far(),
        )
        self.add(action, function, declaration.runs, declaration.source, declaration.outside, place)

    def add(
        self,
        action: Action,
        function: Any,
        runs: str | None,
        source: bool,
        outside: bool | None,
        place: Place,
    ) -> None:
        """Add an action of either form, as written by its author, with data from its function and file."""
        same = next((other for other in self.actions if other.name == action.name), None)
        if same is not None:
            self._fault(place, f"expected a new action name, found {action.name!r} of line {same.line} again")
        defined, _ = definition_of(self.source, action.function, function)
        self._parameters(action, function, defined)
        where = self._where(function, runs, source, action.pure, defined)
        for message in _contradictions(action, where, outside):
            self._fault(place, message)
        try:
            xml = render(action, runs, source, outside)
        except ValueError as error:
            self._fault(place, f"action {action.name!r} cannot be written as XML: {error}")
            return
        digest = hashlib.sha256(self.source.digest.encode() + xml).hexdigest()
        path, line = self.source.path, defined[0]
        seen = not (action.pure or source) if outside is None else outside
        made = replace(action, where=where, digest=digest, xml=xml, path=path, line=line, outside=seen)
        self.actions.append(made)

    def _fault(self, place: Place, message: str) -> None:
        self._reader.fault_at(place, message)

    # --- prototypes written in Python ---------------------------------------------------------------------

    def _prototype(
        self, declaration: ActionDeclaration, place: Place, decorator: tuple[int, int]
    ) -> Prototype:
        inputs = list(self._usable(declaration.inputs, Input, place))
        outputs = list(self._usable(declaration.outputs, Output, place))
        both: tuple[Input | Output, ...] = (*inputs, *outputs)
        counted = Counter((type(declared).__name__.lower(), declared.id) for declared in both)
        for (what, id), count in counted.items():
            if count > 1:
                self._fault(place, f"expected one {what} of the id {id!r}, found {count}")
        for declared in both:
            self._patterns(declared, place, decorator)
        return Prototype(tuple(inputs), tuple(outputs))

    def _usable(self, values: Iterable[object], slot_type: type[Slot], place: Place) -> Iterator[Slot]:
        """The values that are an input or output with an id and patterns; report the others as faults."""
        word = slot_type.__name__
        for value in values:
            if not isinstance(value, slot_type):
                self._fault(place, f'@action: expected {word}("id", "pattern", …), found {value!r:.80}')
            elif not isinstance(value.id, str) or not re.fullmatch(r"\S+", value.id):
                self._fault(place, f"{word}: expected an id without blanks, found {value.id!r:.80}")
            elif not value.match or not all(isinstance(text, str) for text in value.match):
                wish = 'expected a pattern, such as "email" or "*"'
                self._fault(place, f"{word} {value.id!r}: {wish}, found {value.match!r:.80}")
            elif isinstance(value, Input) and not _is_countable(value):
                wish = "expected newest to be a whole number, and list=True beside it"
                self._fault(place, f"{word} {value.id!r}: {wish}, found {value.newest!r:.80}")
            elif odd := list(_oddly_held(value)):
                wish = (
                    f"expected holds to name {', '.join(map(repr, HOLDS))}, 'name of …' or a tuple of words"
                )
                self._fault(place, f"{word} {value.id!r}: {wish}, found {odd[0]!r:.80}")
            else:
                yield value

    def _patterns(self, declared: Input | Output, place: Place, decorator: tuple[int, int]) -> None:
        tried: list[tuple[str, Callable[..., object]]] = [(text, compile_pattern) for text in declared.match]
        if isinstance(declared, Output):
            keys = (declared.unique, check_unique), (declared.replaces, check_replaces)
            tried += [(text, check) for text, check in keys if text is not None]
        for text, check in tried:
            at = self.source.text.find(text, *decorator)
            try:
                check(text, declared.namespaces)
            except PatternError as error:
                where = place if at < 0 else self.source.place(at + min(max(error.column - 1, 0), len(text)))
                self._fault(where, f"{text!r} is no XPath that narval can try: {error.message}")
                continue
            for offset, message in (pattern := compile_pattern(text, declared.namespaces)).doubts:
                self._reader.warn_at(place if at < 0 else self.source.place(at + offset), message)
            for variable in sorted(pattern.variables - {"plan"}):
                where = place if at < 0 else self.source.place(at + max(text.find(f"${variable}"), 0))
                self._fault(where, f"${variable}: expected $plan, as an action knows no step")

    def _sentence(
        self, declaration: ActionDeclaration, place: Place, decorator: tuple[int, int]
    ) -> TextTemplate | None:
        """The sentence in which an action describes its calls."""
        text = declaration.describe
        if text is None:
            return None
        if not isinstance(text, str):
            self._fault(place, f"@action: describe: expected a text, found {text!r:.80}")
            return None
        at = self.source.text.find(text, *decorator)
        patterns = Patterns(self._reader)
        template = template_from(
            self._reader, patterns, text, lambda offset: place if at < 0 else self.source.place(at + offset)
        )
        _check_sentence(patterns, (slot.id for slot in declaration.inputs if isinstance(slot, Input)))
        return template

    def _resources(self, declaration: ActionDeclaration, place: Place) -> Resources:
        try:
            return resources_of(declaration.resources or {})
        except ValueError as error:
            self._fault(place, f"@action: resources: expected {error}, found {declaration.resources!r:.80}")
            return ()

    def _needs(self, declaration: ActionDeclaration, place: Place) -> Needs | None:
        """The places that an action may reach; none for a pure action."""
        if declaration.needs is None:
            return NOTHING if declaration.pure else None
        try:
            return checked_needs(declaration.needs)
        except ValueError as error:
            self._fault(place, f"@action: needs: expected {error}")
            return NOTHING

    # --- functions ----------------------------------------------------------------------------------------

    def _parameters(self, action: Action, function: Any, place: Place) -> None:
        """Check that the function has a parameter for each input of its prototype, by name."""
        name = action.function
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return
        accepts_any = any(taking.kind is taking.VAR_KEYWORD for taking in parameters.values())
        by_name = {
            id
            for id, taking in parameters.items()
            if taking.kind in (taking.POSITIONAL_OR_KEYWORD, taking.KEYWORD_ONLY)
        }
        input_of: dict[str, str] = {}
        for id in dict.fromkeys(declared.id for declared in action.prototype.inputs):
            parameter_name = parameter(id)
            if parameter_name in input_of:
                both = f"the inputs {input_of[parameter_name]!r} and {id!r}"
                self._fault(place, f"{name}: {both} would be one parameter, {parameter_name!r}; rename one")
            elif parameter_name not in by_name and not accepts_any:
                hint = closest(parameter_name, by_name - set(input_of))
                self._fault(
                    place, f"{name}: expected a parameter {parameter_name!r} for the input {id!r}{hint}"
                )
            input_of[parameter_name] = id
        for id, wanting in parameters.items():
            if is_needed(wanting) and id not in input_of:
                hint = closest(id, input_of) or "; declare an input, or give the parameter a default"
                self._fault(place, f"{name}: no input gives the parameter {id!r}{hint}")

    def _where(self, function: Any, runs: str | None, source: bool, pure: bool, place: Place) -> Where:
        generator, coroutine = inspect.isasyncgenfunction(function), inspect.iscoroutinefunction(function)
        if source != generator:
            expectation = "a source is an async generator: expected async def with a yield"
            unmarked = 'an async generator is a source: expected source=True (source="yes" in XML)'
            self._fault(place, expectation if source else unmarked)
        if (message := misplaced_run(runs, generator or coroutine, PLACES)) is not None:
            self._fault(place, message)
        if pure and generator:
            self._fault(place, "a source looks outside, so it is not pure; leave pure out")
        if generator:
            return "source"
        if runs == "cluster":
            return "cluster"
        return "async" if coroutine else RUNS.get(runs or "thread", "thread")


class _Tree:
    """A reader of a module's XML tree (tables 2.15-2.17), the variable `MODULE_XML` in the Python file."""

    def __init__(self, maker: _ActionMaker, module: ModuleType, text: Any) -> None:
        self._maker, self._module, self._text = maker, module, text

    def read(self) -> None:
        """Pass its actions to the maker."""
        source = self._maker.source
        place = _assigned(source)
        if isinstance(self._text, bytes):
            inner = Source(source.path, self._text, None, *place)
        elif isinstance(self._text, str):
            inner = Source.of_text(source.path, self._text, *place)
        else:
            self._maker.faults.append(source.fault("MODULE_XML: expected a text of XML", *place))
            return
        try:
            root = read_xml(inner)
        except DefinitionError as error:
            self._maker.faults.extend(error.faults)
            return
        reading = Reading(inner, MODULE_WORDS, self._maker.faults)
        if local_name(root.tag) not in ("module", "action"):
            reading.fault(root, f"MODULE_XML: expected the root module, found {root.tag!r}")
            return
        entry = reading.entry(root, str(local_name(root.tag)))
        if entry.word == "module":
            self._same_group(reading, entry, "name")
        patterns = Patterns(reading)
        for action in [entry] if entry.word == "action" else entry.of("action"):
            self._action(reading, patterns, action)
        patterns.check_variables({"plan"}, "$plan, as an action knows no step")

    def _same_group(self, reading: Reading, entry: Entry, attribute: str) -> None:
        value, group = entry.get(attribute), self._maker.group
        if value is not None and value != group:
            expectation = (
                f"expected the module's name, {group!r}, found {value!r}; correct it or leave it out"
            )
            reading.fault(entry, f"{attribute}: {expectation}", attribute)

    def _action(self, reading: Reading, patterns: Patterns, entry: Entry) -> None:
        self._same_group(reading, entry, "group")
        prototype = patterns.prototype(entry)
        name, variable = entry.get("name"), entry.get("func")
        if name is None or variable is None:
            return
        function = getattr(self._module, variable, None)
        if not callable(function):
            hint = closest(variable, _functions(self._module))
            message = f"func: expected a function of this module, found {variable!r}{hint}"
            reading.fault(entry, message, "func")
            return
        action = Action(
            group=self._maker.group,
            name=name,
            function=variable,
            prototype=prototype,
            descriptions=reading.descriptions(entry),
            pure=entry.get("pure", False),
            describe=template_in(reading, described := Patterns(reading), entry, "describe"),
            model=entry.get("model", ""),
            label=entry.get("label", ""),
            undo=entry.get("undo", ""),
            resources=entry.get("resources", ()),
            says_where=entry.get("where", () if entry.get("pure", False) else None),
            needs=entry.get("needs", NOTHING if entry.get("pure", False) else None),
            warnings=reading.warnings_so_far(),
        )
        _check_sentence(described, (slot.id for slot in prototype.inputs))
        check_parts(reading, entry, misplaced(prototype, action.says_where or (), action.pure))
        runs, source, outside = entry.get("runs"), entry.get("source", False), entry.get("outside")
        self._maker.add(action, function, runs, source, outside, entry.place("name"))


def _check_sentence(patterns: Patterns, inputs: Iterable[str]) -> None:
    patterns.check_variables(set(inputs), "the id of an input of this action")


def _written(source: Source, text: str, within: tuple[int, int]) -> Place | None:
    """The place of a quoted text; None if it is not found."""
    at = max((source.text.find(f"{quote}{text}{quote}", *within) for quote in "\"'" if text), default=-1)
    return None if at < 0 else source.place(at + 1)


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]


def _assigned(source: Source) -> Place:
    """The place where the text of MODULE_XML starts in a module; the first line if unknown."""
    for statement in ast.parse(source.text).body:
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        )
        if any(isinstance(target, ast.Name) and target.id == "MODULE_XML" for target in targets):
            value = getattr(statement, "value", None) or statement
            line = source.text[source.offset(value.lineno) : source.offset(value.lineno + 1)]
            start = len(line.encode()[: value.col_offset].decode("utf-8", "replace"))
            quote = re.compile(r"""[rRuUbB]*(?:\"\"\"|'''|"|')(\\$)?""").match(line, start)
            if quote is None:
                return value.lineno, start + 1
            return (value.lineno + 1, 1) if quote[1] else (value.lineno, quote.end() + 1)
    return 1, 1
