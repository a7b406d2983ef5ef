"""How plans begin, end, begin again and are cancelled; what is told too late (N5, N21, N28, N29, N35)."""

import copy

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines.commands import Call, CancelCall, Finish, Release, ScheduleForget, Start, Unwatch
from narval.core.engines.events import (
    Cancelled,
    Failure,
    Matched,
    OutputElement,
    Produced,
    Returned,
    Signalled,
    Started,
    TimerFired,
)
from narval.core.errors import InternalError
from narval.kinds.recipe.engine import engine
from narval.kinds.recipe.engine.changes import PlanMoved, PlanStarted, StepDone, StepReady
from narval.kinds.recipe.engine.state import PLAN_MOVES, STEP_MOVES, TRANSITION_MOVES
from tests.core.engines.dialogue import Dialogue, action, decided, recipe, step, transition

ONE = recipe("g.r", step("a"), end="a")


def one(**attributes: str) -> Dialogue:
    return Dialogue(recipe("g.r", step("a"), end="a", **attributes), action("m.a"))


# --- N21: states -------------------------------------------------------------------------------------------


def test_N21_the_states_are_those_of_the_document() -> None:
    def states(moves: dict[str, frozenset[str]]) -> str:
        return " ".join(sorted(set(moves).union(*moves.values())))

    assert states(STEP_MOVES) == "done end error failed history impossible ready running todo"
    assert states(TRANSITION_MOVES) == "fail fireable fired impossible wait-condition wait-step wait-time"
    assert states(PLAN_MOVES) == "cancelled done end failed failed-end ready running"


def test_N21_a_move_that_no_table_lists_raises_with_the_plans_story() -> None:
    said = one()
    run = said.start("g.r")
    said.returned("a")
    with pytest.raises(InternalError, match=r"step a cannot go from done to ready; so far: a done"):
        StepReady("a").apply(copy.deepcopy(said.states[run]))
    with pytest.raises(InternalError, match=r"plan 1 cannot go from done to end"):
        PlanMoved("end", 1.0).apply(copy.deepcopy(said.states[run]))
    with pytest.raises(InternalError, match=r"cannot go from done to running"):
        PlanStarted(1.0).apply(copy.deepcopy(said.states[run]))


def test_N21_the_end_step_that_is_done_ends_the_plan() -> None:
    said = one()
    run = said.start("g.r")
    assert said.state(run) == "running"
    said.now = 130.0
    said.returned("a")
    assert said.wished == [Finish("done", "done")]
    assert (said.states[run].started, said.states[run].ended) == (100.0, 130.0)


def test_N4_the_first_context_of_a_plan_is_what_it_was_started_with() -> None:
    said = one()
    mail = said.add("<mail/>")
    run = said.start("g.r", [mail])
    assert list(said.context(run)) == [mail]


# --- N5: decay ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["returned", "erred", "cancel"])
def test_N5_decay_seconds_after_a_plan_ended_it_is_to_be_forgotten(ending: str) -> None:
    said = one(decay="3600")
    run = said.start("g.r")
    assert said.wishes(ScheduleForget) == []
    said.now = 200.0
    if ending == "cancel":
        said.cancel(run)
    else:
        getattr(said, ending)("a")
    assert said.wishes(ScheduleForget) == [ScheduleForget(3800.0)]


def test_N5_without_decay_it_stays() -> None:
    said = one()
    said.start("g.r")
    said.returned("a")
    assert said.wishes(ScheduleForget) == []


# --- N28: restart ------------------------------------------------------------------------------------------


def test_N28_after_done_a_new_plan_of_the_current_version_starts() -> None:
    said = one(restart="yes")
    mail = said.add("<mail/>")
    said.start("g.r", [mail], attempt=4)
    said.returned("a")
    assert said.wishes(Start) == [Start("g.r", (mail,), 101.0)]


def test_N28_a_plan_that_never_waited_is_not_begun_again_within_a_second() -> None:
    said = one(restart="yes")
    said.start("g.r")
    said.now += 0.9
    said.returned("a")
    assert said.wishes(Start) == [Start("g.r", (), 101.0)]
    said.now = 200.0
    said.start("g.r")
    said.now += 1.0
    said.returned("a")
    assert said.wishes(Start) == [Start("g.r")], "its work took a second"


@pytest.mark.parametrize("mail_first", [True, False])
def test_N28_a_plan_that_takes_its_element_or_waits_for_it_begins_again_at_once(mail_first: bool) -> None:
    waiting = transition("t", "a", "z", "use mail")
    said = Dialogue(recipe("g.r", step("a"), step("z"), waiting, restart="yes"), action("m.a"), action("m.z"))
    said.start("g.r")
    if mail_first:
        said.arrives("<mail/>")
    said.returned("a")
    if not mail_first:
        said.arrives("<mail/>")
    said.returned("z")
    assert said.wishes(Start) == [Start("g.r")]


