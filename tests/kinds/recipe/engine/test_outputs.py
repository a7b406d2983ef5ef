"""What a call gives back is checked and kept (N7, N20, N36, N37, §1.4.3)."""

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.elements.changes import Forgotten
from narval.core.engines.commands import Add, AddToContext, CancelCall, Outdate, RecordUnique
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

ONE = recipe("g.r", step("a"), end="a")


def returning(outputs: list[Output], *xml: str, names: tuple[str, ...] = ()) -> tuple[Dialogue, int]:
    """A plan whose one step gave this back."""
    said = Dialogue(ONE, action("m.a", (), outputs))
    run = said.start("g.r")
    said.returned("a", *xml, outputs=names)
    return said, run


MAIL, PAGE = Output("mail", "mail"), Output("page", "page", optional=True)


# --- N20 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "xml"),
    [
        pytest.param([MAIL], ["<mail/>"], id="one"),
        pytest.param([MAIL, PAGE], ["<mail/>"], id="optional left out"),
        pytest.param([MAIL, PAGE], ["<page/>", "<mail/>"], id="in any order"),
        pytest.param([Output("all", "*", list=True)], ["<mail/>", "<page/>", "<mail/>"], id="list"),
        pytest.param([Output("all", "*", list=True, optional=True)], [], id="optional list"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_N20_what_matches_the_prototype_enters_memory_and_the_context(
    outputs: list[Output], xml: list[str]
) -> None:
    said, run = returning(outputs, *xml)
    assert said.state(run) == "done"
    assert [said.xml(eid) for eid in said.context(run)] == xml
    assert said.finished[run].eids == tuple(said.context(run))


@pytest.mark.parametrize(
    ("outputs", "xml", "named", "message"),
    [
        pytest.param([MAIL], ["<mail/>", "<page/>"], "", "element page fits no output", id="unexpected"),
        pytest.param([], ["<mail/>"], "", "declared: none", id="none declared"),
        pytest.param([MAIL], ["<mail/>"] * 2, "mail", "output mail takes one element, got 2", id="several"),
        pytest.param([MAIL], [], "mail", "output mail (mail) is missing", id="missing"),
        pytest.param(
            [Output("mails", "mail", list=True)], [], "mails", "output mails (mail) is missing", id="no list"
        ),
        pytest.param(
            [MAIL, Output("any", "*[@x]", optional=True)],
            ["<mail x='1'/>"],
            "mail, any",
            "fits several outputs: mail, any",
            id="ambiguous",
        ),
    ],
)
def test_N20_anything_else_fails_the_step_with_an_error_that_names_the_output(
    outputs: list[Output], xml: list[str], named: str, message: str
) -> None:
    said, run = returning(outputs, *xml)
    assert (said.state(run), said.steps(run)) == ("failed", {"a": "failed"})
    error = said.error()
    assert (error["type"], error["step"], error["action"]) == ("bad-output", "a", "m.a")
    assert error["plan"] == str(run)
    assert error.get("output", "") == named
    assert message in error["message"]
    assert said.named("mail") == [], "nothing of what was wrong is kept"


def test_N20_an_element_given_for_an_output_must_fit_that_one() -> None:
    said, _ = returning([MAIL, PAGE], "<mail/>", names=("page",))
    assert said.error()["output"] == "page"
    assert said.error()["message"] == "element mail was returned for output page but fits mail"
    said, run = returning([MAIL, PAGE], "<mail/>", names=("mail",))
    assert said.state(run) == "done"
    said, _ = returning([MAIL], "<mail/>", names=("letter",))
    assert said.error()["message"].startswith(
        "element mail was returned under the key 'letter'; declared: mail"
    )


def test_N20_no_error_link_takes_up_a_step_that_failed() -> None:
    handled = transition("h", "a!", "z")
    said = Dialogue(recipe("g.r", step("a"), step("z"), handled), action("m.a", (), [MAIL]), action("m.z"))
    run = said.start("g.r")
    said.returned("a")
    assert said.steps(run) == {"a": "failed", "z": "todo"}
    assert said.state(run) == "failed"


def test_N20_error_elements_need_no_declaration_and_nothing_is_missing_beside_one() -> None:
    said, run = returning([MAIL], "<error><message>no mail today</message></error>")
    assert said.steps(run) == {"a": "error"}
    assert len(said.errors()) == 1, "it is kept as it is, and no other is made"
    assert said.finished[run].error == said.errors()[0].eid


def test_N20_what_comes_with_an_error_element_is_checked_and_kept() -> None:
    said, run = returning([MAIL, PAGE], "<page/>", "<error/>")
    assert [said.memory.element(eid).name for eid in said.context(run)] == ["page", "error"]
    said, run = returning([MAIL], "<letter/>", "<error/>")
    assert said.steps(run) == {"a": "failed"}


def test_N26_an_error_element_is_an_error_even_where_an_output_would_take_anything() -> None:
    said, run = returning([Output("all", "*", list=True)], "<error/>")
    assert said.steps(run) == {"a": "error"}


def test_N14_a_step_tightens_the_outputs_of_its_target() -> None:
    inside = '<output id="mails" list="no" optional="no"><match>*[@re = $s/@id]</match></output>'
    said = Dialogue(
        recipe("g.r", step("s"), step("a", inside=inside), transition("t", "s", "a"), start="s", end="a"),
        action("m.s", (), [Output("ask", "ask")]),
        action("m.a", (), [Output("mails", "mail", list=True, optional=True)]),
    )
    wrong = {(): "is missing", ("<mail re='0'/>",): "fits no output", ("<mail re='1'/>",) * 2: "got 2"}
    for xml, message in wrong.items():
        said.start("g.r")
        said.returned("s", "<ask id='1'/>")
        said.returned("a", *xml)
        assert message in said.errors()[-1].text
    run = said.start("g.r")
    said.returned("s", "<ask id='1'/>")
    said.returned("a", "<mail re='1'/>")
    assert said.state(run) == "done"


def test_N20_an_action_that_is_gone_when_its_call_comes_back_fails_the_step() -> None:
    said = Dialogue(ONE, action("m.a", (), [MAIL]))
    run = said.start("g.r")
    said.library = said.library.replace([], without=[""])
    said.load(ONE)
    said.returned("a", "<mail/>")
    assert said.steps(run) == {"a": "failed"}
    assert "cannot be checked: there is no action named m.a" in said.error()["message"]


def test_N7_an_element_that_its_schema_refuses_is_a_bad_output() -> None:
    said = Dialogue(ONE, action("m.a", (), [MAIL]), schema_faults={b"<mail/>": "line 1: needs a subject"})
    said.start("g.r")
    said.returned("a", "<mail/>", outputs=["mail"])
    error = said.error()
    assert (error["type"], error["output"]) == ("bad-output", "mail")
    assert "refused by its schema: line 1: needs a subject" in error["message"]


# --- N37: unique -------------------------------------------------------------------------------------------

BOX = action("m.a", (), [Output("mails", "mail", list=True, optional=True, unique="@id")])


def test_N37_an_element_of_that_name_with_an_equal_value_is_dropped() -> None:
    said = Dialogue(ONE, BOX)
    first = said.start("g.r")
    said.returned("a", "<mail id='1'/>", "<mail id='2'/>", "<mail id='1'/>")
    assert [element.attributes["id"] for element in said.named("mail")] == ["1", "2"]
    assert said.wishes(RecordUnique) == [RecordUnique("mail", "@id", "1"), RecordUnique("mail", "@id", "2")]
    second = said.start("g.r")
    said.returned("a", "<mail id='2'/>", "<mail id='3'/>")
    assert [element.attributes["id"] for element in said.named("mail")] == ["1", "2", "3"]
    assert len(list(said.context(first))) == 2
    assert len(list(said.context(second))) == 1


def test_N37_a_dropped_element_still_counts_as_given() -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("mail", "mail", unique="@id")]))
    runs = []
    for _ in range(2):
        runs.append(said.start("g.r"))
        said.returned("a", "<mail id='1'/>")
    assert [said.state(run) for run in runs] == ["done", "done"]
    assert len(said.named("mail")) == 1


