"""Processes as they are read: their nodes and arcs in graph order, what they say in custom, their digests."""

from __future__ import annotations

import hashlib
import re

import pytest

from narval.core.definitions.parsing import parse
from narval.core.definitions.reading.expressions import Not, Predicate
from narval.core.elements.element import parse as parse_element
from narval.core.source.text import Source
from narval.kinds.process.language.definition import External, Listening, MemoryGuard, Process
from narval.kinds.process.language.statements import Accept, ArcsRequired, Discard, If, Skip

NAMESPACE = "http://sarasvati.googlecode.com/ProcessDefinition"


def process(within: str, attributes: str = 'name="order"', path: str = "recipes/shop.wf.xml") -> Process:
    """The process that a text is, of which nothing is said to be wrong."""
    text = f"<process-definition {attributes} xmlns='{NAMESPACE}'>{within}</process-definition>"
    (found,) = parse(Source(path, text.encode())).checked()
    assert isinstance(found, Process)
    return found


def shape(found: Process) -> list[str]:
    """Its arcs in graph order."""
    return [f"{arc.start.id} -{arc.name}> {arc.end.id}" for arc in found.arcs]


ORDER = """
  <node name="ship" type="task" joinType="labelAnd"><arc to="enter" name="reject"/><arc to="end"/></node>
  <node name="enter" type="task" isStart="true">
    <arc to="pack"/><arc to="bill"/>
    <custom><task job="Enter order" user="someone"/></custom>
  </node>
  <node name="bill" type="task"><arc to="ship"/></node>
  <node name="pack" type="task"><arc to="ship"/></node>
  <node name="end"/>
"""


@pytest.mark.parametrize("ns", [f' xmlns="{NAMESPACE}"', "", f' xmlns:p="{NAMESPACE}"'])
def test_section_14_words_are_in_the_namespace_of_the_source_or_in_none(ns: str) -> None:
    text = f'<process-definition name="a"{ns}><node name="n" isStart="true"/></process-definition>'
    if "xmlns:p" in ns:
        text = re.sub(r"<(/?)(process|node)", r"<\1p:\2", text)
    (found,) = parse(Source("recipes/x.xml", text.encode())).checked()
    assert found.full_name == "x.a"
    assert parse_element(found.xml).xpath("string(/process-definition[@group='x']/node/@name)") == "n"
    again = parse(Source("elsewhere/y.xml", found.xml)).checked()[0]
    assert (again.full_name, again.digest, again.xml) == ("x.a", found.digest, found.xml)


def test_section_13_graph_order_is_sorted_and_not_that_of_the_file() -> None:
    found = process(ORDER)
    assert list(found.nodes) == ["bill", "end", "enter", "pack", "ship"]
    assert shape(found) == [
        "bill -> ship",
        "enter -> bill",
        "enter -> pack",
        "pack -> ship",
        "ship -> end",
        "ship -reject> enter",
    ]
    assert [node.index for node in found.nodes.values()] == [0, 1, 2, 3, 4]
    assert [node.id for node in found.start_nodes] == ["enter"]


def test_section_1_nodes_know_their_arcs_by_name() -> None:
    nodes = process(ORDER).nodes
    assert [arc.start.id for arc in nodes["ship"].ins] == ["bill", "pack"]
    assert {name: [arc.end.id for arc in arcs] for name, arcs in nodes["ship"].outs_by_name.items()} == {
        "": ["end"],
        "reject": ["enter"],
    }


def test_section_1_self_arcs_and_several_arcs_between_the_same_nodes() -> None:
    found = process(
        '<node name="a" isStart="1"><arc to="a" name="again"/><arc to="b"/><arc to="b" name=" "/></node>'
        '<node name="b" isStart="0"/>'
    )
    assert shape(found) == ["a -> b", "a -> b", "a -again> a"]
    assert [arc.start is arc.end for arc in found.arcs] == [False, False, True]


def test_the_group_is_the_name_of_the_file_up_to_its_first_dot_unless_it_is_given() -> None:
    assert process('<node name="a"/>').full_name == "shop.order"
    assert process('<node name="a"/>', 'name="order" group="g"').full_name == "g.order"


