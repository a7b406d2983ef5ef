"""Whatever lies in `recipes/` and `modules/`, reading it gives definitions or faults, and nothing else."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.action.parser import declared
from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import parse
from narval.core.errors import DefinitionError, Fault
from narval.core.source.text import Source
from tests.examples import examples

RECIPE = b"""<?xml version="1.0" encoding="utf-8"?>
<cookbook xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" group="mail">
  <n:recipe name="triage" start_step="a" end_step="b" restart="no" decay="3.5">
    <step id="a" type="action" target="mail.fetch" foreach="email[@to='a']" timeout="3" max-parallel="2">
      <arguments><t xmlns="urn:t" q="&lt;&#233;">x<u/></t></arguments>
      <context from="plan"><match>email | n:mail</match></context>
      <input id="mail" use="yes"><match>email[not(@list)]</match></input><output id="x"/>
    </step>
    <step id="b" type="transform" target="mail.page"/>
    <transition id="t" priority="-2"><in idref="a" on-error="no"/><out idref="b"/>
      <condition use="yes"><match>email[@in-reply-to = $a/@id]</match></condition>
      <time hours="1-3,5" weekdays="*"/></transition>
  </n:recipe>
</cookbook>"""
SHEET = b"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <prototype name="page"><description lang="en">A page.</description>
    <input id="mails" list="yes"><match>email</match></input>
    <output id="page" unique="@id"><match>html</match></output></prototype>
  <xsl:variable name="v" select="//email[1]"/>
  <xsl:template match="email[@x]/y | z"><html><xsl:for-each select="$v"><xsl:sort select="@a"/>
    <xsl:value-of select="concat(@a, 'b')"/></xsl:for-each></html></xsl:template>
</xsl:stylesheet>"""
PROCESS = b"""<?xml version="1.0"?>
<process-definition name="order" xmlns="http://sarasvati.googlecode.com/ProcessDefinition" decay="9">
  <custom><a b="c">d</a></custom><listener name="log.all" events="PROCESS_CREATED"/>
  <node name="a" isStart="true" type="script" x="1" y="2"><arc to="b" name="x"/><arc external="e" to="N"/>
    <guard><![CDATA[IF not isOdd or (a and b) THEN Skip x ELSE DELAY UNTIL 5 days before now]]></guard>
    <custom><task user="pat">Do &lt;it&gt;<sub/></task></custom></node>
  <node name="b" joinType="joinlang"><join>require at least 2 arcs labelled default when first or
    require node "a"</join><guard type="xpath" else="Skip">email[@to = $process/@name]</guard></node>
  <node name="c" type="wait" joinType="labelAnd"><condition use="yes"><match>email</match></condition></node>
  <external name="e" processDefinition="other"><arc from="N" to="c" name="y"/><custom><k>v</k></custom>
    <process-definition name="other"><node name="N"/></process-definition></external>
</process-definition>"""
TREE = b"""<module name="mail"><action name="fetch" func="fetch" group="mail" runs="worker">
  <description lang="en">Fetch.</description><input id="box" use="no"><match>mailbox[@a]</match></input>
  <output id="m" list="yes" unique="m/@id"><match>email</match></output></action></module>"""


def read(path: str, data: bytes) -> list[Fault]:
    try:
        parsed = parse(Source(path, data))
    except DefinitionError as error:
        return list(error.faults)
    return [*parsed.faults, *check_targets(parsed.references, Library(parsed.definitions))]


def read_tree(data: bytes) -> list[Fault]:
    module = ModuleType("mail")
    module.MODULE_XML = data  # type: ignore[attr-defined]
    module.fetch = lambda box: None  # type: ignore[attr-defined]
    return declared(module, Source("modules/mail.py", b"MODULE_XML = '...'"), "mail")[1]


