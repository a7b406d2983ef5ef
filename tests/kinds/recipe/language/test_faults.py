"""All that may be wrong with a recipe, each with its exact place, all at once (N13).

In the texts below a `§` stands before each character where a fault is expected.
"""

from __future__ import annotations

import re

import pytest

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library, check_targets
from narval.core.definitions.parsing import parse
from narval.core.definitions.prototype import Input, Output, Prototype
from narval.core.errors import DefinitionError, Fault
from narval.core.source.text import Source

PATH = "recipes/mail.xml"


def action(name: str, *inputs: Input, outputs: tuple[Output, ...] = ()) -> Action:
    prototype = Prototype(inputs, outputs)
    return Action(group="mail", name=name, function=name, prototype=prototype, path="modules/mail.py")


MAIL = [
    action("fetch", Input("box", "mailbox"), outputs=(Output("mails", "email", list=True),)),
    action("send", Input("mail", "email", use=True), Input("signature", "signature", optional=True)),
    action("merge", Input("left", "email"), Input("right", "*", list=True)),
]


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its marks, and their places."""
    places = []
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        while (at := line.find("§")) >= 0:
            places.append((number, at + 1))
            line = line[:at] + line[at + 1 :]
        lines.append(line)
    return "\n".join(lines), sorted(places)


def faults_in(text: str, definitions: list[Definition] = MAIL, broken: dict | None = None) -> list[Fault]:
    """All the faults of a file, within it and with regard to a library; each must be where a mark is."""
    plain, places = marked(text)
    parsed = parse(Source(PATH, plain.encode()))
    library = Library(definitions).replace(parsed.definitions)
    faults = sorted([*parsed.faults, *check_targets(parsed.references, library, broken)])
    assert [(fault.line, fault.column) for fault in faults] == places, "\n".join(map(str, faults))
    return faults


def fault_in(text: str, **given: object) -> str:
    (fault,) = faults_in(text, **given)
    return fault.message


def recipe(within: str, attributes: str = 'start_step="a" end_step="a"') -> str:
    return f'<recipe group="mail" name="triage" {attributes}>\n{within}\n</recipe>'


A = '<step id="a" type="action" target="mail.fetch"/>\n'
B = '<step id="b" type="action" target="mail.fetch"/>\n'
AB = A + B + '<transition id="ab"><in idref="a"/><out idref="b"/></transition>\n'


def test_N13_a_file_with_ten_faults_reports_ten_each_at_its_place() -> None:
    faults = faults_in(
        """<?xml version="1.0"?>
<cookbook group="mail">
  <recipe name="triage" start_step="read" end_step="§sent">
    <step id="read" type="action" target="§mail.fetchh"/>
    <step id="ack" type="action" target="mail.send" foreach="email[@to §&amp; @from]"/>
    <step id="§ack" type="action" target="mail.send"/>
    <step id="§lost" type="action" target="mail.fetch"/>
    <step id="tell" type="action" target="mail.send" wait="§3"/>
    <transition id="t1">
      <in idref="read"/>
      <out idref="§akc"/>
      <condition><match>email[@in-reply-to = §$aks/@message-id]</match></condition>
    </transition>
    <transition id="t2" priority="1"><in idref="ack"/><out idref="tell"/></transition>
    <transition id="t3"><in idref="tell"/><out idref="§read"/>
      <context from="§here"><match>x</match></context></transition>
  </recipe>