def test_N28_a_plan_whose_step_uses_an_element_up_begins_again_at_once() -> None:
    said = Dialogue(recipe("g.r", step("a"), end="a", restart="yes"))
    said.load(action("m.a", [Input("mail", "mail", use=True)]))
    said.add("<mail/>")
    said.start("g.r")
    said.returned("a")
    assert said.wishes(Start) == [Start("g.r")]


USES = action("m.a", [Input("mail", "mail", use=True)], [Output("mail", "mail", optional=True)])


def test_N28_a_plan_that_uses_up_what_the_recipe_made_itself_is_not_begun_again_within_a_second() -> None:
    said = Dialogue(recipe("g.r", step("a"), end="a", restart="yes"), USES)
    said.add("<mail/>")
    said.start("g.r")
    said.returned("a", "<mail/>")
    assert said.wishes(Start) == [Start("g.r")], "it was given one from elsewhere"
    said.now = 200.0
    said.start("g.r")
    said.returned("a", "<mail/>")
    assert said.wishes(Start) == [Start("g.r", (), 201.0)]


def test_N28_what_a_step_or_a_called_run_of_the_same_plan_made_does_not_hold_it_up() -> None:
    waits = transition("f", "c", "a b"), transition("t", "a", "z", "use mail"), transition("u", "z b", "d")
    steps = (*map(step, "cazd"), step("b", "g.other", type="recipe"))
    said = Dialogue(recipe("g.r", *steps, *waits, start="c", end="d", restart="yes"))
    said.load(recipe("g.other", step("o"), start="o", end="o"), *(action(f"m.{name}") for name in "cazd"))
    said.load(action("m.o", [], [Output("mail", "mail")]))
    run = said.start("g.r")
    said.returned("c")
    said.returned("a")
    child = said.begins("b")
    assert said.transitions(run)["t"] == "wait-condition"
    said.returned("o", "<mail/>", run=child)
    said.answers(child)
    said.returned("z")
    said.returned("d")
    assert said.wishes(Start) == [Start("g.r", (), 101.0)]


def test_N28_what_a_source_or_a_person_gave_a_plan_comes_from_elsewhere() -> None:
    fork, taken = transition("f", "c", "s a"), transition("t", "a", "z", "use mail")
    said = Dialogue(recipe("g.r", *map(step, "csaz"), fork, taken, start="c", restart="yes"))
    said.load(*(action(f"m.{name}") for name in "caz"))
    said.load(action("m.s", [], [Output("mails", "mail", list=True)], source=True))
    said.start("g.r")
    said.returned("c")
    said.produced("s", "<mail/>")
    said.returned("a")
    said.returned("z")
    said.answer(said.call_of("s"), abandoned=True)
    assert said.wishes(Start) == [Start("g.r")]

    said = two_steps("yes", "use signal")
    run = said.start("g.r")
    said.says(run, "go")
    said.returned("a")
    said.returned("z")
    assert said.wishes(Start) == [Start("g.r")]


def test_N28_after_a_failure_it_starts_after_a_back_off_that_doubles() -> None:
    said = one(restart="yes")
    waits = []
    for attempt in range(12):
        said.start("g.r", attempt=attempt)
        said.erred("a")
        (start,) = said.wishes(Start)
        assert start.attempt == attempt + 1
        waits.append(start.at - said.now)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_N28_the_back_off_ends_at_five_minutes_however_often_it_failed() -> None:
    said = one(restart="yes")
    said.start("g.r", attempt=100_000)
    said.erred("a")
    assert said.wishes(Start) == [Start("g.r", (), 400.0, 100_001)]


def test_N28_the_new_plan_is_top_level_even_if_a_step_called_the_old_one() -> None:
    outer = recipe("g.out", step("b", "g.r", type="recipe"), start="b", end="b")
    said = one(restart="yes")
    said.load(outer)
    said.start("g.out")
    said.begins("b")
    said.returned("a")
    assert said.wishes(Start) == [Start("g.r", (), 101.0)]


def test_N28_a_plan_that_was_cancelled_or_whose_recipe_does_not_say_so_starts_no_other() -> None:
    said = one(restart="yes")
    said.cancel(said.start("g.r"))
    assert said.wishes(Start) == []
    said = one()
    said.start("g.r")
    said.erred("a")
    assert said.wishes(Start) == []


