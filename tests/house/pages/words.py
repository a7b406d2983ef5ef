"""The page of the words of each language, from the vocabularies that read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from narval.core.definitions.action.parser import MODULE_WORDS
from narval.core.definitions.reading.vocabulary import COMMON, Attribute, Words
from narval.core.definitions.transform.parser import STYLESHEET_WORDS
from narval.core.kinds import KINDS
from narval.kinds.automaton.language import vocabulary as automaton
from narval.kinds.dataflow.language.operators import OPERATOR_TABLE
from narval.kinds.process.language import vocabulary as process
from narval.kinds.process.language.code import EVENTS
from narval.kinds.recipe.language import vocabulary as recipe
from narval.kinds.task.language import words as task
from narval.kinds.task.language.definition import FUNCTIONS, PREDEFINED
from narval.kinds.work.language import vocabulary as work
from narval.trials.simulate.parser import SCENARIO_WORDS
from tests.house.pages.tables import BAD_TEXTS, code, codes, expected, table

PATH = "reference/words.md"

HEAD = """\
# The words of the languages

Made from the tables of the readers of files by `python -m tests.house.pages`; a test compares. Any other word
is a fault, which `narval check` reports with its line, its column and the nearest word. An attribute may be
written `on-error`, `on_error` or `onError`; **bold** ones are required. The page that each section names
explains the words.
"""

LISTED: Mapping[str, Iterable[str]] = {
    "a kind of definition": KINDS,
    "a join": (*process.JOINS, *process.ALIASES),
    "the names of events": EVENTS,
}
"""The words that readers refer to as a whole."""

XML_LANGUAGES: Mapping[str, tuple[str, Words]] = {
    "Shared by most": ("These mean the same wherever a section does not list them anew", COMMON),
    "Recipes": ("[Recipes](recipe.md), [time](time.md)", recipe.WORDS),
    "Automata": ("[Automata](automaton.md); names of elements in either case", automaton.WORDS),
    "Processes": ("[Processes](process.md)", process.WORDS),
    "Work": ("[Work](work.md)", work.WORDS),
    "Modules with an XML tree": ("[Modules and actions](module.md#with-an-xml-tree)", MODULE_WORDS),
    "Transforms": ("[Modules and actions](module.md); the prototype of a stylesheet", STYLESHEET_WORDS),
    "Scenarios": ("[Simulations](simulate.md)", SCENARIO_WORDS),
}
"""The languages written in XML: where they are explained, and their words."""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for title, (where, words) in XML_LANGUAGES.items():
        yield f"## {title}\n\n{where}.\n"
        yield from table(("element", "attribute", "takes"), elements(words))
        yield ""
    yield "## Task types\n\n[Tasks](tasks.md). Keywords are in any case.\n"
    yield from table(("part", "words"), of_tasks())
    yield ""
    yield "## Dataflows\n\n[The language of dataflows](dataflow-language.md). Operators, in any case:\n"
    yield codes(OPERATOR_TABLE) + "."


def elements(words: Words) -> Iterator[tuple[str, str, str]]:
    """The rows of the elements of a language: what each may hold, then its attributes."""
    for name, word in words.items():
        if COMMON.get(name) is word and words is not COMMON:
            continue
        if word.foreign:
            yield f"**`{name}`**", "", f"as [by itself](#{name})"
            continue
        holds = "anything" if word.children is None else codes(word.children, "no other element")
        yield f"**`{name}`**", "", f"holds {holds}"
        for attribute, is_a in word.attributes.items():
            yield "", shown(attribute, is_a), taken(is_a)


def taken(attribute: Attribute) -> str:
    """The values that an attribute takes."""
    told = expected(attribute.read, BAD_TEXTS)
    return f"{told}: {codes(LISTED[told])}" if told in LISTED else told or "any text"


def shown(name: str, attribute: Attribute) -> str:
    """The name of an attribute, bold if it is required."""
    return f"**{code(name)}**" if attribute.required else code(name)


def of_tasks() -> Iterable[tuple[str, str]]:
    """The rows of the words of task types."""
    return (
        ("what a file has", codes((task.TYPE, task.EVENT))),
        ("what a type says of itself", codes(task.CLAUSES)),
        ("states and what stands in them", codes((task.STATE, *task.OF_STATES))),
        ("terminal states, each with its routes", codes(PREDEFINED)),
        ("windows of time", codes((*task.OPERATORS, *task.QUALIFIERS, *task.UNITS))),
        ("functions of scripts", codes(FUNCTIONS)),
        ("comparisons", codes(task.COMPARISONS)),
        ("all single words", codes(sorted(task.SINGLE))),
    )
