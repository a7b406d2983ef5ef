"""What a type asks of people: its WORK in the language of work, with what the type says (K10, P71)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse, warnings
from narval.core.elements.element import Element
from narval.core.source.text import Source

WORK = """WORK <work priority="3">
    <title>Ticket {$object/@id}</title>
    <field name="reply" type="text" required="commit">Reply</field>
    <remind after="2h"/><escalate after="4h mon-fri 9-17" roles="lead"/>
    <deadline after="1d" outcome="exception"/>
  </work>"""
FILE = """TASK TYPE ticket
  ROLES: helper
  {}
  INITIAL new
  STATE new EXPOSED
    ON EVENT solved GOTO COMMIT
    ON EVENT hard GOTO EXCEPTION
"""


def read(work: str) -> Any:
    return parse(Source("desk.task", FILE.format(work).encode()))


def faults_of(work: str) -> list[str]:
    return [f"{fault.line}:{fault.column}: {fault.message}" for fault in read(work).faults]


def test_P71_a_type_says_in_the_language_of_work_what_people_are_asked() -> None:
    _, work = read(WORK).checked()
    assert (work.full_name, work.title.text, list(work.fields)) == (
        "desk.ticket",
        "Ticket {$object/@id}",
        ["reply"],
    )
    assert work.audience.roles == ("helper",)
    assert [outcome.name for outcome in work.outcomes] == ["commit", "exception"]
    assert [input.id for input in work.prototype.inputs] == ["object"]
    assert (work.escalations[0].after.hours, work.deadline.outcome) == (((32400, 61200),), "exception")


def test_P71_without_work_there_is_a_title_and_no_field() -> None:
    _, work = read("").checked()
    assert (work.fields, [outcome.name for outcome in work.outcomes]) == ({}, ["commit", "exception"])


@pytest.mark.parametrize(
    ("object", "title"),
    [
        ("<want eid='7' price='3' name='Laptop 1'/>", "ticket want: Laptop 1"),
        ("<want eid='8' n='3' of='ann'/>", "ticket want: 3"),
        ("<want eid='9'>a   lamp</want>", "ticket want: a lamp"),
        ("<want eid='10'/>", "ticket want"),
        ("<want eid='12' what='some' subject='a lamp'/>", "ticket want: a lamp"),
        ("<want eid='13' name='' n='3'/>", "ticket want: 3"),
        ("<want eid='14'>\n  <part/></want>", "ticket want"),
        (f"<want eid='11' title='{'x' * 300}'/>", f"ticket want: {'x' * 80}"),
    ],
)
def test_without_work_the_title_says_which_object_it_is(object: str, title: str) -> None:
    _, work = read("").checked()
    element = Element(int(object.split("'")[1]), object.encode())
    assert work.title.filled({"object": [element]}, "UTC") == title


def test_P71_some_outcomes_may_be_chosen_and_who_may_not_answer_said() -> None:
    _, work = read('WORK <work><for not="requester"/><outcome name="commit" needs="2"/></work>').checked()
    assert [(outcome.name, outcome.needs) for outcome in work.outcomes] == [("commit", 2)]
    assert (work.audience.roles, work.rules.excludes_requester) == (("helper",), True)
    assert read("WORK <work/>").checked()[1].audience.roles == ("helper",)


@pytest.mark.parametrize(
    ("work", "fault"),
    [
        ('WORK <work name="x"/>', "3:20: WORK: name: it has the name of the type"),
        ('WORK <work>\n<for roles="a"/></work>', "4:13: WORK: for: roles are said by ROLES"),
        (
            'WORK <work>\n<outcome name="comit"/></work>',
            "4:16: WORK: outcome: the task cannot end in 'comit'",
        ),
        (
            'WORK <work> <deadline after="1d" outcome="no"/></work>',
            "3:45: WORK: outcome: expected an outcome",
        ),
        ("WORK <work>\n <titel/></work>", "4:2: WORK: unexpected element 'titel' in work"),
        ("WORK <work>\n <title></work>", "4:11: WORK: not well-formed XML"),
        ("WORK <work>\n <title>{$obj/@id}</title></work>", "4:10: WORK: $obj: expected"),
        ('WORK <work>\n<for delegate="me"/></work>', "4:16: WORK: delegate: expected eligible"),
        ("WORK <work>\n<for/><titel/></work>", "4:7: WORK: unexpected element 'titel' in work"),
        ("WORK <work><for/><titel/></work>", "3:20: WORK: unexpected element 'titel' in work"),
        ("WORK <work/> WORK <work/>", "3:16: WORK appears twice in ticket"),
        ("WORK work", "3:3: expected <work> after WORK"),
        ("WORK <work> <title>x</title>", "3:3: WORK: this <work> needs </work> at its end"),
        ('TASK CODE "a.b" WORK <work/>', "3:19: WORK says what people are asked, and its TASK CODE does"),
    ],
)
def test_P71_a_fault_in_work_is_shown_at_its_place(work: str, fault: str) -> None:
    found = faults_of(work)
    assert any(text.startswith(fault) for text in found), found


def test_P71_answers_that_choose_no_state_are_told() -> None:
    asked = parse(
        Source(
            "ask.xml",
            b'<work group="desk" name="ask"><title>x</title>'
            b'<outcome name="commit"/><outcome name="maybe"/></work>',
        )
    ).checked()
    file = FILE.format('TASK CODE "desk.ask"').replace("  ROLES: helper\n", "")
    library = Library([*asked, *parse(Source("desk.task", file.encode())).checked()])
    (told,) = [
        str(fault) for fault in warnings(library.of("task").values(), library) if "chooses" in str(fault)
    ]
    assert "TASK CODE: desk.ask may be answered 'maybe', which chooses no state: it ends in commit or" in told
