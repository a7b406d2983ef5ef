"""Faults of `.task` files: all of a file at once, each at its very place, with the next step (K30, K70)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import parse
from narval.core.errors import DefinitionError
from narval.core.source.text import Source

END = "\nON FORWARD route(next);\nTASK TYPE next INITIAL 1 STATE 1 EXPOSED ON EVENT a GOTO COMMIT"


def faults(text: str, path: str = "bank.task") -> list[str]:
    """The faults of a file, without its name, those of its references too."""
    parsed = parse(Source.of_text(path, text))
    missing = check_targets(parsed.references, Library(parsed.definitions))
    return [str(fault).removeprefix(f"{path}:") for fault in sorted({*parsed.faults, *missing})]


def faults_of(*lines: str) -> list[str]:
    """The faults of a type whose first state has these lines, from the fourth of the file on."""
    inner = "\n".join(lines)
    return faults(
        f"TASK TYPE scan\nINITIAL 1\nSTATE 1 scanning EXPOSED\n{inner}\nON EVENT ok GOTO FORWARD{END}"
    )


def cases(file: str) -> list[tuple[str, ...]]:
    """The texts of a file of cases, each with the beginning of a fault that it has."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return [tuple(case.split("\n=> ")) for case in text.strip().split("\n\n")]


def only(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_K70_a_file_without_faults_has_none() -> None:
    assert faults_of() == []


@pytest.mark.parametrize(("line", "fault"), cases("faults_in_states.txt"))
def test_K70_a_fault_within_a_state_is_shown_at_its_place(line: str, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults_of(line)), faults_of(line)


@pytest.mark.parametrize(("text", "fault"), cases("faults_of_types.txt"))
def test_K70_a_fault_of_a_type_is_shown_at_its_place(text: str, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(text)), faults(text)


@pytest.mark.parametrize(
    "condition",
    [
        "a[not(@x)] or b/@y",
        "a/@x > $object/@x and not($carried)",
        "not($object/@x = 2)",
        "a[item[2]]/@x ge '2026-01'",
        "a[some $x in item satisfies $x/@y]",
        "boolean((a | b)[count(item) = 2])",
        "exists(a[@x])",
    ],
)
def test_KA27_a_condition_about_one_element_is_fine(condition: str) -> None:
    assert faults_of(f'ON EVENT e CONDITION "{condition}" ACTION') == []


def test_K70_all_faults_of_a_file_are_told_at_once() -> None:
    found = faults(
        "TASK TYPE a\n  INITIAL ,\n  STATE 1 EXPOSED\n    ON EVENT e GOTO\n"
        "    ON EVENT f (x CONDITION ACTION\n"
        "GLOBAL EVENT\nTASK TYPE b\n  INITIAL 1\n  STATE 1 OPEN\n  ON ABORT route(c);\n"
    )
    assert [fault.split(": ")[0] for fault in found] == ["2:11", "5:5", "5:19", "7:1", "10:3", "10:12"]


def test_K70_names_that_differ_from_what_was_meant_are_suggested() -> None:
    assert only(faults_of("ON LEAVING { route(nexxt); }")).endswith("did you mean 'next'?")


@pytest.mark.parametrize("code", ["{ route(next); }", "{ set(obj.a, 'x'); }", "{ exec('rm x'); }"])
def test_KA31_a_condition_has_no_statements(code: str) -> None:
    found = only(faults_of(f"ON EVENT e CONDITION {code} ACTION"))
    assert found == "4:22: a condition has no statements; write one XPath in quotes"


@pytest.mark.parametrize("call", ["route('next')", "exec('rm x')", "doc('file:///etc/passwd')"])
def test_KA31_a_condition_calls_nothing_that_does_or_reads_something(call: str) -> None:
    found = only(faults_of(f'ON EVENT e CONDITION "a[{call}]" ACTION'))
    assert found.startswith("4:25: this condition is no XPath that narval can try"), found


def test_K30_a_state_that_nothing_leads_to_is_told_beside_one_that_there_is_not() -> None:
    lost = "STATE lost EXPOSED ON EVENT z GOTO COMMIT"
    scanning = "STATE scanning EXPOSED ON EVENT z GOTO COMMIT"
    begin = "TASK TYPE a INITIAL start STATE start EXPOSED ON EVENT x GOTO"
    unknown, unreachable = faults("\n".join((f"{begin} scaning", scanning, lost)))
    assert "there is no state 'scaning'; did you mean 'scanning'?" in unknown
    assert "no edge leads from start to lost" in unreachable
    unknown, unreachable = faults("\n".join((f"{begin} elsewhere", lost)))
    assert "there is no state 'elsewhere'" in unknown
    assert "no edge leads from start to lost" in unreachable


def test_KA22_the_compensator_of_another_file_agrees_with_the_type() -> None:
    undo = "TASK TYPE undo COMPENSATION TO other INITIAL 1 STATE 1 EXPOSED ON EVENT e GOTO COMMIT"
    pay = "TASK TYPE pay COMPENSATED BY shop.undo INITIAL 1 STATE 1 EXPOSED ON EVENT e GOTO COMMIT"
    of_pay, of_undo = parse(Source.of_text("bank.task", pay)), parse(Source.of_text("shop.task", undo))
    library = Library((*of_pay.definitions, *of_undo.definitions))
    found = [fault.message for fault in check_targets(of_pay.references, library)]
    assert found == [
        "COMPENSATED BY shop.undo: shop.undo is COMPENSATION TO other; make the two agree",
        "COMPENSATED BY shop.undo: shop.undo may end in COMMIT, and a compensator ends in FORWARD; "
        "change that",
    ]


def test_K70_a_group_is_a_name_without_dots() -> None:
    text = "GLOBAL EVENT e CONDITION ACTION"
    assert only(faults(text, "bank.old.task")).startswith("1:1: the file's name gives the group 'bank.old'")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "TASK TYPE a INITIAL 1 STATE 1 EXPOSED ON EVENT e " + "[" * 100_000,
        "TASK TYPE a INITIAL 1 STATE 1 EXPOSED ON ASSERT " + "{" * 100_000,
        "TASK TYPE a INITIAL 1 STATE 1 EXPOSED ON ASSERT " + "if(a)" * 20_000,
        "TASK TYPE a INITIAL " + "9" * 400_000,
        "TASK TYPE a INVOCATION: PERIODIC " + "9" * 400_000,
        "TASK TYPE " + "a" * 400_000,
        "GLOBAL EVENT e CONDITION '" + "a[" * 150_000 + "' ACTION",
        "GLOBAL EVENT e CONDITION ACTION '" + "\\'" * 200_000,
        "/*" * 200_000,
        "a" * 1_000_000,
        "ON " * 40_000,
        "TASK TYPE a " * 10_000,
    ],
    ids=lambda text: text[:60],
)
def test_K70_a_hostile_file_has_faults_and_does_no_harm(text: str) -> None:
    assert 0 < len(faults(text)) <= 300


