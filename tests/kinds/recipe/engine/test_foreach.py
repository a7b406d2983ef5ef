"""One call for each of several elements (N19, §1.3.2)."""

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines.commands import Call, CancelCall
from narval.core.engines.dates import SOURCE_REST
from narval.core.engines.events import Produced
from narval.kinds.recipe.engine.changes import CallReturned
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

GREETS = action("m.a", [Input("to", "address")], [Output("mail", "mail")])


def greeting(**attributes: str) -> str:
    return recipe("g.r", step("a", foreach="address", **attributes), end="a")


def given(said: Dialogue, slot: str = "to") -> list[int]:
    """What each call under way was given, in the order they were made."""
    return [dict(call.inputs)[slot][0] for call in said.calls_of("a")]


def test_N19_one_call_per_matching_element_in_parallel() -> None:
    said = Dialogue(greeting(), GREETS)
    addresses = [said.add(f"<address n='{n}'/>") for n in range(3)]
    said.add("<page/>")
    run = said.start("g.r")
    assert given(said) == addresses
    for eid in reversed(addresses):
        said.returned("a", f"<mail to='{eid}'/>", given=eid)
    assert said.state(run) == "done"
    assert len(said.named("mail")) == 3


def test_N19_each_output_tells_the_element_it_was_made_of() -> None:
    said = Dialogue(greeting(), GREETS)
    first, second = said.add("<address/>"), said.add("<address/>")
    said.start("g.r")
    said.returned("a", "<mail/>", given=second)
    said.returned("a", "<mail/>", given=first)
    assert [element.origin.inputs for element in said.named("mail")] == [(second,), (first,)]


def test_N19_the_step_is_done_when_its_last_call_is_back() -> None:
    said = Dialogue(greeting(), GREETS)
    addresses = [said.add("<address/>") for _ in range(2)]
    run = said.start("g.r")
    said.returned("a", "<mail/>", given=addresses[0])
    assert said.steps(run) == {"a": "running"}
    said.returned("a", "<mail/>", given=addresses[1])
    assert said.steps(run) == {"a": "done"}


def test_N19_the_other_inputs_are_assigned_once_and_shared() -> None:
    takes = action(
        "m.a", [Input("to", "address"), Input("text", "text", use=True), Input("pages", "page", list=True)]
    )
    said = Dialogue(greeting(), takes)
    addresses = [said.add("<address/>") for _ in range(2)]
    text, _, page = said.add("<text/>"), said.add("<text/>"), said.add("<page/>")
    run = said.start("g.r")
    assert given(said) == addresses
    assert [dict(call.inputs)["text"] for call in said.calls_of("a")] == [(text,)] * 2
    assert [dict(call.inputs)["pages"] for call in said.calls_of("a")] == [(page,)] * 2
    assert said.memory.marks == {("g.r", "a", "text"): {text: run}}


def test_N19_an_argument_is_shared() -> None:
    takes = action("m.a", [Input("to", "address"), Input("text", "text")])
    inside = "<arguments><text>Happy new year</text></arguments>"
    said = Dialogue(recipe("g.r", step("a", inside=inside, foreach="address"), end="a"), takes)
    for _ in range(2):
        said.add("<address/>")
    said.start("g.r")
    (text,) = said.named("text")
    assert [dict(call.inputs)["text"] for call in said.calls_of("a")] == [(text.eid,)] * 2


def test_N19_no_candidate_for_a_mandatory_input_ends_the_plan() -> None:
    said = Dialogue(greeting(), GREETS)
    run = said.start("g.r")
    assert said.state(run) == "failed"
    assert (said.error()["type"], said.error()["input"]) == ("input-missing", "to")


def test_N19_no_candidate_for_a_shared_mandatory_input_ends_the_plan() -> None:
    said = Dialogue(greeting(), action("m.a", [Input("to", "address"), Input("text", "text")]))
    said.add("<address/>")
    said.start("g.r")
    assert said.error()["input"] == "text"
    assert said.calls == {}


