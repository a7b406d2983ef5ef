"""Recipes as they are loaded: linked, complete, in either namespace (tables 2.3-2.11, N6, N12)."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from types import FunctionType, ModuleType

import pytest

from narval.core.definitions.parsing import parse
from narval.core.definitions.schedule import Time
from narval.core.elements.element import CONTROL
from narval.core.source.text import Source
from narval.kinds.recipe.language.definition import Recipe

MAIL = f"""<?xml version="1.0" encoding="latin-1"?>
<!-- triage -->
<n:cookbook xmlns:n="{CONTROL}" group="mail">
  <description lang="fr">Le courrier à trier</description>
  <n:recipe name="triage" start_step="ask" end_step="file" restart="yes" decay="3600" eid="7">
    Some stray text.
    <transition id="late" priority="-1">
      <in idref="ask"/><out idref="file"/>
      <time hours="7-9,18" weekdays="0-4"/>
      <time monthdays="1" missed="skip"/>
    </transition>
    <transition id="answered" priority="2">
      <in idref="ask"/>
      <out idref="file"/><out idref="tell"/>
      <condition use="yes">
        <match>email[@in-reply-to = $ask/@message-id]</match>
        <match>email[not(@auto)]</match>
      </condition>
      <condition><match>mailbox</match></condition>
      <context from="plan"><match>email</match><match>note</match></context>
    </transition>
    <transition id="failed" priority="2"><in idref="ask" onError="yes"/><out idref="tell"/></transition>
    <step id="ask" type="action" target="mail.ask" foreach="address[@active='yes']" timeout="30" retries="3"
          backoff="1.5" max-parallel="4" on-restart="error" state="todo">
      <description>Asks &amp; waits.</description>
      <arguments><text lang="en">Hello</text> and <signature/></arguments>
      <context from="memory"><match>address</match></context>
      <input id="to" use="yes"><match>address[@mail]</match></input>
      <output id="question" optional="no"/>
    </step>
    <step id="file" type="transform" target="mail.page"/>
    <step id="tell" type="recipe" target="mail.tell"/>
  </n:recipe>
