"""A plan that goes on from a step of an earlier one: what was done is kept, the rest is done again."""

from __future__ import annotations

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.elements import changes as facts
from narval.core.engines.commands import Call, MarkUsed, Start
from narval.core.engines.events import Resume, Reusable
from narval.core.errors import RequestError
from narval.kinds.recipe.engine import engine
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

LINE = recipe(
    "g.r",
    *(step("a"), step("b"), step("z")),
    *(transition("ab", "a", "b", "use ok"), transition("bz", "b", "z")),
)
ACTIONS = (
    action("m.a", [Input("mail", "mail", use=True)], [Output("page", "page")]),
    action("m.b", [Input("page", "page", use=True), Input("pen", "pen", optional=True)]),
    action("m.z"),
)


class Retrying(Dialogue):
    """Keeps what calls were given, as the journal does."""

    def __init__(self, *definitions: object) -> None:
        super().__init__(*definitions)  # type: ignore[arg-type]
        self.given: dict[int, list[Reusable]] = {}

    def tell(self, run: int, event: object) -> None:  # type: ignore[override]
        super().tell(run, event)  # type: ignore[arg-type]
        for heard in self.heard:
            for command in heard.commands:
                if isinstance(command, Call):
                    given = [Reusable(command.step, slot, eids) for slot, eids in command.inputs]
                    self.given.setdefault(heard.run, []).extend(given)

    def plan_resume(self, run: int, part: str | None = None, gave: tuple[int, ...] | None = None) -> Resume:
        recipe = self.library.get("recipe", self.definitions[run].full_name)
        assert recipe is not None
        given, find = self.given.get(run, ()), self.library.get
        return engine.plan_resume(recipe, self.states[run], part, given, self.element, find, gave)

    def retry(self, run: int, part: str | None = None, gave: tuple[int, ...] | None = None) -> int:
        return self.start(self.definitions[run].full_name, resume=self.plan_resume(run, part, gave))


def failed() -> tuple[Retrying, int]:
    """A plan whose step b failed, after a was done and ok was taken."""
    said = Retrying(LINE, *ACTIONS)
    for xml in ("<mail/>", "<ok/>"):
        said.add(xml)
    run = said.start("g.r")
    said.returned("a", "<page/>")
    said.erred("b")
    assert said.state(run) == "failed"
    return said, run


def test_the_failed_step_is_done_again_with_what_it_was_given_and_no_other() -> None:
    said, run = failed()
    given = said.given[run][-1]
    again = said.retry(run)
    assert said.steps(again) == {"a": "history", "b": "running", "z": "todo"}
    assert said.transitions(again) == {"ab": "fired", "bz": "wait-step"}
    assert said.inputs("b", again) == {"page": given.eids}
    assert said.states[again].resumed == (run, "b")
    assert not [mark for mark in said.wishes(MarkUsed) if mark.scope[1] != "b"]
    said.returned("b", run=again)
    said.returned("z", run=again)
    assert said.state(again) == "done"


def test_behind_a_step_that_was_done_the_plan_goes_on_without_doing_it_again() -> None:
    said, run = failed()
    calls = len(said.given[run])
    again = said.retry(run, gave=())
    assert said.steps(again) == {"a": "history", "b": "history", "z": "running"}
    assert len(said.given[run]) == calls
    said.returned("z", run=again)
    assert said.state(again) == "done"


def test_what_a_step_that_was_done_gave_has_to_be_named_and_is_taken_over() -> None:
    said = Retrying(LINE, *ACTIONS)
    for xml in ("<mail/>", "<ok/>", "<page by='somebody'/>"):
        said.add(xml)
    run = said.start("g.r")
    said.erred("a")
    with pytest.raises(RequestError, match=rf"gives page \(page\).*retry {run} --done --gave EID"):
        said.plan_resume(run, gave=())
    with pytest.raises(RequestError, match="there is no element 999"):
        said.plan_resume(run, gave=(999,))
    with pytest.raises(RequestError, match="step a cannot have given element 1; it gives page"):
        said.plan_resume(run, gave=(1,))
    page = said.add("<page by='hand'/>")
    again = said.retry(run, gave=(page,))
    assert said.steps(again) == {"a": "history", "b": "running", "z": "todo"}
    assert said.inputs("b", again) == {"page": (page,)}


def test_N18_what_the_earlier_plan_had_used_may_be_used_again_by_this_one_alone() -> None:
    said, run = failed()
    again = said.retry(run, "a")
    assert said.steps(again) == {"a": "running", "b": "todo", "z": "todo"}
    assert said.inputs("a", again) == {"mail": (1,)}
    said.returned("a", "<page/>", run=again)
    assert said.states[again].transition("ab").took == (2,)
    new = said.start("g.r")
    assert said.state(new) == "failed"


