"""Attributes of elements that a home declares or is given: a slip is told, with what may be meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from narval.core.definitions.prototype import Input
from narval.files.known_attributes import OWN, known_attributes
from narval.files.loader import Loader
from tests.places import DOCS, ROOT
from tests.surfaces.cli.command_line import data, narval

SHIPPED = Loader(ROOT).load().library
KNOWN = known_attributes(SHIPPED)
WATCH = """<cookbook group="w"><recipe group="w" name="all" start_step="a" end_step="a">
  <step id="a" type="action" target="mail.watch"/></recipe></cookbook>"""
DECLARED = """<memory>
  <mailbox name="own" kind="imap" host="imap.example.org" usr="ann" note="mine"/>
  <mailbox name="other" kind="imap" hots="imap.example.org"/>
  <start-plan recip="w.all" recipe="w.all"/>
  <mine whatever="it is"/>
</memory>
"""


def inputs() -> list[Input]:
    """The inputs of shipped actions that say what is read."""
    prototypes = [found.prototype for found in SHIPPED if hasattr(found, "prototype")]
    return [slot for prototype in prototypes for slot in prototype.inputs if slot.reads]


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


def test_every_element_that_people_write_for_what_ships_is_known() -> None:
    declared = {
        "mailbox",
        "outbox",
        "identity",
        "feed",
        "calendar",
        "folder",
        "rule",
        "ack-template",
        "notify",
        "counter",
    }
    assert declared | OWN.keys() <= KNOWN.keys()


@pytest.mark.parametrize("slot", inputs(), ids=lambda slot: slot.id)
def test_an_input_that_says_what_it_reads_says_all_of_what_it_asks(slot: Input) -> None:
    asked = {*slot.holds, *re.findall(r"@([\w-]+)", " ".join(slot.match))}
    assert asked <= set(slot.reads)


@pytest.mark.parametrize("path", [*DOCS.rglob("*.md"), *ROOT.glob("data/*.xml")], ids=lambda path: path.stem)
def test_no_example_has_an_attribute_that_nothing_reads(path: Path) -> None:
    names = "|".join(name for name in KNOWN if not name.startswith("{"))
    for name, text in re.findall(rf"^ *<({names})((?: [\w-]+=\"[^\"]*\")+)/?>", path.read_text(), re.M):
        used = set(re.findall(r" ([\w-]+)=\"", text))
        assert used <= KNOWN[name] | {"key", "name", "eid"}, (name, used)