def test_N19_no_candidate_for_an_optional_input_is_nothing_to_do() -> None:
    said = Dialogue(greeting(), action("m.a", [Input("to", "address", optional=True), Input("text", "text")]))
    run = said.start("g.r")
    assert (said.state(run), said.steps(run), said.errors()) == ("done", {"a": "done"}, [])


def test_N19_without_elements_the_input_of_the_same_pattern_counts() -> None:
    for optional, state in ((True, "done"), (False, "failed")):
        inputs = [
            Input("one", "address | page", optional=not optional),
            Input("to", "address", optional=optional),
        ]
        said = Dialogue(greeting(), action("m.a", inputs))
        said.add("<page/>")
        assert said.state(said.start("g.r")) == state


def test_N19_elements_that_were_all_used_before_are_no_candidates() -> None:
    for optional, state in ((True, "done"), (False, "failed")):
        said = Dialogue(greeting(), action("m.a", [Input("to", "address", use=True, optional=optional)]))
        address = said.add("<address/>")
        said.start("g.r")
        assert given(said) == [address]
        second = said.start("g.r")
        assert said.state(second) == state


def test_N19_an_argument_is_no_candidate_for_the_element_of_a_call() -> None:
    inside = "<arguments><address/></arguments>"
    said = Dialogue(
        recipe("g.r", step("a", inside=inside, foreach="address[@n]"), end="a"),
        action("m.a", [Input("to", "address", use=True)]),
    )
    said.add("<address n='1'/>")
    said.start("g.r")
    assert said.state(said.start("g.r")) == "failed", "the only one is used"


def test_N19_an_element_that_fits_several_inputs_ends_the_plan() -> None:
    said = Dialogue(greeting(), action("m.a", [Input("to", "address"), Input("cc", "*[@cc]", optional=True)]))
    said.add("<address/>")
    both = said.add("<address cc='1'/>")
    run = said.start("g.r")
    assert (said.state(run), said.calls) == ("failed", {})
    assert said.error()["type"] == "foreach-misfit"
    assert f"element {both} (address)" in said.error()["message"]
    assert "it fits: to, cc" in said.error()["message"]


def test_N19_an_element_that_fits_no_input_ends_the_plan() -> None:
    said = Dialogue(
        recipe("g.r", step("a", foreach="*[@to]"), end="a"), action("m.a", [Input("to", "address")])
    )
    said.add("<address to='1'/>")
    said.add("<page to='1'/>")
    said.start("g.r")
    assert "it fits: none" in said.error()["message"]


def test_N19_elements_that_fit_different_inputs_end_the_plan() -> None:
    # §1.4.2: all the matching elements are assigned to a single input
    said = Dialogue(recipe("g.r", step("a", foreach="*[@to]"), end="a"))
    said.load(action("m.a", [Input("to", "address"), Input("page", "page")]))
    said.add("<address to='1'/>")
    said.add("<page to='1'/>")
    said.start("g.r")
    assert "fit different inputs: to and page" in said.error()["message"]


def test_N19_calls_go_in_parallel_up_to_max_parallel() -> None:
    said = Dialogue(greeting(max_parallel="2"), GREETS)
    addresses = [said.add("<address/>") for _ in range(5)]
    run = said.start("g.r")
    assert given(said) == addresses[:2]
    said.returned("a", "<mail/>", given=addresses[0])
    assert given(said) == addresses[1:3]
    for eid in addresses[1:]:
        said.returned("a", "<mail/>", given=eid)
    assert said.state(run) == "done"
    assert len(said.named("mail")) == 5


def test_N18_N19_a_mark_is_made_when_its_own_call_is_started() -> None:
    said = Dialogue(
        greeting(max_parallel="1"),
        action("m.a", [Input("to", "address", use=True)], [Output("mail", "mail")]),
    )
    addresses = [said.add("<address/>") for _ in range(3)]
    run = said.start("g.r")
    assert said.memory.marks == {("g.r", "a", "to"): {addresses[0]: run}}
    said.cancel(run)
    said.drop_calls()
    said.start("g.r")
    assert given(said) == [addresses[1]], "what got no call is for the next plan"


