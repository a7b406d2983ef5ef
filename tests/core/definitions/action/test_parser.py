"""Actions: what a module says of its functions, by decorator or in XML (§2.1.3, N30, N33, N36, N37)."""

from __future__ import annotations

import textwrap
from pathlib import PurePath
from types import ModuleType
from typing import Any

import pytest

from narval.core.definitions.action.definition import Action, Input, Output, action
from narval.core.definitions.action.parser import declared
from narval.core.errors import Fault
from narval.core.source.text import Source


def read(text: str, path: str = "modules/mail.py") -> tuple[list[Action], list[Fault]]:
    source = Source(path, textwrap.dedent(text).encode())
    module = ModuleType("narval_home_0.mail")
    exec(compile(source.text, path, "exec", dont_inherit=True), module.__dict__)
    return declared(module, source, PurePath(path).stem)


def actions_in(text: str) -> dict[str, Action]:
    actions, faults = read(text)
    assert [str(fault) for fault in faults] == []
    return {each.name: each for each in actions}


def faults_in(text: str) -> list[str]:
    return [str(fault).removeprefix("modules/mail.py:") for fault in read(text)[1]]


HEAD = "from narval import Input, Output, action\n"

DECORATED = (
    HEAD
    + '''
@action(
    inputs=[
        Input("mail", "email[not(@list)]", use=True),
        Input("in-reply-to", "email", list=True, optional=True),
    ],
    outputs=[Output("answer", "email[@kind='ack']", unique="email/@id")],
)
def acknowledge(mail, in_reply_to):
    """Answer a mail,
    once.

    More about it."""
    return "<email kind='ack'/>"


@action
async def fetch():
    """Fetch."""


@action(name="deliver", runs="worker", description="Send a mail.")
def _send():
    pass


@action(source=True)
async def watch():
    yield "<email/>"
'''
)

IN_XML = '''
MODULE_XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<module name="mail" version="1.2">
  <action name="acknowledge" group="mail" func="acknowledge">
    <description lang="en">Answer a mail, once.</description>
    <input id="mail" use="yes"><match>email[not(@list)]</match></input>
    <input id="in-reply-to" list="yes" optional="yes"><match>email</match></input>
    <output id="answer" unique="email/@id"><match>email[@kind='ack']</match></output>
  </action>
  <action name="fetch" func="fetch"><description lang="en">Fetch.</description></action>
  <action name="deliver" func="_send" runs="worker"><description lang="en">Send a mail.</description></action>
  <action name="watch" func="watch" source="yes"/>
</module>"""


def acknowledge(mail, in_reply_to=()): ...
async def fetch(): ...
def _send(): ...
async def watch():
    yield "<email/>"
'''


def test_a_decorator_leaves_the_function_as_it_is() -> None:
    def send() -> int:
        return 7

    assert action(send) is send
    assert action(name="x")(send) is send
    assert send() == 7


@pytest.mark.parametrize("word", ["inputs", "outputs"])
def test_a_decorator_that_is_given_none_for_a_list_is_at_fault_itself(word: str) -> None:
    none: dict[str, Any] = {word: None}
    with pytest.raises(TypeError, match="'NoneType' object is not iterable"):
        action(**none)


def test_N30_both_forms_give_the_same_prototypes() -> None:
    decorated, in_xml = actions_in(DECORATED), actions_in(IN_XML)
    assert list(decorated) == list(in_xml) == ["acknowledge", "fetch", "deliver", "watch"]
    for name, each in decorated.items():
        assert each.prototype == in_xml[name].prototype
        assert each.xml == in_xml[name].xml
        assert (each.function, each.where, each.full_name) == (
            in_xml[name].function,
            in_xml[name].where,
            f"mail.{name}",
        )


def test_N33_where_an_action_runs_is_declared_on_it() -> None:
    assert [each.where for each in actions_in(DECORATED).values()] == ["thread", "async", "worker", "source"]
    assert actions_in(HEAD + '@action(runs="inline")\ndef f(): ...')["f"].where == "inline"


