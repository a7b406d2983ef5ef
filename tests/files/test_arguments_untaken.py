"""Arguments that no input of a step's target can be given: `narval check` warns of them where they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.check import check_home
from narval.files.home import Home

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("text", "text[@path]")], outputs=[])
def write(text): ...

@action(inputs=[Input("text", "text"), Input("note", "note", optional=True)], outputs=[])
def say(text, note=None): ...

@action(inputs=[Input("lines", "line", list=True)], outputs=[])
def sort(lines): ...

@action(inputs=[Input("text", "text"), Input("any", "*", optional=True)], outputs=[])
def any(text, any=None): ...
"""


def warned(tmp_path: Path, target: str, arguments: str, more: str = "") -> list[str]:
    """What is told of a step with these arguments, which are the third line of their file."""
    for path, text in {"etc/narval.toml": "", "modules/m.py": MODULE}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "recipes").mkdir(exist_ok=True)
    (tmp_path / "recipes/g.xml").write_text(
        f"""<recipe group="g" name="r" start_step="a" end_step="a">
<step id="a" type="action" target="m.{target}"><arguments>
{arguments}
</arguments>{more}</step></recipe>"""
    )
    return [
        f"{fault.line}:{fault.column}: {'' if fault.warning else 'fault: '}{fault.message}"
        for fault in check_home(Home(tmp_path))
    ]


@pytest.mark.parametrize(
    ("target", "arguments", "expected"),
    [
        ("write", '<txt path="a"/>', "3:1: step 'a': no input of m.write takes txt; did you mean 'text'?"),
        (
            "write",
            "<text>x</text>",
            "3:1: step 'a': text is not what input text takes: expected @path, found absent",
        ),
        ("say", "<text/><text/>", "3:8: step 'a': m.say takes 1 text, and this is another; remove one"),
        ("say", "<text/> <noted/>", "3:9: step 'a': no input of m.say takes noted; did you mean 'note'?"),
        (
            "say",
            '<text foreach="$x in $plan/step">{$x}</text>',
            "3:16: fault: foreach: what is within an argument is repeated, and a step with foreach has one "
            "for each call; remove this, or put it within",
        ),
    ],
)
def test_an_argument_that_nothing_takes_is_told_where_it_stands(
    tmp_path: Path, target: str, arguments: str, expected: str
) -> None:
    assert warned(tmp_path, target, arguments) == [expected]


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("write", '<text path="a">x</text>'),
        ("write", '<text path="{$plan/@eid}">x</text>'),
        ("say", "<note/><text>x</text>"),
        ("sort", "<line>1</line><line>2</line>"),
        ("any", "<text/><whatever/>"),
    ],
)
def test_of_arguments_that_inputs_take_nothing_is_told(tmp_path: Path, target: str, arguments: str) -> None:
    assert warned(tmp_path, target, arguments) == []


def test_what_a_step_tightens_counts(tmp_path: Path) -> None:
    tightened = '<input id="text"><match>text[@path="b"]</match></input>'
    (found,) = warned(tmp_path, "write", '<text path="a"/>', tightened)
    assert found == "3:1: step 'a': text is not what input text takes: expected @path=\"b\", found 'a'"


TAKES = """from narval import Input, action

@action(inputs=[Input("mail", "mail", use=True)], runs="inline")
def take(mail): ...
"""
LISTENS = """<recipe group="w" name="r" start_step="s" end_step="e" restart="yes">
  <step id="s" type="action" target="basic.nothing"/><step id="e" type="action" target="w.take"/>
  <transition id="t"><in idref="s"/><out idref="e"/><condition {}><match>mail</match></condition></transition>
</recipe>"""


@pytest.mark.parametrize(
    ("use", "own"), [("", ""), ('use="yes"', ""), ("", "<arguments><mail/></arguments>")]
)
def test_a_plan_that_begins_with_what_another_has_used_up_is_warned_of(
    tmp_path: Path, use: str, own: str
) -> None:
    recipe = LISTENS.format(use).replace('w.take"/>', f'w.take">{own}</step>')
    files = {"modules/w.py": TAKES, "recipes/r.xml": recipe}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    warned = [(fault.line, fault.message.partition("; ")[2]) for fault in check_home(Home(tmp_path))]
    assert warned == (
        [] if use or own else [(3, """write use="yes" at the condition of transition 't' too""")]
    )
