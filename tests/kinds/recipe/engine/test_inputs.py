"""What a step is given: contexts, prototypes, ranks, missing inputs (N3, N10, N14, N15, N16, N17)."""

from unittest.mock import patch

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.elements.element import Origin
from narval.core.patterns.pattern import Bound
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

TRY = Bound.test
MAIL = Input("mail", "mail")
TAKES_MAIL = action("m.z", [MAIL])
GIVES_MAIL = action("m.a", (), [Output("mail", "mail", optional=True)])


def two_steps(*inside_of_transition: str, **attributes: str) -> str:
    """`a` gives a mail or none, `t` may ask for one, `z` takes one."""
    t = transition("t", "a", "z", *inside_of_transition)
    return recipe("g.r", step("a"), step("z", **attributes), t)


# --- N15: the ranks ---------------------------------------------------------------------------------------


def test_N15_rank_1_an_argument_is_nearer_than_anything() -> None:
    said = Dialogue(two_steps("mail", inside='<arguments><mail from="argument"/></arguments>'))
    said.load(GIVES_MAIL, TAKES_MAIL)
    said.start("g.r")
    said.returned("a", "<mail from='a'/>")
    (given,) = said.inputs("z")["mail"]
    assert said.xml(given) == '<mail from="argument"/>'


def test_N15_rank_1_what_the_context_of_the_step_selects_in_memory_is_promoted() -> None:
    said = Dialogue(
        two_steps("mail[@first]", inside='<context from="memory"><match>*[@vip]</match></context>')
    )
    said.load(GIVES_MAIL, TAKES_MAIL)
    said.add("<mail/>")
    vip = said.add("<mail vip='yes'/>")
    said.start("g.r")
    said.returned("a", "<mail first='yes'/>")
    assert said.inputs("z") == {"mail": (vip,)}


def test_N15_rank_1_a_context_from_the_plan_looks_in_the_plan_alone() -> None:
    said = Dialogue(two_steps(inside='<context from="plan"><match>*[@vip]</match></context>'))
    said.load(GIVES_MAIL, TAKES_MAIL)
    said.add("<mail vip='elsewhere'/>")
    ours = said.add("<mail vip='here'/>")
    said.start("g.r", [ours])
    said.returned("a", "<mail/>")
    assert said.inputs("z") == {"mail": (ours,)}


def test_N15_the_matches_of_a_context_are_alternatives() -> None:
    context = '<context from="memory"><match>mail[@vip]</match><match>mail[@urgent]</match></context>'
    said = Dialogue(two_steps(inside=context), GIVES_MAIL, TAKES_MAIL)
    urgent = said.add("<mail urgent='yes'/>")
    said.add("<mail vip='yes'/>")
    said.start("g.r")
    said.returned("a", "<mail/>")
    assert said.inputs("z") == {"mail": (urgent,)}


def test_N15_a_context_promotes_and_does_not_exclude_the_rest() -> None:
    said = Dialogue(two_steps(inside='<context from="memory"><match>mail[@vip]</match></context>'))
    said.load(GIVES_MAIL, TAKES_MAIL)
    said.start("g.r")
    said.returned("a", "<mail/>")
    assert said.inputs("z") == {"mail": (said.named("mail")[0].eid,)}


def test_N15_rank_2_what_validated_the_transition_is_nearer_than_what_the_in_step_produced() -> None:
    said = Dialogue(two_steps("mail[@from='outside']"), GIVES_MAIL, TAKES_MAIL)
    outside = said.add("<mail from='outside'/>")
    said.start("g.r")
    said.returned("a", "<mail from='a'/>")
    assert said.inputs("z") == {"mail": (outside,)}


def test_N15_rank_2_within_it_the_oldest_element_is_first_whatever_the_order_of_the_conditions() -> None:
    said = Dialogue(two_steps("mail[@b]", "mail[@a]"), GIVES_MAIL, TAKES_MAIL)
    older, _ = said.add("<mail a='1'/>"), said.add("<mail b='1'/>")
    said.start("g.r")
    said.returned("a")
    assert said.inputs("z") == {"mail": (older,)}


