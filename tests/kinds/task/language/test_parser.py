"""Task definitions of `.task` files: the examples of the source, round trips, versions, references."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from narval.core.definitions.library import Definition, Library, check_targets
from narval.core.definitions.parsing import parse, read_definition
from narval.core.source.text import Source
from narval.kinds.task.language.definition import (
    Choice,
    Comparison,
    Perform,
    Rule,
    Script,
    ScriptPath,
    ScriptValue,
    TaskDefinition,
)
from narval.kinds.task.language.parser import outcome_of
from narval.kinds.task.language.texts_of import definition_text
from narval.kinds.task.language.windows import AllOf, ClockTime, Duration, TimeSpec, Window
from narval.kinds.work.language.definition import WorkDefinition
from tests.examples import examples
from tests.kinds.task.language.writing import SECOND, SPECS, bare, definitions

ROUTED = "\nON FORWARD route(next);\nTASK TYPE next INITIAL 1 STATE 1 EXPOSED ON EVENT a GOTO COMMIT\n"


def read(text: str, path: str = "bank.task") -> dict[tuple[str, str], Any]:
    """The definitions of a file, by kind and full name."""
    found = parse(Source.of_text(path, text)).checked()
    return {(definition.kind, definition.full_name): definition for definition in found}


def task(text: str, name: str = "bank.scan") -> TaskDefinition:
    found: TaskDefinition = read(text)["task", name]
    return found


def state_with(lines: str) -> Any:
    text = f"TASK TYPE scan INITIAL 1 STATE 1 scanning EXPOSED\n{lines}\nON EVENT ok GOTO FORWARD{ROUTED}"
    return task(text).states["scanning"]


# --- the examples of the source ---------------------------------------------------------------------------


def test_K33_the_update_of_section_4_1_1() -> None:
    (rule,) = state_with(
        "ON EVENT ev.update (t1, t2)\n  AFTER 1 HRS AND BEFORE 2 HRS RELATIVE\n  CONDITION\n"
        "  BEFORE 10 MINS RELATIVE\n  ACTION"
    ).rules
    windows = Window("AFTER", Duration(3600), "RELATIVE"), Window("BEFORE", Duration(7200), "RELATIVE")
    assert rule == Rule(
        "ev.update",
        ("t1", "t2"),
        before_condition=AllOf(windows),
        before_action=Window("BEFORE", Duration(600), "RELATIVE"),
        line=2,
        column=10,
    )


@pytest.mark.parametrize(
    "text",
    [
        'TASK TYPE t INITIAL 1 STATE 1 EXPOSED ON EVENT FAX_EVENT GLOBAL CONDITION "true" /* always execute\n'
        "the action */ AT 21:00:00 ABSOLUTE ACTION \"exec('fax.exe');\" ON EVENT e GOTO COMMIT",
        'global event FAX_EVENT condition at 21 00 00 absolute action { exec("fax.exe"); }',
    ],
)
def test_K41_the_fax_event_of_section_4_1_1(text: str) -> None:
    event = task(text, "bank.FAX_EVENT")
    assert event.is_global
    assert event.rule is not None
    assert event.rule.before_action == Window("AT", ClockTime(75_600), "ABSOLUTE")
    assert event.rule.condition is True
    assert bare(event.rule.action) == (Perform("exec", (ScriptValue("fax.exe"),)),)


def test_K43_the_routes_of_section_4_1_2() -> None:
    routes = task(
        "TASK TYPE scan INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO FORWARD\n"
        "ON FORWARD\n if (obj.amount > threshold)\n route (PRIVILEGED_TASK) ;\n else\n route (NEXT_TASK) ;\n"
        "ON EXCEPTION\n route (EXCEPTION_TASK) ;"
    ).routes

    def route(name: str) -> Script:
        return (Perform("route", (ScriptPath((name,)),)),)

    test = Comparison(ScriptPath(("obj", "amount")), ">", ScriptPath(("threshold",)))
    assert bare(routes["FORWARD"]) == (Choice(test, route("PRIVILEGED_TASK"), route("NEXT_TASK")),)
    assert bare(routes["EXCEPTION"]) == route("EXCEPTION_TASK")


def test_K70_a_specification_in_the_order_of_appendix_a() -> None:
    found = task(
        "TASK TYPE scan\nUSERS: ann, bob\nROLES: clerk\nINVOCATION: PERIODIC 60\nCOMPENSATED BY undo\n"
        'TASK CODE "exec: scan --all \'a b\'"\nINITIAL 1\nFINAL 4 ABORT done\n'
        "STATE 1 EXPOSED ON ASSERT { f.a(); } ON LEAVING \"f.b();\" ON EVENT ok GOTO 2\n"
        "STATE 2 store INTERNAL ON EVENT ok GOTO 4 ON EVENT no GOTO Abort ON EVENT x GOTO done\n"
        "STATE 4 FORWARD EXPOSED\nSTATE done EXPOSED\nON FORWARD route(undo);\nON ABORT \"\"\n"
        "TASK TYPE undo COMPENSATION TO scan INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO FORWARD"
    )  # fmt: skip
    assert (found.users, found.roles, found.invocation, found.period) == (
        ("ann", "bob"),
        ("clerk",),
        "periodic",
        60.0,
    )
    assert (found.compensated_by, found.program) == ("undo", ("scan", "--all", "a b"))
    assert (found.initial, found.final) == ("1", ("FORWARD", "ABORT", "done"))
    assert found.states["store"].number == "2"
    assert found.states["store"].edges == {"ok": "FORWARD", "no": "ABORT", "x": "done"}
    assert found.states["FORWARD"].number == "4"
    assert set(found.states) == {"1", "store", "FORWARD", "done", "COMMIT", "ABORT", "EXCEPTION"}
    assert found.routes["ABORT"] == ()


def test_K70_keywords_are_read_in_any_case_and_over_hyphens() -> None:
    text = "Task-Type scan Initial 1 State 1 Exposed On Event ok Goto commit"
    assert task(text).digest == task(text.upper().replace("SCAN", "scan").replace(" OK", " ok")).digest


@pytest.mark.parametrize(
    ("written", "qualifiers"),
    [
        ("AFTER 1 HRS AND BEFORE 2 HRS RELATIVE", ["RELATIVE", "RELATIVE"]),
        ("AFTER 1 HRS AND BEFORE 2 HRS", ["", ""]),
        ("AFTER 1 HRS RELATIVE AND BEFORE 2 HRS", ["RELATIVE", ""]),
        ("AFTER 1 HRS AND AFTER 3 HRS RELATIVE AND BEFORE 2 HRS ABSOLUTE", ["RELATIVE"] * 2 + ["ABSOLUTE"]),
        ("AFTER 1 HRS AND [AFTER 3 HRS AND BEFORE 2 HRS ABSOLUTE] AND AT 1 SECS", ["ABSOLUTE"] * 3 + [""]),
    ],
)  # fmt: skip
def test_KA1_a_qualifier_holds_for_all_to_its_left_that_have_none(
    written: str, qualifiers: list[str]
) -> None:
    (rule,) = state_with(f"ON EVENT e {written} CONDITION ACTION").rules

    def all_in(spec: TimeSpec) -> list[str]:
        if isinstance(spec, Window):
            return [spec.qualifier]
        return [qualifier for inner in spec.specs for qualifier in all_in(inner)]

    assert all_in(rule.before_condition) == qualifiers


# --- the text that is kept ----------------------------------------------------------------------------------


def kept(definition: Definition) -> Definition:
    """A definition as it is read again from the store."""
    return read_definition(definition.kind, definition.path, definition.xml)


@settings(max_examples=examples(30), deadline=None)
@given(definitions())
def test_K70_a_definition_that_is_printed_is_read_again(definition: TaskDefinition) -> None:
    text = definition_text(definition)
    parsed = parse(Source.of_text("bank.task", f"{text}\n{SECOND}"))
    assert parsed.faults == ()
    found = parsed.definitions[0]
    assert isinstance(found, TaskDefinition)
    assert definition_text(found) == text
    for name, state in definition.states.items():
        assert bare(found.states[name].on_assert) == bare(state.on_assert)
        assert [
            replace(rule, action=bare(rule.action), line=1, column=1) for rule in found.states[name].rules
        ] == [replace(rule, action=bare(rule.action)) for rule in state.rules]
    assert kept(found).digest == found.digest


@settings(max_examples=examples(200), deadline=None)
@given(SPECS)
def test_KA1_times_that_are_printed_are_read_again(spec: TimeSpec) -> None:
    rule = Rule("e", ("t",), before_condition=spec, before_action=spec)
    state = replace(task(SECOND, "bank.second").states["1"], rules=(rule,))
    second = task(SECOND, "bank.second")
    text = definition_text(replace(second, states={**second.states, "1": state}))
    assert task(text, "bank.second").states["1"].rules == (replace(rule, line=6, column=14),)


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=200), st.integers(0, 400))
def test_K70_whatever_stands_in_a_file_it_is_read_without_harm(text: str, at: int) -> None:
    good = f"TASK TYPE scan INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO FORWARD{ROUTED}"
    for written in (text, good[:at] + text + good[at:]):
        parsed = parse(Source.of_text("bank.task", written))
        assert all(fault.line >= 1 and fault.column >= 1 for fault in parsed.faults)
        assert parsed.faults or all(kept(found).digest == found.digest for found in parsed.definitions)


def test_K70_a_comment_changes_nothing_and_a_word_does() -> None:
    text = f"TASK TYPE scan INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO FORWARD{ROUTED}"
    commented = text.replace(" EXPOSED", "\n/* no state */ EXPOSED")
    commented = commented.replace("route(next);", "'route(next);'")
    assert task(text).digest != task(text.replace("ok", "okay")).digest
    assert task(commented).digest == task(text).digest


def test_K70_a_version_is_kept_as_text_that_memory_shows() -> None:
    scan = task(f"TASK TYPE scan INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO FORWARD{ROUTED}")
    assert scan.xml.startswith(b'<task group="bank" name="scan">\nTASK TYPE scan\n')
    assert kept(scan).full_name == "bank.scan"


# --- people, references -----------------------------------------------------------------------------------


def test_K10_people_answer_by_the_name_of_a_state_in_which_the_task_ends() -> None:
    found = read(
        "TASK TYPE scan USERS: ann ROLES: clerk, boss INITIAL 1 FINAL To_Boss\n"
        "STATE 1 EXPOSED ON EVENT a GOTO FORWARD ON EVENT b GOTO To_Boss ON EVENT c GOTO ABORT\n"
        f"STATE To_Boss EXPOSED{ROUTED}"
    )
    work = found["work", "bank.scan"]
    assert isinstance(work, WorkDefinition)
    assert [outcome.name for outcome in work.outcomes] == ["to-boss", "forward", "abort"]
    assert work.audience.people is not None
    assert (work.audience.people.text, work.audience.roles) == ("ann", ("clerk", "boss"))
    assert [input.id for input in work.prototype.inputs] == ["object"]
    assert work.title.text.startswith("scan {name($object)}")
    assert kept(work).digest == work.digest
    assert ("work", "bank.next") not in found


def test_K10_a_type_with_code_asks_nobody() -> None:
    text = "TASK TYPE scan USERS: ann TASK CODE 'exec: x' INITIAL 1 STATE 1 EXPOSED ON EVENT a GOTO COMMIT"
    found = read(text)
    assert ("work", "bank.scan") not in found
    assert found["task", "bank.scan"].invocation == "auto"


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("FORWARD", "forward"), ("To_Boss", "to-boss"), ("5", "state-5"), ("_x", "state--x")],
)  # fmt: skip
def test_K10_the_name_of_a_state_as_an_answer(state: str, outcome: str) -> None:
    assert outcome_of(state) == outcome


def test_K43_a_type_is_looked_up_in_its_own_group_first_then_alone() -> None:
    text = "TASK TYPE next INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO FORWARD ON FORWARD route(next);"
    bank, shop = (parse(Source.of_text(path, text)) for path in ("bank.task", "shop.task"))
    other = parse(Source.of_text("other.task", text.replace("TYPE next", "TYPE last")))
    assert check_targets(bank.references, Library((*bank.definitions, *shop.definitions))) == []
    assert check_targets(other.references, Library((*bank.definitions, *other.definitions))) == []
    (fault,) = check_targets(other.references, Library((*bank.definitions, *shop.definitions)))
    assert fault.message == (
        "route(next): bank.next and shop.next have this name; write the full name of the one you mean"
    )


def test_K36_the_parameters_that_a_raise_gives_are_those_of_a_rule() -> None:
    text = (
        "TASK TYPE scan INITIAL 1 STATE 1 EXPOSED\n"
        "ON EVENT e (a, b) CONDITION ACTION {{ raise(scan, e{}); }}\n"
        "ON EVENT ok GOTO COMMIT"
    )
    for given_, count in (("", 0), (", 1", 1), (", 1, 2, 3", 3)):
        parsed = parse(Source.of_text("bank.task", text.format(given_)))
        (fault,) = check_targets(parsed.references, Library(parsed.definitions))
        assert fault.message == f"raise(scan): the event e has the parameters (a, b), found {count}"
    parsed = parse(Source.of_text("bank.task", text.format(", 1, 'x'")))
    assert check_targets(parsed.references, Library(parsed.definitions)) == []


def test_K43_an_own_final_state_has_the_script_of_forward_or_its_own() -> None:
    text = (
        "TASK TYPE scan INITIAL 1 FINAL kept lost STATE 1 EXPOSED ON EVENT a GOTO kept ON EVENT b GOTO lost\n"
        "STATE kept EXPOSED STATE lost EXPOSED ON FORWARD route(scan); ON lost { f.g(); route(scan); }"
    )
    scan = task(text)
    assert scan.route_of("kept") == scan.routes["FORWARD"]
    assert scan.route_of("lost") == scan.routes["lost"]
    assert scan.route_of("COMMIT") == ()
