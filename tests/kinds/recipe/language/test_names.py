"""What may be wrong with names of conditions and with values in arguments, each at its place (N42).

In the texts below a `§` stands before each character where a fault is expected.
"""

from __future__ import annotations

import pytest

from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from tests.kinds.recipe.language.test_faults import faults_in

PLAN = """<recipe group="mail" name="r" start_step="a" end_step="c">
<step id="a" type="action" target="mail.fetch"/>
<step id="b" type="action" target="mail.fetch">{arguments}</step>
<step id="c" type="action" target="mail.fetch"/>
<transition id="ab"><in idref="a"/><out idref="b"/>
  {ab}</transition>
<transition id="bc"><in idref="b"/><out idref="c"/>
  {bc}</transition>
</recipe>"""


def plan(ab: str = "", bc: str = "", arguments: str = "") -> str:
    written = f"<arguments>{arguments}</arguments>" if arguments else ""
    return PLAN.format(ab=ab, bc=bc, arguments=written)


def given(name: str, match: str = "email", attributes: str = "") -> str:
    return f'<condition as="{name}"{attributes}><match>{match}</match></condition>'


BRACE = "; {{ stands for {"
NOWHERE = "expected a path from a variable, found one that begins nowhere"

FAULTS = [
    (
        plan(given("§a")),
        ["as: expected a name of its own, found 'a', the id of a step"],
    ),
    (
        plan(given("§plan") + given("§each")),
        [
            "as: expected a name of its own, found 'plan', what $plan is for",
            "as: expected a name of its own, found 'each', what $each is for",
        ],
    ),
    (
        plan().replace('"a"', '"each"').replace('id="each"', 'id="§each"', 1),
        ["id: expected a name of its own, found 'each', what $each is for; take another"],
    ),
    (
        plan().replace('"a"', '"plan"').replace('id="plan"', 'id="§plan"', 1),
        ["id: expected a name of its own, found 'plan', what $plan is for; take another"],
    ),
    (
        plan(given("§1st")),
        ["as: expected a name that may follow a $, such as first, found '1st'"],
    ),
    (
        plan(given("first") + given("§first")),
        ["as: another condition here is 'first' already; take another name"],
    ),
    (
        plan(given("first", "email[@re = §$first/@id]")),
        ["$first is the element of this condition; a name may be used only in later conditions"],
    ),
    (
        plan(given("one", "email[@re = §$two/@id]") + given("two")),
        ["$two is the element of a later condition; a name may be used only in later conditions"],
    ),
    (
        plan(given("one") + given("two", "email[@re = $one/@id]", ' for="§1m"')),
        [
            "for: what fits depends on $one, so it cannot be said since when something does; "
            "remove for, or let a transition after the next step wait"
        ],
    ),
    (
        plan(bc=given("one"), ab="<condition><match>email[@re = §$one/@id]</match></condition>"),
        ["$one has no value here: bc cannot have fired before transition 'ab'; use it after that"],
    ),
    (
        plan(bc=given("one"), arguments='<note of="{§$one/@id}"/>'),
        ["$one has no value here: bc cannot have fired before step 'b'; use it after that"],
    ),
    (
        plan(given("first"), arguments='<note of="{§$firts/@id}"/>'),
        [
            "$firts: expected the id of a step or the name of a condition of this recipe, found 'firts'; "
            "did you mean 'first'?"
        ],
    ),
    (
        plan(arguments='<note of="§{$a/@id"/>'),
        ["expected '}' after this value; {{ stands for {"],
    ),
    (
        plan(arguments="<note>about {$a[§}</note>"),
        ["this value is no XPath that narval can try: expected an expression, found the end" + BRACE],
    ),
    (
        plan(arguments='<note of="{$a/x[@y = §foo()]}"/>'),
        ["this value is no XPath that narval can try: unknown function foo()" + BRACE],
    ),
    (
        plan(arguments="<note>Dear {§name},</note>"),
        ["this value is no XPath that narval can try: " + NOWHERE + BRACE],
    ),
    (
        plan(arguments="<note as='{{x}} {§}'/>"),
        ["this value is no XPath that narval can try: expected an expression, found the end" + BRACE],
    ),
    (
        plan(arguments="<note>{&quot;a&quot; §: 1}</note>"),
        ["this value is no XPath that narval can try: unexpected ':'" + BRACE],
    ),
    (
        plan(arguments="<note zip='[0-9]{§4}'/>"),
        ["expected a value of a variable, such as {$plan/@eid}, found none" + BRACE],
    ),
]


CLOSED = ("$a", "$a[@kind = 'x']", "$a/@kind = 'x'", "count($a/x) &gt; 2", "true()", "$plan[@state]")
"""Patterns that hold of any element, or of none."""

for pattern in CLOSED:
    for word, value in (("use", "yes"), ("list", "yes"), ("as", "one")):
        written = f'<condition {word}="§{value}"><match>{pattern}</match></condition>'
        shown = pattern.replace("&gt;", ">")
        why = f"{word}: {shown} holds of any element or of none, so that this takes what is nearest"
        FAULTS.append((plan(written), [f"{why}; match the element itself, such as note[@eid = $step/@eid]"]))


for word, value in (("use", "yes"), ("list", "yes"), ("as", "none"), ("for", "1m")):
    written = f'<condition absent="yes" {word}="§{value}"><match>email</match></condition>'
    FAULTS.append((plan(written), [f"{word}: a condition with absent takes nothing; remove this, or absent"]))


def test_N42_a_condition_that_looks_at_the_element_may_take_it() -> None:
    for pattern in ("*[$a]", "email[@eid = $a/@eid]", "@kind = $a/@kind", "*[. = $a]", "not(self::x)"):
        assert faults_in(plan(f'<condition as="one" use="yes"><match>{pattern}</match></condition>')) == []
    for closed in CLOSED:
        within = f"<condition><match>{closed}</match></condition>"
        taking = f'<condition as="one" use="yes"><match>{closed}</match><match>email</match></condition>'
        assert faults_in(plan(within + taking)) == []


@pytest.mark.parametrize(("text", "messages"), FAULTS)
def test_N42_each_fault_has_its_place(text: str, messages: list[str]) -> None:
    assert [fault.message for fault in faults_in(text)] == messages


def test_N42_a_name_is_known_wherever_it_may_have_been_given() -> None:
    text = plan(
        given("one") + "<condition><match>email[@re = $one/@id]</match></condition>",
        "<condition><match>email[@re = $one/@id]</match></condition>",
        '<note of="{$one/@id} and {$a/@id | $one/x}"/>',
    )
    assert faults_in(text) == []
    parsed = parse(Source("r.xml", text.encode()))
    (recipe,) = parsed.definitions
    assert recipe.names == {"one": (("ab", 0),)}
    assert recipe.steps["b"].values == {0: frozenset({"one", "a"})}
    assert recipe.transitions["ab"].inner_names == {"one"}
    assert recipe.transitions["bc"].plain