def test_G65_an_action_of_a_cluster_says_what_it_needs_there() -> None:
    written = actions_in(HEAD + '@action(runs="cluster", resources={"b": 0.5, "GPU": 1})\ndef f(): ...')["f"]
    in_xml = actions_in(
        'MODULE_XML = \'<action name="f" func="f" runs="cluster" resources="b=0.5 GPU=1"/>\'\ndef f(): ...'
    )["f"]
    for found in (written, in_xml):
        assert (found.where, found.resources) == ("cluster", (("GPU", 1.0), ("b", 0.5)))
        assert b'resources="GPU=1 b=0.5"' in found.xml


def test_an_action_says_where_it_is() -> None:
    acknowledge = actions_in(DECORATED)["acknowledge"]
    assert (acknowledge.path, acknowledge.line, acknowledge.function) == (
        "modules/mail.py",
        10,
        "acknowledge",
    )
    assert actions_in(IN_XML)["fetch"].line == 17


def test_N2_memory_shows_an_action_as_table_2_16_has_it() -> None:
    assert actions_in(DECORATED)["acknowledge"].xml.decode() == (
        '<action name="acknowledge" group="mail" func="acknowledge">'
        '<description lang="en">Answer a mail, once.</description>'
        '<input id="mail" use="yes"><match>email[not(@list)]</match></input>'
        '<input id="in-reply-to" list="yes" optional="yes"><match>email</match></input>'
        '<output id="answer" unique="email/@id"><match>email[@kind=\'ack\']</match></output></action>'
    )


def test_N30_descriptions_are_kept_by_language() -> None:
    text = IN_XML.replace(
        "</description>\n", '</description><description lang="fr">Répond.</description>\n', 1
    )
    assert actions_in(text)["acknowledge"].descriptions == {"en": "Answer a mail, once.", "fr": "Répond."}


def test_the_digest_changes_with_the_code_of_the_module() -> None:
    before, after = actions_in(DECORATED), actions_in(DECORATED.replace("<email/>", "<email new='1'/>"))
    assert before["fetch"].digest != after["fetch"].digest


def test_namespaces_of_patterns_are_those_of_the_declaration() -> None:
    text = HEAD + '@action(inputs=[Input("e", "a:entry", namespaces={"a": "urn:atom"})])\ndef f(e): ...'
    assert b'<input xmlns:a="urn:atom" id="e"><match>a:entry</match></input>' in actions_in(text)["f"].xml


def test_actions_that_a_module_imports_belong_to_the_other_module() -> None:
    text = HEAD + "@action\ndef send(): ...\nsend.__module__ = 'narval_home_0.other'\nalias = send\n"
    assert actions_in(text) == {}


def test_a_function_under_two_names_is_one_action() -> None:
    assert list(actions_in(HEAD + "@action\ndef send(): ...\nalso = send\n")) == ["send"]


def test_a_wrapped_function_is_taken_as_what_it_wraps() -> None:
    text = HEAD + 'import functools\n@action(inputs=[Input("a", "a")])\n@functools.cache\ndef f(a): ...\n'
    found = actions_in(text)["f"]
    assert found.line == 5


def test_an_input_whose_id_is_no_name_has_a_parameter_near_to_it() -> None:
    inputs = ", ".join(f'Input("{id}", "x")' for id in ("in-reply-to", "from", "2nd", "a.b"))
    actions_in(HEAD + f"@action(inputs=[{inputs}])\ndef f(in_reply_to, from_, _2nd, a_b): ...")


def test_a_function_may_take_anything_by_name() -> None:
    assert actions_in(HEAD + '@action(inputs=[Input("2nd", "a")])\ndef f(*rest, other=1, **given): ...')


def test_N30_module_xml_may_be_bytes_in_the_encoding_it_declares() -> None:
    text = IN_XML.replace('"""<?xml', "'''<?xml").replace('</module>"""', "</module>'''.encode('latin-1')")
    text = text.replace("Answer a mail, once.", "Réponse")
    assert actions_in(text)["acknowledge"].descriptions == {"en": "Réponse"}


def test_a_description_without_characters_that_xml_lacks() -> None:
    assert actions_in(HEAD + '@action\ndef f():\n    "a\\x0cb"')["f"].descriptions == {"en": "a b"}