</n:cookbook>
"""


def recipe_of(text: str, path: str = "recipes/mail.xml") -> Recipe:
    parsed = parse(Source(path, text.encode("latin-1" if "latin-1" in text else "utf-8")))
    assert [str(fault) for fault in parsed.faults] == []
    (recipe,) = parsed.definitions
    assert isinstance(recipe, Recipe)
    return recipe


@pytest.fixture(scope="module")
def mail() -> Recipe:
    return recipe_of(MAIL)


def test_N12_a_recipe_has_the_attributes_of_table_2_3(mail: Recipe) -> None:
    assert (mail.kind, mail.group, mail.name, mail.full_name) == ("recipe", "mail", "triage", "mail.triage")
    assert (mail.restart, mail.decay, mail.path, mail.line) == ("yes", 3600.0, "recipes/mail.xml", 5)
    assert mail.start is mail.steps["ask"]
    assert mail.end is mail.steps["file"]


def test_N12_a_step_has_all_it_may_have(mail: Recipe) -> None:
    ask = mail.start
    assert (ask.id, ask.kind, ask.target) == ("ask", "action", "mail.ask")
    assert ask.foreach is not None
    assert [pattern.text for pattern in ask.foreach.patterns] == ["address[@active='yes']"]
    assert ask.arguments == (b'<text lang="en">Hello</text>', b"<signature/>")
    assert ask.context is not None
    assert (ask.context.of_run, len(ask.context.alternatives)) == (False, 1)
    assert [(each.id, each.match, dict(each.stated)) for each in ask.inputs] == [
        ("to", ("address[@mail]",), {"use": True})
    ]
    assert [(each.id, each.match, dict(each.stated)) for each in ask.outputs] == [
        ("question", (), {"optional": False})
    ]


def test_N29_a_step_says_how_it_is_called(mail: Recipe) -> None:
    ask, tell = mail.start, mail.steps["tell"]
    assert (ask.timeout, ask.retries, ask.backoff, ask.max_parallel, ask.on_restart) == (
        30.0,
        3,
        1.5,
        4,
        "error",
    )
    assert (tell.timeout, tell.retries, tell.backoff, tell.max_parallel, tell.on_restart) == (
        None,
        0,
        None,
        None,
        "",
    )


def test_N12_a_transition_has_all_it_may_have(mail: Recipe) -> None:
    answered = mail.transitions["answered"]
    assert [(each.step.id, each.on_error) for each in answered.ins] == [("ask", False)]
    assert [step.id for step in answered.outs] == ["file", "tell"]
    assert [each.use for each in answered.conditions] == [True, False]
    assert [pattern.text for pattern in answered.conditions[0].condition.patterns] == [
        "email[@in-reply-to = $ask/@message-id]",
        "email[not(@auto)]",
    ]
    assert answered.context is not None
    assert answered.context.of_run
    assert [each.patterns[0].text for each in answered.context.alternatives] == ["email", "note"]


def test_N25_times_are_kept_as_ranges(mail: Recipe) -> None:
    assert mail.transitions["late"].times == (
        Time(hours=((7, 9), (18, 18)), weekdays=((0, 4),), line=9),
        Time(monthdays=((1, 1),), missed="skip", line=10),
    )


def test_N22_transitions_out_of_a_step_are_in_the_order_in_which_they_are_tried(mail: Recipe) -> None:
    assert [each.id for each in mail.start.outs] == ["answered", "failed", "late"]
    assert [each.id for each in mail.steps["file"].ins] == ["late", "answered"]
    assert [each.order for each in mail.transitions.values()] == [0, 1, 2]


@pytest.mark.parametrize("spelling", ["on-error", "on_error", "onError"])
def test_N12_an_error_link_may_be_spelt_in_three_ways(spelling: str) -> None:
    recipe = recipe_of(MAIL.replace("onError", spelling))
    assert recipe.transitions["failed"].ins[0].on_error


@pytest.mark.parametrize(("official", "other"), [("start_step", "start-step"), ("end_step", "endStep")])
def test_attribute_names_may_be_joined_otherwise(official: str, other: str) -> None:
    assert recipe_of(MAIL.replace(official, other)).digest


def test_N12_the_order_of_nodes_does_not_matter(mail: Recipe) -> None:
    head, _, rest = MAIL.partition('    <transition id="late"')
    transitions, _, steps = rest.partition('    <step id="ask"')
    steps, _, end = steps.partition("  </n:recipe>")
    turned = recipe_of(f'{head}<step id="ask"{steps}<transition id="late"{transitions}</n:recipe>{end}')
    assert list(turned.steps) == list(mail.steps)
    assert [each.id for each in turned.start.outs] == ["answered", "failed", "late"]


@pytest.mark.parametrize(
    "text",
    [
        MAIL.replace("n:", "").replace("xmlns:n", "xmlns:unused"),
        MAIL.replace("<n:", "<").replace("</n:", "</").replace("xmlns:n", "xmlns"),
    ],
    ids=["bare", "default namespace"],
)
def test_N6_names_may_be_bare_or_in_the_control_namespace(text: str, mail: Recipe) -> None:
    recipe = recipe_of(text)
    assert recipe.start.arguments == mail.start.arguments
    assert list(recipe.transitions) == list(mail.transitions)


def test_N6_an_argument_keeps_the_namespaces_that_it_uses_and_no_others() -> None:
    text = """<recipe group="g" name="r" start_step="a" end_step="a" xmlns:at="urn:atom" xmlns:z="urn:z">
      <step id="a" type="action" target="g.a"><arguments><at:entry><at:id/></at:entry></arguments></step>
    </recipe>"""
    assert recipe_of(text).start.arguments == (b'<at:entry xmlns:at="urn:atom"><at:id/></at:entry>',)


def test_a_pattern_may_use_the_prefixes_in_scope() -> None:
    text = """<recipe group="g" name="r" start_step="a" end_step="a" xmlns:at="urn:atom">
      <step id="a" type="action" target="g.a" foreach="at:entry"/></recipe>"""
    foreach = recipe_of(text).start.foreach
    assert foreach is not None
    assert foreach.names == {"{urn:atom}entry"}


def test_a_recipe_alone_and_one_in_a_cookbook_are_the_same_version() -> None:
    within = '<step id="a" type="action" target="g.a"/>'
    alone = recipe_of(f'<recipe name="r" start_step="a" end_step="a" group="g">{within}</recipe>')
    inner = f'<recipe name="r" start_step="a" end_step="a">{within}</recipe>'
    assert recipe_of(f'<cookbook group="g">{inner}</cookbook>').digest == alone.digest
    assert alone.start is alone.end


def test_the_group_of_a_recipe_goes_before_that_of_its_cookbook() -> None:
    text = """<cookbook group="g"><recipe group="h" name="r" start_step="a" end_step="a">
      <step id="a" type="action" target="g.a"/></recipe></cookbook>"""
    assert recipe_of(text).full_name == "h.r"


def test_the_digest_changes_with_the_recipe_and_not_with_its_neighbours(mail: Recipe) -> None:
    assert recipe_of(MAIL.replace("<!-- triage -->", "")).digest == mail.digest
    assert recipe_of(MAIL.replace("Hello", "Salut")).digest != mail.digest


def test_N2_the_xml_that_memory_shows_can_be_read_again(mail: Recipe) -> None:
    assert b"eid=" not in mail.xml
    again = recipe_of(mail.xml.decode())
    assert again.digest == mail.digest
    assert again.xml == mail.xml
    assert again.start.arguments == mail.start.arguments


def test_descriptions_are_kept_by_language() -> None:
    text = """<recipe group="g" name="r" start_step="a" end_step="a">
      <description lang="en">Says\n   hello.</description><description lang="fr">Dit bonjour.</description>
      <step id="a" type="action" target="g.a"/></recipe>"""
    assert recipe_of(text).descriptions == {"en": "Says hello.", "fr": "Dit bonjour."}


def test_a_cookbook_may_hold_several_recipes_and_none() -> None:
    step = '<step id="a" type="action" target="g.a"/>'
    two = "".join(f'<recipe name="{n}" start_step="a" end_step="a">{step}</recipe>' for n in "xy")
    parsed = parse(Source("a.xml", f'<cookbook group="g">{two}</cookbook>'.encode()))
    assert [each.full_name for each in parsed.checked()] == ["g.x", "g.y"]
    assert parse(Source("a.xml", b"<cookbook/>")).checked() == ()


def test_elements_and_attributes_of_other_namespaces_are_left_alone() -> None:
    text = """<recipe group="g" name="r" start_step="a" end_step="a" xmlns:ed="urn:editor" ed:zoom="2">
      <ed:grid x="1"/><step id="a" type="action" target="g.a" ed:x="10"><ed:note/></step></recipe>"""
    assert list(recipe_of(text).steps) == ["a"]


def test_steps_and_transitions_are_equal_to_themselves_only() -> None:
    first, second = recipe_of(MAIL), recipe_of(MAIL)
    assert first.start != second.start
    assert first.transitions["late"] != second.transitions["late"]
    assert {first.start: 1}[first.start] == 1
    assert repr(first.start) == "<Step ask: action mail.ask>"
    assert repr(first.transitions["late"]) == "<Transition late>"
    assert repr(first).startswith("<Recipe mail.triage ")


def test_a_recipe_holds_nothing_of_how_it_was_read(mail: Recipe) -> None:
    read = Counter(type(each).__module__ for each in _held_by(mail))
    assert read["narval.kinds.recipe.language.definition"] > len(mail.steps)
    assert not {
        "narval.core.definitions.reading.xml",
        "narval.kinds.recipe.language.parser",
        "narval.core.source.text",
    } & set(read)


def _held_by(definition: object) -> Iterable[object]:
    """All that an object leads to, but for types, functions of modules, and modules."""
    seen, waiting = {id(definition): definition}, [definition]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in seen and not isinstance(each, type | ModuleType):
                seen[id(each)] = each
                waiting += [] if isinstance(each, FunctionType) and each.__closure__ is None else [each]
    return seen.values()
