"""Following transitions: choice, joins, conditions, sleeping and waking (N10, N18, N22, N23, N24, §1.5)."""

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines.commands import Call, MarkUsed, Unwatch, Watch
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition


def plan(*transitions: str, end: str = "z") -> tuple[Dialogue, int]:
    """A plan of the steps `a` … `f` and `z`, as far as a transition names them; its first step is `a`."""
    text = "".join(transitions)
    names = [name for name in "abcdefz" if f'idref="{name}"' in text]
    said = Dialogue(recipe("g.r", *(step(name) for name in names), text, end=end))
    gives = [Output("given", "*", list=True, optional=True)]
    said.load(*(action(f"m.{name}", (), gives) for name in names))
    return said, said.start("g.r")


# --- N22: the walk ----------------------------------------------------------------------------------------


def test_N22_a_plan_starts_with_its_start_step_alone() -> None:
    said, run = plan(transition("t", "a", "z"))
    assert said.steps(run) == {"a": "running", "z": "todo"}
    assert said.transitions(run) == {"t": "wait-step"}
    assert [call.step for call in said.wishes(Call)] == ["a"]


def test_N22_a_recipe_may_be_one_step() -> None:
    said = Dialogue(recipe("g.r", step("a"), end="a"), action("m.a"))
    run = said.start("g.r")
    said.returned("a")
    assert (said.state(run), said.steps(run)) == ("done", {"a": "done"})


def test_N22_when_a_step_is_done_its_transition_fires_and_the_step_is_history() -> None:
    said, run = plan(transition("t", "a", "z"))
    said.returned("a")
    assert said.steps(run) == {"a": "history", "z": "running"}
    assert said.transitions(run) == {"t": "fired"}


def test_N22_several_out_steps_all_start_in_parallel() -> None:
    said, _ = plan(transition("t", "a", "b c d"), transition("u", "b c d", "z"))
    said.returned("a")
    assert [call.step for call in said.wishes(Call)] == ["b", "c", "d"]


def test_N22_several_in_steps_must_all_be_done() -> None:
    said, run = plan(transition("t", "a", "b c"), transition("u", "b c", "z"))
    said.returned("a")
    said.returned("c")
    assert said.transitions(run)["u"] == "wait-step"
    said.returned("b")
    assert said.transitions(run)["u"] == "fired"
    assert said.steps(run) == {"a": "history", "b": "history", "c": "history", "z": "running"}


def test_N22_several_transitions_out_of_a_step_are_an_exclusive_choice_by_priority() -> None:
    said, run = plan(
        transition("low", "a", "b", priority=1),
        transition("high", "a", "c", priority=2),
        transition("on", "b", "z"),
        transition("past", "c", "z"),
    )
    said.returned("a")
    assert said.steps(run) == {"a": "history", "b": "impossible", "c": "running", "z": "todo"}
    assert said.transitions(run) == {
        "low": "impossible",
        "high": "fired",
        "on": "impossible",
        "past": "wait-step",
    }


def test_N22_of_equal_priorities_the_first_in_the_file_fires() -> None:
    said, run = plan(transition("first", "a", "b"), transition("second", "a", "c"), transition("u", "b", "z"))
    said.returned("a")
    assert said.transitions(run)["first"] == "fired"


def test_N22_a_higher_priority_whose_conditions_do_not_hold_lets_the_default_fire() -> None:
    # §1.5.5: a default that is fired if no other transition can be
    said, run = plan(transition("wish", "a", "b", "mail", priority=9), transition("default", "a", "z"))
    said.returned("a")
    assert said.transitions(run) == {"wish": "impossible", "default": "fired"}
    assert said.steps(run)["b"] == "impossible"
    assert said.watches == {}