def all_have_places(faults: list[Fault]) -> bool:
    return all(fault.line >= 1 and fault.column >= 1 and fault.message for fault in faults)


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """A good file with some pieces cut, doubled, exchanged or overwritten."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 30)))
        other = draw(st.integers(0, len(data)))
        new = draw(
            st.one_of(
                st.binary(max_size=4),
                st.just(data[start:end] * 2),
                st.just(data[other : other + end - start]),
                st.sampled_from(
                    [b"", b"<", b">", b'"', b"&", b"$", b"[", b"]]>", b"<!--", b"\xc3", b"\x00", b"@"]
                ),
            )
        )
        data = data[:start] + new + data[end:]
    return data


def test_the_files_that_are_mutated_below_are_good() -> None:
    assert [fault.message[:30] for fault in read("recipes/mail.xml", RECIPE)] == [
        "step 'a': there is no action '",
        "step 'b': there is no transfor",
    ]
    assert read("recipes/mail.page.xsl", SHEET) == []
    assert read("recipes/shop.wf.xml", PROCESS) == []
    assert read_tree(TREE) == []


@given(mutated(RECIPE))
@settings(max_examples=examples(200), deadline=None)
def test_a_mutated_recipe_is_read_or_has_faults(data: bytes) -> None:
    assert all_have_places(read("recipes/mail.xml", data))


@given(mutated(PROCESS))
@settings(max_examples=examples(200), deadline=None)
def test_a_mutated_process_is_read_or_has_faults(data: bytes) -> None:
    assert all_have_places(read("recipes/shop.wf.xml", data))


@given(mutated(SHEET))
@settings(max_examples=examples(200), deadline=None)
def test_a_mutated_stylesheet_is_read_or_has_faults(data: bytes) -> None:
    assert all_have_places(read("recipes/mail.page.xsl", data))


@given(mutated(TREE))
@settings(max_examples=examples(200), deadline=None)
def test_a_mutated_module_tree_is_read_or_has_faults(data: bytes) -> None:
    assert all_have_places(read_tree(data))


@pytest.mark.parametrize("data", [RECIPE, PROCESS, SHEET])
def test_half_a_file_is_a_fault_wherever_it_ends(data: bytes) -> None:
    path = "a.b.xsl" if data is SHEET else "a.xml"
    for end in range(0, len(data) - 1, 7):
        assert read(path, data[:end])


@given(st.binary(max_size=200), st.sampled_from(["a.xml", "a.b.xsl"]))
@settings(max_examples=examples(200), deadline=None)
def test_any_bytes_are_faults(data: bytes, path: str) -> None:
    assert all_have_places(read(path, data))


_PROCESS = b"<process-definition>%b</process-definition>"
_GUARD = _PROCESS % b"<node><guard>%b</guard></node>"
HOSTILE = {
    "entity bomb": b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><recipe name="&b;"/>',
    "external entity": b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><recipe name="&x;"/>',
    "external subset": b'<!DOCTYPE recipe SYSTEM "http://example.org/r.dtd"><recipe/>',
    "parameter entity": b'<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]><recipe/>',
    "depth": b"<recipe>" + b"<step>" * 10_000,
    "depth in arguments": b"<recipe><step><arguments>" + b"<a>" * 10_000,
    "wrong encoding": "<recipe group='é'/>".encode("utf-16-le")[:-1],
    "declared otherwise": b"<?xml version='1.0' encoding='utf-32'?><recipe/>",
    "control characters": b"<recipe name='\x07'/>",
    "surrogates": b"<recipe name='\xed\xa0\x80'/>",
    "no root": b"<!-- nothing -->",
    "a billion attributes": b"<recipe " + b" ".join(b"a%d='1'" % n for n in range(5000)) + b"/>",
    "many steps of one id": b"<recipe>" + b"<step id='a'/>" * 20_000 + b"</recipe>",
    "many nodes of one name": b"<process-definition>"
    + b"<node name='a'/>" * 20_000
    + b"</process-definition>",
    "arcs to nowhere": b"<process-definition><node>"
    + b"<arc to='x'/>" * 20_000
    + b"</node></process-definition>",
    "long guard": b"<process-definition><node><guard>"
    + b"if (" * 200_000
    + b"</guard></node></process-definition>",
    "full guard": b"<process-definition><node><guard>"
    + b"if # " * 3_900
    + b"</guard></node></process-definition>",
    "depth in custom": b"<process-definition><custom>" + b"<a>" * 10_000,
    "size": b"<recipe>" + b" " * 5_000_000 + b"</recipe>",
    "long pattern": b"<recipe><step foreach='" + b"(" * 20_000 + b"'/></recipe>",
    "huge number": b"<recipe decay='" + b"9" * 100_000 + b"'/>",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("path", ["a.xml", "a.b.xsl"])
def test_a_hostile_file_is_a_fault(name: str, path: str) -> None:
    faults = read(path, HOSTILE[name])
    assert faults
    assert all_have_places(faults)
    assert len(faults) <= 200
