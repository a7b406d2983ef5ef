"""Steps that are called again until memory has what they wait for (`until` and `every`, N40)."""

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.commands import CancelTimer, SetTimer, Unwatch
from narval.core.engines.events import Resume, Reusable
from narval.kinds.recipe.engine.changes import RestEnded, StepDone, StepResting
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

DAY = 86400.0
PAID = "payment[@of='7']"
REMIND = action("m.remind", [Input("invoice", "invoice")], [Output("reminder", "reminder")])


def remind(until: str = PAID, every: str = "7d", inside: str = "", **attributes: str) -> str:
    return step("remind", inside=inside, until=until, every=every, **attributes)


def plan(*parts: str, start: str = "remind", end: str = "remind", **attributes: str) -> tuple[Dialogue, int]:
    """A plan of a recipe with these parts, and an invoice to remind of."""
    text = recipe("g.r", *(parts or (remind(),)), start=start, end=end, **attributes)
    said = Dialogue(text, REMIND, *(action(f"m.{name}") for name in "abcz"))
    said.add("<invoice number='7'/>")
    return said, said.start("g.r")


def reminded(said: Dialogue) -> None:
    said.returned("remind", "<reminder/>")


def test_N40_a_step_is_called_again_until_something_fits() -> None:
    said, run = plan()
    began = said.now
    said.passes(3)
    reminded(said)
    [rest] = said.decided[1:]
    assert isinstance(rest, StepResting)
    assert rest.until == began + 7 * DAY, "counted from when it was called"
    assert said.wishes(SetTimer) == [SetTimer(rest.wake, rest.until, calendar=True, standing=True)]
    assert said.steps(run) == {"remind": "running"}
    assert said.until_woken() == 7 * DAY - 3
    reminded(said)
    said.passes(2 * DAY)
    payment = said.arrives("<payment of='7'/>")
    assert said.decided[0] == RestEnded("remind")
    assert said.state(run) == "done"
    assert (said.wakes, said.watches) == ({}, {})
    reminders = [element.eid for element in said.named("reminder")]
    assert len(reminders) == 2
    assert said.finished[run].eids == tuple(reminders), "its products are those of all its calls"
    assert payment not in said.states[run].steps["remind"].produced


def test_N40_what_is_there_already_ends_it_before_the_first_call() -> None:
    said, _ = plan()
    said.add("<payment of='7'/>")
    run = said.start("g.r")
    assert (said.state(run), said.calls_of("remind", run)) == ("done", [])


def test_N40_what_does_not_fit_does_not_end_it() -> None:
    said, run = plan()
    reminded(said)
    said.arrives("<payment of='8'/>")
    assert said.decided == []
    assert said.steps(run) == {"remind": "running"}


def test_N40_what_came_during_a_call_ends_it_when_the_call_is_back() -> None:
    said, run = plan()
    said.arrives("<payment of='7'/>")
    assert said.decided == []
    reminded(said)
    assert said.state(run) == "done"
    assert said.wakes == {}


def test_N40_a_call_that_took_longer_is_followed_by_the_next_at_once() -> None:
    said, run = plan(remind(every="10m"))
    said.passes(3600)
    reminded(said)
    assert said.steps(run) == {"remind": "running"}
    assert said.calls_of("remind"), "the next is under way"
    reminded(said)
    assert said.until_woken() == 600, "and the one after it is ten minutes later, not at once"


def test_N40_time_without_a_daemon_counts_once() -> None:
    said, _ = plan()
    reminded(said)
    [wake] = said.wakes
    said.now += 40 * 7 * DAY
    said.wakes_up(wake)
    reminded(said)
    assert said.until_woken() == 7 * DAY


def test_N40_a_timer_that_is_told_early_is_set_anew() -> None:
    said, _ = plan()
    began = said.now
    reminded(said)
    said.now -= 50
    [wake] = said.wakes
    said.wakes_up(wake)
    assert said.calls == {}
    [(_, timer)] = said.wakes.values()
    assert timer.at == began + 7 * DAY
    said.until_woken()
    assert said.calls_of("remind")
    assert said.watches == {}


