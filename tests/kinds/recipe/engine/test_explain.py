"""How far a plan has come: as an element, as parts, what it waits for (N2, N11, N24, tables 2.12–2.14)."""

from itertools import pairwise

from lxml import etree

from narval.core.definitions.action.definition import Input, Output
from narval.core.engines.engine import Wait
from narval.kinds.recipe.engine import engine
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

TEXT = recipe(
    "g.r",
    *(step("a"), step("b"), step("c"), step("z")),
    *(
        transition("fork", "a", "b c"),
        transition("t", "b", "z", "use mail[@x]", priority=3),
        transition("ill", "c!", "z"),
    ),
    decay="60",
    restart="yes",
)
ACTIONS = (action("m.a", (), [Output("page", "page")]), action("m.b"), action("m.c"), action("m.z"))


def waiting() -> tuple[Dialogue, int]:
    """A plan whose transition t sleeps and whose step c runs."""
    said = Dialogue(TEXT, *ACTIONS)
    run = said.start("g.r")
    said.returned("a", "<page/>")
    said.returned("b")
    return said, run


def waiting_for(said: Dialogue, run: int) -> list[Wait]:
    watches = {watch: command for watch, (of, command) in said.watches.items() if of == run}
    return list(engine.waiting_for(said.definitions[run], said.states[run], watches))


def explain(said: Dialogue, run: int, part: str) -> str | None:
    return engine.explain(said.definitions[run], said.states[run], part)


# --- N2: the plan element ---------------------------------------------------------------------------------


def test_N2_a_plan_is_an_element_with_the_attributes_of_table_2_12() -> None:
    said, run = waiting()
    root = said.memory.element(run).tree()
    assert dict(root.attrib) == {
        "recipename": "g.r",
        "group": "g",
        "name": "r",
        "start_step": "a",
        "end_step": "z",
        "restart": "yes",
        "decay": "60",
        "state": "running",
        "eid": str(run),
    }


def test_N2_it_shows_steps_and_transitions_with_their_states_and_links() -> None:
    said, run = waiting()
    root = said.memory.element(run).tree()
    states = {node.get("id"): node.get("state") for node in root if node.get("id")}
    assert states == {
        "a": "history",
        "b": "done",
        "c": "running",
        "z": "todo",
        "fork": "fired",
        "t": "wait-condition",
        "ill": "wait-step",
    }
    assert root.xpath("step[@id='a'][@type='action'][@target='m.a']")
    assert root.xpath("transition[@id='fork'][in/@idref='a']/out/@idref") == ["b", "c"]
    assert root.xpath("transition[@id='t']/@priority") == ["3"]
    assert root.xpath("transition/in[@on-error='yes']/@idref") == ["c"]


def test_N2_its_context_is_by_reference_as_tables_2_13_and_2_14_say() -> None:
    said, run = waiting()
    root = said.memory.element(run).tree()
    (page,) = said.named("page")
    assert root.xpath("elements/element/@eid") == [str(page.eid)]
    assert root.xpath("step[@id='a']/element/@eid") == [str(page.eid)]


def test_N2_a_called_plan_names_its_parent() -> None:
    said = Dialogue(recipe("g.out", step("s", "g.r", type="recipe"), start="s", end="s"), TEXT, *ACTIONS)
    outer = said.start("g.out")
    inner = said.begins("s")
    root = said.memory.element(inner).tree()
    assert (root.get("parent_plan"), root.get("parent_step")) == (str(outer), "s")


def test_N2_a_pattern_can_match_a_plan_by_its_state() -> None:
    said, run = waiting()
    watching = recipe("g.w", step("a"), step("z"), transition("t", "a", "z", "plan[@state='failed']"))
    said.load(watching)
    for state in ("wait-condition", "fired"):
        watcher = said.start("g.w")
        said.returned("a", "<page/>", run=watcher)
        assert said.transitions(watcher)["t"] == state
        if state == "wait-condition":
            said.erred("c", run=run)
            said.erred("z", run=run)


def test_N2_it_is_well_formed_whatever_its_state() -> None:
    said = Dialogue(TEXT, *ACTIONS)
    definition = said.library.get("recipe", "g.r")
    root = etree.fromstring(engine.render(definition, engine.state_type.blank(1, definition), ()))
    assert (root.get("state"), {node.get("state") for node in root.iter("step")}) == ("ready", {"todo"})


# --- what it waits for --------------------------------------------------------------------------------------


