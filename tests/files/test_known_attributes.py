"""Attributes of elements that a home declares or is given: a slip is told, with what may be meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

from narval.core.definitions.action.definition import Action
from narval.core.definitions.known_attributes import COMMON, OWN, known_attributes
from narval.core.definitions.library import Library
from narval.core.definitions.parsing import warnings
from narval.core.definitions.prototype import Input
from narval.files.reading import load
from tests.places import DOCS, ROOT
from tests.surfaces.cli.command_line import data, narval

WATCH = """<cookbook group="w"><recipe group="w" name="all" start_step="a" end_step="a">
  <step id="a" type="action" target="mail.watch"/></recipe></cookbook>"""
DECLARED = """<memory>
  <mailbox name="own" kind="imap" host="imap.example.org" usr="ann" note="mine"/>
  <mailbox name="other" kind="imap" hots="imap.example.org"/>
  <start-plan recip="w.all" recipe="w.all"/>
  <mine whatever="it is"/>
</memory>
"""


@cache
def shipped() -> Library:
    """The definitions that ship."""
    return load(ROOT).library


@cache
def known() -> Mapping[str, Set[str]]:
    """The attributes that are known of each element."""
    return known_attributes(shipped())


def inputs() -> list[Input]:
    """The inputs of shipped actions; what a tool takes is named by its server."""
    actions = [found for found in shipped() if isinstance(found, Action) and found.tool is None]
    prototypes = [action.prototype for action in actions]
    return [slot for prototype in prototypes for slot in prototype.inputs]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for folder in ("recipes", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes" / "w.xml").write_text(WATCH)
    return tmp_path


def test_check_warns_of_each_attribute_of_memory_xml_that_nothing_reads(home: Path) -> None:
    (home / "data" / "memory.xml").write_text(DECLARED)
    checked = narval(home, "check")
    assert checked.exit_code == 0, checked.output
    assert re.findall(r"memory\.xml:(\d+):\d+: warning: (.*?)(?:; there is.*)?$", checked.output, re.M) == [
        ("2", "nothing reads the attribute 'usr' of mailbox; did you mean 'user'?"),
        ("2", "nothing reads the attribute 'note' of mailbox"),
        ("3", "nothing reads the attribute 'hots' of mailbox; did you mean 'host'?"),
        ("4", "nothing reads the attribute 'recip' of start-plan; did you mean 'recipe'?"),
    ]


def test_add_warns_and_adds(home: Path) -> None:
    added = narval(home, "add", "-", given="<mailbox kind='imap' host='a' usr='ann'/>")
    assert (added.exit_code, added.stdout.strip().isdecimal()) == (0, True)
    assert added.stderr == "warning: nothing reads the attribute 'usr' of mailbox; did you mean 'user'?\n"
    assert set(data(home, "add", "-", given="<mailbox kind='imap' host='a' usr='ann'/>")) == {
        "eids",
        "warnings",
    }
    for well in ("<mailbox kind='imap' host='a' user='ann' key='k'/>", "<mine usr='ann'/>"):
        assert set(data(home, "add", "-", given=well)) == {"eids"}


MADE = {"email", "event", "failure", "file", "triage"}
"""What shipped actions take and people do not write: actions, sources and narval itself make it."""


def test_every_element_that_people_write_for_what_ships_is_known() -> None:
    named = {name for slot in inputs() for name in slot.condition.names or ()}
    assert named - known().keys() - COMMON == MADE
    assert OWN.keys() <= known().keys()


ARGUED = """<recipe group="w" name="asks" start_step="a" end_step="b">
  <step id="a" type="action" target="http.request">
    <arguments><request url="https://example.org" methd="PUT" key="k"/></arguments></step>
  <step id="b" type="action" target="basic.start">
    <arguments><start recipe="w.asks"/><beside whatever="it is"/></arguments></step>
  <transition id="t"><in idref="a"/><out idref="b"/></transition>
</recipe>"""


def test_check_warns_of_each_attribute_of_an_argument_that_its_action_does_not_read(home: Path) -> None:
    (home / "recipes" / "w.xml").write_text(ARGUED)
    checked = narval(home, "check")
    assert checked.exit_code == 0, checked.output
    told = "step 'a': nothing reads the attribute 'methd' of request; did you mean 'method'?"
    assert f"recipes/w.xml:3:16: warning: {told}" in checked.output
    assert "w.xml:5:40: warning: step 'b': no input of basic.start takes beside" in checked.output
    assert checked.output.count("nothing reads") == 1


def test_no_shipped_recipe_has_an_argument_that_is_not_read() -> None:
    told = warnings([found for found in shipped() if found.kind == "recipe"], shipped())
    assert [fault for fault in told if "nothing reads" in fault.message] == []


def test_an_input_that_says_what_it_reads_says_all_of_what_it_asks() -> None:
    slots = list(filter(attrgetter("reads"), inputs()))
    assert slots
    for slot in slots:
        asked = {*slot.holds, *re.findall(r"@([\w-]+)", " ".join(slot.match))}
        assert asked <= set(slot.reads), slot.id


@pytest.mark.parametrize("path", [*DOCS.rglob("*.md"), *ROOT.glob("data/*.xml")], ids=lambda path: path.stem)
def test_no_example_has_an_attribute_that_nothing_reads(path: Path) -> None:
    names = "|".join(name for name in known() if not name.startswith("{"))
    for name, text in re.findall(rf"^ *<({names})((?: [\w-]+=\"[^\"]*\")+)/?>", path.read_text(), re.M):
        used = set(re.findall(r" ([\w-]+)=\"", text))
        assert used <= known()[name] | {"key", "name", "eid"}, (name, used)