@pytest.mark.parametrize(
    "data", [b"TASK TYPE \xff\xfe", b"\xff\xfeT", "TASK TYPE ä".encode("latin-1"), b"\0" * 99]
)
def test_K70_a_file_that_is_no_text_has_a_fault(data: bytes) -> None:
    with pytest.raises(DefinitionError):
        parse(Source("bank.task", data)).checked()


def test_K70_every_part_of_a_file_is_read_without_harm() -> None:
    text = (
        "TASK TYPE a USERS: ann TASK CODE 'exec: x' INITIAL 1 STATE 1 EXPOSED\n"
        "ON ASSERT { if (a == 1) route(b); "
        "}\n"
        "ON EVENT e (t) [AT t OR WITHIN 1 HRS] AND AFTER 9:00:00 CONDITION 'a[@b=$t]' ACTION \"f.g('x');\"\n"
        "ON EVENT f GOTO FORWARD /* and on */ ON FORWARD if (obj.x) route(b); else { exec('y'); }"
    )
    for end in range(len(text)):
        faults(text[:end])


def test_K46_either_end_says_what_compensates_what_and_one_alone_does() -> None:
    def undo(name: str) -> str:
        return f"TASK TYPE {name} COMPENSATION TO pay INITIAL 1 STATE 1 EXPOSED ON EVENT e GOTO FORWARD\n"

    pay = "TASK TYPE pay INITIAL 1 STATE 1 EXPOSED ON EVENT e GOTO COMMIT\n"
    parsed = parse(Source.of_text("bank.task", pay + undo("refund")))
    assert {found.name: found.compensated_by for found in parsed.definitions} == {
        "pay": "refund",
        "refund": "",
    }
    assert only(faults(pay + undo("refund") + undo("other"))).endswith(
        "bank.pay is COMPENSATED BY refund; make the two agree"
    )


def test_K46_a_compensator_in_another_file_is_named_by_what_it_compensates() -> None:
    undo = "TASK TYPE undo COMPENSATION TO bank.pay INITIAL 1 STATE 1 EXPOSED ON EVENT e GOTO FORWARD"
    pay = "TASK TYPE pay INITIAL 1 STATE 1 EXPOSED ON EVENT e GOTO COMMIT"
    of_pay, of_undo = parse(Source.of_text("bank.task", pay)), parse(Source.of_text("shop.task", undo))
    library = Library((*of_pay.definitions, *of_undo.definitions))
    assert [fault.message for fault in check_targets(of_undo.references, library)] == [
        "COMPENSATION TO bank.pay: bank.pay is in another file, and must say COMPENSATED BY shop.undo there"
    ]