def test_N37_the_keys_outlive_forgetting() -> None:
    said = Dialogue(ONE, BOX)
    said.start("g.r")
    said.returned("a", "<mail id='1'/>")
    said.memory.apply(Forgotten((said.named("mail")[0].eid,)))
    said.start("g.r")
    said.returned("a", "<mail id='1'/>")
    assert said.named("mail") == []


def test_N37_names_are_told_apart_and_an_empty_value_is_no_key() -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("all", "*", list=True, optional=True, unique="@id")]))
    said.start("g.r")
    said.returned("a", "<mail id='1'/>", "<item id='1'/>", "<mail/>", "<mail/>")
    assert len(said.named("mail")) == 3
    assert len(said.named("item")) == 1


def test_N37_a_value_may_be_computed() -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("m", "mail", list=True, unique="concat(@box, ' ', @id)")]))
    said.start("g.r")
    said.returned("a", "<mail box='x' id='1'/>", "<mail box='y' id='1'/>", "<mail box='x' id='1'/>")
    assert len(said.named("mail")) == 2


@pytest.mark.parametrize("unique", ["mail/@id", "/memory/mail/@id", "//mail/@id", "mail[@box='x']/@id"])
def test_N37_a_unique_expression_may_be_a_pattern(unique: str) -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("m", "mail", list=True, unique=unique)]))
    said.start("g.r")
    said.returned("a", "<mail box='x' id='1'/>", "<mail box='x' id='2'/>", "<mail box='x' id='1'/>")
    assert [element.attributes["id"] for element in said.named("mail")] == ["1", "2"]