def test_N24_a_plan_says_which_calls_conditions_and_joins_it_waits_for() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            *(step(name) for name in "abcz"),
            transition("fork", "a", "b c"),
            transition("t", "b", "z", "mail[@x]"),
            transition("join", "b c", "z"),
        ),
        *(action(f"m.{name}") for name in "abcz"),
    )
    run = said.start("g.r")
    said.returned("a")
    said.returned("b")
    call, condition, join = waiting_for(said, run)
    assert (call.id, call.what, call.text) == ("c", "call", "action m.c")
    assert call.calls == (said.call_of("c").call,)
    assert (condition.id, condition.what) == ("t", "condition")
    assert [bound.text for bound in condition.conditions] == ["mail[@x]"]
    assert condition.scopes == (None,)
    assert (join.id, join.what) == ("join", "join")
    assert join.text == "steps c (running: 1 of its calls of action m.c have not come back)"


def test_N18_a_step_that_is_held_back_says_so() -> None:
    text = recipe("g.r", step("a"), end="a")
    said = Dialogue(text, action("m.a", [Input("x", "x", outdates=True), Input("y", "y", optional=True)]))
    said.add("<x/>")
    said.start("g.r")
    second = said.start("g.r")
    (wait,) = waiting_for(said, second)
    assert (wait.id, wait.what) == ("a", "input")
    assert [bound.text for bound in wait.conditions] == ["x"], "what is optional is not waited for"
    assert "reserved" in explain(said, second, "a")


def test_a_plan_in_end_waits_for_calls_alone() -> None:
    said = Dialogue(recipe("g.r", *(step(name) for name in "abz"), transition("t", "a", "b z")), *ACTIONS)
    run = said.start("g.r")
    said.returned("a", "<page/>")
    said.returned("z")
    assert [(wait.id, wait.what) for wait in waiting_for(said, run)] == [("b", "call")]


# --- parts and reasons --------------------------------------------------------------------------------------


def test_parts_are_steps_with_their_calls_and_transitions() -> None:
    said, run = waiting()
    parts = engine.parts(said.definitions[run], said.states[run])
    assert parts["steps"][2] == {
        "id": "c",
        "state": "running",
        "target": "m.c",
        "calls": [said.call_of("c").call],
    }
    assert parts["transitions"][1] == {"id": "t", "state": "wait-condition"}


def test_every_part_has_a_reason_and_nothing_else_has() -> None:
    said, run = waiting()
    told = {part: explain(said, run, part) for part in ("a", "b", "c", "z", "fork", "t", "ill")}
    assert told == {
        "a": "step a is history: it did its work and the plan has gone on",
        "b": "step b is done: it did its work",
        "c": "step c is running: 1 of its calls of action m.c have not come back",
        "z": "step z is todo: no transition has led to it yet: t (wait-condition), ill (wait-step)",
        "fork": "transition fork is fired: it was taken",
        "t": "transition t is wait-condition: its in-steps are done, and some condition has no element",
        "ill": "transition ill is wait-step: its in-steps have not all ended: c is running (wanted: error)",
    }
    assert explain(said, run, "nothing") is None


def test_reasons_of_what_went_wrong_name_the_elements() -> None:
    said, run = waiting()
    said.erred("c")
    assert explain(said, run, "c") == "step c is history: its error was handled"
    assert explain(said, run, "ill") == "transition ill is fired: it was taken"
    said.erred("z")
    error = said.errors()[-1].eid
    assert explain(said, run, "z") == f"step z is error: action m.z ended in error: element {error}"


def test_reasons_of_what_was_not_taken() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            *(step(name) for name in "abcz"),
            transition("t", "a", "b z", priority=1),
            transition("u", "a", "c"),
            transition("ill", "b!", "c", "mail"),
        ),
        *(action(f"m.{name}") for name in "abcz"),
    )
    run = said.start("g.r")
    said.returned("a")
    assert explain(said, run, "u") == (
        "transition u is impossible: transition t (priority 1, that of u is 0) was taken instead, "
        "and ended step a"
    )
    said.erred("b")
    assert explain(said, run, "ill").startswith("transition ill is fail: its conditions did not hold")
    assert explain(said, run, "c") == (
        "step c is impossible: transition u leads to it, and transition t (priority 1, that of u is 0) was "
        "taken instead, and ended step a; transition ill leads to it, and its conditions did not hold"
    )


def test_the_reason_of_a_step_that_was_ready_when_the_plan_ended() -> None:
    said = Dialogue(
        recipe("g.r", *(step(name) for name in "abz"), transition("t", "a", "b z")),
        *(action("m.a"), action("m.b", [Input("x", "x", outdates=True)]), action("m.z")),
    )
    said.load(recipe("g.keeps", step("b"), start="b", end="b"))
    said.add("<x/>")
    said.start("g.keeps")
    run = said.start("g.r")
    said.returned("a")
    said.returned("z")
    assert explain(said, run, "b") == "step b is ready: it was not run; the plan is done"


# --- N11: why something was not done ------------------------------------------------------------------------