# --- faults ---------------------------------------------------------------------------------------------

FAULTS_IN_XML = '''x = 1

MODULE_XML = """
<module name="mial" vresion="1">
  <action name="fetch" group="feeds" func="fetch">
    <input id="box"><match>mailbox[</match></input>
    <input id="box"><match>mailbox[@of = $step]</match></input>
    <output/>
  </action>
  <action name="send" func="sned"/>
  <action func="send"/>
</module>"""


def fetch(): ...
def send(mail): ...
'''


def test_N30_faults_in_module_xml_have_their_places_in_the_python_file() -> None:
    told = [fault.partition(";")[0] for fault in faults_in(FAULTS_IN_XML)]
    assert [each.split(": ")[0] for each in told] == [
        "4:15",
        "4:30",
        "5:31",
        "6:36",
        "7:16",
        "7:42",
        "8:5",
        "8:5",
        "10:29",
        "11:3",
        "15:1",
    ]
    assert told[0] == "4:15: name: expected the module's name, 'mail', found 'mial'"
    assert told[8] == "10:29: func: expected a function of this module, found 'sned'"
    assert told[10] == "15:1: fetch: expected a parameter 'box' for the input 'box'"


def test_a_text_that_begins_after_an_escaped_line_end_has_its_places_too() -> None:
    told = faults_in('MODULE_XML = """\\\n<module name="x"/>"""')
    assert told[0].startswith("2:15: name: ")