def test_N18_N19_two_plans_share_what_is_used_and_each_element_gets_one_call() -> None:
    uses = action("m.a", [Input("to", "address", use=True)], [Output("mail", "mail")])
    said = Dialogue(greeting(max_parallel="1"), uses)
    addresses = [said.add("<address/>") for _ in range(4)]
    runs = [said.start("g.r"), said.start("g.r")]
    seen = []
    while said.calls:
        eid = given(said)[0]
        seen.append(eid)
        said.returned("a", "<mail/>", given=eid)
    assert sorted(seen) == addresses
    assert [said.state(run) for run in runs] == ["done", "done"]


def test_N18_N19_what_was_outdated_before_its_turn_gets_no_call() -> None:
    replaces = recipe("g.other", step("b"), end="b", start="b")
    said = Dialogue(greeting(max_parallel="1"), replaces, GREETS)
    said.load(action("m.b", [Input("old", "address[@old]", outdates=True)]))
    addresses = said.add("<address/>"), said.add("<address old='1'/>"), said.add("<address/>")
    run = said.start("g.r")
    said.start("g.other")
    said.returned("b")
    said.returned("a", "<mail/>", given=addresses[0])
    assert given(said) == [addresses[2]]
    said.returned("a", "<mail/>", given=addresses[2])
    assert said.state(run) == "done"


def test_N18_N19_each_call_reserves_its_element_and_releases_it_alone() -> None:
    said = Dialogue(
        greeting(), action("m.a", [Input("to", "address", outdates=True)], [Output("mail", "mail")])
    )
    good, bad = said.add("<address/>"), said.add("<address/>")
    said.start("g.r")
    assert said.memory.reserved == {good, bad}
    said.returned("a", "<mail/>", given=good)
    said.erred("a", "no such address", given=bad)
    assert (said.memory.reserved, said.memory.outdated) == (set(), {good})


def test_N18_N19_a_shared_element_is_outdated_when_all_calls_are_back() -> None:
    takes = action("m.a", [Input("to", "address"), Input("text", "text", outdates=True)])
    said = Dialogue(greeting(), takes)
    addresses, text = [said.add("<address/>") for _ in range(2)], said.add("<text/>")
    said.start("g.r")
    said.returned("a", given=addresses[0])
    assert (said.memory.reserved, said.memory.outdated) == ({text}, set())
    said.returned("a", given=addresses[1])
    assert (said.memory.reserved, said.memory.outdated) == (set(), {text})


def test_N18_N19_a_shared_element_is_released_when_a_call_erred_or_the_plan_is_cancelled() -> None:
    takes = action("m.a", [Input("to", "address"), Input("text", "text", outdates=True)])
    for cancelled in (False, True):
        said = Dialogue(greeting(), takes)
        address, _ = said.add("<address/>"), said.add("<text/>")
        run = said.start("g.r")
        if cancelled:
            said.cancel(run)
        else:
            said.erred("a", "broken", given=address)
        assert (said.memory.reserved, said.memory.outdated) == (set(), set())


def test_N18_N19_a_step_waits_when_all_it_selects_is_reserved() -> None:
    other = recipe("g.other", step("b"), end="b", start="b")
    said = Dialogue(greeting(), other, GREETS, action("m.b", [Input("old", "address", outdates=True)]))
    address = said.add("<address/>")
    said.start("g.other")
    run = said.start("g.r")
    assert said.steps(run) == {"a": "ready"}
    said.erred("b")
    assert given(said) == [address]


def test_N18_N19_a_step_does_not_wait_for_what_it_does_not_select() -> None:
    other = recipe("g.other", step("b"), end="b", start="b")
    said = Dialogue(recipe("g.r", step("a", foreach="address[@new]"), end="a"), other, GREETS)
    said.load(action("m.b", [Input("old", "address", outdates=True)]))
    said.add("<address/>")
    said.start("g.other")
    run = said.start("g.r")
    assert said.state(run) == "failed", "the reserved address is an old one"