</cookbook>
""".replace('§wait="3"', 'wait="§3"')
    )
    assert [fault.message.partition(";")[0] for fault in faults] == [
        "end_step: expected the id of a step, found 'sent'",
        "step 'read': there is no action 'mail.fetchh'",
        "foreach is no XPath that narval can try: unexpected '&'",
        "expected a new step id, found 'ack' of line 5 again",
        "step 'lost' cannot be reached from the start step 'read': no transition leads to it",
        "step has no attribute 'wait'",
        "out: expected the id of a step, found 'akc'",
        "$aks: expected the id of a step or the name of a condition of this recipe, found 'aks'",
        "a step runs once in a plan, but this leads back to 'read' (read → ack → tell → read)",
        "from: expected memory or plan, found 'here'",
    ]


def test_a_fault_reads_as_file_line_column_and_message() -> None:
    (fault,) = faults_in(recipe(A, 'start_step="a" end_step="§b"'))
    assert str(fault) == f"{PATH}:1:61: end_step: expected the id of a step, found 'b'; there is 'a'"


# --- ids and links --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'§<recipe name="r" start_step="a" end_step="a">{A}</recipe>', "recipe needs the attribute 'group'"),
        (f'§<recipe group="g" start_step="a" end_step="a">{A}</recipe>', "recipe needs the attribute 'name'"),
        (f'§<recipe group="g" name="r" end_step="a">{A}</recipe>', "recipe needs the attribute 'start_step'"),
        (f'§<recipe group="g" name="r" start_step="a">{A}</recipe>', "recipe needs the attribute 'end_step'"),
        (f'<recipe group="§a.b" name="r" start_step="a" end_step="a">{A}</recipe>', "a name without dots"),
        (recipe('§<step type="action" target="mail.fetch"/>' + A), "step needs the attribute 'id'"),
        (recipe('§<step id="a" target="mail.fetch"/>'), "step needs the attribute 'type'"),
        (recipe('§<step id="a" type="action"/>'), "step needs the attribute 'target'"),
        (recipe(A + '<step id="§a" type="action" target="mail.fetch"/>'), "found 'a' of line 2 again"),
        (
            recipe(AB + '<transition id="§ab"><in idref="a"/><out idref="b"/></transition>'),
            "found 'ab' of line 4",
        ),
        (recipe(A, 'start_step="§b" end_step="a"'), "start_step: expected the id of a step, found 'b'"),
        (
            recipe(AB + '<transition id="t"><in idref="§c"/><out idref="b"/></transition>'),
            "there is 'a', 'b'",
        ),
        (recipe(AB + '<transition id="t"><in idref="a"/><out idref="§c"/></transition>'), "found 'c'"),
        (
            recipe(AB + '<transition id="t">§<in/><out idref="b"/></transition>'),
            "in needs the attribute 'idref'",
        ),
        (
            recipe(AB + '§<transition id="t"><out idref="b"/></transition>'),
            "transition needs an in that says from",
        ),
        (
            recipe(AB + '§<transition id="t"><in idref="a"/></transition>'),
            "transition needs an out that says to",
        ),
        (recipe(AB.replace("<out", '<in idref="§a"/><out')), "in names the step 'a' a second time"),
    ],
)
def test_N13_ids_are_there_once_and_links_lead_somewhere(text: str, message: str) -> None:
    assert message in fault_in(text)


def test_N13_two_recipes_of_one_name_are_a_fault() -> None:
    one = '<recipe name="{}r" start_step="a" end_step="a">' + A + "</recipe>\n"
    told = fault_in(f'<cookbook group="g">{one.format("")}{one.format("§")}</cookbook>')
    assert told == "expected a new name, found g.r of line 1 again"


# --- the graph ------------------------------------------------------------------------------------------


def test_N13_a_step_without_a_way_to_it_cannot_be_reached() -> None:
    told = fault_in(recipe(A + B.replace('"b"', '"§b"')))
    assert told == (
        "step 'b' cannot be reached from the start step 'a': no transition leads to it; link or remove it"
    )


def test_N13_a_join_needs_all_its_steps_so_what_follows_cannot_be_reached_either() -> None:
    text = recipe(f"""{A}{B.replace('"b"', '"§b"')}<step id="§c" type="action" target="mail.fetch"/>
<transition id="both"><in idref="a"/><in idref="b"/><out idref="c"/></transition>""")
    assert "transition 'both' needs 'b', which cannot be reached either" in faults_in(text)[1].message


def test_a_misspelt_link_is_one_fault_and_not_an_unreachable_step_too() -> None:
    text = recipe(
        """<step id="read" type="action" target="mail.fetch"/>
