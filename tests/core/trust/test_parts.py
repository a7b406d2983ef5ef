"""Parts of a call: which say where it goes, and which labels each has (F4, F5)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from narval.core.elements.changes import Added, Labelled
from narval.core.elements.element import Element, Origin
from narval.core.engines.commands import Call, Program
from narval.core.memory.memory import Memory
from narval.core.trust.parts import Part, parts_of
from narval.core.trust.paths import SlotPath

RUN, MAIL, CONTACT, DRAFT = 100, 1, 2, 3


def memory_of(labels: Mapping[int, tuple[str, ...]], made_of: tuple[int, ...] = ()) -> Memory:
    """A memory of a mail, a contact and a draft, whose elements and runs have labels."""
    memory = Memory()
    for eid, xml in ((MAIL, b"<email/>"), (CONTACT, b"<contact/>"), (DRAFT, b"<draft/>")):
        origin = Origin(RUN, "write", inputs=made_of) if eid == DRAFT and made_of else None
        memory.apply(Added(Element(eid, xml, 0.0, origin)))
    for eid, names in labels.items():
        memory.apply(Labelled(eid, names))
    return memory


def called(*eids: int) -> Call:
    return Call("1.1", "action", "mail.send", "send", inputs=(("email", eids),))


def test_a_call_has_no_parts_to_speak_of_where_nothing_has_labels() -> None:
    assert parts_of(memory_of({}), called(DRAFT)) == ()


def test_without_a_declaration_all_of_an_input_says_where() -> None:
    memory = memory_of({MAIL: ("mail",)})
    assert parts_of(memory, called(MAIL)) == (Part("email", "", True, ("mail",), (MAIL,)),)


def test_an_input_taken_whole_has_its_labels_in_every_part() -> None:
    memory = memory_of({MAIL: ("mail",), RUN: ("web",)})
    assert parts_of(memory, called(MAIL), [SlotPath("email", "@to")], deciding=(RUN,)) == (
        Part("email", "@to", True, ("mail",), (MAIL,)),
        Part("email", "", False, ("mail",), (MAIL,)),
        Part("", "", False, ("web",), (RUN,)),
    )


def test_an_input_made_of_pieces_has_in_each_the_labels_of_that_piece() -> None:
    labels = {MAIL: ("mail",), DRAFT: ("/@subject=mail", "/@to=", "model:near?")}
    memory = memory_of(labels, made_of=(MAIL, CONTACT))
    assert parts_of(memory, called(DRAFT), [SlotPath("email", "@to")]) == (
        Part("email", "@to", True, (), ()),
        Part("email", "@subject", False, ("mail",), (MAIL,)),
        Part("email", "", False, (), ()),
        Part("", "", False, ("model:near",), (DRAFT,)),
    )


def test_what_a_piece_came_from_may_be_forgotten_and_its_label_stays() -> None:
    memory = memory_of({DRAFT: ("/@subject=mail",)}, made_of=(77, CONTACT))
    subject, _ = parts_of(memory, called(DRAFT), [])
    assert subject == Part("email", "@subject", False, ("mail",), (77,))


def test_a_part_that_is_declared_within_one_that_has_labels_says_where_with_all_of_it() -> None:
    memory = memory_of({DRAFT: ("/address=mail", "/body/@kind=web")}, made_of=(MAIL,))
    parts = parts_of(memory, called(DRAFT), [SlotPath("email", "address/@mail"), SlotPath("email", "body")])
    assert [(part.path, part.where, part.labels) for part in parts] == [
        ("body", True, ("web",)),
        ("address", True, ("mail",)),
        ("", False, ()),
    ]


def test_a_list_has_in_each_part_the_labels_of_all_its_elements() -> None:
    memory = memory_of({MAIL: ("mail",), DRAFT: ("/@to=web",)})
    to, rest = parts_of(memory, called(MAIL, DRAFT), [SlotPath("email", "@to")])
    assert (to.labels, to.eids) == (("mail", "web"), (MAIL, DRAFT))
    assert (rest.labels, rest.eids) == (("mail",), (MAIL,))


@pytest.mark.parametrize(
    ("select", "part"),
    [
        ("string(@to)", Part("TO", "@to", True, (), ())),
        ("string( @subject )", Part("TO", "@subject", True, ("mail",), (MAIL,))),
        ("string(body)", Part("TO", "body", True, ("web",), (MAIL,))),
    ],
)
def test_a_variable_of_a_program_has_the_labels_of_the_part_that_it_selects(select: str, part: Part) -> None:
    labels = {DRAFT: ("/@subject=mail", "/@to=", "/body/@kind=web"), MAIL: ("mail", "web")}
    memory = memory_of(labels, (MAIL,))
    program = Program(("true",), selects=(("TO", select),))
    call = Call("1.1", "program", "true", "s", inputs=(("TO", (DRAFT,)),), program=program)
    assert parts_of(memory, call) == (part,)


def test_a_variable_that_is_made_of_more_than_one_part_counts_with_all() -> None:
    memory = memory_of({DRAFT: ("/@subject=mail", "/@to=")}, (MAIL,))
    for select in ("string(.)", "string(concat(@to, @subject))", "string(@*)", "string(a/b)"):
        program = Program(("true",), selects=(("TO", select),))
        call = Call("1.1", "program", "true", "s", inputs=(("TO", (DRAFT,)),), program=program)
        assert {label for part in parts_of(memory, call) for label in part.labels} == {"mail"}
