"""Work as it is written: read by its vocabulary, with all that is wrong at once."""

from __future__ import annotations

import re

import pytest

from narval.core.definitions.library import Library, Parsed
from narval.core.definitions.parsing import doubts, parse, read_definition, warnings
from narval.core.definitions.people.directory import Directory, Person
from narval.core.source.text import Source
from narval.kinds.recipe.language.definition import Recipe
from narval.kinds.work.language.definition import WorkDefinition
from narval.kinds.work.language.fields import FormField

PURCHASE = """\
<work group="purchase" name="approve">
  <title>Approve {$request/@what} for {$request/@amount} €</title>
  <description>Asked by {$request/@by}.</description>
  <input id="request"><match>request</match></input>
  <output id="decision"><match>decision</match></output>
  <for roles="approver" not="requester step:first-look"/>
  <outcome name="approve" needs="2"/>
  <outcome name="reject"/>
  <field name="comment" type="text" required="reject">Why</field>
  <field name="limit" type="decimal" least="0" most="5000" default="{$request/@amount}"/>
  <remind after="1d" every="1d" times="3"/>
  <escalate after="3d" roles="director"/>
  <deadline after="5d" outcome="reject"><comment>nobody answered in time</comment></deadline>
  <otherwise outcome="reject"/>
  <ways names="terminal web mail"/>
</work>
"""


def read(text: str) -> Parsed:
    return parse(Source("recipes/w.xml", text.encode()))


def one(text: str) -> WorkDefinition:
    parsed = read(text)
    assert parsed.faults == (), parsed.faults
    (found,) = (each for each in parsed.definitions if isinstance(each, WorkDefinition))
    return found


def small(inside: str, **attributes: str) -> str:
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<work group="g" name="w"{written}><title>Well?</title>\n{inside}</work>'


def test_P1_P7_P40_all_that_is_written_is_read() -> None:
    work = one(PURCHASE)
    assert work.full_name == "purchase.approve"
    assert [(outcome.name, outcome.needs) for outcome in work.outcomes] == [("approve", 2), ("reject", 1)]
    assert [slot.id for slot in work.prototype.inputs] == ["request"]
    assert work.rules.excludes_requester
    assert work.rules.steps == ("first-look",)
    assert work.fields["comment"].required == {"reject"}
    assert work.fields["comment"].label == "Why"
    assert work.deadline is not None
    assert work.deadline.fields == {"comment": ("nobody answered in time",)}
    assert work.ways == ("terminal", "web", "mail")
    assert work.is_voted


def test_P7_what_memory_keeps_of_it_can_be_read_again() -> None:
    work = one(PURCHASE)
    again = read_definition("work", "recipes/w.xml", work.xml)
    assert (again.full_name, again.digest) == (work.full_name, work.digest)


def test_P7_several_stand_in_a_cookbook_beside_recipes() -> None:
    parsed = read(
        '<cookbook group="g"><work name="a"><title>A?</title></work>'
        '<recipe name="r" start_step="s" end_step="s"><step id="s" type="action" target="m.s"/></recipe>'
        '<work group="other" name="b"><title>B?</title></work></cookbook>'
    )
    assert parsed.faults == ()
    assert sorted(each.full_name for each in parsed.definitions) == ["g.a", "g.r", "other.b"]
    assert parsed.names == {("work", "g.a"), ("recipe", "g.r"), ("work", "other.b")}


def test_P8_a_step_has_its_work_within_it() -> None:
    parsed = read(
        '<recipe group="g" name="r" start_step="ask" end_step="ask">'
        '<step id="ask" type="work"><work><title>Well?</title></work></step></recipe>'
    )
    assert parsed.faults == ()
    recipe, work = parsed.definitions
    assert isinstance(recipe, Recipe)
    assert recipe.steps["ask"].target == work.full_name == "g.r:ask"
    assert [(each.kind, each.target) for each in recipe.references] == [("work", "g.r:ask")]
    assert read_definition("work", "recipes/w.xml", work.xml).digest == work.digest
    assert read_definition("recipe", "recipes/w.xml", recipe.xml).digest == recipe.digest


def test_P8_a_step_has_a_target_or_its_own_work_and_not_both() -> None:
    parsed = read(
        '<recipe group="g" name="r" start_step="ask" end_step="ask">\n'
        '<step id="ask" type="action" target="m.a"><work name="x"><title>Well?</title></work></step></recipe>'
    )
    assert [re.sub(r".*?:(\d+:\d+): ", r"\1 ", str(fault)) for fault in parsed.faults] == [
        "2:22 type: expected work, for that is within this step; found 'action'",
        "2:38 target: this step has its work within it; remove one of them",
        "2:55 name: work within a step is called g.r:ask; remove this",
    ]


def test_P9_values_are_found_in_texts_and_their_faults_at_their_character() -> None:
    parsed = read('<work group="g" name="w">\n<title>Is {$request/@what[} or {$nothing} all?</title></work>')
    (first, second) = sorted(parsed.faults)
    assert (first.line, first.column) == (2, 27)
    assert "this value is no XPath" in first.message
    assert (second.line, second.column) == (2, 33)
    assert "$nothing: expected the id of an input of this work" in second.message