CHOICE = recipe(
    "g.choice",
    *(step(name) for name in "abcdz"),
    transition("leave", "a", "b", "page[@k='spam']"),
    transition("ask", "a", "c", "use page[@k='ham'][. = $a]"),
    transition("send", "c", "d"),
    transition("short", "b", "z"),
    transition("long", "d", "z"),
)


def chosen(page: str) -> tuple[Dialogue, int]:
    """A plan that is at its choice, or beyond it."""
    said = Dialogue(CHOICE, *ACTIONS, action("m.d"))
    run = said.start("g.choice")
    said.returned("a", page)
    return said, run


def diagnose(said: Dialogue, run: int, part: str | None) -> list[Wait]:
    view = (said.memory.element, said.definition)
    return list(engine.diagnose(said.definitions[run], said.states[run], part, *view))


def test_N22_what_was_not_taken_names_the_rival_that_was() -> None:
    said, run = chosen("<page k='spam'/>")
    (page,) = said.named("page")
    taken = f"transition leave was taken instead with elements {page.eid}, and ended step a"
    assert explain(said, run, "ask") == f"transition ask is impossible: {taken}"
    assert explain(said, run, "c") == f"step c is impossible: transition ask leads to it, and {taken}"
    assert explain(said, run, "d") == (
        "step d is impossible: transition send leads to it, and step c is impossible: "
        f"transition ask leads to it, and {taken}"
    )


def test_N11_the_conditions_of_what_was_not_taken_are_there_with_their_variables_and_marks() -> None:
    said, run = chosen("<page k='spam'>text</page>")
    for part in ("ask", "c", "d"):
        (wait,) = diagnose(said, run, part)
        assert (wait.id, wait.what) == ("ask", "condition")
        assert wait.text == "nothing more (it is impossible); its conditions now:"
        assert wait.scopes == (("g.choice", "ask", "#1"),)
    (bound,) = wait.conditions
    assert list(said.memory.matching(bound, None)) == []
    fits = said.add("<page k='ham'>text</page>")
    said.add("<page k='ham'>other than what $a stands for</page>")
    assert list(said.memory.matching(bound, None)) == [fits]


def test_N24_a_sleeping_transition_is_judged_by_what_its_watch_waits_for() -> None:
    said, run = chosen("<page k='other'/>")
    for wait in waiting_for(said, run):
        (now,) = diagnose(said, run, wait.id)
        assert now.scopes == wait.scopes
        assert [bound.text for bound in now.conditions] == [bound.text for bound in wait.conditions]
    assert [wait.id for wait in diagnose(said, run, "b")] == ["leave"]
    (join,) = diagnose(said, run, "z")[:1]
    assert (join.id, join.what) == ("short", "join")
    assert join.text == "steps b (todo: no transition has led to it yet: leave (wait-condition))"


def test_of_what_was_taken_or_does_not_exist_nothing_is_judged() -> None:
    said, run = chosen("<page k='spam'/>")
    assert [diagnose(said, run, part) for part in ("leave", "a", "b", "nothing", None)] == [[]] * 5


def test_N27_a_plan_tells_that_its_end_was_reached() -> None:
    said, run = chosen("<page k='spam'/>")
    assert engine.explain(said.definitions[run], said.states[run], None) is None
    said.returned("b")
    said.returned("z")
    assert engine.explain(said.definitions[run], said.states[run], None) == "step z was reached"


def test_N26_a_plan_tells_that_no_error_link_took_an_error() -> None:
    said, run = chosen("<page k='spam'/>")
    said.erred("b")
    assert engine.explain(said.definitions[run], said.states[run], None) == "no error link leaves step b"
    said = Dialogue(recipe("g.r", step("a"), step("z"), transition("ill", "a!", "z", "mail")), *ACTIONS)
    run = said.start("g.r")
    said.erred("a")
    told = engine.explain(said.definitions[run], said.states[run], None)
    assert told == "no error link of step a took the error: ill (fail)"
    (wait,) = diagnose(said, run, None)
    assert wait.text.startswith("nothing more (it is fail, and the plan failed)")
    assert [bound.text for bound in wait.conditions] == ["mail"]


def test_N22_a_long_way_back_is_not_followed_to_its_beginning() -> None:
    far = "cdefgh"
    text = recipe(
        "g.r",
        *(step(name) for name in f"az{far}"),
        transition("on", "a", "z"),
        transition("off", "a", "c"),
        *(transition(f"to-{after}", before, after) for before, after in pairwise(far)),
    )
    said = Dialogue(text, *ACTIONS, *(action(f"m.{name}") for name in far))
    run = said.start("g.r")
    said.returned("a", "<page/>")
    near, distant = explain(said, run, "d"), explain(said, run, "h")
    assert near is not None
    assert near.endswith("transition on was taken instead, and ended step a")
    assert distant is not None
    assert distant.endswith("step d is impossible: the plan went another way")