def test_N37_a_computed_value_of_nothing_is_no_key() -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("m", "mail", list=True, unique="concat(@box, ' ', @id)")]))
    said.start("g.r")
    said.returned("a", "<mail/>", "<mail/>")
    assert len(said.named("mail")) == 2


def test_N37_a_unique_expression_that_cannot_be_evaluated_is_a_bad_output() -> None:
    said, _ = returning([Output("mail", "mail", unique="unknown-function(@id)")], "<mail id='1'/>")
    assert said.error()["output"] == "mail"
    assert "unknown-function" in said.error()["message"]


# --- replaces ----------------------------------------------------------------------------------------------

KEEPS = action(
    "m.a",
    (),
    [
        Output("events", "event", list=True, optional=True, replaces="@key"),
        Output("gone", "outdated", list=True, optional=True, replaces="event/@key"),
    ],
    source=True,
)


def current(said: Dialogue) -> list[str]:
    """The texts of the events that count."""
    return [event.text for event in said.named("event") if event.eid not in said.memory.outdated]


def test_an_output_takes_the_place_of_the_element_with_the_same_key() -> None:
    said = Dialogue(ONE, KEEPS)
    said.start("g.r")
    said.produced("a", "<event key='1'>one</event>", "<event key='2'>two</event>", "<event>none</event>")
    first = said.named("event")[0]
    said.produced("a", "<event key='1'>uno</event>", "<event>none</event>")
    assert current(said) == ["two", "none", "uno", "none"]
    assert said.named("event")[-2].origin.inputs == (first.eid,), (
        "what waits for the old one gets the new one"
    )
    assert said.wishes(Outdate) == [Outdate((first.eid,))]


def test_an_output_that_is_the_same_again_is_dropped_and_one_that_was_before_is_not() -> None:
    said = Dialogue(ONE, KEEPS)
    said.start("g.r")
    for text in ("one", "one", "two", "one"):
        said.produced("a", f"<event key='1' more='&quot;&apos;'>{text}</event>")
    assert [event.text for event in said.named("event")] == ["one", "two", "one"]
    assert current(said) == ["one"]


def test_an_output_of_another_name_takes_an_element_away_and_is_dropped_where_there_is_none() -> None:
    said = Dialogue(ONE, KEEPS)
    said.start("g.r")
    said.produced("a", "<event key='1'>one</event>", "<event key='2'>two</event>")
    said.produced("a", "<outdated key='1' reason='r'/>", "<outdated key='7' reason='r'/>")
    assert current(said) == ["two"]
    assert [element.attributes["key"] for element in said.named("outdated")] == ["1"]


def test_an_output_of_a_call_that_ends_replaces_too() -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("event", "event", optional=True, replaces="@key")]))
    for text in ("one", "two", "two"):
        run = said.start("g.r")
        said.returned("a", f"<event key='1'>{text}</event>")
        assert said.state(run) == "done"
    assert current(said) == ["two"]


# --- N36: sources ------------------------------------------------------------------------------------------

WATCHES = action("m.a", (), [Output("mail", "mail", unique="@id")], source=True)


def test_N36_the_step_of_a_source_stays_running_and_each_yield_adds_elements() -> None:
    said = Dialogue(ONE, WATCHES)
    run = said.start("g.r")
    said.produced("a", "<mail id='1'/>", "<mail id='2'/>")
    assert len(said.wishes(Add)) == 2
    said.produced("a", "<mail id='2'/>", "<mail id='3'/>")
    assert said.steps(run) == {"a": "running"}
    assert [element.attributes["id"] for element in said.named("mail")] == ["1", "2", "3"]
    assert {element.origin.step for element in said.named("mail")} == {"a"}


def test_N36_what_a_source_gives_is_for_everyone_and_not_held_by_its_plan() -> None:
    waits = recipe("g.waits", step("b"), step("c"), transition("t", "b", "c", "mail"), start="b", end="c")
    said = Dialogue(ONE, waits)
    said.load(WATCHES, action("m.b"), action("m.c"))
    source, waiting = said.start("g.r"), said.start("g.waits")
    said.returned("b")
    said.produced("a", "<mail id='1'/>")
    assert said.transitions(waiting) == {"t": "fired"}
    assert list(said.context(source)) == []


