"""Warnings about tasks, and what is told of a type without running it (K30, KA17)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse, warnings
from narval.core.source.text import Source
from narval.kinds.task.engine.structure import unreachable
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.language.windows import TimeSpec, is_empty, windows
from tests.examples import examples
from tests.kinds.task.language.test_windows import SPECS, spec_of


def warned(text: str) -> list[str]:
    """The warnings about a file, without its name."""
    parsed = parse(Source.of_text("bank.task", text))
    found = parsed.checked()
    return [str(fault).removeprefix("bank.task:") for fault in sorted(warnings(found, Library(found)))]


def told(text: str) -> list[str]:
    """The findings about the first type of a file."""
    (task, *_) = parse(Source.of_text("bank.task", text)).checked()
    assert isinstance(task, TaskDefinition)
    return [f"{found.line}: {found.severity}: {found.message}" for found in unreachable(task, Library())]


TYPE = "TASK TYPE scan INVOCATION: {}\nINITIAL 1\nSTATE 1 EXPOSED {}\nON EVENT ok GOTO FORWARD\nON FORWARD {}"


@pytest.mark.parametrize(
    ("invocation", "assertion", "route", "expected"),
    [
        ("MANUAL", "", "route(scan);", ""),
        ("MANUAL", "", "if (a) route(scan);", "ON FORWARD may send the object nowhere"),
        ("MANUAL", "", "if (a) route(scan); else if (b) route(scan);", "ON FORWARD may send the"),
        ("MANUAL", "", "if (a) route(scan); else { if (b) exec('x'); route(scan); }", ""),
        ("AUTO", "", "route(scan);", "it stays in 1, with no person and nothing that moves"),
        ("AUTO", "ON ASSERT { assert(FORWARD); }", "route(scan);", ""),
        ("AUTO", "ON ASSERT { raise(ok); }", "route(scan);", ""),
        ("AUTO", "ON EVENT e CONDITION ACTION { assert(FORWARD); }", "route(scan);", ""),
        ("COMPENSATION", "ON ASSERT { assert(FORWARD); }", "route(scan);", "no type is COM"),
    ],
)  # fmt: skip
def test_KA17_what_may_not_be_meant_is_a_warning(
    invocation: str, assertion: str, route: str, expected: str
) -> None:
    found = warned(TYPE.format(invocation, assertion, route))
    assert [fault.split(" bank.scan: ")[1][: len(expected)] for fault in found] == [expected] * bool(expected)


def test_K27_a_leaving_script_of_a_terminal_state_is_a_warning() -> None:
    (found,) = warned(
        TYPE.format("MANUAL", "", "route(scan);") + "STATE FORWARD EXPOSED ON LEAVING { a.b(); }"
    )
    assert "FORWARD is never left, so its ON LEAVING never runs; remove it" in found


STARTED = "INITIAL 1 STATE 1 EXPOSED ON EVENT ok GOTO"


@pytest.mark.parametrize(
    "text",
    [
        f"TASK TYPE §scan INVOCATION: AUTO {STARTED} COMMIT",
        f"TASK TYPE scan {STARTED} COMMIT\nSTATE §COMMIT EXPOSED ON LEAVING {{ a.b(); }}",
        f"TASK TYPE scan {STARTED} FORWARD\nON FORWARD if (a) §route(scan);",
        f"TASK TYPE scan {STARTED} COMMIT\n  ON EVENT §e CONDITION \"@a < 'b'\" ACTION {{}}",
    ],
)
def test_KA17_a_warning_has_its_line_and_column(text: str) -> None:
    before = text.partition("§")[0].split("\n")
    (found,) = warned(text.replace("§", ""))
    assert found.startswith(f"{len(before)}:{len(before[-1]) + 1}: warning: ")


def test_K46_a_compensator_that_is_named_is_no_warning() -> None:
    text = TYPE.format("COMPENSATION", "ON ASSERT { assert(FORWARD); }", "{}")
    pay = "\nTASK TYPE pay COMPENSATED BY scan INITIAL 1 STATE 1 EXPOSED ON EVENT a GOTO COMMIT"
    assert warned(text + pay) == []


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("AT 5 SECS AND AT 6 SECS", True),
        ("AT 5 SECS AND WITHIN 5 SECS", False),
        ("AT 5 SECS AND BEFORE 5 SECS", True),
        ("AFTER 2 HRS AND BEFORE 1 HRS", True),
        ("AFTER 2 HRS AND BEFORE 1 HRS OR AT 1 SECS", False),
        ("AFTER 22:00:00 AND BEFORE 06:00:00", False),
        ("AT 22:00:00 AND AT 21:00:00", True),
        ("AT 22:00:00 AND WITHIN 1 HRS", False),
        ("AT 22:00:00 AND AT 3 HRS", False),
        ("AT 22:00:00 AND AT 25 HRS", True),
        ("AT 22:00:00 AND AT 2.5 SECS", False),
        ("AT t AND AT 6 SECS", False),
        ("AT t AND AT 6 SECS AND AT 7 SECS", True),
        ("AT 9 SECS", False),
    ],
)
def test_K30_windows_that_hold_no_time(text: str, empty: bool) -> None:
    assert is_empty(spec_of(text, "t")) == empty


@settings(max_examples=examples(200), deadline=None)
@given(SPECS, st.lists(st.integers(0, 10 * 86400), min_size=20, max_size=20))
def test_K30_what_is_said_to_be_empty_is_so(spec: TimeSpec, bases: list[int]) -> None:
    if is_empty(spec):
        assert not any(windows(spec, float(base), "UTC", {}) for base in bases)


def test_K30_rules_that_can_never_fire_are_told() -> None:
    assert told(
        "TASK TYPE scan INITIAL 1\nSTATE 1 EXPOSED\n"
        "ON EVENT a AT 5 SECS AND AT 6 SECS CONDITION ACTION\n"
        "ON EVENT b CONDITION 'false' AFTER 2 SECS AND BEFORE 1 SECS ACTION\n"
        "ON EVENT c AT 5 SECS CONDITION ACTION\nON EVENT ok GOTO COMMIT"
    ) == [
        "3: error: the rule of a can never fire: no time is AT 5 SECS AND AT 6 SECS, "
        "when its condition would be judged",
        "4: error: the rule of b can never fire: its condition is false",
        "4: error: the rule of b can never fire: no time is AFTER 2 SECS AND BEFORE 1 SECS, "
        "when its action would be done",
    ]


def test_K30_states_that_scripts_alone_do_not_enter_or_leave_are_told() -> None:
    assert told(
        "TASK TYPE scan INVOCATION: AUTO INITIAL 1\n"
        "STATE 1 EXPOSED ON ASSERT { assert(2); } ON EVENT a GOTO 2\n"
        "STATE 2 EXPOSED ON EVENT go CONDITION ACTION { raise(b); } ON EVENT b GOTO 3 ON EVENT c GOTO ABORT\n"
        "STATE 3 EXPOSED ON EVENT d GOTO 4\nSTATE 4 EXPOSED ON EVENT e GOTO COMMIT"
    ) == [
        "3: note: the state 2 is left on go alone: no script leads on from it by itself",
        "4: note: the state 3 is left by a program or a person alone: no script leads on from it by itself",
        "5: note: the state 4 is entered by a program or a person alone: no script leads there",
    ]
