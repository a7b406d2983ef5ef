"""The XML of work: a file is one `work`; others are in cookbooks and steps (P7, P8)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from narval.core.definitions.appointment import Appointment
from narval.core.definitions.library import Parsed
from narval.core.definitions.prototype import Prototype
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.values import TextTemplate, template_in, template_of
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import local_name
from narval.core.errors import PatternError
from narval.core.patterns.pattern import Condition
from narval.core.patterns.syntax import ExpressionError
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode
from narval.kinds.work.language.definition import (
    DONE,
    LEASE,
    Audience,
    Deadline,
    Escalation,
    Reminder,
    Rules,
    WorkDefinition,
    WorkOutcome,
)
from narval.kinds.work.language.fields import ORDERED, WORDED, FormField, whole
from narval.kinds.work.language.vocabulary import WORDS


def parse(source: Source, root: XmlNode) -> Parsed:
    """The work of a file."""
    return Reading(source, WORDS).parsed(_alone, root)


def _alone(reading: Reading, node: XmlNode) -> Iterator[WorkDefinition | None]:
    yield _build(reading, node, "", "")


def read_within(reading: Reading, node: XmlNode, group: str, name: str) -> WorkDefinition | None:
    """The work of a node in another file: `group` is that of its cookbook, unless the node has its own.

    With a `name`, it is the work of a step, and has no group or name of its own. References and names are
    recorded in the reading of the file.
    """
    inner = Reading(reading.source, WORDS, reading.faults)
    work = _build(inner, node, group, name)
    reading.references.extend(inner.references)
    reading.names.update(inner.names)
    return work


def _build(reading: Reading, node: XmlNode, group: str, name: str) -> WorkDefinition | None:
    entry = reading.entry(node, local_name(node.tag) or "")
    for attribute in ("group", "name"):
        if name and attribute in entry.written:
            message = f"{attribute}: work within a step is called {group}.{name}; remove this"
            reading.fault(entry, message, attribute)
    group, name = entry.get("group", group), name or entry.get("name", "")
    if not group and "group" not in entry.written:
        reading.fault(entry, "work needs the attribute 'group'; add group=\"…\"")
    if not name and "name" not in entry.written:
        reading.fault(entry, "work needs the attribute 'name'; add name=\"…\"")
    if group and name:
        reading.names.add((WorkDefinition.kind, f"{group}.{name}"))
    return _WorkBuilder(reading, entry).build(group, name)


class _WorkBuilder:
    """The builder of work from its entry; a part with a fault is left out, and the others are still
    checked.
    """

    def __init__(self, reading: Reading, entry: Entry) -> None:
        self._reading, self._entry = reading, entry
        self._patterns = Patterns(reading)

    def build(self, group: str, name: str) -> WorkDefinition | None:
        """The work; None if it lacks an essential part."""
        reading, entry, patterns = self._reading, self._entry, self._patterns
        prototype = patterns.prototype(entry)
        self._check_output(prototype)
        title, described = reading.one(entry, "title"), next(entry.of("description"), None)
        if title is None:
            reading.fault(entry, "work needs a title: one line that says what is asked; add <title>…</title>")
        elif not title.node.text.strip():
            reading.fault(title, "title is empty; write one line that says what is asked")
        outcomes = self._outcomes()
        names = {outcome.name: outcome for outcome in outcomes}
        fields = fields_of(reading, patterns, entry, names)
        line = None if title is None else template_of(reading, patterns, title)
        parts: dict[str, Any] = {
            "description": None if described is None else template_of(reading, patterns, described),
            "audience": self._audience(reading.one(entry, "for")),
            "rules": self._rules(),
            "reminder": self._reminder(),
            "escalations": tuple(self._escalations()),
            "deadline": self._deadline(names, fields),
            "otherwise": self._otherwise(outcomes, names),
            "lease": self._lease(outcomes),
            "priority": template_in(reading, patterns, entry, "priority"),
        }
        patterns.check_variables(
            {input.id for input in prototype.inputs}, "the id of an input of this work", without="input"
        )
        ways, show = reading.one(entry, "ways"), reading.one(entry, "show")
        xml = reading.xml(entry, "work", {"group": group or None, "name": name or None})
        if line is None or xml is None or not group or not name:
            return None
        return WorkDefinition(
            title=line,
            **parts,
            prototype=prototype,
            outcomes=outcomes,
            fields=fields,
            ways=ways.get("names", ()) if ways is not None else ("terminal", "web"),
            inputs_by_digest=show is not None and show.get("inputs") == "digest",
            group=group,
            name=name,
            decay=entry.get("decay"),
            **reading.version(entry, xml),
        )

    def _check_output(self, prototype: Prototype) -> None:
        """Record the faults of the output, which is the answer: there must be only one, of one name."""
        declared = list(self._entry.of("output"))
        for extra in declared[1:]:
            message = f"work has one answer, and so one output, found another on line {declared[0].node.line}"
            self._reading.fault(extra, message)
        for output, entry in zip(prototype.outputs[:1], declared, strict=False):
            try:
                names = output.condition.names if any(entry.of("match")) else {""}
            except PatternError:  # the fault of its match is recorded already
                continue
            if names is None or len(names) != 1:
                message = "output: expected a match of one name, such as <match>decision</match>"
                self._reading.fault(entry, message)

    # --- who ------------------------------------------------------------------------------------------

    def _audience(self, entry: Entry | None) -> Audience:
        if entry is None:
            return Audience()
        people = template_in(self._reading, self._patterns, entry, "people")
        return Audience(people, entry.get("roles", ()))

    def _rules(self) -> Rules:
        entry = next(self._entry.of("for"), None)
        if entry is None:
            return Rules()
        return Rules(
            entry.get("not", ()),
            template_in(self._reading, self._patterns, entry, "requester"),
            entry.get("delegate", "eligible"),
            entry.get("votes") == "open",
        )

    # --- what may be answered -------------------------------------------------------------------------

    def _outcomes(self) -> tuple[WorkOutcome, ...]:
        written = self._reading.by_name(self._entry.of("outcome"), "name")
        outcomes = tuple(WorkOutcome(name, entry.get("needs", 1)) for name, entry in written.items())
        return outcomes or (WorkOutcome(DONE),)

    def _known(self, entry: Entry, outcomes: Mapping[str, WorkOutcome]) -> str:
        """The outcome that an entry names; "" if it names none; an unknown one is recorded as a fault."""
        return (
            ""
            if self._reading.lookup(entry, "outcome", outcomes, "an outcome") is None
            else entry.get("outcome")
        )

    def _otherwise(self, outcomes: Iterable[WorkOutcome], by_name: Mapping[str, WorkOutcome]) -> str:
        entry = self._reading.one(self._entry, "otherwise")
        if entry is None:
            return ""
        if all(outcome.needs == 1 for outcome in outcomes):
            self._reading.fault(
                entry, "otherwise: no outcome needs several people; remove this, or add needs"
            )
        return self._known(entry, by_name)

    def _lease(self, outcomes: Iterable[WorkOutcome]) -> Appointment | None:
        entry = self._reading.one(self._entry, "claim")
        if entry is None:
            return LEASE
        voted = next((outcome for outcome in outcomes if outcome.needs > 1), None)
        if voted is not None:
            why = f"outcome {voted.name!r} needs {voted.needs} people, so no person has the work alone"
            self._reading.fault(entry, f"claim: {why}; remove this")
        lease: Appointment | None = entry.get("for")
        return lease

    # --- when -----------------------------------------------------------------------------------------

    def _reminder(self) -> Reminder | None:
        entry = self._reading.one(self._entry, "remind")
        if entry is None or entry.get("after") is None:
            return None
        every = entry.get("every")
        if every is None and "times" in entry.written:
            self._reading.fault(entry, "times needs every, the time from one reminder to the next", "times")
        return Reminder(entry.get("after"), every, entry.get("times", None if every is not None else 1))

    def _escalations(self) -> Iterator[Escalation]:
        before = list[Appointment]()
        for entry in self._entry.of("escalate"):
            after, audience = entry.get("after"), self._audience(entry)
            if not {"people", "roles"} & entry.written.keys():
                self._reading.fault(entry, "escalate needs people or roles that say to whom; add one of them")
            if after is None:
                continue
            later = [one for one in before if one.length.in_seconds > after.length.in_seconds]
            if any(map(after.passes_by, later)):
                message = "after: this is sooner than the escalation before it; put them in order"
                self._reading.fault(entry, message, "after")
            before.append(after)
            yield Escalation(after, audience, entry.get("instead", False), entry.node.line)

    def _deadline(
        self, outcomes: Mapping[str, WorkOutcome], fields: Mapping[str, FormField]
    ) -> Deadline | None:
        entry = self._reading.one(self._entry, "deadline")
        if entry is None:
            return None
        at = template_in(self._reading, self._patterns, entry, "at")
        if ("after" in entry.written) == ("at" in entry.written):
            kind = "both" if "at" in entry.written else "none"
            self._reading.fault(
                entry, f"deadline: expected after, a length of time, or at, a date; found {kind}"
            )
        outcome = self._known(entry, outcomes)
        defaults = self._defaults(entry, outcome, fields)
        return Deadline(entry.get("after"), at, outcome, defaults, entry.node.line)

    def _defaults(
        self, entry: Entry, outcome: str, fields: Mapping[str, FormField]
    ) -> dict[str, tuple[str, ...]]:
        """The values of fields in a deadline; fields that its outcome requires must be there, or have a
        default.
        """
        defaults: dict[str, tuple[str, ...]] = {}
        for node in entry.node.children:
            name = local_name(node.tag) or node.tag
            field = fields.get(name)
            if field is None:
                message = f"deadline: expected a field of this work, found {name!r}{closest(name, fields)}"
                self._reading.fault(node, message)
                continue
            if name in defaults and not field.list:
                self._reading.fault(node, f"{name} takes one value; remove this")
            try:
                if field.type not in ("choice", "person", "element"):
                    field.read(node.text)
            except ValueError as error:
                self._reading.fault(node, f"{name}: expected {error}, found {node.text!r}")
            defaults[name] = (*defaults.get(name, ()), node.text)
        if defaults and "outcome" not in entry.written:
            self._reading.fault(entry, "deadline: fields are of an outcome; add outcome, or remove them")
        for name, field in fields.items() if outcome else ():
            if outcome in field.required and name not in defaults and field.default is None:
                message = f"deadline: outcome {outcome!r} requires the field {name!r}, which has no default"
                self._reading.fault(entry, f"{message}; add <{name}>…</{name}> here")
        return defaults


# --- fields of forms; each type has its own attributes ----------------------------------------------------

_OF_TYPES: Mapping[str, Container[str]] = {
    "least": ORDERED,
    "most": ORDERED,
    "length": WORDED,
    "pattern": WORDED,
    "options": ("choice",),
    "match": ("element",),
}
"""The types to which an attribute applies."""

ALL = "all"
"""The word of `required` for all outcomes."""

_NEEDED = {"choice": ("options", "the words there are to choose from"), "element": ("match", "a pattern")}
"""The attribute that a type requires."""


def fields_of(
    reading: Reading, patterns: Patterns, work: Entry, outcomes: Mapping[str, Any]
) -> dict[str, FormField]:
    """The fields of work, by name."""
    return reading.each_once(
        work.of("field"), lambda entry: _field(reading, patterns, entry, outcomes), "name"
    )


def _field(reading: Reading, patterns: Patterns, entry: Entry, outcomes: Mapping[str, Any]) -> FormField:
    type = entry.get("type", "string")
    for attribute, types in _OF_TYPES.items():
        if attribute in entry.written and type not in types:
            reading.fault(entry, f"{attribute}: says nothing of a field of type {type}; remove it", attribute)
    needed = _NEEDED.get(type)
    if needed is not None and needed[0] not in entry.written:
        reading.fault(entry, f'a field of type {type} needs {needed[0]}, {needed[1]}; add {needed[0]}="…"')
    match = patterns.of_attribute(entry, "match")
    field = FormField(
        entry.get("name", ""),
        type,
        " ".join(entry.node.text.split()) or entry.get("name", ""),
        _required(reading, entry, outcomes),
        template_in(reading, patterns, entry, "default"),
        length=entry.get("length"),
        options=template_in(reading, patterns, entry, "options"),
        match=None if match is None else Condition((match,)),
        list=entry.get("list", False),
    )
    limits = {name: entry.get(name, "") for name in ("least", "most", "pattern")}
    faults = [_check_limit(reading, entry, field, name) for name in limits if limits[name]]
    return field if any(faults) else _limited(reading, entry, field, limits)


def _required(reading: Reading, entry: Entry, outcomes: Mapping[str, Any]) -> frozenset[str]:
    """The outcomes that need a field; all, yes and no mean all, all and none if no outcome has that name."""
    words = entry.get("required", ())
    if words in ((ALL,), ("yes",)) and words[0] not in outcomes:
        return frozenset(outcomes)
    if words == ("no",) and "no" not in outcomes:
        return frozenset()
    for word in words:
        if word not in outcomes:
            message = f"expected {ALL}, or outcomes, found {word!r}{closest(word, (ALL, *outcomes))}"
            reading.fault(entry, f"required: {message}", "required")
    return frozenset(words)


def _check_limit(reading: Reading, entry: Entry, field: FormField, name: str) -> bool:
    """Record a fault for a limit that is not a value of its type, or for an invalid pattern; True if there is
    one.
    """
    text = entry.get(name)
    try:
        if name == "pattern":
            from narval.core.patterns.regex import regex  # elementpath takes long to import

            regex(whole(text))
        elif field.type in ORDERED:
            field.read(text)
    except ValueError as error:
        reading.fault(entry, f"{name}: expected {error}, found {text!r}", name)
        return True
    except ExpressionError as error:
        reading.fault(entry, f"{name}: {error.message}", name, max(error.offset - len("^(?:"), 0))
        return True
    return False


def _limited(reading: Reading, entry: Entry, field: FormField, limits: Mapping[str, str]) -> FormField:
    """The field with its limits; the least value and a constant default must be within them."""
    limited = replace(field, **limits)
    try:
        if limited.least and limited.most:
            replace(field, most=limited.most).read(limited.least, ())
    except ValueError as error:
        reading.fault(entry, f"least: expected {error}, which is most, found {limited.least!r}", "least")
    default, options = field.default, field.options
    if default is not None and default.is_plain and field.type not in ("person", "element"):
        choices = _words(options)
        if options is None or choices:
            for text in default.listed({}, "") if field.list else [default.filled({}, "")]:
                try:
                    limited.read(text, choices)
                except ValueError as error:
                    reading.fault(entry, f"default: expected {error}, found {text!r}", "default")
    return limited


def _words(options: TextTemplate | None) -> tuple[str, ...]:
    return tuple(options.listed({}, "")) if options is not None and options.is_plain else ()
