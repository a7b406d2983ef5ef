"""The flow of elements through recipes, found without running them."""

from __future__ import annotations

import pytest

from narval.core.trust.flow import InMemory, TheArgument, flow_of
from narval.files.found_files import ModuleText
from narval.files.loaded import Loaded

MODULE = """
from narval import Input, action

@action(inputs=[Input("to", "%s"), Input("note", "note", optional=True)])
def say(to, note): ...
"""


@pytest.mark.parametrize(
    ("argument", "pattern", "is_sure"),
    [
        ("<a/>", "a", True),
        ("<a>{$plan/@eid}</a>", "a | b", True),
        ("<a mail='ann'/>", "a[@mail and not(@off)]", True),
        ("<a mail='{$plan/@eid}'/>", "a[@mail and not(@off)]", True),
        ("<a mail='{{x'/>", "a[@mail='{x']", False),
        ("<a mail='{$plan/@eid}'/>", "a[@mail='ann']", False),
        ("<a>{$plan/@eid}</a>", "a[.='ann']", False),
        ("<a of='ann'/>", "a[@mail]", False),
        ("<a of='ann'><b foreach='$each in $plan/b'/></a>", "a[@of]", True),
        ("<a><b foreach='$each in $plan/b'/></a>", "a[b]", False),
        ("<note/>", "*", False),
    ],
)
def test_an_argument_that_may_not_fit_leaves_its_place_to_memory(
    argument: str, pattern: str, is_sure: bool
) -> None:
    text = '<recipe group="g" name="r" start_step="s" end_step="s"><step id="s" type="action" '
    text += f'target="m.say"><arguments>{argument}</arguments></step></recipe>'
    module = ModuleText.of("m.py", (MODULE % pattern).encode())
    library = Loaded().with_definitions(module).with_definitions(text).library
    (call,) = flow_of(library.of("recipe")["g.r"], library).calls
    origins = [type(taken.origin) for taken in call.inputs["to"]]
    assert origins == ([TheArgument] if is_sure else [TheArgument, InMemory])