def test_N15_rank_3_what_the_in_steps_produced_is_nearer_than_the_plans_context() -> None:
    said = Dialogue(two_steps(), GIVES_MAIL, TAKES_MAIL)
    first = said.add("<mail/>")
    said.start("g.r", [first])
    said.returned("a", "<mail from='a'/>")
    (given,) = said.inputs("z")["mail"]
    assert given != first
    assert said.memory.element(given).origin.step == "a"


def test_N15_rank_3_is_of_the_transition_that_led_here_and_not_of_steps_before() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            *(step("a"), step("b"), step("z")),
            *(transition("t", "a", "b"), transition("u", "b", "z")),
        ),
        *(GIVES_MAIL, action("m.b", (), [Output("mail", "mail")]), TAKES_MAIL),
    )
    said.start("g.r")
    said.returned("a", "<mail from='a'/>")
    said.returned("b", "<mail from='b'/>")
    (given,) = said.inputs("z")["mail"]
    assert said.memory.element(given).origin.step == "b"


def test_N15_rank_4_the_plans_context_is_nearer_than_the_rest_of_memory() -> None:
    said = Dialogue(two_steps(), GIVES_MAIL, TAKES_MAIL)
    said.add("<mail older='yes'/>")
    first = said.add("<mail/>")
    said.start("g.r", [first])
    said.returned("a")
    assert said.inputs("z") == {"mail": (first,)}


def test_N15_rank_4_within_the_context_the_oldest_element_is_first_whenever_it_joined() -> None:
    # The younger mail is in the context from the start, the older one joins when it triggers a transition.
    said = Dialogue(
        recipe(
            "g.r",
            *(step("a"), step("b"), step("z")),
            *(transition("t", "a", "b", "mail[@older]"), transition("u", "b", "z")),
        ),
        *(GIVES_MAIL, action("m.b"), TAKES_MAIL),
    )
    older, younger = said.add("<mail older='yes'/>"), said.add("<mail/>")
    run = said.start("g.r", [younger])
    said.returned("a")
    said.returned("b")
    assert list(said.context(run)) == [older, younger]
    assert said.inputs("z") == {"mail": (older,)}


def test_N15_rank_6_is_the_whole_memory_and_the_oldest_there() -> None:
    said = Dialogue(two_steps(), GIVES_MAIL, TAKES_MAIL)
    oldest, _ = said.add("<mail/>"), said.add("<mail/>")
    said.start("g.r")
    said.returned("a")
    assert said.inputs("z") == {"mail": (oldest,)}


CALLS = {"type": "recipe", "target": "g.inner"}
OUTER = recipe("g.outer", step("a"), step("z", **CALLS), transition("t", "a", "z"))
INNER = recipe("g.inner", step("a", "m.z"), end="a")


def test_N15_rank_5_a_callers_context_is_nearer_than_memory() -> None:
    said = Dialogue(OUTER, INNER, GIVES_MAIL, TAKES_MAIL)
    said.add("<mail/>")
    held = said.add("<mail/>")
    said.start("g.outer", [held])
    said.returned("a")
    inner = said.begins("z")
    assert said.inputs("a", inner) == {"mail": (held,)}


def test_N15_rank_5_is_the_search_of_the_calling_step_in_its_order() -> None:
    # For the calling step: the transition's elements, then what its in-step produced, then the context.
    outer = recipe(
        "g.outer", step("a"), step("z", **CALLS), transition("t", "a", "z", "mail[@from='outside']")
    )
    said = Dialogue(outer, INNER, GIVES_MAIL, TAKES_MAIL)
    held, outside = said.add("<mail/>"), said.add("<mail from='outside'/>")
    said.start("g.outer", [held])
    said.returned("a", "<mail from='a'/>")
    inner = said.begins("z")
    assert said.inputs("a", inner) == {"mail": (outside,)}


def test_N15_rank_5_what_the_in_step_of_the_calling_step_produced_comes_before_the_callers_context() -> None:
    said = Dialogue(OUTER, INNER, GIVES_MAIL, TAKES_MAIL)
    held = said.add("<mail/>")
    said.start("g.outer", [held])
    said.returned("a", "<mail from='a'/>")
    inner = said.begins("z")
    (given,) = said.inputs("a", inner)["mail"]
    assert said.memory.element(given).origin.step == "a"