def test_section_5_joins_have_the_names_of_the_source_and_those_of_the_manual() -> None:
    found = process(
        '<node name="a"/><node name="b" joinType="tokenSetAnd" joinParam="approvals"/>'
        '<node name="c" joinType="custom"><join>\n  joins.majority </join></node>'
        '<node name="d" joinType="joinlang"><join>require at least 2 arcs\n  labelled default</join></node>'
        '<node name="e" joinType="joinlang" joinParam="require all arcs"/>'
    )
    assert [(node.join, node.join_text) for node in found.nodes.values()] == [
        ("or", ""),
        ("tokenSet", "approvals"),
        ("class", "joins.majority"),
        ("joinlang", "require at least 2 arcs\n  labelled default"),
        ("joinlang", "require all arcs"),
    ]
    assert found.nodes["d"].joinlang == ((ArcsRequired(2, ""),),)
    assert found.nodes["e"].joinlang == ((ArcsRequired(),),)


def test_section_4_guards_are_parsed_and_their_names_know_their_places() -> None:
    found = process(
        '\n<node name="a"><guard>\n  // with care\n  IF not isOdd THEN Accept\n  ELSE Skip <![CDATA[out]]>'
        '</guard><arc to="b" name="out"/></node><node name="b"><guard>  </guard></node>'
    )
    assert found.nodes["a"].guard == If(Not(Predicate("isOdd", 4, 10)), Accept(), Skip("out", 5, 22))
    assert found.nodes["a"].guard_text.startswith("// with care\n")
    assert found.nodes["b"].guard is None


def test_a_guard_may_be_a_pattern_of_what_is_in_memory() -> None:
    found = process(
        '<node name="a"><guard type="xpath">email[@to = $process/@name]</guard></node>'
        '<node name="b"><guard type="xpath" else="Skip later">email</guard></node>'
    )
    a, b = found.nodes["a"].guard, found.nodes["b"].guard
    assert isinstance(a, MemoryGuard)
    assert isinstance(b, MemoryGuard)
    assert (a.otherwise, a.condition.variables) == (Discard(), {"process"})
    assert b.otherwise == Skip("later", 1, 166 + len(NAMESPACE))


def test_a_wait_node_may_wait_for_what_comes_into_memory() -> None:
    found = process(
        '<node name="a" type="wait"><condition use="yes"><match>email</match><match>*[@to]</match>'
        "</condition>"
        "<condition><match>budget</match></condition></node>"
    )
    conditions = found.nodes["a"].conditions
    assert [(len(each.condition.patterns), each.use) for each in conditions] == [(2, True), (1, False)]


def test_section_13_custom_is_properties_of_properties() -> None:
    found = process(
        """<custom><owner>ops</owner></custom>
        <node name="a" type="task"><custom>
          <size> 1 </size>
          <task user="pat">
             Call
          </task>
          <inner kind=" k "><value type="foo">bar</value><deep><er>x</er></deep></inner>
          <graph name="sub"/>
          <empty/>
          <o:other xmlns:o="urn:other" o:at="1"><![CDATA[ a < b ]]></o:other>
        </custom></node>"""
    )
    assert found.custom == (("owner", "ops"),)
    node = found.nodes["a"]
    assert dict(node.custom) == {
        "size": "1",
        "task": "Call",
        "taskUser": "pat",
        "inner.kind": "k",
        "inner.value": "bar",
        "inner.valueType": "foo",
        "inner.deep.er": "x",
        "graphName": "sub",
        "empty": "",
        "other": "a < b",
        "otherAt": "1",
    }
    assert node.text_of("inner.value") == "bar"
    assert node.text_of("missing") == ""