def test_N19_good_outputs_are_kept_and_the_step_is_in_error_with_all_the_error_elements() -> None:
    handled = transition("h", "a!", "z", "error")
    said = Dialogue(recipe("g.r", step("a", foreach="address"), step("z"), handled), GREETS, action("m.z"))
    addresses = [said.add("<address/>") for _ in range(3)]
    run = said.start("g.r")
    said.erred("a", "first", given=addresses[0])
    said.returned("a", "<mail/>", given=addresses[1])
    assert said.steps(run)["a"] == "running"
    said.returned("a", "<error><message>second</message></error>", given=addresses[2])
    assert said.steps(run) == {"a": "history", "z": "running"}
    assert len(said.errors()) == 2
    assert {element.eid for element in said.named("mail")} < set(said.context(run))
    said.returned("z")
    assert set(said.finished[run].eids) == {element.eid for element in said.named("mail")}


def test_N20_N19_a_bad_output_of_one_call_makes_no_more_calls_and_fails_the_plan() -> None:
    said = Dialogue(greeting(max_parallel="2"), GREETS)
    addresses = [said.add("<address/>") for _ in range(4)]
    run = said.start("g.r")
    said.returned("a", "<page/>", given=addresses[0])
    assert given(said) == [addresses[1]]
    said.returned("a", "<mail/>", given=addresses[1])
    assert (said.state(run), said.steps(run)) == ("failed", {"a": "failed"})


def test_N19_N26_a_caller_gets_all_the_errors_of_a_step_with_bad_outputs() -> None:
    said = Dialogue(greeting(), GREETS)
    addresses = [said.add("<address/>") for _ in range(3)]
    run = said.start("g.r")
    said.returned("a", "<page/>", given=addresses[0])
    said.returned("a", "<page/>", given=addresses[1])
    said.erred("a", given=addresses[2])
    assert said.finished[run].eids == tuple(error.eid for error in said.errors())


def test_N35_a_second_fault_in_an_older_journal_is_replayed_as_it_was() -> None:
    said = Dialogue(greeting(), GREETS)
    addresses = [said.add("<address/>") for _ in range(2)]
    state = said.states[said.start("g.r")]
    said.returned("a", "<page/>", given=addresses[0])
    (call,) = state.calls
    CallReturned(call, fault=99).apply(state)
    assert state.step("a").errors == ()


def test_N27_N19_a_side_branch_makes_all_its_calls_after_the_end_step_is_done() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            *(step("s"), step("a", foreach="address", max_parallel="1"), step("z")),
            transition("t", "s", "a z"),
            start="s",
        ),
        *(GREETS, action("m.s"), action("m.z")),
    )
    addresses = [said.add("<address/>") for _ in range(3)]
    run = said.start("g.r")
    said.returned("s")
    said.returned("z")
    assert said.state(run) == "end"
    for eid in addresses:
        assert given(said) == [eid]
        said.returned("a", "<mail/>", given=eid)
    assert said.state(run) == "done"
    assert len(said.named("mail")) == 3


def test_N10_foreach_may_say_what_an_earlier_step_produced() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            *(step("s"), step("a", foreach="address[@list = $s/@list]")),
            transition("t", "s", "a"),
            start="s",
            end="a",
        ),
        *(GREETS, action("m.s", (), [Output("choice", "choice")])),
    )
    said.add("<address list='x'/>")
    wanted = said.add("<address list='y'/>")
    said.start("g.r")
    said.returned("s", "<choice list='y'/>")
    assert given(said) == [wanted]


def test_N19_an_action_that_changes_meanwhile_is_called_as_it_was_begun() -> None:
    said = Dialogue(greeting(max_parallel="1"), GREETS)
    addresses = [said.add("<address/>") for _ in range(2)]
    said.start("g.r")
    said.load(action("m.a", [Input("recipient", "address")], [Output("mail", "mail")]))
    said.returned("a", "<mail/>", given=addresses[0])
    assert given(said) == addresses[1:]


# --- a recipe as the target -------------------------------------------------------------------------------

