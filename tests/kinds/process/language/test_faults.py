"""All that may be wrong with a process, each with its exact place, all at once (N13, sections 13 and 14).

In the texts below a `§` stands before each character where a fault is expected.
"""

from __future__ import annotations

import pytest

from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import parse, read_definition
from narval.core.errors import Fault
from narval.core.source.text import Source


def faults_in(text: str) -> list[Fault]:
    """All the faults of a file; each must be where a mark is."""
    places, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        while (at := line.find("§")) >= 0:
            places.append((number, at + 1))
            line = line[:at] + line[at + 1 :]
        lines.append(line)
    parsed = parse(Source("recipes/shop.xml", "\n".join(lines).encode()))
    library = Library(parsed.definitions)
    faults = sorted([*parsed.faults, *check_targets(parsed.references, library)])
    assert [(fault.line, fault.column) for fault in faults] == places, "\n".join(map(str, faults))
    return faults


def within(text: str) -> str:
    return f'<process-definition name="p">{text}</process-definition>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('§<process-definition><node name="a"/></process-definition>', "needs the attribute 'name'"),
        ('§<process-definition name="p"/>', "a process needs a node"),
        ('<process-definition name="§ "><node name="a"/></process-definition>', "a name of 1 to 200"),
        ('<process-definition name="p" group="§a.b"><node name="a"/></process-definition>', "without dots"),
        (within('<node name="a"/>\n<node name="§a"/>'), "a new node name, found 'a' of line 1 again"),
        (within('<node name="a"><arc to="§b"/></node><node name="bb"/>'), "did you mean 'bb'?"),
        (within('<node name="a"><arc to="x" external="§e"/></node>'), "an external of this process"),
        (within('<node name="a"><arc from="§a" to="a"/></node>'), "leaves that node; remove from"),
        (within('<node name="a"><arc too="§a" to="a"/></node>'), "no attribute 'too'"),
        (within('<node name="a" joinType="§labeland"/>'), "did you mean 'labelAnd'?"),
        (within('<node name="a" isStart="§yes"/>'), "expected true or false, found 'yes'"),
        (within('§<node name="a" joinType="joinlang"/>'), "the join joinlang needs a text"),
        (within('§<node name="a" joinType="class"/>'), "the join class needs a text"),
        (within('<node name="a" joinParam="x">§<join>y</join></node>'), "joinParam says something else"),
        (within('<node name="a"><guard>Accept</guard>§<guard>Accept</guard></node>'), "may have one guard"),
        (within('<node name="a"><guard>§<b/>Accept</guard></node>'), "unexpected element 'b' in guard"),
        (within('<node name="a"><guard else="§Skip">Accept</guard></node>'), 'only a guard of type="xpath"'),
        (within('<node name="a"><guard type="xpath">email[§</guard></node>'), "guard is no XPath"),
        (within('<node name="a"><guard type="xpath">a[@b=§$c]</guard></node>'), "$c: expected process or"),
        (within('<node name="a"><guard type="xpath" else="Skip §5">a</guard></node>'), "else: expected"),
        (
            within('<node name="a"><guard type="xpath" else="§IF b THEN Skip ELSE Skip">a</guard></node>'),
            "else: expected Discard, Skip or DELAY UNTIL, found IF",
        ),
        (within('<node name="a"><guard>IF b THEN @§c ELSE Accept</guard></node>'), "found a string function"),
        (within('<node name="a"><guard type="xpath" else="@§c">a</guard></node>'), "found a string function"),
        (within('<node name="a"><custom><retries>§-1</retries></custom></node>'), "number of 0 or more"),
        (within('<node name="a"><custom><on-error>§foo</on-error></custom></node>'), "expected fail, found"),
        (within('<node name="a" type="node">§<condition><match>a</match></condition></node>'), "type wait"),
        (within('§<node name="a" type="nested"/>'), '<graph name="…"/>'),
        (within('§<node name="a" type="action"/>'), "the name of an action: <custom><target>group.action"),
        (within('<node name="a" type="action"><custom><target>§send</target></custom></node>'), "full name"),
        (within('<node name="a" type="action"><custom><target> §m.n</target></custom></node>'), "no action"),
        (within('<node name="a"/><external name="e" processDefinition="§x"/>'), "there is no process 'x'"),
        (within('<listener name="a.b" events="§NODE_COMPLETED"/><node name="a"/>'), "the names of events"),
        (
            within('<node name="a"/><external name="e" processDefinition="q">§<arc to="a"/>'
                   '<process-definition name="q"><node name="b"/></process-definition></external>'),
            "an arc in an external needs from",
        ),
        (
            within('<node name="a"><arc external="e" to="§B"/></node>'
                   '<external name="e" processDefinition="q"><process-definition name="q"><node name="b"/>'
                   "</process-definition></external>"),
            "expected a node that shop.q itself defines, found 'B'; there is 'b'",
        ),
        (
            within('\n<node name="e:b"/>\n<external name="e" processDefinition="q">'
                   '<process-definition name="q"><node name="b"/></process-definition></external>')
            .replace("\n<node", "\n§<node"),
            "the name 'e:b' is taken",
        ),
        (
            within('<node name="a"/><external name="e" processDefinition="q">'
                   '§<process-definition name="q"><node name="b"/><external name="f" processDefinition="r"/>'
                   "</process-definition></external>").replace('"r"', '"§r"'),
            "must have all its externals within it",
        ),
    ],
)  # fmt: skip
def test_N13_each_fault_of_a_process_is_at_its_place(text: str, message: str) -> None:
    assert any(message in fault.message for fault in faults_in(text))


def test_N13_all_faults_of_a_process_are_found_at_once() -> None:
    faults = faults_in("""<process-definition name="p" xmlns="http://sarasvati.googlecode.com/ProcessDefinition">
  §<nod name="a"/>
  <node name="b" joinType="§andor">
    <guard>IF isOdd §Accept
      ELSE Skip §&amp;<![CDATA[ §Accept]]></guard>
    <arc to="§c"/>
  </node>
  <node name="§b" type="wait"><condition>§<match></match></condition></node>
  <node name="d" joinType="joinlang"><join>
    require §arcs
    require node §d
  </join></node>
</process-definition>""")
    assert "did you mean 'node'?" in faults[0].message
    assert len(faults) == 10


def test_what_was_no_fault_once_keeps_no_run_from_its_definition() -> None:
    text = within('<node name="a"><guard>@b</guard><custom><retries>-1</retries></custom></node>')
    assert len(parse(Source("recipes/shop.xml", text.encode())).faults) == 2
    assert read_definition("process", "recipes/shop.xml", text.encode()).full_name == "shop.p"


def test_section_4_slips_in_a_guard_are_found_behind_references_and_comments() -> None:
    (fault,) = faults_in(within('<node name="a"><guard><!-- why --> Skip &quot;x&quot; §foo</guard></node>'))
    assert fault.message == "guard: expected the end, found 'foo'"
    (fault,) = faults_in(
        within('<node name="a" joinType="joinlang" joinParam="require node &quot;x&quot; §5"/>')
    )
    assert fault.message == "join: expected require, or, or the end, found '5'"