<step id="answer" type="action" target="mail.fetch"/>
<transition id="t"><in idref="read"/><out idref="§anwser"/></transition>""",
        'start_step="read" end_step="answer"',
    )
    assert fault_in(text).endswith("did you mean 'answer'?")


def test_N13_a_cycle_is_shown_with_the_way_round() -> None:
    text = recipe(AB + '<transition id="ba"><in idref="b"/><out idref="§a"/></transition>')
    told = fault_in(text)
    assert "leads back to 'a' (a → b → a)" in told
    assert 'until, restart="yes"' in told


def test_N13_a_step_that_leads_to_itself_is_a_cycle() -> None:
    assert "(a → a)" in fault_in(
        recipe(A + '<transition id="t"><in idref="a"/><out idref="§a"/></transition>')
    )


def test_N13_ways_that_part_and_meet_again_are_no_cycle() -> None:
    steps = "".join(f'<step id="{each}" type="action" target="mail.fetch"/>' for each in "abcd")
    links = "".join(
        f'<transition id="{first}{then}"><in idref="{first}"/><out idref="{then}"/></transition>'
        for first, then in ["ab", "ac", "bd", "cd"]
    )
    assert faults_in(recipe(steps + links)) == []


def test_an_error_link_leads_to_a_step_as_others_do() -> None:
    text = recipe(AB.replace('<in idref="a"/>', '<in idref="a" on-error="yes"/>'))
    assert faults_in(text) == []


def test_a_long_chain_is_checked_without_recursion() -> None:
    count = 3000
    steps = "".join(f'<step id="s{n}" type="action" target="mail.fetch"/>' for n in range(count))
    links = "".join(
        f'<transition id="t{n}"><in idref="s{n}"/><out idref="s{n + 1}"/></transition>'
        for n in reversed(range(count - 1))
    )
    assert faults_in(recipe(steps + links, f'start_step="s0" end_step="s{count - 1}"')) == []


# --- targets --------------------------------------------------------------------------------------------


def step(rest: str, target: str = "mail.send", type: str = "action") -> str:
    return recipe(f'<step id="a" type="{type}" target="{target}" {rest}</step>')


@pytest.mark.parametrize(
    "text",
    [
        step('foreach="email[@to = §$each/@to]">'),
        step('><arguments><a b="{§$each/@to}"/></arguments>'),
    ],
)
def test_N47_where_the_element_of_a_call_stands_for_nothing_it_is_said_where_it_does(text: str) -> None:
    told = fault_in(text)
    assert (
        told
        == "$each: the element of a call may be used only in arguments and inputs, of a step with foreach"
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ('<a><b foreach="§$x"/></a>', "such as \"$item in $order/item\", found '$x'"),
        ('<a><b foreach="$x in §$nobody/i"/></a>', "$nobody: expected the id of a step"),
        ('<a><b foreach="$x in §$a/@i"/></a>', "foreach: expected a path to elements"),
        ('<a><b foreach="$x in $a/§["/></a>', "foreach: "),
        ('<a><b foreach="$x in $a/i"/><c>{§$x}</c></a>', "$x: expected the id of a step"),
        ("<a b=\"{date-add($a/@d, §'soon')}\"/>", "date-add() expects a length of time such as"),
        ('<a b="{date-add($a/@d, §$a/@e)}"/>', "date-add() expects a length of time such as"),
        ("<a b=\"{days-between($a/@d, $a/@e, §'mon-fry')}\"/>", "days-between() expects * or a list"),
        ("<a b=\"{$a/b[§date-add(., '1d') = '']}\"/>", "date-add() is outside of a predicate"),
        ("<a b=\"{§date-ad($a/@d, '1d')}\"/>", "unknown function date-ad(); did you mean date-add()?"),
        ('<a b="{§$each/@x}"/>', "$each: the element of a call may be used only in arguments and inputs"),
    ],
)
def test_N42_values_are_read_with_the_file(argument: str, message: str) -> None:
    assert message in fault_in(step(f"><arguments>{argument}</arguments>"))


def test_N42_what_is_repeated_has_its_name_within_it_alone() -> None:
    inside = '<a><b foreach="$x in $a/i" c="{$x/@c}">{$x/@d}<d foreach="$y in $x/i">{$y}{$x}</d></b></a>'
    assert faults_in(step(f"><arguments>{inside}</arguments>")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            recipe('<step id="a" type="§actoin" target="mail.send"/>'),
            "found 'actoin'; did you mean 'action'?",
        ),
        (
            recipe('<step id="a" type="action" target="§send"/>'),
            "a full name, such as group.name, found 'send'",
        ),
        (
            recipe('<step id="a" type="action" target="§mail.sned"/>'),
            "there is no action 'mail.sned'; did you mean",
        ),
        (
            recipe('<step id="a" type="transform" target="§mail.send"/>'),
            "to call the action of that name, write type='action'",
        ),
        (recipe('<step id="a" type="transform" target="§mail.page"/>'), "no transform is loaded"),
    ],
)
def test_N13_targets_must_be_there(text: str, message: str) -> None:
    assert message in fault_in(text)


def test_N13_a_target_whose_file_did_not_load_is_told_so() -> None:
    text = recipe('<step id="a" type="action" target="§feeds.read"/>')
    told = fault_in(text, broken={("action", "feeds"): "modules/feeds.py"})
    assert told == (
        "step 'a': there is no action 'feeds.read', because modules/feeds.py did not load; "
        "correct its faults first"
    )


def test_a_recipe_may_call_another_of_its_file_and_itself() -> None:
    text = recipe('<step id="a" type="recipe" target="mail.triage"/>')
    assert faults_in(text) == []


def test_N13_a_foreach_that_fits_no_input_is_refused() -> None:
    told = fault_in(step('foreach="§feed">'))
    assert told == (
        "what foreach selects fits no input of mail.send; its inputs: mail (email), signature (signature)"
    )


def test_a_foreach_of_which_arguments_are_made_may_fit_no_input() -> None:
    text = recipe(
        "<step id='a' type='action' target='mail.send' foreach='feed'>"
        "<arguments><email to='{$each/@mail}'/></arguments></step>"
    )
    assert faults_in(text) == []


@pytest.mark.parametrize(
    ("foreach", "right"),
    [("email", "*"), ("email[@to]", "*"), ("email", "note | email"), ("email[@to]", "email[@to]")],
)
def test_N13_a_foreach_that_fits_two_inputs_is_refused(foreach: str, right: str) -> None:
    tightened = f'<input id="right"><match>{right}</match></input>'
    assert "fits the inputs 'left' and 'right' of mail.merge" in fault_in(
        step(f'foreach="§{foreach}">{tightened}', "mail.merge")
    )


def test_N13_a_step_may_tighten_its_target_so_that_a_foreach_fits_one() -> None:
    text = step('foreach="email"><input id="right"><match>note</match></input>', "mail.merge")
    assert faults_in(text) == []


@pytest.mark.parametrize("foreach", ["email[@to]", "*", "email | feed", "*[@to]"])
def test_N17_what_cannot_be_proved_is_left_to_the_run(foreach: str) -> None:
    assert faults_in(step(f'foreach="{foreach}">')) == []


def test_N19_a_recipe_may_be_called_for_each() -> None:
    assert faults_in(step('foreach="email">', "mail.triage", "recipe")) == []


def test_N14_forbidden_overrides_are_shown_at_their_values() -> None:
    faults = faults_in(
        step(""">
      <input id="mail" use="§no" optional="§yes" list="no"/>
      <input id="§sig"/>
      <output id="§answer"/>
    """)
    )
    assert faults[0].message.startswith("a step cannot change 'use' of the input 'mail' from yes to no")
    assert (
        "expected the id of an input of the target, found 'sig'; there is 'mail', 'signature'"
        in faults[2].message
    )
    assert faults[3].message.endswith("; the target has no output")


def test_N14_a_recipe_has_no_prototype_to_tighten() -> None:
    assert "a recipe has no inputs and outputs" in fault_in(
        step('>§<input id="x"/>', "mail.triage", "recipe")
    )


def test_a_prefix_means_one_thing_within_an_input() -> None:
    text = step("""><input id="mail"><match xmlns:a="urn:a">a:x</match>
      §<match xmlns:a="urn:b">a:y</match></input>""")
    assert fault_in(text) == "the prefix 'a' means something else here; use another prefix"


def test_two_input_nodes_for_one_input_are_a_fault() -> None:
    assert "found 'mail' of line 2 again" in fault_in(step('><input id="mail"/><input id="§mail"/>'))


# --- patterns -------------------------------------------------------------------------------------------


def condition(match: str, rest: str = "") -> str:
    return recipe(AB.replace("</transition>", f"<condition>{match}</condition>{rest}</transition>"))


def test_N13_a_bad_xpath_in_an_attribute_is_shown_at_its_character() -> None:
    faults = faults_in(step("foreach=\"email[@a='&lt;' § and]\">").replace(" § and]", " and§]"))
    assert faults[0].message.startswith("foreach is no XPath that narval can try: ")


def test_N13_a_bad_xpath_in_a_match_is_shown_at_its_character() -> None:
    text = condition("<match>\n   email[@a='&amp;'<!-- why -->  and§]\n</match>")
    assert fault_in(text).startswith("match is no XPath that narval can try: ")


@pytest.mark.parametrize(
    "text",
    [
        condition("<match>§$c/@id = 1</match>"),
        condition("<match>email[@x = §$c]</match>"),
        step('foreach="email[@x=§$c]">'),
        step('><context from="plan"><match>email[@x=§$c/@y]</match></context>'),
        step('><output id="mails"><match>email[@x=§$c/@y]</match></output>', "mail.fetch"),
    ],
)
def test_N13_a_variable_names_a_step(text: str) -> None:
    assert fault_in(text).startswith(
        "$c: expected the id of a step or the name of a condition of this recipe, found 'c'; there is 'a', "
    )


def test_N10_a_variable_may_be_any_step_or_the_plan() -> None:
    assert faults_in(condition("<match>email[@a = $a/@id][@b = $b/@id][@p = $plan/@eid]</match>")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (condition("§<match> <!-- none --> </match>"), "match is empty; write an XPath"),
        (recipe(AB.replace("</transition>", "§<condition/></transition>")), "condition needs a match"),
        (condition("<match>x</match>", '§<context from="plan"/>'), "context needs a match that says which"),
        (condition("<match>x</match>", '<context from="§disk"><match>y</match></context>'), "memory or plan"),
        (
            condition("<match>x</match>", "§<context><match>y</match></context>"),
            "context needs the attribute 'from'",
        ),
        (
            step(
                '><context from="plan"><match>x</match></context>'
                '§<context from="plan"><match>y</match></context>'
            ),
            "step may have one context",
        ),
    ],
)
def test_N13_conditions_and_contexts_say_what_they_look_for(text: str, message: str) -> None:
    assert message in fault_in(text)


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            recipe(A, 'start_step="a" end_step="a" restart="§true"'),
            "restart: expected yes, no or parallel, found 'true'",
        ),
        (recipe(A, 'start_step="a" end_step="a" decay="§soon"'), "decay: expected a number of seconds"),
        (recipe(A, 'start_step="a" end_step="a" decay="§-1"'), "decay: expected a number of seconds"),
        (step('timeout="§0">'), "timeout: expected more than 0 seconds, found '0'"),
        (step('timeout="§inf">'), "timeout: expected a number of seconds"),
        (step('retries="§1.5">'), "retries: expected a whole number of 0 or more, found '1.5'"),
        (step('backoff="§x">'), "backoff: expected a number of seconds"),
        (step('until="§x">'), 'until needs every, the time from one call to the next; add every="1d"'),
        (step('every="§1d">'), "every needs until, a pattern: an element that fits it ends the calls"),
        (
            step('until="x" every="1d" foreach="§email">'),
            "foreach: a step with until is called for no element",
        ),
        (step('until="x" every="§0d">'), "every: expected a length of time such as"),
        (step('until="x" every="§1d mon-fry">'), 'weekdays may follow, such as "1d mon-fri"'),
        (step('until="x" every="§2 dayz">'), 'a length of time such as "3d"'),
        (step('until="x[§" every="1d">'), "until is no XPath that narval can try"),
        (
            step('until="x[@a = §$b/@a]" every="1d">'),
            "$b: expected the id of a step or the name of a condition of this recipe",
        ),
        (step('max-parallel="§0">'), "max-parallel: expected a whole number of 1 or more"),
        (step('on-restart="§again">'), "on-restart: expected retry or error, found 'again'"),
        (
            recipe(AB.replace('id="ab"', 'id="ab" priority="§1.0"')),
            "priority: expected a whole number, found '1.0'",
        ),
        (
            recipe(AB.replace('"a"/><out', '"a" on-error="§1"/><out')),
            "on-error: expected yes or no, found '1'",
        ),
        (
            recipe(
                AB.replace("</transition>", '<condition use="§on"><match>x</match></condition></transition>')
            ),
            "use: expected yes or no",
        ),
        (
            recipe(
                AB.replace(
                    "</transition>", '<condition for="§soon"><match>x</match></condition></transition>'
                )
            ),
            'for: expected a number of seconds or a text such as "30s", "5m", "2h", "1d", found \'soon\'',
        ),
        (
            recipe(
                AB.replace("</transition>", '<condition for="§0m"><match>x</match></condition></transition>')
            ),
            "for: expected more than no time, such as \"10m\", found '0m'",
        ),
        (
            recipe(
                AB.replace('"a"/><out', '"a" on-error="yes"/><out').replace(
                    "</transition>", '<condition for="§10m"><match>x</match></condition></transition>'
                )
            ),
            "for: the conditions of an error link hold when its step has failed, or never; remove this",
        ),
    ],
)
def test_N13_numbers_and_switches_are_checked(text: str, message: str) -> None:
    assert message in fault_in(text)


def test_N40_a_source_is_not_called_again() -> None:
    source = Action(group="mail", name="send", function="send", where="source", path="modules/mail.py")
    message = fault_in(step('until="§x" every="1d">'), definitions=[source])
    assert "mail.send is a source, which goes on by itself: it is not called again; remove this" in message


# --- vocabulary -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (recipe(A + "§<stp/>"), "unexpected element 'stp' in recipe; did you mean 'step'?"),
        (
            recipe(A + "§<match>x</match>"),
            "unexpected element 'match' in recipe; it belongs in condition or context",
        ),
        (
            recipe(A + '§<step:x xmlns:step="http://www.logilab.org/namespaces/Narval/1.2"/>'),
            "unexpected element 'x'",
        ),
        (step('><input id="mail"><match>x§<b/></match></input>'), "unexpected element 'b' in match"),
        (
            step('restart="§yes">'),
            "step has no attribute 'restart'; it belongs in <recipe>",
        ),
        (step('forech="§email">'), "step has no attribute 'forech'; did you mean 'foreach'?"),
        (
            recipe(AB.replace("<out ", '<out on-error="§yes" ')),
            "out has no attribute 'on-error'; it belongs in <in>; there is 'idref'",
        ),
        (
            recipe(AB.replace('"a"/><out', '"a" on-error="no" onError="§yes"/><out')),
            "on-error is given twice",
        ),
        (
            step('><output id="mail" use="§yes"/>', "mail.fetch").replace('id="mail"', 'id="mails"'),
            "output has no attribute 'use'",
        ),
    ],
)
def test_N13_words_that_narval_does_not_know_are_faults(text: str, message: str) -> None:
    assert message in fault_in(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- x -->§<recipes/>", "recipe or automaton or process-definition or work, found recipes"),
        ("§<p:recipe xmlns:p='urn:o'/>", "process-definition or work, found {urn:o}recipe"),
    ],
)
def test_a_file_with_another_root_is_not_read_at_all(text: str, message: str) -> None:
    plain, places = marked(text)
    with pytest.raises(DefinitionError, match=re.escape(message)) as caught:
        parse(Source(PATH, plain.encode()))
    assert [(fault.line, fault.column) for fault in caught.value.faults] == places


def test_a_file_that_is_nothing_but_faults_is_not_read_to_its_end() -> None:
    text = recipe(A + "<x/>" * 5000)
    parsed = parse(Source(PATH, text.encode()))
    assert len(parsed.faults) == 200
    assert parsed.definitions == ()


def test_a_recipe_with_a_fault_in_one_place_has_its_others_told_too() -> None:
    faults = faults_in("""<cookbook group="mail">
      <recipe name="one" start_step="§x" end_step="a"><step id="a" type="action" target="§mail.x"/></recipe>
      <recipe name="two" start_step="a" end_step="a"><step id="a" type="action" target="§mail.y"/></recipe>
    </cookbook>""")
    assert len(faults) == 3