INNER = recipe("g.inner", step("b", "m.b"), start="b", end="b")
EACH = recipe("g.r", step("a", "g.inner", type="recipe", foreach="address"), end="a")
READS = action("m.b", [Input("address", "address")], [Output("mail", "mail")])


def test_N19_a_recipe_may_be_the_target_a_plan_for_each_element() -> None:
    said = Dialogue(EACH, INNER, READS)
    addresses = [said.add("<address/>") for _ in range(3)]
    run = said.start("g.r")
    assert [call.elements for call in said.wishes(Call)] == [(eid,) for eid in addresses]
    for address in addresses:
        inner = said.begins("a", given=address)
        assert said.inputs("b", inner) == {"address": (address,)}
        said.returned("b", "<mail/>", run=inner)
        said.answers(inner)
    assert said.state(run) == "done"
    assert set(said.finished[run].eids) == {element.eid for element in said.named("mail")}


def test_N19_a_recipe_is_called_up_to_max_parallel_with_its_arguments_each_time() -> None:
    inside = "<arguments><text/></arguments>"
    attributes = {"type": "recipe", "foreach": "address", "max-parallel": "1"}
    said = Dialogue(recipe("g.r", step("a", "g.inner", inside, **attributes), end="a"), INNER, READS)
    addresses = [said.add("<address/>") for _ in range(2)]
    said.start("g.r")
    (text,) = said.named("text")
    assert said.call_of("a").elements == (text.eid, addresses[0])
    assert said.call_of("a").nearby[0] == (text.eid,)
    said.answer(said.call_of("a"))
    assert said.call_of("a").elements == (text.eid, addresses[1])


def test_N19_a_recipe_with_no_element_to_be_called_for_ends_the_plan() -> None:
    said = Dialogue(EACH, INNER, READS)
    run = said.start("g.r")
    assert said.state(run) == "failed"
    assert said.error()["message"] == "nothing in memory fits foreach (address)"
    assert (said.error()["recipe"], said.error()["target"]) == ("g.r", "g.inner")


# --- sources (N36) ----------------------------------------------------------------------------------------

WATCHES = action("m.a", [Input("to", "address")], [Output("mail", "mail", list=True)], source=True)


def test_N36_a_foreach_over_sources_follows_what_it_selects() -> None:
    said = Dialogue(recipe("g.r", step("a", foreach="address[@on]"), end="a"), WATCHES)
    first = said.add("<address on='1'/>")
    run = said.start("g.r")
    said.arrives("<address/>")
    second = said.arrives("<address on='2'/>")
    assert given(said) == [first, second]
    call = said.call_of("a", given=first)
    said.outdated(first)
    assert said.wishes(CancelCall) == [CancelCall(call.call)]
    said.answer(call, abandoned=True)
    assert given(said) == [second]
    call = said.call_of("a")
    said.outdated(second)
    said.answer(call, abandoned=True)
    assert said.steps(run) == {"a": "running"}, "with none it waits for the next"
    third = said.arrives("<address on='3'/>")
    assert given(said) == [third]
    said.returned("a")
    assert said.state(run) == "done"


def test_N29_N36_a_source_that_waits_for_another_try_is_given_up_with_its_element() -> None:
    said = Dialogue(
        recipe("g.r", step("a", foreach="address", retries="9", max_parallel="1"), end="a"), WATCHES
    )
    first, second = said.add("<address/>"), said.add("<address/>")
    run = said.start("g.r")
    said.erred("a", given=first)
    said.outdated(first)
    assert given(said) == [second], "there is room for it now"
    said.outdated(first)
    said.cancel(run)
    assert said.state(run) == "cancelled"


def watching(**attributes: str) -> tuple[Dialogue, int, int, int]:
    """A plan that restarts, with a source for each of two elements; what it says, itself, and those two."""
    said = Dialogue(
        recipe("g.r", step("a", foreach="address", **attributes), end="a", restart="yes"), WATCHES
    )
    first, second = said.add("<address/>"), said.add("<address/>")
    return said, said.start("g.r"), first, second


def messages(said: Dialogue) -> list[str | None]:
    return [error.tree().findtext("message") for error in said.named("error")]


