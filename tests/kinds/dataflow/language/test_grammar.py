"""The grammar of dataflows: what is written is read, and every fault has its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.kinds.dataflow.language.grammar import read_units
from narval.kinds.dataflow.language.syntax import OperatorSyntax, PlanSyntax
from tests.kinds.dataflow.language.reading import faults, plan, read

DECLARATIONS = """\
Operator Select {
    INPUT:    relation InData, string Condition;
    OUTPUT:   relation OutData;
    BLOCKING: false;
    RE-ENTRANT: true;
    GRANULARITY: 100;
}
Operator Select2 {
    INPUT:      relation InData, string Condition;
    OUTPUT:     relation OutData;
    BLOCKING:   No;
    PARALLELIZABLE: Yes;
    GRANULARITY: any;
}
"""


def units(text: str) -> list[PlanSyntax | OperatorSyntax]:
    found, wrong = read_units(Source("recipes/p.plan", text.encode()))
    assert wrong == []
    return found


def test_T1_all_parts_of_a_plan_are_read_with_their_places() -> None:
    (found,) = units(
        "// a comment\n"
        "plan A {\n"
        "  input: String city, Number most; output: Tuple homes\n"
        "  body {\n"
        '    fetch("http://x/\\"y\\"" : page) WAIT: city ENABLE: e WAIT: most STARTED: s ON_ERROR: wrong;\n'
        "    union((page, page) : homes)\n"
        "    ../other/Plan(-1.5, 7 : _)\n"
        "  }\n}\n"
    )
    assert isinstance(found, PlanSyntax)
    assert [(one.type, one.name, one.line, one.column) for one in found.inputs] == [
        ("String", "city", 3, 17),
        ("Number", "most", 3, 30),
    ]
    fetch, union, other = found.statements
    assert fetch.arguments[0].text == 'http://x/"y"'
    assert [one.text for one in (*fetch.clauses.wait, *fetch.clauses.enable, *fetch.clauses.started)] == [
        "city",
        "most",
        "e",
        "s",
    ]
    assert fetch.clauses.on_error[0].column == 89
    assert str(union.arguments[0]) == "(page, page)"
    assert (other.name, [one.value for one in other.arguments], other.outputs[0].text) == (
        "../other/Plan",
        [-1.5, 7],
        "_",
    )


def test_T17_the_printed_declarations_of_operators_are_read() -> None:
    first, second = units(DECLARATIONS)
    assert isinstance(first, OperatorSyntax)
    assert isinstance(second, OperatorSyntax)
    assert first.properties == (("blocking", "false"), ("reentrant", "true"), ("granularity", "100"))
    assert [(port.type, port.name) for port in second.inputs] == [
        ("relation", "InData"),
        ("string", "Condition"),
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "1:1: expected a dataflow, as in: PLAN name { BODY { noop() } }"),
        ("PLAM A {}", "1:1: expected PLAN or OPERATOR, found 'PLAM'"),
        ("PLAN {", "1:6: expected the name of the dataflow, found '{'"),
        ("PLAN A { BODY { noop() }", "1:25: expected } at the end of the dataflow, found the end"),
        (
            "PLAN A { OUTPUT: x INPUT: y BODY {} }",
            "1:20: expected INPUT:, OUTPUT: or BODY, in this order, found 'INPUT'",
        ),
        ('PLAN A { BODY { print("x) } }', '1:23: this text has no end; write " after it'),
        ("PLAN A { BODY { noop( } }", "1:23: expected the name of a datum, a text or a number, found '}'"),
        (
            "PLAN A { BODY { fetch(a b : c) } }",
            "1:25: expected a comma, : before the outputs, or ), found 'b'",
        ),
        ("PLAN A { BODY { noop() WAIT: } }", "1:30: expected the name of a datum after WAIT:, found '}'"),
        (
            "PLAN A { BODY { print((a, (b))) } }",
            "1:28: expected no group within a group; write its names one after another",
        ),
        ("PLAN A { BODY { noop() } } §", "1:28: expected a name, a text or a number, found '§'"),
        (
            "OPERATOR g { INPUT: x; OUTPUT: ; }",
            "1:21: expected a type before 'x', as in: String x",
        ),
        (
            "OPERATOR g { INPUT: ; OUTPUT: ; BLOCKING: maybe; }",
            "1:43: BLOCKING: expected yes or no, found 'maybe'",
        ),
        (
            "OPERATOR g { INPUT: ; OUTPUT: ; GRANULARITY: 0; }",
            "1:46: GRANULARITY: expected any, or a number from 1, found '0'",
        ),
        (
            "OPERATOR select { INPUT: ; OUTPUT: ; }",
            "1:10: 'select' is there already: select (String cond, TupleStream in : TupleStream out); "
            "remove this declaration",
        ),
        (
            "PLAN A { BODY { noop() WAITS: a } }",
            "1:29: expected a clause (WAIT, ENABLE, STARTED, ON_ERROR), or ( after a call, found 'WAITS:'",
        ),
        (
            "PLAN A { BODY { noop() } } PLAN A { BODY { noop() } }",
            "1:33: expected a new name, found the dataflow 'A' again",
        ),
    ],
)
def test_a_fault_has_its_place(text: str, wanted: str) -> None:
    assert wanted in faults(text)


def test_all_faults_of_a_file_are_found_at_once() -> None:
    text = plan(
        'fetch(a b : c)\n select("p >", s : _)\n noop(\n project("", t : _);\n sort("x", "down", u : _)'
    )
    assert [message.partition(": ")[0] for message in faults(text)] == ["4:16", "5:13", "7:9", "8:12"]


def test_a_text_has_its_places_past_escapes_and_lines() -> None:
    assert faults(plan('makestream2("[{\\"p\\": 1}]" : s)\n select("p = 1\n AND q ! 3", s : _)')) == [
        "6:8: cond: expected =, <>, <, <=, > or >=, found '!'"
    ]
    assert faults(plan('makestream2("[{\\"p\\": 1}]" : s)\n select("\\"p\\" = 1 AND\n q = 3", s : _)')) == [
        "6:2: select: in has no attribute 'q'; there is 'p'"
    ]


@given(st.text(alphabet='PLANBODYINPUTabc {}():,;"\\/._-*0\n', max_size=80))
def test_no_text_raises_anything(text: str) -> None:
    for inner in (text, plan(text)):
        try:
            read(inner)
        except DefinitionError:
            assert not text.isascii()


NAMES = st.from_regex(r"[a-z_][a-z0-9_-]{0,6}", fullmatch=True)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=["Cc", "Cs"]), max_size=12
)
ARGUMENTS = st.one_of(
    NAMES,
    st.integers(-999, 999).map(str),
    TEXTS.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
)


@given(st.lists(st.tuples(NAMES, st.lists(ARGUMENTS, max_size=3), st.lists(NAMES, max_size=2)), max_size=4))
def test_calls_are_read_as_they_are_written(calls: list[tuple[str, list[str], list[str]]]) -> None:
    lines = [f"{name}({', '.join(given)} : {', '.join(outputs)})" for name, given, outputs in calls]
    (found,) = units(plan("\n".join(lines)))
    assert isinstance(found, PlanSyntax)
    shown = [
        f"{one.name}({', '.join(map(str, one.arguments))} : {', '.join(map(str, one.outputs))})"
        for one in found.statements
    ]
    assert shown == lines


def test_a_large_file_is_read_in_a_moment() -> None:
    lines = "\n".join(f'makestream2("[]" : d{at})\nprint(d{at} : )' for at in range(200))
    assert faults(plan(lines)) == []
    assert len(faults("PLAN A { BODY { " + "a( " * 20_000)) == 2