def test_section_13_the_digest_of_the_source_is_of_what_it_names_in_its_order() -> None:
    found = process(
        '<node name="b" joinType="first" type="wait"/>'
        '<node name="a" isStart="true" joinType="tokenSetOr"><join> s </join><guard> Accept </guard>'
        '<arc to="b" name="z"/><arc to="b"/><arc external="x" to="n"/>'
        "<custom><k><l>2</l></k><k m=' 1 '/></custom></node>"
        '<external name="x" processDefinition="other"><arc from="n" to="b"/>'
        '<process-definition name="other"><node name="n"/></process-definition></external>'
    )
    parts = ["order", "a", b"\5", " s ", " Accept ", b"\1", "k.l", "2", "kM", " 1 ", "b", "n", "x", "z", "b"]
    parts += ["b", "wait", b"\6", b"\0", "x", "other", "b", "n"]
    plain = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    assert found.custom_id == hashlib.sha1(plain, usedforsecurity=False).hexdigest()


def test_section_13_neither_order_nor_place_in_a_file_makes_another_definition_for_the_source() -> None:
    one = process('<node name="a"><arc to="b"/><arc to="a"/></node><node name="b" x="1" y="2"/>')
    other = process('\n<node name="b"/>\n<node name="a"><arc to="a"/>  <arc to="b"/></node>')
    assert one.custom_id == other.custom_id
    assert one.custom_id != process('<node name="a"/><node name="b"/>').custom_id


def test_section_3_listeners_of_a_definition_hear_of_the_events_they_name() -> None:
    found = process(
        '<listener name="log.all"/><listener name="log.some" events="PROCESS_CREATED, NODE_TOKEN_COMPLETED"/>'
        '<listener name="log.some" events="ARC_TOKEN_INCOMPLETE_JOIN"/><node name="a"/>'
    )
    assert found.listeners == (
        Listening("log.all", (1 << 20) - 1),
        Listening("log.some", 1 | 1 << 11 | 1 << 19),
    )


def test_nodes_refer_to_what_they_call() -> None:
    text = (
        "<process-definition name='p'>"
        "<node name='a' type='action'><custom><target>mail.send</target></custom></node>"
        "<node name='b' type='process'><custom><target>q</target></custom></node>"
        "<node name='c' type='nested'><custom><graph name='whatever'/></custom></node></process-definition>"
    )
    parsed = parse(Source("recipes/g.xml", text.encode()))
    assert [(each.kind, each.target, each.group, each.late) for each in parsed.references] == [
        ("action", "mail.send", None, False),
        ("process", "q", "g", False),
        ("process", "whatever", "g", True),
    ]
    (found,) = parsed.checked()
    assert isinstance(found, Process)
    assert [node.target for node in found.nodes.values()] == [
        ("action", "mail.send"),
        ("process", "q"),
        ("process", "whatever"),
    ]


def test_a_process_says_what_it_is_for() -> None:
    found = process(
        '<description lang="fr">Commander.</description><description>Order\n things.</description>'
        '<node name="a"><description>First.</description></node>',
        'name="order" decay="3600"',
    )
    assert dict(found.descriptions) == {"fr": "Commander.", "en": "Order things."}
    assert found.decay == 3600


@pytest.mark.parametrize(
    "data",
    [
        b'<editor-properties xmlns="http://sarasvati.googlecode.com/Editor"><node name="a" x="1" y="2"/>'
        b"</editor-properties>",
        b"<not-even",
        b"",
    ],
)
def test_section_14_files_of_the_editor_are_nothing_to_run_and_never_a_fault(data: bytes) -> None:
    parsed = parse(Source("recipes/order.editor.xml", data))
    assert (parsed.definitions, parsed.faults) == ((), ())


def test_section_13_externals_in_a_file_wait_for_the_library() -> None:
    text = (
        '<process-definition name="p"><node name="a"><arc external="x" to="n"/></node>'
        '<external name="x" processDefinition="other"><custom><k>v</k></custom></external>'
        "</process-definition>"
    )
    parsed = parse(Source("recipes/g.xml", text.encode()))
    assert [(each.kind, each.target, each.group) for each in parsed.references] == [("process", "other", "g")]
    (found,) = parsed.definitions
    assert isinstance(found, Process)
    assert found.draft is not None
    assert found.externals == (External("x", "other", (("k", "v"),), 1, 116),)
    assert parsed.faults == ()