# --- variables ----------------------------------------------------------------------------------------------


def test_N40_until_may_ask_for_an_answer_to_any_of_its_own_reminders() -> None:
    said, run = plan(remind(until="answer[@to = $remind/@id]"))
    for number in "12":
        said.returned("remind", f"<reminder id='{number}'/>")
        said.arrives("<answer to='9'/>")
        assert said.steps(run) == {"remind": "running"}
        said.until_woken()
    said.returned("remind", "<reminder id='3'/>")
    said.arrives("<answer to='1'/>")
    assert said.state(run) == "done"


def test_N40_a_variable_that_gets_its_elements_meanwhile_is_judged_anew() -> None:
    parts = step("c"), transition("f", "c", "remind a"), step("a"), transition("t", "a", "b"), step("b")
    ends = transition("j", "remind b", "z"), step("z")
    said, run = plan(remind(until="payment[@of = $a/@of]"), *parts, *ends, start="c", end="z")
    said.load(action("m.a", [], [Output("which", ("which",))]))
    said.returned("c")
    reminded(said)
    said.arrives("<payment of='1'/>")
    said.arrives("<payment of='7'/>")
    assert said.steps(run)["remind"] == "running"
    said.returned("a", "<which of='7'/>")
    assert said.steps(run)["remind"] == "done"

    said, run = plan(remind(until="payment[@of = $a/@of]"), *parts, *ends, start="c", end="z")
    said.load(action("m.a", [], [Output("which", ("which",))]))
    said.returned("c")
    reminded(said)
    said.returned("a", "<which of='7'/>")
    assert len(said.wakes) == 1
    said.arrives("<payment of='7'/>")
    assert said.steps(run)["remind"] == "done"
    assert said.wakes == {}


def test_N40_N42_a_name_that_gets_its_element_meanwhile_is_judged_anew() -> None:
    fork, named = transition("f", "c", "remind a"), transition("t", "a", "b", "bill")
    named = named.replace("<condition", '<condition as="first"')
    parts = step("c"), fork, step("a"), named, step("b"), transition("j", "remind b", "z"), step("z")
    said, run = plan(remind(until="payment[@of = $first/@of]"), *parts, start="c", end="z")
    said.returned("c")
    reminded(said)
    said.returned("a")
    said.arrives("<payment of='7'/>")
    assert said.steps(run)["remind"] == "running"
    said.arrives("<bill of='7'/>")
    assert said.steps(run)["remind"] == "done"


def test_N40_a_signal_to_the_plan_may_end_it() -> None:
    said, run = plan(remind(until="signal[@name='stop']"))
    reminded(said)
    other = said.start("g.r")
    assert said.says(run, "stop")["taken_by"] == "remind"
    assert said.state(run) == "done"
    assert said.state(other) == "running"


# --- inputs -------------------------------------------------------------------------------------------------


def test_N40_each_call_looks_for_its_inputs_anew() -> None:
    said, run = plan(remind(inside='<input id="invoice" use="yes"/>'))
    second = said.add("<invoice number='8'/>")
    reminded(said)
    said.until_woken()
    assert said.inputs("remind") == {"invoice": (second,)}
    reminded(said)
    said.until_woken()
    assert said.state(run) == "failed"
    assert said.error()["type"] == "input-missing"


def test_N18_N40_a_call_that_finds_its_input_reserved_waits_for_it_and_for_what_ends_it() -> None:
    said, run = plan()
    said.load(action("m.a", [Input("invoice", "invoice", outdates=True)], [Output("new", "invoice")]))
    said.load(recipe("g.other", step("a"), end="a"))
    reminded(said)
    other = said.start("g.other")
    said.until_woken()
    assert said.calls_of("remind") == []
    said.returned("a", "<invoice number='7' n='2'/>", run=other)
    assert said.calls_of("remind")

    reminded(said)
    other = said.start("g.other")
    said.until_woken()
    said.arrives("<payment of='7'/>")
    assert said.state(run) == "done"
    assert said.watches == {}