def test_a_plan_that_is_begun_again_says_so_in_memory() -> None:
    said, run = failed()
    again = said.retry(run)
    element = said.element(again)
    assert element is not None
    assert element.attributes["retry_of"] == str(run)
    assert element.attributes["retry_from"] == "b"


def test_a_retry_of_a_retry_may_still_take_what_the_first_had_used() -> None:
    said, run = failed()
    said.load(LINE.replace("m.b", "m.gone"))
    again = said.retry(run)
    said.load(LINE)
    assert said.state(again) == "failed"
    third = said.retry(again)
    assert said.inputs("b", third) == dict.fromkeys(["page"], said.given[run][-1].eids)


def test_the_current_definition_is_followed_arguments_are_its_own() -> None:
    text = recipe("g.r", step("a", inside="<arguments><mail kind='old'/></arguments>"), start="a", end="a")
    said = Retrying(text, *ACTIONS)
    run = said.start("g.r")
    said.erred("a")
    said.load(text.replace("old", "new"))
    again = said.retry(run)
    (eids,) = said.inputs("a", again).values()
    assert said.xml(eids[0]) == '<mail kind="new"/>'


FORK = recipe(
    "g.f",
    *(step(name, "m.z") for name in ("s", "a", "b", "j", "other", "z")),
    *(transition("fork", "s", "a b", priority=1), transition("never", "s", "other")),
    *(
        transition("join", "a b", "j"),
        transition("on", "j other", "z"),
        transition("end", "j", "z", priority=2),
    ),
    start="s",
)


def test_a_parallel_branch_that_was_done_is_kept_and_waits_at_the_join() -> None:
    said = Retrying(FORK, *ACTIONS)
    run = said.start("g.f")
    said.returned("s")
    said.returned("b")
    said.erred("a")
    again = said.retry(run)
    assert said.steps(again) == {
        "s": "history", "a": "running", "b": "done", "j": "todo", "other": "impossible", "z": "todo",
    }  # fmt: skip
    said.returned("a", run=again)
    said.returned("j", run=again)
    said.returned("z", run=again)
    assert said.state(again) == "done"


def test_a_cancelled_plan_goes_on_with_all_that_was_under_way() -> None:
    said = Retrying(FORK, *ACTIONS)
    run = said.start("g.f")
    said.returned("s")
    said.cancel(run)
    again = said.retry(run)
    assert said.steps(again)["a"] == said.steps(again)["b"] == "running"
    assert said.states[again].resumed == (run, "a")


def test_foreach_is_given_its_elements_again() -> None:
    text = recipe("g.e", step("a", foreach="mail"), start="a", end="a")
    said = Retrying(text, action("m.a", [Input("mail", "mail", use=True)]))
    eids = [said.add(f"<mail n='{n}'/>") for n in range(3)]
    run = said.start("g.e")
    said.returned("a", given=eids[0])
    said.erred("a", given=eids[1])
    said.returned("a", given=eids[2])
    assert said.state(run) == "failed"
    again = said.retry(run)
    assert [dict(call.inputs)["mail"] for call in said.calls_of("a", again)] == [(eid,) for eid in eids]


def test_an_error_that_was_handled_stays_handled() -> None:
    text = recipe(
        "g.h",
        step("a"),
        step("mend", "m.z"),
        step("z"),
        transition("ill", "a!", "mend"),
        transition("on", "mend", "z"),
    )
    said = Retrying(text, action("m.a"), action("m.z"))
    run = said.start("g.h")
    said.erred("a")
    said.returned("mend")
    said.erred("z")
    again = said.retry(run)
    assert said.steps(again) == {"a": "history", "mend": "history", "z": "running"}


def test_what_cannot_be_retried_is_refused_with_the_reason() -> None:
    said, run = failed()
    with pytest.raises(RequestError, match=r"g\.r has no step 'c' now; it has a, b, z"):
        said.plan_resume(run, "c")
    with pytest.raises(RequestError, match="step z: it was impossible there, no transition had led to it"):
        said.plan_resume(run, "z")
    done = Retrying(recipe("g.o", step("a", "m.z"), start="a", end="a"), *ACTIONS)
    over = done.start("g.o")
    done.returned("a")
    with pytest.raises(RequestError, match=r"no step of run 1 failed; name the step to retry from \(a\)"):
        done.plan_resume(over)
    page = said.states[run].steps["a"].produced[0]
    said.memory.apply(facts.Forgotten((page,)))
    with pytest.raises(RequestError, match=f"step a of run {run} produced, element {page}, has been forg"):
        said.plan_resume(run)
    assert said.retry(run, "a")