def test_N15_rank_5_the_context_node_of_the_calling_step_promotes_for_the_run_it_calls() -> None:
    inside = '<context from="memory"><match>mail[@vip]</match></context>'
    outer = recipe("g.outer", step("a"), step("z", inside=inside, **CALLS), transition("t", "a", "z"))
    said = Dialogue(outer, INNER, GIVES_MAIL, TAKES_MAIL)
    held, vip = said.add("<mail/>"), said.add("<mail vip='yes'/>")
    said.start("g.outer", [held])
    said.returned("a", "<mail from='a'/>")
    inner = said.begins("z")
    assert said.inputs("a", inner) == {"mail": (vip,)}


def test_N15_rank_5_goes_on_outward_to_the_callers_caller() -> None:
    outermost = recipe("g.first", step("a", "g.outer", type="recipe"), end="a")
    said = Dialogue(outermost, OUTER, INNER, GIVES_MAIL, TAKES_MAIL)
    said.add("<mail/>")
    held = said.add("<mail/>")
    said.start("g.first", [held])
    outer = said.begins("a")
    said.returned("a", run=outer)
    inner = said.begins("z", outer)
    assert said.inputs("a", inner) == {"mail": (held,)}


def test_N15_rank_5_the_run_itself_comes_before_its_caller() -> None:
    said = Dialogue(
        recipe("g.outer", step("a", "g.inner", type="recipe"), end="a"),
        recipe("g.inner", step("a"), step("z"), transition("t", "a", "z")),
        *(GIVES_MAIL, TAKES_MAIL),
    )
    held = said.add("<mail/>")
    said.start("g.outer", [held])
    inner = said.begins("a")
    said.returned("a", "<mail from='inner'/>", run=inner)
    (given,) = said.inputs("z")["mail"]
    assert given != held


# --- N16: the matching (test_assignment.py has the algorithm) ---------------------------------------------


def test_N16_a_step_gives_each_element_to_one_input_and_satisfies_all_mandatory_ones() -> None:
    takes = action("m.a", [Input("any", "mail"), Input("signed", "mail[@signed]")])
    said = Dialogue(recipe("g.r", step("a"), end="a"), takes)
    signed, plain = said.add("<mail signed='yes'/>"), said.add("<mail/>")
    said.start("g.r")
    assert said.inputs("a") == {"any": (plain,), "signed": (signed,)}


def test_N16_a_list_takes_every_candidate_of_its_best_rank_and_no_other() -> None:
    takes = action("m.z", [Input("mails", "mail", list=True)])
    said = Dialogue(two_steps(), action("m.a", (), [Output("mails", "mail", list=True)]), takes)
    said.add("<mail/>")
    said.start("g.r")
    said.returned("a", "<mail n='1'/>", "<mail n='2'/>")
    assert said.inputs("z") == {"mails": tuple(element.eid for element in said.named("mail")[1:])}
    assert said.call_of("z").listed == ("mails",)


def test_a_list_of_the_newest_takes_so_many_and_looks_at_no_others() -> None:
    takes = action("m.a", [Input("mails", "mail[not(@kind)]", list=True, newest=3)])
    said = Dialogue(recipe("g.r", step("a"), end="a"), takes)
    for number in range(400):
        said.add("<mail/>" if number % 2 else "<mail kind='ack'/>")
    tried: list[int] = []
    with patch.object(Bound, "test", lambda bound, tree: tried.append(1) or TRY(bound, tree)):
        said.start("g.r")
    assert said.inputs("a") == {"mails": tuple(element.eid for element in said.named("mail")[-5::2])}
    assert len(tried) < 10


def test_a_list_of_the_newest_takes_those_at_hand_first() -> None:
    takes = action("m.z", [Input("mails", "mail", list=True, newest=2)])
    said = Dialogue(two_steps(), action("m.a", (), [Output("mails", "mail", list=True)]), takes)
    said.start("g.r")
    said.returned("a", "<mail n='1'/>", "<mail n='2'/>", "<mail n='3'/>")
    said.add("<mail n='4'/>")
    assert said.inputs("z") == {"mails": tuple(element.eid for element in said.named("mail")[1:3])}


def test_N16_an_optional_input_without_a_candidate_is_left_out() -> None:
    takes = action("m.z", [MAIL, Input("signature", "signature", optional=True)])
    said = Dialogue(two_steps(), GIVES_MAIL, takes)
    said.start("g.r")
    said.returned("a", "<mail/>")
    assert list(said.inputs("z")) == ["mail"]