def test_N22_impossible_spreads_to_all_that_nothing_can_reach_any_more() -> None:
    said, run = plan(
        transition("left", "a", "b", priority=1),
        transition("right", "a", "c"),
        transition("t1", "c", "d"),
        transition("t2", "d", "e f"),
        transition("t3", "e f", "z"),
        transition("t4", "b", "z"),
    )
    said.returned("a")
    assert said.steps(run) == {
        "a": "history",
        "b": "running",
        **dict.fromkeys("cdef", "impossible"),
        "z": "todo",
    }
    assert said.transitions(run) == {
        "left": "fired",
        "t4": "wait-step",
        **dict.fromkeys(("right", "t1", "t2", "t3"), "impossible"),
    }


def test_N22_a_diamond_stays_open_as_long_as_one_side_can_reach_its_end() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("b1", "b", "d", "left", priority=1),
        transition("b2", "b", "e"),
        transition("c1", "c", "d"),
        transition("out", "d", "z"),
    )
    said.returned("a")
    said.returned("b")
    assert said.transitions(run)["b1"] == "impossible"
    assert said.steps(run)["d"] == "todo", "c may still lead to it"
    said.returned("c")
    assert said.steps(run)["d"] == "running"


def test_N22_a_diamond_closes_when_its_last_side_is_gone() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("b1", "b", "d", "never"),
        transition("b2", "b", "e"),
        transition("c1", "c", "d", "never"),
        transition("c2", "c", "f"),
        transition("d1", "d", "z"),
        transition("join", "e f", "z"),
    )
    said.returned("a")
    said.returned("b")
    assert said.steps(run)["d"] == "todo"
    said.returned("c")
    assert (said.steps(run)["d"], said.transitions(run)["d1"]) == ("impossible", "impossible")
    assert said.steps(run)["z"] == "todo"


def test_N22_a_join_is_impossible_when_one_of_its_in_steps_is() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("b1", "b", "d", "never"),
        transition("b2", "b", "z"),
        transition("join", "d c", "e"),
    )
    said.returned("a")
    said.returned("b")
    assert said.transitions(run)["join"] == "impossible"
    assert said.steps(run)["e"] == "impossible"


def test_N22_a_step_and_a_transition_may_have_the_same_id() -> None:
    # The transition `b` becomes impossible; the step `b` has nothing to do with it.
    said, run = plan(
        transition("x", "a", "b", priority=1),
        transition("b", "a", "c"),
        transition("y", "b", "z"),
    )
    said.returned("a")
    assert said.transitions(run) == {"x": "fired", "b": "impossible", "y": "wait-step"}
    assert said.steps(run) == {"a": "history", "b": "running", "c": "impossible", "z": "todo"}


def test_N22_a_step_that_two_branches_lead_to_runs_once() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("t", "b", "d"),
        transition("u", "c", "d"),
        transition("out", "d", "z"),
    )
    said.returned("a")
    said.returned("b")
    assert [call.step for call in said.wishes(Call)] == ["d"]
    said.returned("c")
    assert said.wishes(Call) == []
    assert said.transitions(run)["u"] == "fired"
    said.returned("d")
    assert said.steps(run)["z"] == "running"


def test_N22_a_transition_that_is_fireable_fires_whatever_the_others_wait_for() -> None:
    # §2.4: the join of b and c is undetermined; the way on from b alone is taken at once
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("join", "b c", "d", priority=5),
        transition("on", "b", "z"),
    )
    said.returned("a")
    said.returned("b")
    assert said.transitions(run) == {"fork": "fired", "join": "impossible", "on": "fired"}


# --- N23: conditions --------------------------------------------------------------------------------------


def test_N23_each_condition_needs_an_element_of_its_own() -> None:
    said, run = plan(transition("t", "a", "z", "mail", "mail"))
    first = said.add("<mail/>")
    said.returned("a")
    assert said.transitions(run) == {"t": "wait-condition"}
    second = said.arrives("<mail/>")
    assert said.transitions(run) == {"t": "fired"}
    assert list(said.context(run)) == [first, second]


def test_N16_N23_conditions_are_satisfied_together_whenever_they_can_be() -> None:
    said, run = plan(transition("t", "a", "z", "mail", "mail[@signed]"))
    said.add("<mail signed='1'/>")
    said.add("<mail/>")
    said.returned("a")
    assert said.transitions(run) == {"t": "fired"}