def test_a_definition_that_leads_there_no_more_is_refused() -> None:
    said, run = failed()
    said.load(LINE.replace('id="ab"', 'id="other"'))
    with pytest.raises(RequestError, match="transition ab, which led to it, no longer does so"):
        said.plan_resume(run)
    said.load(recipe("g.r", step("n", "m.z"), step("z"), transition("nz", "n", "z"), start="n"))
    with pytest.raises(RequestError, match=r"g\.r has no step 'b' now"):
        said.plan_resume(run, "b")
    said.load(
        recipe(
            "g.r",
            step("n", "m.z"),
            step("b"),
            step("z"),
            transition("ab", "n", "b"),
            transition("bz", "b", "z"),
            start="n",
        )
    )
    with pytest.raises(RequestError, match=r"not done, or no longer there: n \(todo\)"):
        said.plan_resume(run, "b")


NAMED = recipe(
    "g.r",
    *(step("a"), step("z", inside='<arguments><note of="{$first/@id}"/></arguments>')),
    transition("t", "a", "z", inside='<condition as="first"><match>mail</match></condition>'),
)


def named() -> tuple[Retrying, int, int]:
    """A plan whose last step failed, after a mail was taken as `first`."""
    said = Retrying(NAMED, action("m.a"), action("m.z", [Input("note", "note")]))
    mail = said.add("<mail id='7'/>")
    run = said.start("g.r")
    said.returned("a")
    said.erred("z")
    return said, run, mail


def test_N42_a_retry_takes_over_the_names_of_what_was_taken() -> None:
    said, run, _ = named()
    again = said.retry(run, "z")
    assert said.xml(said.inputs("z", again)["note"][0]) == '<note of="7"/>'


def test_N42_an_element_with_a_name_that_was_forgotten_is_needed() -> None:
    said, run, mail = named()
    said.forgets(mail)
    with pytest.raises(RequestError, match=f"took as first, element {mail}, has been forgotten"):
        said.retry(run, "z")


def test_N43_a_retry_may_take_again_all_that_a_list_had() -> None:
    listed = '<condition list="yes" use="yes"><match>mail</match></condition>'
    text = recipe("g.r", step("a"), step("b"), step("z"), transition("t", "a", "b", inside=listed))
    text = text.replace("</recipe>", transition("u", "b", "z") + "</recipe>")
    said = Retrying(text, *(action(f"m.{name}") for name in "abz"))
    mails = tuple(said.add("<mail/>") for _ in range(3))
    run = said.start("g.r")
    said.returned("a")
    said.erred("b")
    kept = said.retry(run, "b")
    assert said.states[kept].transition("t").taken_by(0) == mails
    again = said.retry(run, "a")
    said.returned("a", run=again)
    assert said.states[again].transition("t").taken_by(0) == mails


def restarting(restart: str, *, cancel: bool, comes: bool = True) -> tuple[Retrying, int]:
    """A plan that restarts, over before its step b was done: it failed there, or was cancelled."""
    line = recipe("g.r", step("a"), step("b"), transition("ab", "a", "b", "use ok"), end="b", restart=restart)
    said = Retrying(line, action("m.a"), action("m.b"))
    run = said.start("g.r")
    said.returned("a")
    if comes:
        said.arrives("<ok/>")
    if cancel:
        said.cancel(run)
    else:
        said.erred("b")
    said.wishes(Start)
    return said, run


@pytest.mark.parametrize("restart", ["yes", "parallel"])
def test_N28_no_plan_follows_a_retry_of_one_that_another_follows_already(restart: str) -> None:
    said, run = restarting(restart, cancel=False)
    again = said.retry(run)
    said.returned("b")
    assert (said.state(again), said.wishes(Start)) == ("done", [])
    once_more = said.retry(again, "b")
    said.erred("b")
    assert (said.state(once_more), said.wishes(Start)) == ("failed", [])


def test_N28_a_retry_of_a_cancelled_plan_is_followed_as_that_one_would_have_been() -> None:
    said, run = restarting("yes", cancel=True)
    said.returned("b", run=said.retry(run, "b"))
    assert [start.name for start in said.wishes(Start)] == ["g.r"]
    said, run = restarting("parallel", cancel=True)
    said.returned("b", run=said.retry(run, "b"))
    assert said.wishes(Start) == [], "the next had begun beside it when the first transition fired"
    said, run = restarting("parallel", cancel=True, comes=False)
    said.returned("a", run=said.retry(run, "a"))
    said.arrives("<ok/>")
    assert [start.name for start in said.wishes(Start)] == ["g.r"]
