"""JSON: elements of a text, at a place, of each value; and what is refused."""

from __future__ import annotations

import json
import re
from xml.sax.saxutils import escape

import pytest
from lxml import etree

import narval
from modules import json as module
from narval import ActionError, Element
from narval.core.elements.canonical import canonical
from tests.places import page

ISSUES = '{"data": {"issues": [{"id": 7, "title": "Lamp <b>"}, {"id": 8, "open": true}], "a.b": [[1], "x"]}}'


def given(text: str) -> Element:
    return Element(3, f"<response status='200'>{escape(text)}</response>".encode())


def read(text: str, wish: str = "") -> list[str]:
    made = module.read(given(text), Element(4, f"<json-as {wish}/>".encode()) if wish else None)
    return [canonical(element).decode() for element in made]


def fault(text: str, wish: str = "") -> str:
    with pytest.raises(ActionError) as refused:
        read(text, wish)
    assert refused.value.final
    return f"{refused.value.kind}: {refused.value}"


def test_a_text_is_one_element_or_one_of_each_value() -> None:
    assert read('{"a": 1}') == ['<json a="1" json-types="a:number"/>']
    assert read(ISSUES, 'name="issue" at="data.issues" each="yes"') == [
        '<issue id="7" title="Lamp &lt;b&gt;" json-types="id:number"/>',
        '<issue id="8" open="true" json-types="id:number open:boolean"/>',
    ]
    assert read(ISSUES, 'name="issue" at="data.issues.1.open"') == [
        '<issue json-types="boolean">true</issue>'
    ]
    assert read("[]", 'each="yes"') == []


def test_what_is_not_there_is_told() -> None:
    assert "expected 'x' of at='data.x', found an object with the keys issues, a.b" in fault(
        ISSUES, 'at="data.x"'
    )
    assert "found a list of 2" in fault(ISSUES, 'at="data.issues.first"')
    assert "expected a list" in fault(ISSUES, 'each="yes"')
    assert fault("<html>").startswith("bad-json: expected JSON")
    assert fault("{}", 'name="start-plan"').startswith("bad-name")
    assert fault("{}", 'name="a b"').startswith("bad-name")


def test_an_element_becomes_json() -> None:
    made = module.write(Element(5, b'<notice subject="a &lt; b" n="1" json-types="n:number">text</notice>'))
    assert made.text == '{"subject": "a < b", "n": 1, "#text": "text"}'
    with pytest.raises(ActionError, match="expected n to be of type number"):
        module.write(Element(5, b'<notice n="1, 2" json-types="n:number"/>'))


def test_the_recipe_of_the_page_reads_an_answer() -> None:
    with narval.open() as agent:
        agent.load(xml()[0])
        agent.add(given(ISSUES).xml)
        agent.start("issues.read")
        agent.until_idle()
        assert [element.attributes["id"] for element in agent.memory("issue")] == ["7", "8"]


def test_the_mapping_is_as_the_page_shows() -> None:
    (first, second), (_, shown, ticket) = of("json"), xml()
    assert re.sub(r">\s+<", "><", shown.strip()) == read(first, 'name="build"')[0]
    filled = ticket.replace("{$mail/@subject}", "Lamp").replace("{$rating/@value}", "2")
    assert module.write(Element(6, filled.encode())).text == json.dumps(json.loads(second))
    assert etree.fromstring(shown).tag == "build"


def of(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page("json.md"), re.MULTILINE | re.DOTALL)


def xml() -> list[str]:
    return of("xml")