def test_N9_the_patterns_of_a_condition_hold_of_the_same_element() -> None:
    said, run = plan(transition("t", "a", "z", "mail[@a] & mail[@b]"))
    said.add("<mail a='1'/>")
    said.add("<mail b='1'/>")
    said.returned("a")
    assert said.transitions(run) == {"t": "wait-condition"}
    said.arrives("<mail a='1' b='1'/>")
    assert said.transitions(run) == {"t": "fired"}


def took(said: Dialogue, run: int) -> tuple[int, ...]:
    return tuple(said.states[run].transitions["t"].took)


def test_N23_the_context_of_the_transition_is_nearest() -> None:
    inside = '<context from="memory"><match>mail[@vip]</match></context>'
    said, run = plan(transition("t", "a", "z", "mail", inside=inside))
    vip = said.add("<mail vip='1'/>")
    said.returned("a", "<mail/>")
    assert took(said, run) == (vip,)


def test_N23_then_what_the_in_steps_produced_then_the_plan_then_memory() -> None:
    for produced, held, nearest in ((True, True, "a"), (False, True, "plan"), (False, False, "memory")):
        said, _ = plan(transition("t", "a", "z", "mail"))
        said.add("<mail from='memory'/>")
        elements = [said.add("<mail from='plan'/>")] if held else []
        said.drop_calls()
        run = said.start("g.r", elements)
        said.returned("a", *(["<mail from='a'/>"] if produced else []))
        (eid,) = took(said, run)
        assert said.memory.element(eid).attributes["from"] == nearest


def test_N23_callers_come_before_memory() -> None:
    inner = recipe("g.in", step("a"), step("z"), transition("t", "a", "z", "mail"))
    said = Dialogue(recipe("g.out", step("a", "g.in", type="recipe"), end="a"), inner)
    said.load(action("m.a"), action("m.z"))
    said.add("<mail/>")
    held = said.add("<mail/>")
    said.start("g.out", [held])
    run = said.begins("a")
    said.returned("a", run=run)
    assert took(said, run) == (held,)


def test_N23_matched_elements_enter_the_plans_context() -> None:
    said, run = plan(transition("t", "a", "z", "mail", "use page"))
    mail, page = said.add("<mail/>"), said.add("<page/>")
    said.returned("a")
    assert list(said.context(run)) == [mail, page]
    assert said.wishes(MarkUsed) == [MarkUsed(("g.r", "t", "#2"), (page,))]


def test_N23_two_plans_never_take_one_used_element() -> None:
    text = recipe("g.r", step("a"), step("z"), transition("t", "a", "z", "use mail"))
    said = Dialogue(text, action("m.a"), action("m.z"))
    runs = said.start("g.r"), said.start("g.r")
    for run in runs:
        said.returned("a", run=run)
    said.arrives("<mail/>")
    assert [said.transitions(run)["t"] for run in runs] == ["fired", "wait-condition"]
    said.arrives("<mail/>")
    assert [said.transitions(run)["t"] for run in runs] == ["fired", "fired"]
    assert took(said, runs[0]) != took(said, runs[1])


def test_N23_use_is_checked_again_at_firing() -> None:
    # Both plans are told of the same mail before either has taken it.
    text = recipe("g.r", step("a"), step("z"), transition("t", "a", "z", "use mail", "page"))
    said = Dialogue(text, action("m.a"), action("m.z"))
    runs = said.start("g.r"), said.start("g.r")
    for run in runs:
        said.returned("a", run=run)
    said.arrives("<mail/>")
    assert [said.transitions(run)["t"] for run in runs] == ["wait-condition"] * 2
    said.arrives("<page/>")
    assert [said.transitions(run)["t"] for run in runs] == ["fired", "wait-condition"]


# --- N24: sleeping and waking -----------------------------------------------------------------------------