# --- N14: a step tightens its target's prototype ----------------------------------------------------------


def narrowed(inside: str, taken: Input, *elements: str) -> Dialogue:
    said = Dialogue(recipe("g.r", step("a", inside=inside), end="a"), action("m.a", [taken]))
    for xml in elements:
        said.add(xml)
    said.start("g.r")
    return said


def test_N14_a_match_of_the_step_must_hold_too() -> None:
    said = narrowed('<input id="mail"><match>*[@new]</match></input>', MAIL, "<mail/>", "<mail new='1'/>")
    assert said.inputs("a") == {"mail": (2,)}


@pytest.mark.parametrize(
    ("attribute", "taken", "elements", "given"),
    [
        ("optional='no'", Input("mail", "mail", optional=True), [], None),
        ("list='no'", Input("mail", "mail", list=True), ["<mail/>", "<mail/>"], (1,)),
    ],
)
def test_N14_a_step_makes_an_input_mandatory_or_single(
    attribute: str, taken: Input, elements: list[str], given: tuple[int, ...] | None
) -> None:
    said = narrowed(f'<input id="mail" {attribute}/>', taken, *elements)
    if given is None:
        assert said.errors()
    else:
        assert said.inputs("a") == {"mail": given}
        assert said.call_of("a").listed == ()


def test_N14_a_step_makes_an_input_use_and_outdate() -> None:
    said = narrowed('<input id="mail" use="yes" outdates="yes"/>', MAIL, "<mail/>")
    assert said.memory.marks == {("g.r", "a", "mail"): {1: 2}}
    assert said.memory.reserved == {1}


def test_N14_a_target_that_no_longer_is_what_the_step_tightens_fails_the_step() -> None:
    said = Dialogue(two_steps(inside='<input id="mail"><match>*</match></input>'), GIVES_MAIL, TAKES_MAIL)
    run = said.start("g.r")
    said.load(action("m.z", [Input("letter", "mail")]))
    said.returned("a", "<mail/>")
    assert said.steps(run)["z"] == "failed"
    assert said.error()["type"] == "misfit"
    assert "'mail'" in said.error()["message"]


# --- N17: what is missing, what is left over ---------------------------------------------------------------


def test_N17_a_mandatory_input_left_empty_ends_the_plan_with_an_error_that_names_all() -> None:
    said = Dialogue(two_steps(), GIVES_MAIL, TAKES_MAIL)
    run = said.start("g.r")
    said.returned("a")
    assert said.state(run) == "failed"
    assert said.steps(run) == {"a": "history", "z": "failed"}
    error = said.error()
    assert (error["plan"], error["step"], error["action"], error["input"]) == (str(run), "z", "m.z", "mail")
    assert (error["type"], error["recipe"]) == ("input-missing", "g.r")
    assert error["message"] == "nothing in memory fits input mail (mail)"
    assert said.finished[run].error == int(error["eid"])


def test_N17_the_error_names_every_input_that_is_missing_and_why() -> None:
    takes = action("m.a", [Input("one", "mail"), Input("other", "mail"), Input("page", "page")])
    said = Dialogue(recipe("g.r", step("a"), end="a"), takes)
    said.add("<mail/>")
    said.start("g.r")
    error = said.error()
    assert error["input"] == "other page"
    assert "other is left without an element: what fits mail goes to other inputs" in error["message"]
    assert "nothing in memory fits input page" in error["message"]


def test_N17_an_argument_that_fits_no_input_is_ignored() -> None:
    said = narrowed("<arguments><letter/><mail/></arguments>", MAIL)
    (given,) = said.inputs("a")["mail"]
    assert said.xml(given) == "<mail/>"
    assert said.named("letter") == []


@pytest.mark.parametrize(
    ("argument", "input"),
    [
        ("<address to='ann'/>", Input("to", "address[@mail]")),
        ("<address mail='{$plan/@none}'/>", Input("to", "address[@mail != '']")),
        ("<address/>", Input("to", "address[@mail]", optional=True)),
        ("<address/>", Input("to", ("*", "address[@mail]"))),
        ("<address n='x'/>", Input("to", "address[@n > 1]", list=True)),
    ],
)
def test_N17_an_argument_that_the_input_of_its_name_refuses_is_ignored(argument: str, input: Input) -> None:
    said = Dialogue(
        recipe("g.r", step("a", inside=f"<arguments>{argument}</arguments>"), end="a"), action("m.a", [input])
    )
    near = said.add("<address mail='ann@example.org' n='2'/>")
    said.start("g.r")
    assert said.inputs("a") == {"to": (near,)}


