"""What a process says that is allowed and may not be meant: warnings at their places (section 16)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from narval.core.definitions.action.definition import Action, Input, Output
from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import parse
from narval.core.definitions.prototype import Prototype
from narval.core.source.text import Source
from narval.files.check import check_home
from narval.files.home import Home
from narval.kinds.process.language.checks import names_asked, warnings
from narval.kinds.process.language.code import Code
from narval.kinds.process.language.composition import compose_all
from narval.kinds.process.language.definition import Process
from narval.kinds.process.language.properties import RubricType
from narval.kinds.process.language.rubric import parse as parse_rubric


@dataclass(frozen=True)
class Known:
    """Something that a module has by name."""

    kind: str
    full_name: str
    name: str = ""
    group: str = "flow"
    digest: str = ""
    xml: bytes = b""
    path: str = "modules/flow.py"
    line: int = 1
    references: tuple = ()
    descriptions: dict = field(default_factory=dict)


MODULE = [
    Known("predicate", "isOdd"),
    Known("date-function", "now"),
    Known("join", "flow.majority"),
    Code(kind="node-type", group="flow", name="task", function="Task", properties={"size": int}),
    Code(
        kind="node-type",
        group="flow",
        name="note",
        function="Note",
        properties={"text": RubricType(str)},
        evaluated=True,
    ),
    Known("listener", "log"),
]


def library_of(*texts: str) -> Library:
    definitions = list(MODULE)
    for number, text in enumerate(texts):
        definitions += parse(Source(f"recipes/p{number}.xml", text.encode())).checked()
    return compose_all(Library(definitions))[0]


def warned(*texts: str) -> list[str]:
    """What may not be meant in the first of some processes; each is at a `§` of its text."""
    places = []
    for number, line in enumerate(texts[0].split("\n"), 1):
        parts = line.split("§")
        places += [(number, len("".join(parts[:at])) + 1) for at in range(1, len(parts))]
    library = library_of(texts[0].replace("§", ""), *texts[1:])
    first = [each for each in library.of("process").values() if each.path == "recipes/p0.xml"]
    found = sorted(warnings([each for each in first if isinstance(each, Process)], library))
    assert [(each.line, each.column) for each in found] == places, "\n".join(map(str, found))
    assert all(each.warning for each in found)
    return [each.message for each in found]


def definition(within: str, name: str = "p") -> str:
    return f'<process-definition name="{name}">{within}</process-definition>'


START = '<node name="s" isStart="true"/>'


def test_a_process_without_doubts() -> None:
    text = definition(
        '<listener name="log"/><node name="s" isStart="true" type="task"><guard>IF isOdd THEN Skip x ELSE '
        'DELAY UNTIL 1 day after now</guard><arc to="t" name="x"/></node><node name="t" joinType="class">'
        '<join>flow.majority</join></node><node name="u" joinType="joinlang"><join>require all arcs when '
        'first or isOdd</join></node><node name="n" type="nested"><custom><graph name="p"/></custom></node>'
    )  # fmt: skip
    assert warned(text) == []


def test_a_process_that_cannot_be_started_unless_another_imports_it() -> None:
    lonely = definition('<node name="a"/>')
    assert "no node has isStart" in warned(f"§{lonely}")[0]
    importing = definition('<external name="e" processDefinition="p"/><node name="b" isStart="true"/>', "q")
    assert warned(lonely, importing) == []


def test_names_that_nothing_has() -> None:
    messages = warned(
        definition(
            f"""{START}
<node name="a"><guard>IF §isOld or isOdd THEN DELAY UNTIL §later ELSE Accept</guard></node>
<node name="b" joinType="joinlang"><join>require all arcs when §isEven</join></node>
§<node name="c" joinType="class"><join>flow.minority</join></node>
§<node name="e" type="nested"><custom><graph name="q"/></custom></node>"""
        )
    )
    assert [message.partition(";")[0] for message in messages] == [
        "there is no predicate 'isOld'",
        "there is no date function 'later'",
        "there is no predicate 'isEven'",
        "node 'c': there is no join 'flow.minority'",
        "node 'e': there is no process 'q'",
    ]
    assert "did you mean 'isOdd'?" in messages[0]


def test_a_join_that_ignores_its_text() -> None:
    (message,) = warned(definition(f'{START}\n§<node name="a" joinType="first" joinParam="x"/>'))
    assert message == "node 'a': the join first needs no text, and ignores 'x'"


def test_a_listener_that_nothing_has() -> None:
    assert "there is no listener 'logg'; did you mean 'log'?" in warned(
        "§" + definition(f'<listener name="logg"/>{START}')
    )


def test_skips_to_arcs_that_are_not_there() -> None:
    messages = warned(
        definition(
            """<node name="s" isStart="true"><arc to="t" name="exit"/>