def test_N24_a_plan_that_cannot_go_on_sets_one_watch_and_does_nothing_more() -> None:
    said, run = plan(transition("t", "a", "z", "use mail[@x]", "page"))
    said.returned("a")
    (watch,) = said.wishes(Watch)
    assert [bound.text for bound in watch.conditions] == ["mail[@x]", "page"]
    assert watch.scopes == (("g.r", "t", "#1"), None)
    assert said.wished == [watch]
    assert said.state(run) == "running"


def test_N24_it_sleeps_until_an_added_element_makes_a_transition_fireable() -> None:
    said, run = plan(transition("t", "a", "z", "mail[@x]"))
    said.returned("a")
    said.arrives("<mail/>")
    assert said.heard == [], "what does not concern it does not wake it"
    said.arrives("<mail x='1'/>")
    assert said.steps(run) == {"a": "history", "z": "running"}
    assert said.watches == {}


def test_N24_an_element_for_one_of_two_conditions_wakes_it_and_it_sleeps_on() -> None:
    said, run = plan(transition("t", "a", "z", "mail", "page"))
    said.returned("a")
    (watch,) = said.watches
    said.arrives("<mail/>")
    assert (said.decided, said.wished) == ([], [])
    assert list(said.watches) == [watch]
    said.arrives("<page/>")
    assert said.transitions(run) == {"t": "fired"}


def test_N24_the_element_may_come_from_another_plan() -> None:
    said, run = plan(transition("t", "a", "z", "page"))
    said.returned("a")
    said.load(recipe("g.other", step("b"), end="b", start="b"), action("m.b", (), [Output("page", "page")]))
    other = said.start("g.other")
    said.returned("b", "<page/>")
    assert said.state(other) == "done"
    assert said.steps(run) == {"a": "history", "z": "running"}


def test_N24_the_element_may_come_from_a_branch_of_the_same_plan() -> None:
    said, run = plan(transition("fork", "a", "b c"), transition("t", "b", "z", "page"))
    said.returned("a")
    said.returned("b")
    assert said.transitions(run)["t"] == "wait-condition"
    said.returned("c", "<page/>")
    assert said.transitions(run)["t"] == "fired"


def test_N24_of_sleeping_rivals_the_one_whose_element_comes_fires_and_the_other_wakes_no_more() -> None:
    said, run = plan(transition("one", "a", "b", "x", priority=5), transition("two", "a", "z", "y"))
    said.returned("a")
    assert len(said.watches) == 2
    said.arrives("<y/>")
    assert said.transitions(run) == {"one": "impossible", "two": "fired"}
    assert len(said.wishes(Unwatch)) == 2
    assert said.watches == {}


def test_N22_N24_an_element_that_wakes_two_rivals_fires_the_one_of_higher_priority() -> None:
    said, run = plan(transition("low", "a", "b", "mail"), transition("high", "a", "z", "*[@x]", priority=5))
    said.returned("a")
    said.arrives("<mail x='1'/>")
    assert said.transitions(run) == {"low": "impossible", "high": "fired"}


def test_N22_a_sleeping_rival_that_has_become_fireable_is_chosen_by_priority_too() -> None:
    # A page is there by the time c ends, but nobody has told the sleeping transition yet.
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("high", "b", "d", "page", priority=5),
        transition("join", "b c", "z"),
    )
    said.returned("a")
    said.returned("b")
    assert said.transitions(run)["high"] == "wait-condition"
    said.add("<page/>")
    said.returned("c")
    assert said.transitions(run) == {"fork": "fired", "high": "fired", "join": "impossible"}


def test_N24_a_transition_that_becomes_impossible_in_its_sleep_is_watched_no_more() -> None:
    said, run = plan(
        transition("fork", "a", "b c"), transition("t", "b", "d", "mail"), transition("join", "b c", "z")
    )
    said.returned("a")
    said.returned("b")
    assert len(said.watches) == 1
    said.returned("c")
    assert said.transitions(run) == {"fork": "fired", "t": "impossible", "join": "fired"}
    assert said.watches == {}


