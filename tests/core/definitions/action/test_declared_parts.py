"""What modules declare of parts: which say where, are an action's own, or are passed on (F4, F5)."""

from __future__ import annotations

import pytest

from narval.core.trust.paths import Keep, SlotPath
from tests.core.definitions.action.test_parser import HEAD, actions_in, faults_in

IN_PYTHON = (
    HEAD
    + """
@action(
    inputs=[Input("email", "email"), Input("signature", "signature", optional=True)],
    outputs=[Output("answer", "email[@kind='ack']", own=["@id", "@size"])],
    where=["email/@to", "email/address/@mail"],
    keeps={"answer/@to": "email/@from", "answer/body": ["email/body", "signature"]},
    pure=True,
)
def answer(email, signature):
    return "<email kind='ack'/>"
"""
)
IN_XML = '''
MODULE_XML = """<module name="mail">
  <action name="answer" func="answer" pure="yes" where="email/@to email/address/@mail"
          keeps="answer/@to=email/@from answer/body=email/body+signature">
    <input id="email"><match>email</match></input>
    <input id="signature" optional="yes"><match>signature</match></input>
    <output id="answer" own="@id @size"><match>email[@kind='ack']</match></output>
  </action>
</module>"""


def answer(email, signature):
    return "<email kind='ack'/>"
'''


@pytest.mark.parametrize("text", [IN_PYTHON, IN_XML])
def test_parts_are_declared_by_a_decorator_or_in_xml(text: str) -> None:
    answer = actions_in(text)["answer"]
    assert answer.says_where == (SlotPath("email", "@to"), SlotPath("email", "address/@mail"))
    assert answer.prototype.outputs[0].own == ("@id", "@size")
    assert answer.prototype.keeps == (
        Keep(SlotPath("answer", "@to"), (SlotPath("email", "@from"),)),
        Keep(SlotPath("answer", "body"), (SlotPath("email", "body"), SlotPath("signature"))),
    )
    assert b'where="email/@to email/address/@mail"' in answer.xml
    assert b'keeps="answer/@to=email/@from answer/body=email/body+signature"' in answer.xml
    assert b'own="@id @size"' in answer.xml


def test_no_part_says_where_if_the_list_is_empty_and_each_may_if_there_is_none() -> None:
    text = HEAD + "@action(where=[])\ndef tell():\n    pass\n\n@action\ndef shout():\n    pass\n"
    actions = actions_in(text)
    assert (actions["tell"].says_where, actions["shout"].says_where) == ((), None)


HEAD_OF_ACTION = '@action(inputs=[Input("email", "email")], outputs=[Output("answer", "a")], '


@pytest.mark.parametrize(
    ("declared", "at", "fault"),
    [
        (
            'where=["mail/@to"]',
            "mail/@to",
            "where: expected the id of an input before the path, found 'mail'",
        ),
        ('where=["email/to@"]', "email/to@", "where: expected an id, or an id and a path such as @to"),
        ('where="email/@to"', "email/@to", "where: expected a list of parts of inputs"),
        ("where=[3]", "", "where: expected an id, or an id and a path"),
        ('keeps={"answer/@to": "email/@from"}', "answer/@to", "keeps: only a pure action passes on"),
        ('pure=True, keeps={"reply/@to": "email"}', "reply/@to", "keeps: expected the id of an output"),
        ('pure=True, keeps={"answer": "draft/@to"}', "draft/@to", "keeps: expected the id of an input"),
        ('pure=True, keeps={"answer/@to": 3}', "answer/@to", "keeps: expected texts"),
        ("pure=True, keeps=3", "", "keeps: expected parts of outputs with parts of inputs"),
    ],
)
def test_a_bad_declaration_is_a_fault_at_its_place(declared: str, at: str, fault: str) -> None:
    line = f"{HEAD_OF_ACTION}{declared})"
    (found,) = faults_in(f"{HEAD}\n{line}\ndef f(email):\n    pass\n")
    column = line.index(f'"{at}"') + 2 if at else 1
    assert found.startswith(f"{3 if at else 4}:{column}: @action: {fault}"), found


def test_a_bad_path_of_an_output_is_a_fault_at_its_place() -> None:
    text = HEAD + '@action(outputs=[Output("answer", "a", own=["@id", "@@size"])])\ndef f():\n    pass\n'
    (found,) = faults_in(text)
    assert found.startswith("2:53: @action: own: expected a path such as @to, body"), found


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ("email/@to email", "email/@to mail", ":3:67: where: expected the id of an input before the path"),
        ("answer/@to=email/@from", "answer/@to", "keeps: expected OUTPUT/PATH=INPUT/PATH"),
        ('own="@id @size"', 'own="@@id"', "own: expected a path such as @to"),
    ],
)
def test_a_bad_attribute_is_a_fault_at_its_place(good: str, bad: str, fault: str) -> None:
    (found,) = faults_in(IN_XML.replace(good, bad, 1))
    assert fault in f":{found}", found