def test_an_error_says_why_an_argument_is_not_what_is_missing() -> None:
    inside = "<arguments><letter/><address to='ann'/></arguments>"
    said = Dialogue(
        recipe("g.r", step("a", inside=inside), end="a"), action("m.a", [Input("to", "address[@mail]")])
    )
    said.start("g.r")
    assert said.error()["message"] == (
        "nothing in memory fits input to (address[@mail]), nor does the argument address: "
        "expected @mail, found absent"
    )


def test_an_argument_of_another_name_goes_to_an_input_that_takes_any() -> None:
    inputs = [Input("to", "address[@mail]"), Input("any", "*[not(self::note)]")]
    inside = "<arguments><letter/></arguments>"
    said = Dialogue(recipe("g.r", step("a", inside=inside), end="a"), action("m.a", inputs))
    near = said.add("<address mail='ann@example.org'/>")
    said.start("g.r")
    assert said.inputs("a")["to"] == (near,)
    assert said.xml(said.inputs("a")["any"][0]) == "<letter/>"


def test_N7_an_argument_that_its_schema_refuses_is_an_error() -> None:
    inside = "<arguments><address to='ann'/></arguments>"
    said = Dialogue(
        recipe("g.r", step("a", inside=inside), end="a"),
        action("m.a", [Input("to", "address")]),
        schema_faults={b'<address to="ann"/>': "line 1: needs a mail"},
    )
    said.start("g.r")
    error = said.error()
    assert (error["type"], error["message"]) == (
        "bad-argument",
        "an argument cannot be given: address is refused by its schema: line 1: needs a mail",
    )


@pytest.mark.parametrize(("by", "is_given"), [("ann", True), ("bob", False)])
def test_N47_an_argument_is_judged_by_an_input_that_depends_on_another_once_that_is_assigned(
    by: str, is_given: bool
) -> None:
    inputs = [Input("order", "order"), Input("to", "address")]
    narrowing = '<input id="to"><match>address[@of = $order/@by]</match></input>'
    inside = f"<arguments><address of='ann'/></arguments>{narrowing}"
    said = Dialogue(recipe("g.r", step("a", inside=inside), end="a"), action("m.a", inputs))
    said.add(f"<order by='{by}'/>")
    near = said.add("<address of='bob'/>")
    said.start("g.r")
    if is_given:
        assert said.xml(said.inputs("a")["to"][0]) == '<address of="ann"/>'
    else:
        assert said.inputs("a")["to"] == (near,)


def test_N17_a_plan_that_cannot_start_adds_no_argument() -> None:
    said = narrowed("<arguments><letter/></arguments>", MAIL)
    assert [element.name for element in map(said.memory.element, said.memory)] == ["plan", "error"]


def test_N26_an_unknown_target_fails_the_plan() -> None:
    said = Dialogue(recipe("g.r", step("a", "m.gone"), end="a"))
    run = said.start("g.r")
    assert (said.state(run), said.steps(run)) == ("failed", {"a": "failed"})
    assert said.error()["message"] == "there is no action named m.gone"


# --- N3, N8: contexts and provenance ----------------------------------------------------------------------


def test_N3_a_context_holds_what_steps_created_used_and_took_as_arguments_and_what_triggered() -> None:
    arguments = '<arguments><text>Hello</text></arguments><input id="mail" use="yes"/>'
    takes = action("m.z", [MAIL, Input("text", "text"), Input("box", "mailbox")], [Output("ack", "ack")])
    said = Dialogue(two_steps("order", inside=arguments), GIVES_MAIL, takes)
    box, order, used = said.add("<mailbox/>"), said.add("<order/>"), said.add("<mail/>")
    run = said.start("g.r")
    said.returned("a")
    said.returned("z", "<ack/>")
    held = {said.memory.element(eid).name for eid in said.context(run)}
    assert held == {"order", "mail", "text", "ack"}
    assert {order, used} < set(said.context(run))
    assert box not in said.context(run), "a consulted element is shared by all (figure 1.1)"