<guard>IF isOdd THEN Skip §exti ELSE §Skip</guard></node>
<node name="t"><guard>IF isOdd THEN Skip ELSE Skip §"a b"</guard></node>
<node name="u"><guard type="xpath" else="Skip §later">a</guard></node>"""
        )
    )
    assert [message.partition(":")[0] for message in messages] == [
        "node 's' has no arc 'exti' to skip to",
        "node 's' has no arc without a name to skip to",
        "node 't' has no arc 'a b' to skip to",
        "node 'u' has no arc 'later' to skip to",
    ]
    assert "did you mean 'exit'?" in messages[0]


def test_arcs_that_whoever_imports_a_process_adds_are_there() -> None:
    inner = definition(
        '<node name="a" isStart="true"><guard>Skip out</guard></node>'
        '<node name="b"><guard>Skip §no</guard></node>'
    )
    outer = definition(
        f'{START}<external name="e" processDefinition="p"><arc from="a" to="s" name="out"/></external>', "q"
    )
    assert len(warned(inner, outer)) == 1


@pytest.mark.parametrize(
    ("type", "hint"),
    [("taks", "did you mean 'task'?"), ("scirpt", "did you mean 'script'?"), ("xyz", "")],
)
def test_a_type_of_a_node_that_no_module_has_is_a_fault(type: str, hint: str) -> None:
    text = definition(f'{START}<node name="d" type="{type}"/>')
    parsed = parse(Source("recipes/p.xml", text.encode()))
    (fault,) = check_targets(parsed.references, library_of(text))
    assert fault.message.startswith(f"node 'd': there is no node-type {type!r}")
    assert fault.message.endswith(hint)
    assert fault.column == 1 + text.index(f'{type}"/>')


def test_a_module_of_the_home_may_declare_the_type_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/p.xml").write_text(definition('<node name="s" type="call" isStart="true"/>'))
    (fault,) = check_home(Home(tmp_path))
    assert not fault.warning
    assert "there is no node-type 'call'" in fault.message
    (tmp_path / "modules").mkdir()
    module = "from narval import node_type\n\n@node_type\nclass call:\n    size: int = 1\n"
    (tmp_path / "modules/own.py").write_text(module)
    assert check_home(Home(tmp_path)) == []


def test_what_custom_says_must_be_a_property_of_the_type() -> None:
    text = definition(
        '<node name="a" isStart="true" type="task"><custom><size>1</size><sise>2</sise></custom></node>'
    )
    parsed = parse(Source("recipes/p.xml", text.encode()))
    (fault,) = check_targets(parsed.references, library_of(text))
    assert "there is no property 'sise'; did you mean 'size'?" in fault.message
    assert fault.column == 1 + text.index("2</sise>")


def test_the_names_that_a_guard_asks_about_come_in_the_order_of_its_text() -> None:
    statement = parse_rubric("IF a THEN IF b and c THEN @d ELSE DELAY UNTIL e ELSE Skip").statement
    assert statement is not None
    assert [(kind, each.name) for kind, each in names_asked(statement)] == [
        ("predicate", "a"),
        ("predicate", "b"),
        ("predicate", "c"),
        ("string-function", "d"),
        ("date-function", "e"),
    ]


def test_section_18_names_in_properties_that_are_written_in_rubric_are_looked_for() -> None:
    assert warned(
        "<process-definition name='p'><node name='a' type='note' isStart='true'>\n"
        '<custom><text>IF §isEven\n  THEN @§text ELSE "x"</text></custom></node></process-definition>'
    ) == [
        "there is no predicate 'isEven'; there is 'isOdd'",
        "there is no string function 'text'",
    ]


def test_section_16_an_optional_input_that_takes_what_another_run_has_made_is_told() -> None:
    node = '<process-definition name="p"><node name="a" type="action" isStart="true">'
    text = f"{node}<custom><target>shop.refund</target></custom></node></process-definition>"
    inputs = (
        Input("order", "order"),
        Input("payment", "payment", optional=True),
        Input("note", "note[@of = $order/@id]", optional=True),
    )
    inputs += (Input("stamp", "stamp", optional=True),)
    refund = Action(group="shop", name="refund", function="refund", prototype=Prototype(inputs))
    pay = Action(group="shop", name="pay", function="pay", prototype=Prototype((), (Output("p", "payment"),)))
    (process,) = parse(Source("recipes/p.xml", text.encode())).checked()
    (warning,) = warnings([process], Library([*MODULE, refund, pay, process]))
    assert warning.message == (
        "node 'a': if nothing of this run fits the optional input 'payment' (payment), it takes one of any "
        "other run; call the action in a recipe, whose step narrows the input by <match>"
    )
