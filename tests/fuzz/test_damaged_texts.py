"""Texts of every kind that a home reads, damaged token by token: they are read or have faults, each with its
place, and narval fails at none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random

import pytest

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import compose, read_definition, suffixes, warnings
from narval.core.elements.canonical import elements_of
from narval.core.errors import DefinitionError, ElementError, Fault
from narval.core.source.text import Source
from narval.files.agents.collections import parse_file
from narval.files.agents.settings import CollectionsOf, parse_agent_file
from narval.files.found_files import ModuleText
from narval.files.memory_file import read_memory
from narval.files.modules import ModulePackage
from narval.files.people_file import parse_people
from narval.files.schemas import Schemas
from narval.files.settings import parse_settings
from narval.system.regular_file import WORDS
from narval.trials.simulate.parser import read_scenario
from tests.core.definitions.test_hostile_files import PROCESS, TREE, all_have_places, read_tree
from tests.files.test_people_file import PEOPLE
from tests.fuzz.surfaces import DTD, ELEMENTS, SCHEMA, try_together
from tests.places import ROOT

SAMPLE = 5
"""So many of the damaged texts of each file are read in every run of the tests, the same each time."""

SPECIMENS = ROOT / "tests/kinds/specimens"
"""A text of each kind that has all of its language."""

TOKEN = re.compile(rb"\w+|[^\w\s]")

Reader = Callable[[Path, bytes], list[Fault]]
"""Reads a text as that of a file, in a folder for scratch, and gives its faults."""


def damaged(text: bytes, at: int) -> Iterator[bytes]:
    """A text with a token taken away, doubled, and exchanged with the next."""
    (start, end), *after = (found.span() for _, found in zip((0, 1), TOKEN.finditer(text, at), strict=False))
    token = text[start:end]
    yield text[:start] + text[end:]
    yield text[:end] + b" " + token + text[end:]
    for first, last in after:
        yield text[:start] + text[first:last] + text[end:first] + token + text[last:]


def _definitions(path: str, scratch: Path, data: bytes) -> list[Fault]:
    parsed = parse_file(Source(path, data))
    if not parsed.faults:
        for made in parsed.definitions:
            if isinstance(made, Action):
                continue  # the store keeps no text of a tool
            again = read_definition(made.kind, made.path, made.xml)
            assert again.digest == made.digest, f"{made.full_name} is another once the store gives it back"
    library, faults = compose(Library(parsed.definitions))
    faults += [*parsed.faults, *check_targets(parsed.references, library)]
    return faults if parsed.faults else [*faults, *warnings(parsed.definitions, library)]


def _memory(scratch: Path, data: bytes) -> list[Fault]:
    (scratch / "memory.xml").write_bytes(data)
    return read_memory(scratch / "memory.xml", Schemas(None), Library())[1]


def _schema(name: str, scratch: Path, data: bytes) -> list[Fault]:
    (scratch / name).write_bytes(data)
    schemas = Schemas(scratch)
    schemas.refusal(b"<mail n='1'/>")
    return schemas.faults()


def _scenario(scratch: Path, data: bytes) -> list[Fault]:
    try:
        read_scenario(Source("scenarios/x.xml", data))
    except DefinitionError as error:
        return list(error.faults)
    return []


def _settings(scratch: Path, data: bytes) -> list[Fault]:
    return parse_settings(Source("etc/narval.toml", data), scratch)[1]


def _people(scratch: Path, data: bytes) -> list[Fault]:
    return parse_people(Source("etc/people.toml", data))[1]


def _agent(scratch: Path, data: bytes) -> list[Fault]:
    return parse_agent_file(Source("agents/a/agent.toml", data), CollectionsOf(scratch))[1]


def _tree(scratch: Path, data: bytes) -> list[Fault]:
    return read_tree(data)


def _code(scratch: Path, data: bytes) -> list[Fault]:
    text = ModuleText("modules/mail.py", {"": Source("modules/mail.py", data)})
    package = ModulePackage(lambda group: iter([text]) if group == "mail" else None)
    return [fault for faults in package.load(["mail"]).faults.values() for fault in faults]


def _dropped(scratch: Path, data: bytes) -> list[Fault]:
    try:
        elements_of(data)
    except ElementError as error:
        return [Fault("inbox/x.xml", error.line, error.column, error.message)]
    return []


CODE = b"""from narval import Input, Output, action

