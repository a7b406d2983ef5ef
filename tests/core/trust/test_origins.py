"""Back to the elements that came in, and to what a model was free to say (F6, F7)."""

from __future__ import annotations

from msgspec.structs import replace

from narval.core.elements.changes import Added, Forgotten, Labelled
from narval.core.elements.element import Element, Origin
from narval.core.memory.memory import Memory
from narval.core.trust.origins import (
    LONGEST_TOLD,
    MOST_TOLD,
    Chosen,
    came_in,
    chosen,
    origins_of,
    told_origins,
)


def memory_of(*elements: tuple[bytes, Origin | None, tuple[str, ...]]) -> Memory:
    """A memory of elements, each with its origin and labels; the first is number 1."""
    memory = Memory()
    for number, (xml, origin, labels) in enumerate(elements, 1):
        memory.apply(Added(Element(number, xml, 0.0, origin)))
        memory.apply(Labelled(number, labels))
    return memory


def made(*inputs: int, call: str = "c", agent: str = "", run: int = 0) -> Origin:
    return Origin(run, "step", call, inputs, agent=agent)


MAIL = (b"<email/>", made(), ("mail",))
BOX = (b"<mailbox/>", None, ())


def test_it_goes_back_over_what_was_made_of_it() -> None:
    memory = memory_of(
        BOX, (b"<email/>", made(1), ("mail",)), (b"<x/>", made(2), ("mail",)), (b"<y/>", made(3), ("mail",))
    )
    assert came_in(memory, (4,)) == (2,)
    assert came_in(memory, (1,)) == ()


def test_each_way_in_counts() -> None:
    memory = memory_of(
        MAIL, MAIL, (b"<page/>", made(1), ("mail", "web")), (b"<x/>", made(2, 3), ("mail", "web"))
    )
    assert came_in(memory, (4,)) == (1, 2, 3)


def test_what_a_call_found_by_the_words_of_another_came_in_too() -> None:
    memory = memory_of(MAIL, (b"<email/>", made(1, call="search"), ("mail",)), (b"<x/>", made(2), ("mail",)))
    assert came_in(memory, (3,)) == (1,)
    assert came_in(memory, (3,), brings_in=lambda origin: origin.call == "search") == (1, 2)


def test_it_is_not_known_where_something_is_forgotten() -> None:
    memory = memory_of(MAIL, (b"<x/>", made(1), ("mail",)))
    memory.apply(Forgotten((1,)))
    assert came_in(memory, (2,)) is None
    assert came_in(memory, (7,)) is None


def test_it_is_not_known_of_what_another_agent_sent_or_a_run_made_of_its_values() -> None:
    assert came_in(memory_of((b"<email/>", made(agent="shop"), ("mail",))), (1,)) is None
    run = (b"<run/>", None, ("mail",))
    assert came_in(memory_of(run, (b"<email/>", made(run=1, call=""), ("mail",))), (2,)) is None
    assert came_in(memory_of(run, (b"<email/>", made(run=1), ("mail",))), (2,)) == (2,)


def test_a_model_did_not_come_in_and_what_it_was_asked_with_did() -> None:
    prompt, answer = (b"<prompt/>", made(1), ("mail",)), (b"<answer/>", made(2), ("mail", "model:x"))
    memory = memory_of(MAIL, prompt, answer)
    assert came_in(memory, (3,)) == (1,)
    assert came_in(memory, (3,), models=True) == (1, 3)


def test_secrets_and_what_decided_did_not_come_in() -> None:
    assert came_in(memory_of((b"<note/>", None, ("secret:x", "mail?"))), (1,)) == ()


def test_what_a_model_chose_is_what_its_prompt_left_it_no_words_for() -> None:
    fields = (
        b'<field name="a" words="yes no"/><field name="b" type="yes-no"/><field name="c" type="integer"/>'
    )
    prompt = (b"<prompt>" + fields + b'<field name="d"/><set name="e" value="v"/></prompt>', made(), ())
    answer = (b'<answer a="yes" b="no" c="7" d="words" e="v"/>', made(1), ("model:x",))
    memory = memory_of(prompt, answer, (b"<x/>", made(2), ("model:x",)))
    assert chosen(memory, (3,)) == Chosen(frozenset({"yes", "no"}), frozenset({"7"}))
    assert chosen(memory, (1,)) == Chosen()


def test_fields_that_came_in_leave_a_model_free() -> None:
    fields = b'<prompt><field name="a" words="evil@x.org"/></prompt>'
    answer = (b'<answer a="evil@x.org"/>', made(1), ("mail", "model:x"))
    assert chosen(memory_of((fields, made(), ("mail",)), answer), (2,)) == Chosen()
    only_a_value = (fields, made(), ("/value/text()=mail",))
    assert chosen(memory_of(only_a_value, answer), (2,)) == Chosen(frozenset({"evil@x.org"}))


def told(memory: Memory, *eids: int, names: tuple[str, ...] = ("mail",)) -> tuple[str, ...]:
    return told_origins(memory, eids, memory.labels.number(names), lambda origin: False)


def test_another_agent_is_told_of_what_came_in_its_root_alone() -> None:
    mail = (b"<email from='a@x.org'>x<body>secret</body></email>", made(), ("mail",))
    memory = memory_of(mail, (b"<note>so</note>", made(1), ("mail",)))
    (text,) = told(memory, 2)
    assert text == '<email from="a@x.org"/>'
    there = memory_of((b"<note/>", replace(made(agent="ada"), came_from=(text,)), ("mail",)))
    assert came_in(there, (1,)) == (1,)
    (element,) = origins_of(there, (1,))
    assert (element.eid, element.attributes) == (0, {"from": "a@x.org"})
    assert told(there, 1) == (text,)  # and so it goes on to a third


def test_another_agent_is_told_nothing_where_not_all_is_known() -> None:
    memory = memory_of(MAIL, (b"<note/>", made(1), ("mail",)), (b"<own/>", None, ()))
    assert told(memory, 2, names=("feed", "mail")) == ()
    assert told(memory, 3) == ()
    memory.apply(Forgotten((1,)))
    assert told(memory, 2) == ()
    many = [(f"<email n='{n}'/>".encode(), made(), ("mail",)) for n in range(MOST_TOLD + 1)]
    memory = memory_of(*many, (b"<note/>", made(*range(1, len(many) + 1)), ("mail",)))
    assert told(memory, len(many) + 1) == ()
    assert len(told(memory, *range(1, MOST_TOLD + 1))) == MOST_TOLD
    long = f"<email from='{'x' * LONGEST_TOLD}'/>".encode()
    assert told(memory_of((long, made(), ("mail",))), 1) == ()