def test_N3_one_element_may_be_in_many_contexts() -> None:
    said = Dialogue(two_steps("order"), GIVES_MAIL, TAKES_MAIL)
    order = said.add("<order/>")
    first, second = said.start("g.r"), said.start("g.r")
    said.returned("a", "<mail/>", run=first)
    said.returned("a", "<mail/>", run=second)
    assert sorted(said.memory.contexts.holders(order)) == [first, second]


def test_N3_the_arguments_of_a_step_that_calls_a_recipe_are_the_first_context_of_the_new_plan() -> None:
    inside = "<arguments><mail n='1'/><mail n='2'/></arguments>"
    outer = recipe("g.outer", step("a", "g.inner", inside, type="recipe"), end="a")
    said = Dialogue(outer, INNER, TAKES_MAIL)
    run = said.start("g.outer")
    inner = said.begins("a")
    assert list(said.context(inner)) == [element.eid for element in said.named("mail")]
    assert list(said.context(inner)) == list(said.context(run)), "and its caller's too"


def test_N3_what_a_called_plan_added_joins_its_callers_context_and_stays() -> None:
    inner_recipe = recipe("g.inner", step("a"), step("b"), transition("t", "a", "b"), end="b")
    makes_page = action("m.b", (), [Output("page", "page")])
    said = Dialogue(
        recipe("g.outer", step("a", "g.inner", type="recipe"), step("z"), transition("t", "a", "z")),
        *(inner_recipe, GIVES_MAIL, makes_page, TAKES_MAIL),
    )
    outer = said.start("g.outer")
    inner = said.begins("a")
    said.returned("a", "<mail/>", run=inner)
    said.returned("b", "<page/>")
    said.answers(inner)
    assert [said.memory.element(eid).name for eid in said.context(outer)] == ["mail", "page"]
    assert said.inputs("z") == {"mail": (said.named("mail")[0].eid,)}


def test_N8_an_output_tells_the_plan_step_and_call_that_made_it_when_and_from_which_inputs() -> None:
    takes = action("m.z", [MAIL, Input("all", "page", list=True)], [Output("ack", "ack")])
    said = Dialogue(two_steps(), GIVES_MAIL, takes)
    pages = said.add("<page/>"), said.add("<page/>")
    run = said.start("g.r")
    said.returned("a", "<mail/>")
    call, (mail,) = said.call_of("z"), said.inputs("z")["mail"]
    said.now = 123.0
    said.returned("z", "<ack/>")
    (ack,) = said.named("ack")
    assert ack.origin == Origin(run, "z", call.call, (mail, *pages))
    assert ack.added == 123.0


def test_N8_an_error_of_a_call_tells_the_same() -> None:
    said = Dialogue(two_steps(), GIVES_MAIL, TAKES_MAIL)
    run = said.start("g.r")
    said.returned("a", "<mail/>")
    call, (mail,) = said.call_of("z"), said.inputs("z")["mail"]
    said.erred("z")
    assert said.errors()[0].origin == Origin(run, "z", call.call, (mail,))


# --- N10: variables in what a step takes ------------------------------------------------------------------


def test_N10_an_input_that_a_step_tightens_may_say_what_an_earlier_step_produced() -> None:
    inside = '<input id="mail"><match>mail[@re = $a/@id]</match></input>'
    said = Dialogue(two_steps(inside=inside), GIVES_MAIL, TAKES_MAIL)
    said.add("<mail re='0'/>")
    answer = said.add("<mail re='7'/>")
    said.start("g.r")
    said.returned("a", "<mail id='7'/>")
    assert said.inputs("z") == {"mail": (answer,)}


def test_N10_plan_is_the_plan_element() -> None:
    inside = '<input id="mail"><match>mail[@plan = $plan/@eid]</match></input>'
    said = Dialogue(two_steps(inside=inside), GIVES_MAIL, TAKES_MAIL)
    run = said.memory.next_eid + 1
    mail = said.add(f"<mail plan='{run}'/>")
    assert said.start("g.r") == run
    said.returned("a")
    assert said.inputs("z") == {"mail": (mail,)}
