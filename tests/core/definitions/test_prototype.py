"""Prototypes, and what a step may tighten of them (N14, Table 1.1)."""

from __future__ import annotations

import pytest

from narval.core.definitions.prototype import Input, Narrowing, Output, Prototype, narrow
from narval.core.elements.element import Element
from narval.core.errors import DefinitionError, PatternError
from narval.core.memory.packed import TreeCache

FLAGS = ("use", "list", "optional", "outdates")


def fits(condition: object, xml: str) -> bool:
    return bool(condition.bind({}).test(TreeCache().of(Element(0, xml.encode()))))  # type: ignore[attr-defined]


def faults_of(
    prototype: Prototype, *, inputs: tuple[Narrowing, ...] = (), outputs: tuple[Narrowing, ...] = ()
):
    with pytest.raises(DefinitionError) as caught:
        narrow(prototype, inputs, outputs)
    return [str(fault) for fault in caught.value.faults]


def test_an_input_is_declared_by_id_and_pattern() -> None:
    mail = Input("mail", "email[not(@list)]", use=True)
    assert (mail.id, mail.match, mail.use, mail.optional) == ("mail", ("email[not(@list)]",), True, False)
    assert fits(mail.condition, "<email/>")
    assert not fits(mail.condition, "<email list='x'/>")


def test_all_the_patterns_of_an_input_must_hold() -> None:
    mail = Input("mail", ("email[@from]", "email[@to]"))
    assert fits(mail.condition, "<email from='a' to='b'/>")
    assert not fits(mail.condition, "<email from='a'/>")


def test_a_pattern_is_compiled_when_it_is_first_asked_for() -> None:
    bad = Output("page", "html[")
    with pytest.raises(PatternError):
        bad.condition


def test_a_condition_is_compiled_once() -> None:
    mail = Input("mail", "email")
    assert mail.condition is mail.condition


def test_patterns_may_use_the_prefixes_that_are_given() -> None:
    entry = Input("entry", "a:entry", namespaces={"a": "urn:atom"})
    assert fits(entry.condition, "<entry xmlns='urn:atom'/>")
    assert not fits(entry.condition, "<entry/>")


# --- narrowing ------------------------------------------------------------------------------------------

ALLOWED = {("optional", True, False), ("list", True, False), ("use", False, True), ("outdates", False, True)}


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_N14_a_step_may_only_ask_for_more_of_an_input(flag: str, declared: bool, asked: bool) -> None:
    prototype = Prototype((Input("mail", "email", **{flag: declared}),))
    wish = Narrowing("mail", stated={flag: asked}, path="r.xml", places={flag: (3, 9)})
    if declared == asked or (flag, declared, asked) in ALLOWED:
        assert getattr(narrow(prototype, [wish], []).inputs[0], flag) is asked
    else:
        (told,) = faults_of(prototype, inputs=(wish,))
        assert told.startswith(f"r.xml:3:9: a step cannot change {flag!r} of the input 'mail' from ")


@pytest.mark.parametrize("flag", ["list", "optional"])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_N14_a_step_may_only_promise_more_of_an_output(flag: str, declared: bool, asked: bool) -> None:
    prototype = Prototype((), (Output("page", "html", **{flag: declared}),))
    wish = Narrowing("page", stated={flag: asked}, path="r.xml", places={flag: (3, 9)})
    if declared or not asked:
        assert getattr(narrow(prototype, [], [wish]).outputs[0], flag) is asked
    else:
        assert "from no to yes" in faults_of(prototype, outputs=(wish,))[0]


def test_N14_a_step_cannot_make_an_output_unique() -> None:
    wish = Narrowing("page", stated={"unique": True}, path="r.xml", places={"unique": (2, 5)})
    (told,) = faults_of(Prototype((), (Output("page", "html"),)), outputs=(wish,))
    assert told == "r.xml:2:5: a step cannot set 'unique' of an output: only its target can"


def test_N14_a_match_is_added_to_those_of_the_prototype() -> None:
    prototype = Prototype((Input("mail", "m:email", namespaces={"m": "urn:m"}),), (Output("page", "html"),))
    narrowed = narrow(
        prototype,
        [Narrowing("mail", ("x:email[@urgent]",), namespaces={"x": "urn:m", "m": "urn:other"})],
        [Narrowing("page", ("html[body]",))],
    )
    assert fits(narrowed.inputs[0].condition, "<email xmlns='urn:m' urgent='1'/>")
    assert not fits(narrowed.inputs[0].condition, "<email xmlns='urn:m'/>")
    assert not fits(narrowed.inputs[0].condition, "<email urgent='1'/>")
    assert fits(narrowed.outputs[0].condition, "<html><body/></html>")
    assert not fits(narrowed.outputs[0].condition, "<html/>")


def test_N14_what_a_step_does_not_mention_stays() -> None:
    prototype = Prototype((Input("mail", "email", use=True), Input("text", "text")))
    narrowed = narrow(prototype, [Narrowing("text", stated={"use": True})], [])
    assert narrowed.inputs[0] is prototype.inputs[0]
    assert narrowed.inputs[1].use


def test_a_step_that_tightens_nothing_has_the_prototype_itself() -> None:
    prototype = Prototype((Input("mail", "email"),))
    assert narrow(prototype, [], []) is prototype


def test_N14_only_what_the_target_has_can_be_tightened_and_once() -> None:
    prototype = Prototype((Input("mail", "email"),))
    told = faults_of(
        prototype,
        inputs=(
            Narrowing("mial", path="r.xml", line=2, column=3),
            Narrowing("mail", path="r.xml", line=3),
            Narrowing("mail", path="r.xml", line=4),
        ),
        outputs=(Narrowing("page", path="r.xml", line=5),),
    )
    assert told == [
        "r.xml:2:3: expected the id of an input of the target, found 'mial'; did you mean 'mail'?",
        "r.xml:4:1: expected one input node for 'mail', found two",
        "r.xml:5:1: expected the id of an output of the target, found 'page'; the target has no output",
    ]