def test_N36_an_error_that_a_source_yields_is_told_and_the_source_goes_on() -> None:
    said = Dialogue(ONE, WATCHES)
    run = said.start("g.r")
    said.produced("a", "<error><message>one mail cannot be read</message></error>", "<mail id='1'/>")
    assert said.steps(run) == {"a": "running"}
    assert (len(said.errors()), len(said.named("mail"))) == (1, 1)


TELLS = action(
    "m.a",
    (),
    [
        Output("mail", "mail", list=True, optional=True),
        Output("troubles", "error[@box]", list=True, optional=True, unique="@id"),
    ],
    source=True,
)


def test_N37_a_source_that_begins_again_tells_of_the_same_trouble_once() -> None:
    said = Dialogue(ONE, TELLS)
    for _ in range(2):
        run = said.start("g.r")
        said.produced("a", "<error box='b' id='1'/>", "<error box='b' id='2'/>", "<error box='b'/>", run=run)
    assert said.steps(run) == {"a": "running"}
    told = [error.attributes.get("id") for error in said.errors()]
    assert told == ["1", "2", None, None], "what has no key is told each time"


def test_N26_N37_the_error_that_ends_a_call_is_told_each_time() -> None:
    said = Dialogue(ONE, action("m.a", (), [Output("troubles", "error", optional=True, unique="@id")]))
    for _ in range(2):
        run = said.start("g.r")
        said.returned("a", "<error id='1'/>")
        assert said.steps(run) == {"a": "error"}
    assert len(said.errors()) == 2


def test_N36_a_source_that_ends_is_done_and_nothing_is_missing() -> None:
    for yields in (["<mail id='1'/>"], []):
        said = Dialogue(ONE, WATCHES)
        run = said.start("g.r")
        said.produced("a", *yields)
        said.returned("a")
        assert said.state(run) == "done"


def test_N20_N36_a_bad_yield_gives_the_source_up_and_fails_the_plan() -> None:
    said = Dialogue(
        ONE, action("m.a", [Input("box", "box", outdates=True)], [Output("mail", "mail")], source=True)
    )
    said.add("<box/>")
    run = said.start("g.r")
    call = said.call_of("a")
    said.produced("a", "<page/>")
    assert said.wishes(CancelCall) == [CancelCall(call.call)]
    assert (said.state(run), said.steps(run)) == ("failed", {"a": "failed"})
    assert said.memory.reserved == set()
    said.answer(call, abandoned=True)
    assert said.decided == []


def test_N27_N36_a_source_on_a_side_branch_is_given_up_when_its_plan_has_ended() -> None:
    said = Dialogue(recipe("g.r", step("s"), step("a"), step("z"), transition("t", "s", "a z"), start="s"))
    said.load(WATCHES, action("m.s"), action("m.z"))
    for answer, state in (("returned", "done"), ("erred", "failed")):
        run = said.start("g.r")
        said.returned("s", run=run)
        call = said.call_of("a", run)
        getattr(said, answer)("z", run=run)
        assert said.wishes(CancelCall) == [CancelCall(call.call)]
        assert said.state(run) in ("end", "failed-end")
        said.produced("a", f"<mail id='{run}'/>", run=run)
        assert said.named("mail")[-1].attributes["id"] == str(run), "until it has ended its elements count"
        said.answer(call, abandoned=True)
        assert (said.state(run), said.steps(run)["a"]) == (state, "done")
    assert len(said.errors()) == 1, "being given up then is no error of the source"


def test_N20_a_yield_or_an_answer_of_a_call_that_is_not_under_way_is_ignored() -> None:
    said = Dialogue(ONE, WATCHES)
    run = said.start("g.r")
    call = said.call_of("a")
    said.returned("a")
    said.in_force[run].calls[call.call] = call
    said.produced("a", "<mail id='9'/>")
    assert (said.decided, said.wished) == ([], [])
    said.returned("a", "<mail id='9'/>")
    assert (said.decided, said.wished) == ([], [])


def test_N3_the_result_of_a_child_run_is_held_and_produced() -> None:
    said = Dialogue(
        recipe("g.r", step("a", "g.in", type="recipe"), end="a"), recipe("g.in", step("a"), end="a")
    )
    said.load(action("m.a", (), [MAIL]))
    run = said.start("g.r")
    inner = said.begins("a")
    said.returned("a", "<mail/>", run=inner)
    (mail,) = said.named("mail")
    said.answers(inner)
    assert said.wishes(AddToContext) == [AddToContext((mail.eid,))]
    assert said.finished[run].eids == (mail.eid,)