@action(inputs=[Input("mail", "email[@to]", list=True)], outputs=[Output("sent", "sent", unique="@id")],
        runs="worker")
def send(mail):
    return ["<sent id='1'/>" for each in mail]
"""


@cache
def texts() -> dict[str, tuple[Reader, bytes]]:
    """The texts of each kind, with who reads them."""
    found: dict[str, tuple[Reader, bytes]] = {
        "process": (partial(_definitions, "recipes/shop.wf.xml"), PROCESS),
        "mail.rng": (partial(_schema, "mail.rng"), SCHEMA),
        "mail.dtd": (partial(_schema, "mail.dtd"), DTD),
        "people.toml": (_people, PEOPLE.encode()),
        "narval.toml": (_settings, (ROOT / "etc/narval.toml").read_bytes().replace(b"# ", b"")),
        "MODULE_XML": (_tree, TREE),
        "module": (_code, CODE),
        "inbox": (_dropped, ELEMENTS[0]),
    }
    endings = tuple(suffixes())
    for path in sorted((*(ROOT / "recipes").rglob("*"), *SPECIMENS.iterdir())):
        if path.name.endswith(endings):
            shown = path.relative_to(ROOT).as_posix()
            found[shown] = partial(_definitions, shown), path.read_bytes()
    others: Sequence[tuple[str, Reader]] = (
        ("scenarios/**/*.xml", _scenario),
        ("data/memory.xml", _memory),
        ("agents/*/data/memory.xml", _memory),
        ("agents/*/agent.toml", _agent),
    )
    for shape, read in others:
        for path in sorted(ROOT.glob(shape)):
            found[path.relative_to(ROOT).as_posix()] = read, path.read_bytes()
    return found


def tried(name: str, scratch: Path, places: Callable[[list[int]], list[int]]) -> None:
    """Read a text with the tokens at some of its places damaged."""
    read, text = texts()[name]
    chosen = places([found.start() for found in TOKEN.finditer(text)])
    if name in ("mail.rng", "mail.dtd"):
        try_together((name, data) for at in chosen for data in damaged(text, at))
    for at in chosen:
        for data in damaged(text, at):
            try:
                faults = read(scratch, data)
            except Exception as error:
                raise AssertionError(f"narval fails at {data[max(0, at - 60) : at + 60]!r}") from error
            assert all_have_places(faults)
            assert [fault for fault in faults if fault.message.startswith(WORDS)] == []


@pytest.mark.parametrize("name", texts())
def test_a_damaged_text_is_read_or_has_faults(name: str, tmp_path: Path) -> None:
    tried(name, tmp_path, lambda places: Random(name).sample(places, min(SAMPLE, len(places))))


@pytest.mark.soak
@pytest.mark.parametrize("name", texts())
def test_a_text_damaged_anywhere_is_read_or_has_faults(name: str, tmp_path: Path) -> None:
    tried(name, tmp_path, lambda places: places)


def test_the_module_that_is_damaged_is_good(tmp_path: Path) -> None:
    assert _code(tmp_path, CODE) == []


def test_a_plan_with_a_fault_of_syntax_is_not_assembled(tmp_path: Path) -> None:
    (fault,) = _definitions("recipes/p.plan", tmp_path, b"PLAN P { OUTPUT: y BODY { 1 } }")
    assert (fault.line, fault.column) == (1, 27)
    assert fault.message == "expected an operator or a dataflow to be called, found '1'"


def test_a_pattern_with_a_fault_in_the_output_of_work_is_one_fault(tmp_path: Path) -> None:
    text = (
        b'<work group="g" name="w"><title>x</title><outcome name="yes"/>'
        b'<output id="o"><match>a b</match></output></work>'
    )
    assert ["no XPath" in fault.message for fault in _definitions("recipes/w.xml", tmp_path, text)] == [True]