@pytest.mark.parametrize("ending", ["done", "failed", "cancelled"])
def test_N24_a_plan_that_is_over_watches_nothing(ending: str) -> None:
    said, run = plan(
        transition("fork", "a", "b c"), transition("t", "b", "d", "x"), transition("u", "c", "z")
    )
    said.returned("a")
    said.returned("b")
    assert len(said.watches) == 1
    if ending == "done":
        said.returned("c")
        said.returned("z")
    elif ending == "failed":
        said.erred("c")
    else:
        said.cancel(run)
    assert said.state(run) == ending
    assert said.watches == {}
    said.arrives("<x/>")
    assert said.heard == []


def test_N2_a_plan_can_wait_for_what_becomes_of_another() -> None:
    said, run = plan(transition("t", "a", "z", "plan[@name='r'][@state='failed']"))
    other = said.start("g.r")
    said.returned("a", run=run)
    assert said.transitions(run) == {"t": "wait-condition"}
    (watch,) = said.wishes(Watch)
    said.erred("a", run=other)
    assert watch.conditions[0].test(said.memory.tree(said.memory.element(other)))


# --- N10: variables ---------------------------------------------------------------------------------------


def test_N10_a_condition_waits_for_the_answer_to_what_this_plan_asked() -> None:
    said, run = plan(transition("t", "a", "z", "mail[@in-reply-to = $a/@message-id]"))
    said.add("<mail in-reply-to='other'/>")
    said.returned("a", "<mail message-id='7'/>")
    said.arrives("<mail in-reply-to='8'/>")
    assert said.heard == []
    answer = said.arrives("<mail in-reply-to='7'/>")
    assert took(said, run) == (answer,)


def test_N10_a_variable_stands_for_every_element_that_the_step_produced() -> None:
    said, run = plan(transition("t", "a", "z", "mail[@re = $a/@id]"))
    said.returned("a", "<mail id='1'/>", "<mail id='2'/>")
    said.arrives("<mail re='2'/>")
    assert said.transitions(run) == {"t": "fired"}


def test_N10_of_a_step_that_produced_nothing_a_variable_is_empty() -> None:
    said, run = plan(transition("t", "a", "z", "mail[@re = $a/@id]"))
    said.returned("a")
    said.arrives("<mail re=''/>")
    assert said.transitions(run) == {"t": "wait-condition"}


def test_N10_a_sleeping_condition_sees_what_another_branch_asks_later() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("t", "b", "z", "mail[@re = $c/@id]"),
        transition("u", "c", "d"),
    )
    said.returned("a")
    said.returned("b")
    (before,) = said.watches
    said.returned("c", "<mail id='7'/>")
    assert said.transitions(run)["t"] == "wait-condition"
    assert list(said.watches) != [before]
    said.arrives("<mail re='7'/>")
    assert said.transitions(run)["t"] == "fired"


def test_N10_a_sleeping_condition_fires_at_once_when_its_answer_is_there_already() -> None:
    said, run = plan(
        transition("fork", "a", "b c"),
        transition("t", "b", "z", "mail[@re = $c/@id]"),
        transition("u", "c", "d"),
    )
    said.returned("a")
    said.returned("b")
    said.arrives("<mail re='7'/>")
    said.returned("c", "<mail id='7'/>")
    assert said.transitions(run) == {"fork": "fired", "t": "fired", "u": "fired"}


# --- what the steps after it are given --------------------------------------------------------------------


def test_N23_elements_that_matched_go_to_every_out_step() -> None:
    said = Dialogue(recipe("g.r", *(step(name) for name in "abz"), transition("t", "a", "b z", "mail")))
    takes = [Input("mail", "mail")]
    said.load(action("m.a"), action("m.b", takes), action("m.z", takes))
    said.start("g.r")
    said.returned("a")
    mail = said.arrives("<mail/>")
    assert said.inputs("b") == said.inputs("z") == {"mail": (mail,)}