def test_P12_there_is_one_outcome_where_none_is_named() -> None:
    work = one(small(""))
    assert [outcome.name for outcome in work.outcomes] == ["done"]
    assert (work.answer_name, work.ways) == ("decision", ("terminal", "web"))
    assert work.lease is not None
    assert work.lease.text == "1d"


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        ('<outcome name="claim"/>', "a name that is not an act's (acts: answer, claim, default"),
        ('<outcome name="default"/>', "claim, "),
        ('<outcome name="Yes"/>', "a word of small letters"),
        ('<outcome name="a"/><outcome name="a"/>', "expected a new outcome name"),
        ('<outcome name="a" needs="2"/><claim for="4h"/>', "no person has the work alone"),
        ('<otherwise outcome="done"/>', "no outcome needs several people"),
        ('<for not="asker"/>', "requester, or step: and the id of a step"),
        ('<for delegate="all"/>', "expected eligible"),
        ('<escalate after="3d"/>', "escalate needs people or roles"),
        ('<escalate after="3d" roles="a"/><escalate after="1d" roles="b"/>', "put them in order"),
        ("<deadline/>", "expected after, a length of time, or at, a date; found none"),
        ('<deadline after="5d" outcome="never"/>', "expected an outcome, found 'never'; there is 'done'"),
        ('<deadline after="5d"><x>1</x></deadline>', "expected a field of this work, found 'x'"),
        ('<field name="a" required="done"/><deadline after="5d" outcome="done"/>', "which has no default"),
        ('<field name="a" type="integer"/><deadline after="5d" outcome="done"><a>b</a></deadline>', "number"),
        ('<field name="a" type="choice"/>', "needs options"),
        ('<field name="a" type="yes-no"/>', "type: expected boolean, as it is called in a form"),
        ('<field name="a" type="number"/>', "type: expected decimal, as it is called in a form"),
        ('<field name="a" type="element"/>', "needs match"),
        ('<field name="a" least="3"/>', "least: says nothing of a field of type string"),
        ('<field name="a" type="date" least="soon"/>', "a date such as"),
        ('<field name="a" type="integer" least="5" most="3"/>', "least: expected 3 or less, which is most"),
        ('<field name="a" pattern="("/>', "pattern: "),
        ('<field name="a" type="integer" most="3" default="4"/>', "default: expected 3 or less, found '4'"),
        ('<field name="a" required="yse"/>', "required: expected all, or outcomes, found 'yse'"),
        ('<field name="vote"/>', "and not vote"),
        ('<remind after="1d" times="3"/>', "times needs every"),
        ('<ways names="terminal letter"/>', "expected some of terminal, web, file, mail"),
        ('<output id="o"><match>*</match></output>', "a match of one name"),
        ('<output id="o"><match>a</match></output><output id="p"><match>b</match></output>', "one answer"),
    ],
)
def test_P7_what_is_wrong_is_told_with_the_next_step(inside: str, told: str) -> None:
    faults = read(small(inside)).faults
    assert any(told in fault.message and fault.line == 2 for fault in faults), faults


@pytest.mark.parametrize(
    ("text", "number"),
    [("12,50", "12.50"), (" 12.50", "12.50"), ("1 250,5", "1250.5"), ("1.234,56", "1234.56"), ("-7", "-7"),
     ("1,250", None), ("12,50 €", None), ("12 USD", None), ("12,5,0", None), ("", None)],
)  # fmt: skip
def test_P42_a_number_may_have_a_comma_if_it_has_one_meaning(text: str, number: str | None) -> None:
    field = FormField("limit", "decimal")
    if number is not None:
        assert field.read(text) == number
        return
    with pytest.raises(ValueError, match="or 12,50"):
        field.read(text)


def test_P7_work_needs_a_group_a_name_and_a_title() -> None:
    assert [fault.message for fault in read("<work/>").faults] == [
        "work needs a title: one line that says what is asked; add <title>…</title>",
        "work needs the attribute 'group'; add group=\"…\"",
        "work needs the attribute 'name'; add name=\"…\"",
    ]


# --- P14 --------------------------------------------------------------------------------------------------

PEOPLE = Directory(
    (
        Person("ann", roles=("approver",)),
        Person("ben", roles=("approver",)),
        Person("cid", roles=("director",)),
    )
)


def test_P14_an_escalation_after_the_deadline_is_doubted() -> None:
    work = one(small('<escalate after="6d" roles="a"/><deadline after="5d"/>'))
    (warning,) = warnings([work], Library([work]))
    assert "this escalation comes after 6d, and the deadline 5d: it is never taken" in warning.message


def test_working_time_may_take_longer_than_other_time() -> None:
    escalated = '<escalate after="{}" roles="a"/>'
    for first, second in (("1d", "12h mon-fri 9-17"), ("4d", "3d mon-fri"), ("2d sun", "1d mon-fri")):
        one(small(escalated.format(first) + escalated.format(second)))
    for first, second in (("12h mon-fri 9-17", "8h mon-fri 9-17"), ("3d mon-fri", "2d")):
        (fault,) = read(small(escalated.format(first) + escalated.format(second))).faults
        assert "put them in order" in fault.message
    for after, deadline, count in (
        ("2d", "20h mon-fri 9-17", 0), ("6d", "5d mon-fri", 0), ("6d mon-fri", "5d mon-fri", 1),
        ("6d mon-fri", "5d", 1),
    ):  # fmt: skip
        work = one(small(f'{escalated.format(after)}<deadline after="{deadline}"/>'))
        assert len(list(warnings([work], Library([work])))) == count


