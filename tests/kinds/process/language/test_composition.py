"""Externals: what a process imports, how it is joined to it, and when it becomes another version."""

from __future__ import annotations

from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import parse, read_definition
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.kinds.process.language.composition import compose_all
from narval.kinds.process.language.definition import Process


def read(name: str, within: str, group: str = "g", path: str = "") -> Process:
    text = f'<process-definition name="{name}" group="{group}">{within}</process-definition>'
    (found,) = parse(Source(path or f"recipes/{name}.xml", text.encode())).definitions
    assert isinstance(found, Process)
    return found


def composed(*drafts: Process) -> dict[str, Process]:
    """The processes of a library by name; nothing is wrong with them."""
    library, faults = compose_all(Library(drafts))
    assert faults == []
    return {name: found for name, found in library.of("process").items() if isinstance(found, Process)}


def faults_of(*drafts: Process) -> list[Fault]:
    library, faults = compose_all(Library(drafts))
    return [*faults, *(each for draft in drafts for each in check_targets(draft.references, library))]


def arcs(found: Process) -> list[str]:
    return [f"{arc.start.id} -{arc.name}> {arc.end.id}" for arc in found.arcs]


EXT = """
  <node name="A" isStart="true" joinType="labelAnd"><arc to="B"/></node>
  <node name="B" joinType="labelAnd"/>
"""
TWICE = """
  <node name="P" isStart="true"><arc external="1" to="A"/></node>
  <node name="Q" isStart="true"><arc external="2" to="A"/></node>
  <node name="X"/>
  <external name="2" processDefinition="ext"><arc from="B" to="X"/></external>
  <external name="1" processDefinition="ext">
    <arc from="B" to="X" name="done"/><arc from="A" external="2" to="B"/><arc from="B" external="1" to="A"/>
  </external>
"""


def test_section_13_externals_are_copies_and_come_first_in_graph_order() -> None:
    found = composed(read("ext", EXT), read("p", TWICE))["g.p"]
    assert list(found.nodes) == ["1:A", "1:B", "2:A", "2:B", "P", "Q", "X"]
    assert arcs(found) == [
        "1:A -> 1:B",
        "2:A -> 2:B",
        "P -> 1:A",
        "Q -> 2:A",
        "1:B -> 1:A",
        "1:A -> 2:B",
        "1:B -done> X",
        "2:B -> X",
    ]
    assert found.nodes["1:B"].external == ("1",)
    assert found.nodes["1:B"].origin == "g.ext"
    assert found.nodes["1:B"] is not found.nodes["2:B"]
    assert [node.index for node in found.nodes.values()] == list(range(7))


def test_section_17_imported_start_nodes_do_not_start() -> None:
    processes = composed(read("ext", EXT), read("p", TWICE))
    assert [node.id for node in processes["g.p"].start_nodes] == ["P", "Q"]
    assert [node.id for node in processes["g.ext"].start_nodes] == ["A"]


def test_section_8_the_outer_external_says_more_than_the_inner() -> None:
    one = read("one", '<node name="A"/>')
    two = read(
        "two",
        '<node name="B"><arc external="one" to="A"/></node><external name="one" processDefinition="one">'
        "<custom><foo>hello</foo><bar>world</bar></custom></external>",
    )
    three = read(
        "three",
        '<node name="C" isStart="true"><arc external="two" to="B"/></node>'
        '<external name="two" processDefinition="g.two"><custom><foo>goodbye</foo></custom></external>',
    )
    found = composed(three, two, one)["g.three"]
    assert {id: dict(node.external_environment) for id, node in found.nodes.items()} == {
        "two:one:A": {"foo": "goodbye", "bar": "world"},
        "two:B": {"foo": "goodbye"},
        "C": {},
    }
    assert found.nodes["two:one:A"].external == ("two", "one")
    assert found.nodes["two:one:A"].origin == "g.one"
    assert arcs(found) == ["two:B -> two:one:A", "C -> two:B"]


def test_only_nodes_defined_there_can_be_addressed() -> None:
    one = read("one", '<node name="A"/>')
    two = read("two", '<node name="B"/><external name="one" processDefinition="one"/>')
    three = read(
        "three",
        '<node name="C"><arc external="two" to="A"/></node>'
        '<external name="two" processDefinition="two"><arc from="one:A" to="C"/></external>',
    )
    faults = faults_of(one, two, three)
    assert [(fault.line, fault.column) for fault in faults] == [(1, 83), (1, 150)]
    assert "expected a node that g.two itself defines, found 'A'; there is 'B'" in faults[0].message


