"""Steps that send elements to other agents, as a plan makes their calls (G27)."""

from __future__ import annotations

import pytest

from narval.core.engines.commands import SEND
from narval.core.engines.events import Failure
from narval.trials.explore.findings import findings
from narval.trials.explore.search import explore
from tests.core.engines.dialogue import Dialogue, recipe
from tests.kinds.recipe.language.test_faults import fault_in
from tests.kinds.recipe.language.test_faults import recipe as written_recipe

ORDERS = '<input id="message" list="yes" use="yes"><match>order</match></input>'


def sends(inside: str = ORDERS, attributes: str = 'to="shop billing"') -> Dialogue:
    """The dialogue of a plan whose one step sends."""
    return Dialogue(recipe("g.r", f'<step id="a" type="send" {attributes}>{inside}</step>', end="a"))


def test_G27_the_call_says_to_whom_and_what() -> None:
    said = sends()
    orders = said.add("<order n='1'/>"), said.add("<order n='2'/>")
    run = said.start("g.r")
    call = said.call_of("a")
    assert (call.kind, call.name, call.inputs) == (SEND, "shop billing", (("message", orders),))
    assert call.payload is None
    said.answer(call)
    assert said.state(run) == "done"
    assert said.start("g.r")
    assert said.errors()[-1].attributes["type"] == "input-missing"


def test_G27_how_it_is_sent_goes_with_the_call() -> None:
    said = sends(attributes='to-select="order/@shop" await="taken" keep="7d" timeout="1h"')
    said.add("<order shop='a'/>")
    said.start("g.r")
    call = said.call_of("a")
    assert call.payload == {"select": "order/@shop", "taken": True, "keep": 7 * 86_400.0}
    said.passes(3600.0)
    said.answer(call, abandoned=True)
    assert said.errors()[-1].attributes["type"] == "timeout"


def test_G27_what_keeps_it_from_being_sent_is_an_error_of_the_step() -> None:
    said = sends()
    said.add("<order/>")
    run = said.start("g.r")
    said.answer(said.call_of("a"), problem=Failure("undelivered", "shop did not take it"))
    assert said.state(run) == "failed"


@pytest.mark.parametrize(
    ("attributes", "inside", "message"),
    [
        ("", ORDERS, 'send needs to="AGENT…", or to-select'),
        ('to="shop" to-select="@a"', ORDERS, 'send needs to="AGENT…", or to-select'),
        ('to="§Shop"', ORDERS, "to: expected the name of an agent"),
        ('to="shop"', "", "send needs one input that says what is sent; add"),
        ('to="shop" target="§a.b"', ORDERS, "target: a step that sends calls nothing"),
        ('to="shop" agent="§b"', ORDERS, "agent: a step that sends calls nothing"),
        ('to="shop" await="§read"', ORDERS, "await: expected taken"),
        ('to="shop"', f'{ORDERS}§<output id="x"/>', "what is sent gives nothing back"),
        ('to="shop"', '§<input id="m"/>', "input needs a match"),
        ('to-select="§lower-case(@a)"', ORDERS, "to-select: expected an XPath 1.0 of the element"),
    ],
)
def test_N13_a_step_that_cannot_send_is_a_fault(attributes: str, inside: str, message: str) -> None:
    mark = "" if "§" in attributes + inside else "§"
    text = written_recipe(f'{mark}<step id="a" type="send" {attributes}>{inside}</step>')
    assert message in fault_in(text)


def test_N13_what_goes_with_sending_is_a_fault_of_other_steps() -> None:
    text = written_recipe('<step id="a" type="action" target="mail.fetch" keep="§7d"/>')
    assert fault_in(text) == 'keep: only a step of type="send" has this; remove it'


def test_exploration_knows_how_a_send_may_end() -> None:
    said = sends()
    definition = said.library.get("recipe", "g.r")
    assert definition is not None
    told = [found.message for found in findings(explore(definition, said.library, 5000))]
    assert told == ["nobody handles errors of a: the plan fails"]
