"""The needs of definitions are found without running them, and what covers them is told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.definitions.action.needs import Needs, ServicePlace, needs_of, read_needs, shown_needs
from narval.core.elements.element import parse
from narval.core.trust import needs as needs_module
from narval.core.trust.covering import is_covered
from narval.core.trust.needs import NamedPlaces, Need, written_in
from narval.core.trust.needs import needs_of as needs_of_definition
from narval.files.loaded import Loaded

SENDS = """
<recipe group="post" name="send" start_step="w" end_step="w">
  <step id="w" type="action" target="mail.write">
    <arguments><draft to="x@example.org" subject="hi">text</draft></arguments>
  </step>
</recipe>"""


def needs(text: str, name: str, declared: str = "", **tables: tuple[ServicePlace, ...]) -> dict[str, Need]:
    library = Loaded().with_definitions(text).library
    definition = library.find(name)
    assert definition is not None
    places = NamedPlaces(written_in([declared.encode()] if declared else []), tables)
    return {need.text: need for need in needs_of_definition(definition, library, places) if need.is_outside}


def test_only_an_element_that_may_name_a_folder_names_a_file_of_the_home() -> None:
    folders = ("[home] rw", "{text/@folder} rw", "{request/target/@folder} rw", "{mailbox/@path} r")
    assert Needs(folders=folders).files_named_by == {"text", "request/target"}
    assert Needs(folders=folders[1:]).files_named_by == set()


def test_a_host_is_the_one_that_the_owners_memory_names() -> None:
    outbox = '<outbox kind="smtp" host="SMTP.example.org" port="587" secret="smtp"/>'
    found = needs(SENDS, "post.send", outbox)
    assert list(found) == ["host smtp.example.org:587", "secret smtp"]
    need = found["host smtp.example.org:587"]
    assert (need.part, need.by, need.line) == ("step 'w'", "mail.write", 3)


def test_a_folder_that_the_owners_memory_names_is_not_outside() -> None:
    assert needs(SENDS, "post.send", '<outbox path="~/sent"/>') == {}


def test_what_no_file_names_is_found_when_it_is_called() -> None:
    assert "host {outbox/@host}:{outbox/@port}" in needs(SENDS, "post.send")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ('path="today.txt"', []),
        ('path="data/a/b.txt"', []),
        ('path="b.txt" folder="/srv/out"', ["folder /srv/out rw"]),
        ('path="b.txt" folder="recipes"', ["folder recipes rw"]),
        ('path="b.txt" folder="data/../etc"', ["folder data/../etc rw"]),
    ],
)
def test_the_arguments_of_a_step_say_where_a_file_goes(target: str, told: list[str]) -> None:
    text = f"""<recipe group="a" name="r" start_step="w" end_step="w">
      <step id="w" type="action" target="basic.write_file"><arguments><target {target}/></arguments></step>
    </recipe>"""
    assert list(needs(text, "a.r")) == told


def test_needs_are_those_of_all_that_is_called() -> None:
    calls = """<recipe group="a" name="r" start_step="w" end_step="w">
      <step id="w" type="recipe" target="post.send"/></recipe>"""
    text = f"<cookbook>{SENDS}{calls}</cookbook>"
    (need,) = needs(text, "a.r", '<outbox host="h.example.org"/>').values()
    assert need.text == "host h.example.org"
    assert need.part == "step 'w' of recipe post.send"


def test_a_definition_is_read_once_for_its_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(needs_module, "parse", lambda xml: read.append(xml) or parse(xml))
    for _ in range(3):
        needs(SENDS.replace("hi", "read once"), "post.send")
    assert len(read) == 1


def test_settings_name_hosts_and_secrets() -> None:
    text = """<recipe group="a" name="r" start_step="w" end_step="w">
      <step id="w" type="action" target="http.request">
        <arguments><request service="shop" path="/x"/></arguments></step></recipe>"""
    shop = ServicePlace("https://shop.example.org/api", "", "token")
    assert list(needs(text, "a.r", services=(shop,))) == ["host shop.example.org:443", "secret token"]
    url = text.replace('service="shop"', 'url="http://a.example.org:8080/x"')
    assert list(needs(url, "a.r")) == ["host a.example.org:8080"]
    computed = text.replace('service="shop"', 'url="{$plan/@name}"')
    assert list(needs(computed, "a.r")) == ["host {request/@url}"]


def test_programs_and_code_that_declares_nothing(tmp_path: Path) -> None:
    automaton = '<automaton group="a" name="b"><state name="start" command="rsync -a x y"/></automaton>'
    (need,) = needs(automaton, "a.b").values()
    assert (need.text, need.part) == ("program rsync", "state 'start'")
    (tmp_path / "m.py").write_text("from narval import action\n\n@action\ndef f(): ...\n")
    loaded = Loaded().with_definitions(tmp_path / "m.py")
    recipe = '<recipe group="a" name="r" start_step="w" end_step="w">'
    recipe += '<step id="w" type="action" target="m.f"/></recipe>'
    library = loaded.with_definitions(recipe).library
    found = needs_of_definition(library.of("recipe")["a.r"], library, NamedPlaces())
    assert [(need.text, need.by) for need in found if need.is_outside] == [("anything", "m.f")]


@pytest.mark.parametrize(
    ("need", "granted", "covered"),
    [
        ("host a.example.org:443", "host *.example.org:443", True),
        ("host a.example.org:443", "host a.example.org", True),
        ("host a.example.org:443", "host *", True),
        ("host a.example.org:80", "host *.example.org:443", False),
        ("host a.example.org", "host a.example.org:443", False),
        ("host evilexample.org:443", "host *.example.org:443", False),
        ("host example.org:443", "host *.example.org:443", False),
        ("folder data/x r", "folder data rw", True),
        ("folder data rw", "folder data r", False),
        ("folder database r", "folder data rw", False),
        ("folder data/../etc r", "folder data rw", False),
        ("folder data/x r", "folder . r", True),
        ("folder /etc r", "folder . r", False),
        ("folder ~/x r", "folder ./ r", False),
        ("folder ../x r", "folder . r", False),
        ("folder ../x r", "folder .. r", True),
        ("folder ../../x r", "folder .. r", False),
        ("folder /etc r", "folder / r", True),
        ("folder ~/../data/x r", "folder data r", False),
        ("folder ~/../etc r", "folder ~ r", False),
        ("secret smtp", "secret smtp", True),
        ("secret smtp", "program smtp", False),
        ("program sh", "anything", True),
        ("anything", "anything", True),
        ("anything", "host *", False),
    ],
)
def test_what_is_granted_covers_what_is_needed(need: str, granted: str, covered: bool) -> None:
    assert is_covered(need, [granted]) is covered


def test_needs_are_written_as_an_attribute_too() -> None:
    made = Needs(("*.example.org:443", "[models]"), ("data rw",), ("dot",), ("smtp",))
    assert read_needs(shown_needs(made)) == made
    assert read_needs("nothing") == Needs()
    assert shown_needs(Needs()) == "nothing"


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ({"hosts": "a.example.org"}, "hosts to be a list of texts"),
        ({"hosts": ["http://a.example.org"]}, "hosts to have a host with a port or without"),
        ({"hosts": ["a.*"]}, "hosts to have a host"),
        ({"hosts": ["a.example.org:99999"]}, "hosts to have a host"),
        ({"folders": ["data"]}, "folders to have a folder and how it is used"),
        ({"folders": ["[models] r"]}, "folders to have a folder"),
        ({"programs": ["a b"]}, "programs to have the name of a program"),
        ({"secrets": [3]}, "secrets to have the name of a secret"),
    ],
)
def test_needs_that_say_nothing_clear_are_refused(lists: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        needs_of(lists)


NESTED = """
<process-definition name="inner"><node name="a" type="action" isStart="true">
  <custom><target>mail.write</target></custom></node></process-definition>"""
NESTS = """
<process-definition name="outer"><node name="a" type="nested" isStart="true">
  <custom><graph name="{}"/></custom></node></process-definition>"""


@pytest.mark.parametrize("name", ["inner", "text.inner"])
def test_what_a_process_that_a_node_nests_needs_is_needed(name: str) -> None:
    library = Loaded().with_definitions(NESTED).with_definitions(NESTS.format(name)).library
    definition = library.get("process", "text.outer")
    assert definition is not None
    found = needs_of_definition(definition, library, NamedPlaces())
    assert "host {outbox/@host}:{outbox/@port}" in [need.text for need in found]


def test_that_a_nested_process_is_not_there_yet_is_no_fault() -> None:
    assert Loaded().with_definitions(NESTS.format("later")).library.get("process", "text.outer") is not None