def two_steps(restart: str, condition: str) -> Dialogue:
    """A plan that goes from `a` to `z` once the condition holds."""
    both = recipe("g.r", step("a"), step("z"), transition("t", "a", "z", condition), restart=restart)
    return Dialogue(both, action("m.a"), action("m.z"))


def test_N28_a_parallel_plan_begins_as_soon_as_the_first_transition_has_fired() -> None:
    said = two_steps("parallel", "use mail")
    key = said.add("<key/>")
    said.start("g.r", [key])
    said.returned("a")
    assert said.wishes(Start) == []
    said.arrives("<mail/>")
    assert said.wishes(Start) == [Start("g.r", (key,))]
    said.returned("z")
    assert said.wishes(Start) == [], "the plan that goes on beside it is the next already"


def test_N28_a_parallel_plan_that_nothing_held_up_begins_no_sooner_than_a_second_later() -> None:
    said = two_steps("parallel", "mail")
    said.add("<mail/>")
    said.start("g.r")
    said.returned("a")
    assert said.wishes(Start) == [Start("g.r", (), 101.0)], "the mail is there for ever: it is not used"


def test_N28_of_a_parallel_plan_that_fails_before_it_has_fired_the_next_begins_after_a_back_off() -> None:
    said = two_steps("parallel", "use mail")
    said.start("g.r", attempt=2)
    said.erred("a")
    assert said.wishes(Start) == [Start("g.r", (), 104.0, 3)]


def test_N28_of_a_parallel_plan_that_fails_later_none_begins_after_it() -> None:
    said = two_steps("parallel", "use mail")
    said.arrives("<mail/>")
    said.start("g.r")
    said.returned("a")
    assert len(said.wishes(Start)) == 1
    said.erred("z")
    assert said.wishes(Start) == []


# --- N29: what happens to a call at a restart of the daemon ------------------------------------------------


@pytest.mark.parametrize(("written", "asked"), [({}, ""), ({"on_restart": "error"}, "error")])
def test_N29_a_call_says_what_becomes_of_it_when_the_daemon_starts_again(
    written: dict[str, str], asked: str
) -> None:
    said = Dialogue(recipe("g.r", step("a", **written), end="a"), action("m.a"))
    said.start("g.r")
    assert said.call_of("a").on_restart == asked


def test_N35_an_interrupted_call_is_an_error_like_another() -> None:
    said = Dialogue(
        recipe("g.r", step("a"), step("z"), transition("t", "a!", "z", "error[@type='interrupted']"))
    )
    said.load(action("m.a"), action("m.z"))
    run = said.start("g.r")
    said.answer(said.call_of("a"), problem=Failure("interrupted", "the daemon stopped"))
    assert said.steps(run) == {"a": "history", "z": "running"}


# --- cancelling --------------------------------------------------------------------------------------------


def test_cancelling_gives_up_the_calls_and_frees_what_they_reserved() -> None:
    said = Dialogue(
        recipe("g.r", step("a"), step("b"), step("z"), transition("t", "a", "b z")),
        *(action("m.a"), action("m.b", [Input("x", "x", outdates=True)]), action("m.z")),
    )
    x = said.add("<x/>")
    run = said.start("g.r")
    said.returned("a")
    calls = [call for _, call in said.calls.values()]
    said.cancel(run)
    assert said.wished == [
        Release((x,)),
        *(CancelCall(call.call) for call in calls),
        Finish("cancelled", "cancelled"),
    ]
    assert said.state(run) == "cancelled"


def test_cancelling_ends_the_watches() -> None:
    said = Dialogue(recipe("g.r", step("a"), step("z"), transition("t", "a", "z", "mail")))
    said.load(action("m.a"), action("m.z"))
    run = said.start("g.r")
    said.returned("a")
    said.cancel(run)
    assert len(said.wishes(Unwatch)) == 1
    assert said.watches == {}


def test_cancelling_a_plan_that_ends_or_fails_is_over_at_once() -> None:
    for answer in ("returned", "erred"):
        said = Dialogue(recipe("g.r", step("a"), step("b"), step("z"), transition("t", "a", "b z")))
        said.load(action("m.a"), action("m.b"), action("m.z"))
        run = said.start("g.r")
        said.returned("a")
        getattr(said, answer)("z")
        said.cancel(run)
        assert said.state(run) == "cancelled"
        assert len(said.wishes(CancelCall)) == 1


def test_cancelling_before_the_plan_has_started() -> None:
    said = one()
    state = engine.state_type.blank(7, said.library.get("recipe", "g.r"))
    changes, commands = decided(
        engine, said.library.get("recipe", "g.r"), state, Cancelled(1, 5.0, "enough"), said
    )
    assert (changes, commands) == ([PlanMoved("cancelled", 5.0)], [Finish("cancelled", "cancelled")])
    changes, commands = decided(engine, said.library.get("recipe", "g.r"), state, Started(2, 6.0), said)
    assert (changes, commands) == ([], [])