def test_P40_a_field_that_all_outcomes_need_is_told_from_one_that_yes_needs() -> None:
    asked = '<outcome name="yes"/><outcome name="no"/><field name="why" required="{}"/>'
    all_of_them, only_yes, only_no = (one(small(asked.format(word))) for word in ("all", "yes", "no"))
    assert all_of_them.fields["why"].required == {"yes", "no"}
    assert only_yes.fields["why"].required == {"yes"}
    named = one(small('<outcome name="all"/><outcome name="some"/><field name="why" required="all"/>'))
    assert named.fields["why"].required == {"all"}, "an outcome has that name"
    (warning,) = warnings([all_of_them, only_yes, only_no], Library([only_yes]))
    said = "g.w: field 'why' is required for the outcome yes alone; for all outcomes write required=\"all\""
    assert warning.message == said


def test_P14_roles_that_nobody_holds_are_doubted() -> None:
    (doubt,) = doubts([one(small('<for roles="aprover director"/>'))], PEOPLE)
    assert doubt.message == "g.w: no person has the role 'aprover'; did you mean 'approver'?"


def test_P14_fewer_people_than_are_needed_are_doubted() -> None:
    asked = '<for roles="approver"{}/><outcome name="yes" needs="2"/>'
    assert doubts([one(small(asked.format("")))], PEOPLE) == []
    (doubt,) = doubts([one(small(asked.format(' not="requester"')))], PEOPLE)
    assert "outcome 'yes' needs 2, and 1 of 2 people may answer when requester may not" in doubt.message


def test_P14_a_deadline_without_outcome_wants_an_error_link() -> None:
    text = (
        '<cookbook group="g"><work name="w"><title>Well?</title><deadline after="5d"/></work>'
        '<recipe name="r" start_step="ask" end_step="z"><step id="ask" type="work" target="g.w"/>'
        '<step id="z" type="action" target="m.z"/>'
        '<transition id="t"><in idref="ask"/><out idref="z"/></transition>{}</recipe></cookbook>'
    )
    parsed = read(text.format(""))
    assert parsed.faults == ()
    (warning,) = warnings(parsed.definitions, Library(parsed.definitions))
    assert "step 'ask': g.w may expire, and no error link takes that up" in warning.message
    link = '<transition id="e"><in idref="ask" on-error="yes"/><out idref="z"/></transition>'
    parsed = read(text.format(link))
    assert warnings(parsed.definitions, Library(parsed.definitions)) == []


def test_P14_a_condition_after_work_that_takes_any_answer_is_doubted() -> None:
    text = (
        '<cookbook group="g"><work name="w"><title>Well?</title></work>'
        '<recipe name="r" start_step="ask" end_step="z"><step id="ask" type="work" target="g.w"/>'
        '<step id="z" type="action" target="m.z"/><transition id="t"><in idref="ask"/><out idref="z"/>'
        "<condition><match>{}[@outcome='done']</match></condition></transition></recipe></cookbook>"
    )
    parsed = read(text.format("decision"))
    (warning,) = warnings(parsed.definitions, Library(parsed.definitions))
    assert warning.warning
    assert warning.message == (
        "transition 't': decision[@outcome='done'] takes any decision in memory; "
        "write $ask in place of decision, which is the answer to step 'ask'"
    )
    for well in ("$ask", "decision[@work=$ask/@work]", "request"):
        parsed = read(text.format(well))
        assert warnings(parsed.definitions, Library(parsed.definitions)) == [], well


# --- P71 --------------------------------------------------------------------------------------------------

IN_A_NODE = """
<process-definition name="p" group="g">
 <node name="ask" type="work" isStart="true"><custom><work><title>Well?</title></work></custom></node>
</process-definition>
"""


def test_P71_a_node_has_its_work_within_it() -> None:
    parsed = read(IN_A_NODE)
    assert parsed.faults == ()
    process, work = parsed.definitions
    assert (process.kind, work.kind) == ("process", "work")
    assert [(each.kind, each.target) for each in process.references] == [("work", "g.p:ask")]
    assert work.full_name == "g.p:ask"
    assert read_definition("process", "recipes/w.xml", process.xml).digest == process.digest


def test_P71_a_node_has_a_target_or_its_own_work_and_not_both() -> None:
    (fault,) = read(IN_A_NODE.replace("<custom>", "<custom><target>g.w</target>")).faults
    assert "this node has its work within it; remove one of them" in fault.message


def test_P71_custom_data_of_other_nodes_is_left_alone() -> None:
    parsed = read(IN_A_NODE.replace('type="work" ', ""))
    assert parsed.faults == ()
    assert [each.kind for each in parsed.definitions] == ["process"]