def test_N18_N40_what_an_earlier_plan_had_used_is_taken_once_by_a_retry() -> None:
    said, run = plan(remind(inside='<input id="invoice" use="yes"/>'))
    first, second = said.inputs("remind")["invoice"][0], said.add("<invoice number='8'/>")
    reminded(said)
    said.until_woken()
    said.erred("remind")
    assert said.state(run) == "failed"
    again = (Reusable("remind", "invoice", (first, second)),)
    said.start("g.r", resume=Resume(run, "remind", again=again))
    given = []
    for _ in range(2):
        given += said.inputs("remind")["invoice"]
        reminded(said)
        said.until_woken()
    assert given == [first, second]
    assert said.calls == {}, "and no third time"


# --- failures -----------------------------------------------------------------------------------------------


def test_N26_N40_a_call_that_fails_puts_the_step_in_error() -> None:
    said, run = plan(remind(), transition("f", "remind!", "a"), step("a"), end="a")
    reminded(said)
    said.until_woken()
    said.erred("remind")
    assert said.steps(run) == {"remind": "history", "a": "running"}
    assert (said.wakes, said.watches) == ({}, {})


def test_N29_N40_a_call_is_tried_again_unless_something_fits_by_then() -> None:
    said, run = plan(remind(retries="3", backoff="60", inside='<input id="invoice" outdates="yes"/>'))
    said.erred("remind")
    said.until_woken()
    assert said.call_of("remind").attempt == 2
    said.erred("remind")
    said.arrives("<payment of='7'/>")
    said.until_woken()
    assert (said.state(run), said.calls) == ("done", {})
    assert said.memory.reserved == set() or not said.memory.reserved
    assert said.errors() == []


# --- the end of the plan ------------------------------------------------------------------------------------


def both(end: str = "z") -> tuple[Dialogue, int]:
    """A plan that goes on beside its reminder."""
    fork = transition("f", "c", "remind a")
    parts = step("c"), fork, step("a"), transition("t", "a", "z"), step("z")
    said, run = plan(remind(), *parts, start="c", end=end)
    said.returned("c")
    return said, run


def test_N27_N40_a_plan_that_ends_gives_up_a_step_that_rests() -> None:
    said, run = both()
    reminded(said)
    said.returned("a")
    said.returned("z")
    assert said.state(run) == "done"
    assert said.wishes(CancelTimer)
    assert said.wishes(Unwatch)
    assert StepDone("remind") not in said.decided


def test_N27_N40_a_plan_that_ends_waits_for_the_call_under_way_and_makes_no_more() -> None:
    said, run = both()
    said.returned("a")
    said.returned("z")
    assert said.state(run) == "end"
    reminded(said)
    assert (said.state(run), said.wakes) == ("done", {})
    assert len(said.named("reminder")) == 1


def test_N27_N40_a_plan_that_fails_gives_it_up_too() -> None:
    said, run = both()
    reminded(said)
    said.erred("a")
    assert (said.state(run), said.wakes, said.watches) == ("failed", {}, {})


def test_N27_N40_a_plan_that_only_calls_again_is_not_stuck() -> None:
    said, run = plan(remind(), transition("t", "remind", "z"), step("z"), end="z")
    reminded(said)
    assert said.state(run) == "running"
    said.cancel(run)
    assert (said.state(run), said.wakes, said.watches) == ("cancelled", {}, {})


def test_N40_a_recipe_may_be_called_again_with_its_arguments() -> None:
    text = remind(
        type="recipe", target="g.call", every="1h", inside="<arguments><text>Hello</text></arguments>"
    )
    said, _ = plan(text)
    said.load(recipe("g.call", step("a"), end="a"))
    run = said.start("g.r")
    for number in (1, 2):
        child = said.begins("remind", run)
        said.returned("a", run=child)
        said.answers(child)
        assert len(said.named("text")) == number
        said.until_woken()