def test_a_place_in_a_line_counts_characters() -> None:
    assert faults_in("é = 1; MODULE_XML = '<module name=\"x\"/>'")[0].startswith("1:36: name: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("MODULE_XML = 7", "1:14: MODULE_XML: expected a text of XML"),
        ("MODULE_XML = '<module>'", "1:23: not well-formed XML: the file ends within <module>"),
        ("MODULE_XML = '<modul/>'", "1:15: MODULE_XML: expected the root module, found 'modul'"),
        ("XML = '<module><'\nMODULE_XML = XML + '/x>'", "2:24: not well-formed XML"),
    ],
)
def test_N30_a_module_xml_that_is_none_is_told_so(text: str, told: str) -> None:
    assert faults_in(text)[0].startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('@action(inputs=[Input("mail", "email[")])\ndef f(mail): ...', "2:38: 'email[' is no XPath"),
        ('@action(outputs=[Output("m", "email", unique="@a[")])\ndef f(): ...', "2:50: '@a[' is no XPath"),
        (
            '@action(outputs=[Output("m", "x", unique="x/@a = 1")])\ndef f(): ...',
            "2:43: 'x/@a = 1' is no XPath",
        ),
        ('@action(outputs=[Output("m", "x", replaces="y@")])\ndef f(): ...', "2:45: 'y@' is no XPath"),
        ('@action(outputs=[Output("m", "x", unique="/x/@a")])\ndef f(): ...', "2:43: '/x/@a' is no XPath"),
        ("""@action(outputs=[Output("m", "x", unique="'a'")])\ndef f(): ...""", "2:43: \"'a'\" is no XPath"),
        ('@action(outputs=[Output("m", "x", unique="$plan")])\ndef f(): ...', "2:43: '$plan' is no XPath"),
        (
            '@action(outputs=[Output("m", "x", unique="lower-case(@a)")])\ndef f(): ...',
            "2:43: 'lower-case(@a)'",
        ),
        ('@action(inputs=[Input("m", "email[@x=$s]")])\ndef f(m): ...', "2:38: $s: expected $plan"),
        ('@action(inputs=["email"])\ndef f(email): ...', "3:1: @action: expected Input("),
        (
            '@action(inputs=[Input("a b", "x")])\ndef f(**given): ...',
            "3:1: Input: expected an id without blanks",
        ),
        ('@action(inputs=[Input("a")])\ndef f(a): ...', "3:1: Input 'a': expected a pattern, such as"),
        (
            '@action(inputs=[Input("a", "x"), Input("a", "y")])\ndef f(a): ...',
            "3:1: expected one input of the id",
        ),
        (
            '@action(inputs=[Input("in-reply", "x")])\ndef f(in_repy): ...',
            "3:1: f: expected a parameter 'in_reply'",
        ),
        (
            '@action(inputs=[Input("a-b", "x"), Input("a_b", "y")])\ndef f(a_b): ...',
            "3:1: f: the inputs 'a-b' and 'a_b' would be one parameter, 'a_b'; rename one",
        ),
        ("@action\ndef f(mail): ...", "3:1: f: no input gives the parameter 'mail'; declare an input"),
        ('@action(inputs=[Input("a", "x")])\ndef f(a, /): ...', "3:1: f: expected a parameter 'a'"),
        ('@action(name="a.b")\ndef f(): ...', "3:1: @action: expected a name without dots"),
        ('@action(name="a\\x01")\ndef f(): ...', "3:1: action 'a\\x01' cannot be written as XML"),
        ("@action(name=3)\ndef f(): ...", "3:1: @action: expected a name without dots"),
        (
            '@action(name="f")\ndef g(): ...\n@action\ndef f(): ...',
            "5:1: expected a new action name, found 'f'",
        ),
        (
            '@action(runs="process")\ndef f(): ...',
            "3:1: runs: expected thread, worker, inline or cluster, found 'process'",
        ),
        (
            '@action(runs="cluster", resources={"GPU": 0})\ndef f(): ...',
            "3:1: @action: resources: expected names with numbers",
        ),
        ('@action(resources={"GPU": 1})\ndef f(): ...', "3:1: resources: only calls on a cluster have any"),
        ('@action(runs="cluster")\nasync def f(): ...', "3:1: runs='cluster': an async def runs in the loop"),
        ('@action(runs="worker")\nasync def f(): ...', "3:1: runs='worker': an async def runs in the loop"),
        (
            "@action(source=True)\nasync def f(): ...",
            "3:1: a source is an async generator: expected async def with",
        ),
        ("@action(source=True)\ndef f(): yield", "3:1: a source is an async generator"),
        ("@action\nasync def f(): yield", "3:1: an async generator is a source: expected source=True"),
        ('@action(label="a b")\ndef f(): ...', "3:1: label: expected a word such as web"),
        ('@action(label="model:x")\ndef f(): ...', "3:1: label: expected a word such as web"),
        ('@action(label="web", pure=True)\ndef f(): ...', "3:1: nothing comes in by what a pure action does"),
        ("@action\nclass F: ...", "3:1: @action: expected a function, found 'F'"),
    ],
)
def test_N30_a_declaration_that_cannot_be_kept_is_a_fault_at_its_place(text: str, told: str) -> None:
    faults = faults_in(HEAD + text)
    assert faults[0].startswith(told), faults


def test_what_stands_at_a_step_is_sent_there() -> None:
    with pytest.raises(TypeError, match="retries does not belong in @action: write it at the step"):
        action(retries=3)


def test_all_faults_of_a_module_are_told_at_once() -> None:
    text = (
        HEAD + '@action(inputs=[Input("a", "x["), Input("b", "y[")])\ndef f(c): ...\n@action\ndef g(d): ...'
    )
    assert len(faults_in(text)) == 6


def test_inputs_and_outputs_are_part_of_what_modules_import() -> None:
    import narval

    assert (narval.Input, narval.Output, narval.action) == (Input, Output, action)


@pytest.mark.parametrize("given", ["newest=3", "newest=-1, list=True", "newest='3', list=True"])
def test_the_newest_so_many_are_a_number_of_a_list(given: str) -> None:
    text = f"@action(inputs=[Input('mails', 'mail', {given})])\ndef a(mails): ...\n"
    assert "expected newest to be a whole number, and list=True beside it" in faults_in(HEAD + text)[0]
    xml = '<module name="mail"><action name="a" group="mail" func="a"><input id="mails" newest="3"/>'
    xml = f"MODULE_XML = '{xml}</action></module>'\ndef a(mails): ...\n"
    assert any('expected list="yes" beside it' in fault for fault in faults_in(xml))