def test_a_process_whose_external_has_changed_is_another_version_and_so_is_what_imports_that() -> None:
    middle = read("middle", '<node name="M"/><external name="e" processDefinition="ext"/>')
    outer = read("outer", '<node name="O"/><external name="m" processDefinition="middle"/>')
    alone = read("alone", '<node name="N"/>')
    before = composed(read("ext", '<node name="A"/>'), middle, outer, alone)
    after, faults = compose_all(
        Library(before.values()).replace([read("ext", '<node name="A"/><node name="B"/>')])
    )
    assert faults == []
    changed = {each.full_name for each in after if each.digest != before[each.full_name].digest}
    assert changed == {"g.ext", "g.middle", "g.outer"}
    assert {each.custom_id for each in after} >= {middle.custom_id, outer.custom_id}  # what they say has not


def test_the_xml_of_a_process_is_whole_and_gives_the_same_version_again() -> None:
    processes = composed(read("ext", EXT), read("p", TWICE))
    for found in processes.values():
        (again,) = parse(Source("store.xml", found.xml)).checked()
        assert isinstance(again, Process)
        assert (again.digest, again.xml, again.draft) == (found.digest, found.xml, None)
        assert list(again.nodes) == list(found.nodes)
        assert arcs(again) == arcs(found)
        assert again.nodes.keys() == found.nodes.keys()
        assert [node.origin for node in again.nodes.values()] == [
            node.origin for node in found.nodes.values()
        ]


def test_a_pinned_process_stays_as_it_is() -> None:
    kept = composed(read("ext", EXT), read("p", TWICE))["g.p"].pinned()
    library, faults = compose_all(Library([kept, read("ext", '<node name="other"/>')]))
    assert faults == []
    assert library.get("process", "g.p") is kept


def test_recursion_of_externals_is_a_fault_of_all_who_take_part() -> None:
    a = read("a", '<node name="N"/><external name="x" processDefinition="b"/>')
    b = read("b", '<node name="N"/><external name="x" processDefinition="c"/>')
    c = read("c", '<node name="N"/><external name="x" processDefinition="a"/>')
    faults = faults_of(a, b, c)
    assert [fault.path for fault in faults] == ["recipes/c.xml"]
    assert "a process cannot import itself: g.a → g.b → g.c → g.a" in faults[0].message
    own = faults_of(read("d", '<node name="N"/><external name="x" processDefinition="d"/>'))
    assert "g.d → g.d" in own[0].message


def test_a_bare_name_means_the_own_group_first_and_must_mean_one() -> None:
    importing = '<node name="N"/><external name="x" processDefinition="ext"/>'
    one = read("ext", '<node name="A"/>', "one", "recipes/one.xml")
    two = read("ext", '<node name="B"/>', "two", "recipes/two.xml")
    assert list(composed(one, two, read("p", importing, "two"))["two.p"].nodes) == ["x:B", "N"]
    assert list(composed(one, read("p", importing))["g.p"].nodes) == ["x:A", "N"]
    (fault,) = faults_of(one, two, read("p", importing))
    assert fault.message.endswith(
        "one.ext and two.ext have this name; write the full name of the one you mean"
    )


def test_a_missing_external_is_a_fault_that_knows_what_was_probably_meant() -> None:
    (fault,) = faults_of(
        read("external", '<node name="A"/>'),
        read("p", '<node name="N"/>\n<external name="x" processDefinition="externl"/>'),
    )
    assert (fault.line, fault.column) == (2, 39)
    assert fault.message == "external 'x': there is no process 'externl'; did you mean 'external'?"


def test_externals_that_double_each_time_are_refused_before_they_fill_memory() -> None:
    nodes = '<node name="a"/><node name="b"/>'
    chain = [read("p0", nodes + f'<description lang="en">{"c" * 5_000}</description>')]
    for level in range(1, 40):
        inner = f"p{level - 1}"
        both = "".join(f'<external name="{each}" processDefinition="{inner}"/>' for each in "xy")
        chain.append(read(f"p{level}", nodes + both))
    faults = faults_of(*chain)
    assert len(faults) > 0
    assert any("too large" in fault.message or "nodes" in fault.message for fault in faults)


def test_externals_are_not_nested_without_end() -> None:
    chain = [read("p0", '<node name="a"/>')]
    for level in range(1, 400):
        chain.append(
            read(f"p{level}", f'<node name="a"/><external name="x" processDefinition="p{level - 1}"/>')
        )
    assert any("deeper than 50 levels" in fault.message for fault in faults_of(*reversed(chain)))


def test_a_variable_within_an_external_is_a_node_of_that_external_also_when_it_is_read_again() -> None:
    ext = EXT.replace('joinType="labelAnd"/>', """><guard type="xpath">mail[@to=$A/@to]</guard></node>""")
    outer = '<node name="P" isStart="true"/><external name="1" processDefinition="ext"/>'
    found = composed(read("ext", ext), read("p", outer))["g.p"]
    again = read_definition("process", found.path, found.xml)
    assert isinstance(again, Process)
    assert (list(again.nodes), again.digest) == (list(found.nodes), found.digest)