def test_N28_N36_a_source_that_fails_begins_again_while_another_works() -> None:
    said, run, first, second = watching()
    for _ in range(3):
        said.erred("a", "no line", given=first)
        assert given(said) == [second], "the other goes on"
        assert said.until_woken() == SOURCE_REST
        assert said.call_of("a", given=first).attempt > 1
    assert said.state(run) == "running"
    assert messages(said) == ["no line"], "the same trouble is told once"
    said.erred("a", "no such mailbox", given=first)
    assert messages(said) == ["no line", "no such mailbox"]
    said.until_woken()
    said.tell(run, Produced(900, said.now, said.call_of("a", given=first).call, ()))
    said.erred("a", "no such mailbox", given=first)
    assert len(messages(said)) == 3, "it was well in between"
    assert said.until_woken() == SOURCE_REST


def test_N28_N36_when_all_sources_have_failed_the_plan_fails_and_begins_again() -> None:
    said, run, first, second = watching()
    said.erred("a", "one", given=first)
    said.erred("a", "two", given=second)
    assert said.state(run) == "failed"
    assert messages(said) == ["one", "two"]
    assert not [of for of, _ in said.wakes.values() if of == run]


def test_N29_N36_the_retries_of_a_source_come_first_and_are_not_told() -> None:
    said, run, first, second = watching(retries="1", backoff="10")
    said.erred("a", "one", given=first)
    assert messages(said) == []
    said.erred("a", "two", given=second)
    said.until_woken()
    said.erred("a", "one", given=first)
    assert messages(said) == ["one"]
    assert said.state(run) == "running"


def test_N36_without_restart_a_source_that_failed_stays_so() -> None:
    said = Dialogue(recipe("g.r", step("a", foreach="address"), end="a"), WATCHES)
    first, second = said.add("<address/>"), said.add("<address/>")
    run = said.start("g.r")
    said.erred("a", given=first)
    assert (given(said), said.wakes) == ([second], {})
    said.returned("a")
    assert said.state(run) == "failed"


def test_N36_sources_of_which_none_is_selected_yet_are_waited_for() -> None:
    said = Dialogue(recipe("g.r", step("a", foreach="address"), end="a"), WATCHES)
    run = said.start("g.r")
    assert (said.steps(run), said.errors()) == ({"a": "running"}, [])
    came = said.arrives("<address/>")
    assert given(said) == [came]


OF_ARGUMENTS = recipe(
    "g.r",
    "<step id='a' type='action' target='m.a' foreach='link' max-parallel='1'>"
    "<arguments><get url='{$each/@href}'/></arguments></step>",
    end="a",
)
GETS = action("m.a", [Input("asked", "get[@url]")], [Output("page", "page")])


def test_a_call_for_each_of_which_only_the_arguments_are_made() -> None:
    said = Dialogue(OF_ARGUMENTS, GETS)
    for place in ("one", "two"):
        said.add(f"<link href='{place}'/>")
    run = said.start("g.r")
    for url in ("one", "two"):
        (asked,) = given(said, "asked")
        element = said.memory.element(asked)
        assert element is not None
        assert element.attributes["url"] == url
        said.returned("a", f"<page of='{url}'/>")
    assert said.state(run) == "done"
    assert len(said.named("page")) == 2


def test_an_argument_that_cannot_be_given_ends_its_own_call_alone() -> None:
    narrow = action("m.a", [Input("asked", "get[@url='one']", use=True)], [Output("page", "page")])
    said = Dialogue(OF_ARGUMENTS, narrow)
    for place in ("one", "two"):
        said.add(f"<link href='{place}'/>")
    run = said.start("g.r")
    said.returned("a", "<page/>")
    assert said.state(run) == "failed"
    (error,) = said.named("error")
    assert error.attributes["type"] == "input-missing"


def test_a_foreach_that_selects_nothing_makes_no_call_of_arguments() -> None:
    said = Dialogue(OF_ARGUMENTS, GETS)
    assert said.state(said.start("g.r")) == "done"