# --- late and unknown events -------------------------------------------------------------------------------

STRAY = [
    Returned(90, 1.0, "1.1", elements=(OutputElement(b"<mail/>"),)),
    Returned(90, 1.0, "unknown"),
    Returned(90, 1.0, "1.1", abandoned=True),
    Produced(90, 1.0, "1.1", (OutputElement(b"<mail/>"),)),
    Matched(90, 1.0, "2.1", 1),
    TimerFired(90, 1.0, "any"),
    Signalled(90, 1.0, "s", "hello"),
    Started(90, 1.0),
]


@pytest.mark.parametrize("event", [*STRAY, Cancelled(90, 1.0)], ids=lambda event: type(event).__name__)
def test_a_plan_that_is_over_ignores_every_event(event: object) -> None:
    said = one()
    run = said.start("g.r")
    said.returned("a")
    before = copy.deepcopy(said.states[run])
    said.tell(run, event)
    assert (said.decided, said.wished) == ([], [])
    assert said.states[run] == before


@pytest.mark.parametrize(
    "event",
    [event for event in STRAY if getattr(event, "call", "") != "1.1" and not isinstance(event, Signalled)],
    ids=lambda event: type(event).__name__,
)
def test_a_running_plan_ignores_what_does_not_concern_it(event: object) -> None:
    said = one()
    run = said.start("g.r")
    said.tell(run, event)
    assert (said.decided, said.wished) == ([], [])


def test_a_call_that_comes_back_twice_counts_once() -> None:
    said = Dialogue(
        recipe("g.r", step("a"), step("z"), transition("t", "a", "z")), action("m.a"), action("m.z")
    )
    run = said.start("g.r")
    call = said.call_of("a")
    said.returned("a")
    assert StepDone("a", call.call) in said.decided
    said.tell(run, Returned(90, 1.0, call.call))
    assert (said.decided, said.wished) == ([], [])


def test_a_call_that_was_given_up_though_nobody_asked_is_an_error() -> None:
    said = one()
    run = said.start("g.r")
    said.answer(said.call_of("a"), abandoned=True)
    assert said.state(run) == "failed"
    assert said.error()["type"] == "abandoned"


# --- a plan whose advance raised ---------------------------------------------------------------------------


def test_a_plan_that_broke_down_fails_where_it_stands() -> None:
    said = Dialogue(recipe("g.r", step("a"), step("z"), transition("t", "a", "z", "mail")))
    said.load(action("m.a"), action("m.z"))
    run = said.start("g.r")
    for prepare in (lambda: None, lambda: said.returned("a")):
        prepare()
        state = copy.deepcopy(said.states[run])
        _, commands = decided(engine, said.definitions[run], state, TimerFired(90, 9.0, "any"), said, 77)
        assert (state.status, state.error, state.ended, state.over) == ("failed", 77, 9.0, True)
        assert commands == [Finish("failed", "failed", (77,), 77)]
    once_more = decided(engine, said.definitions[run], state, TimerFired(91, 10.0, "any"), said, 78)
    assert once_more == ([], []), "once is enough"


def test_N28_a_plan_that_broke_down_starts_again_and_is_forgotten_as_any_other() -> None:
    said = Dialogue(recipe("g.r", step("a"), end="a", restart="yes", decay="60"), action("m.a"))
    run = said.start("g.r")
    _, commands = decided(
        engine, said.definitions[run], said.states[run], TimerFired(90, 9.0, "any"), said, 77
    )
    assert commands[1:] == [ScheduleForget(69.0), Start("g.r", (), 10.0, 1)]


# --- identifiers -------------------------------------------------------------------------------------------


def test_identifiers_derive_from_the_event_and_nothing_else() -> None:
    text = recipe("g.r", step("a"), step("b"), step("z"), transition("t", "a", "b z"))
    actions = action("m.a"), action("m.b"), action("m.z")
    wished = []
    for _ in range(2):
        said = Dialogue(text, *actions)
        said.start("g.r")
        said.returned("a")
        wished.append([(call.call, call.step) for call in said.wishes(Call)])
    assert wished == [[("2.1", "b"), ("2.2", "z")]] * 2


def test_what_a_step_asks_of_its_call_is_in_it() -> None:
    said = Dialogue(recipe("g.r", step("a", timeout="30"), end="a"), action("m.a", (), [Output("x", "x")]))
    said.start("g.r")
    call = said.call_of("a")
    assert (call.kind, call.name, call.step, call.timeout) == ("action", "m.a", "a", 30.0)
